"""A queue of one's own, as a shared object, is a transport; and one that breaks its promises is told."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import latlab
from latlab.cli import main
from latlab.errors import UsageError
from latlab.messaging import conform, measure_and_analyse
from latlab.messaging.judging.plugin_probe import probe
from latlab.model.messaging.results import Settings

EXAMPLE = Path(__file__).parents[2] / "examples" / "messaging" / "spsc_queue.cpp"
FAULTY = r"""
#include <latlab/messaging_queue.hpp>
#include <mutex>
#include <deque>
#include <stdlib.h>
#include <unistd.h>
#include <string>
struct Adapter {
  explicit Adapter(const latlab_messaging_settings& asked) {
    if (FAULT == 1) leaked = dup(0);
    if (FAULT == 5) throw 1;
    char left[] = "/tmp/latlab-test-leak-XXXXXX";
    if (FAULT == 6) close(mkstemp(left));
    if (FAULT == 8) kept = malloc(1 << 20);  // and never written to
    (void)asked;
  }
  template <class W> bool try_push(std::size_t size, W&& write) {
    std::lock_guard hold(mutex);
    if (held.size() >= 256) return FAULT == 2;  // full, and silently dropped
    std::string one(size, 0);
    write(one.data());
    if (FAULT == 3 && ++count % 256 == 0) return true;
    held.push_back(one);
    return true;
  }
  template <class R> bool try_pop(std::size_t, R&& read) {
    if (FAULT == 4) usleep(500'000);
    if (FAULT == 7) usleep(1'000);
    std::lock_guard hold(mutex);
    if (held.empty()) return false;
    read(held.front().data());
    held.pop_front();
    return true;
  }
  std::mutex mutex;
  std::deque<std::string> held;
  int leaked = -1;
  void* volatile kept = nullptr;
  long count = 0;
};
LATLAB_MESSAGING_QUEUE(Adapter, "faulty", "a queue with a planted fault")
"""


def built(source: Path, into: Path, *options: str) -> Path:
    """The shared object of a plug-in's source, against the installed headers."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler here")
    command = [compiler, "-std=c++20", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        [*command, *options, f"-I{latlab.get_include()}", str(source), "-o", str(into)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return into


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(EXAMPLE, tmp_path_factory.mktemp("plugin") / "spsc_queue.so")


def settings(plugin: Path, **more: object) -> Settings:
    return Settings(transport=str(plugin)).with_(messages=20_000, warmup=100, **more)


@pytest.mark.parametrize("topology", ["direct", "broker", "pingpong"])
def test_the_examples_queue_carries_every_message_once_and_in_order(queue: Path, topology: str) -> None:
    measurement, result = measure_and_analyse(settings(queue, topology=topology, size=64))

    assert measurement.facts.name == "spsc-queue"
    assert result.partial is None
    found = (result.received, result.lost, result.duplicated, result.reordered, result.corrupted)
    assert found == (20_000, 0, 0, 0, 0)
    assert (measurement.received_ns >= measurement.sent_ns).all()


def test_a_batch_of_messages_is_handed_over_at_once_and_a_short_queue_is_filled_and_emptied(
    queue: Path,
) -> None:
    _, result = measure_and_analyse(settings(queue, topology="direct", size=256, batch=32, buffer_bytes=4096))

    assert (result.received, result.lost, result.reordered) == (20_000, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (1, "nothing is left behind"),
        (2, "a full way says so"),
        (3, "a full way says so"),
        (4, "an idle receive returns"),
        (5, "could not be opened"),
        (6, "files after 40 times"),
        (7, "asked not to wait"),
        (8, "KiB after 40 times"),
    ],
)
def test_a_planted_fault_of_a_queue_is_found(tmp_path: Path, fault: int, what: str) -> None:
    (tmp_path / "faulty.cpp").write_text(FAULTY)
    plugin = built(tmp_path / "faulty.cpp", tmp_path / "faulty.so", f"-DFAULT={fault}")

    wrong = [f"{name}: {why}" for name, why in conform(settings(plugin)) if why is not None]
    for left in Path("/tmp").glob("latlab-test-leak-*"):
        left.unlink()

    assert any(what in one for one in wrong), wrong


ENDING = r"""
#include <latlab/messaging_plugin.h>
#include <errno.h>
#include <string.h>
static char ends[2], held[64];
static long count, closed;
static int open_(const struct latlab_messaging_settings* asked, void** end) {
  *end = &ends[FAULT == 2 ? 0 : asked->role];
  return count = closed = 0;
}
static long send_(void*, const void* one, size_t size, size_t) {
  if (count == 1) return 0;
  memcpy(held, one, size);
  return count = 1;
}
static long receive_(void*, void* into, size_t size, size_t) {
  if (count == 0) return closed && FAULT == 0 ? -EPIPE : 0;
  memcpy(into, held, size);
  return count--;
}
static void close_(void* end) { closed |= end == &ends[LATLAB_SENDER]; }
const struct latlab_messaging* latlab_messaging_plugin(void) {
  static const struct latlab_messaging plugin = {1, 0, 64, "e", "e", open_, send_, receive_, close_};
  return &plugin;
}
"""


@pytest.mark.parametrize(("fault", "what"), [(0, None), (1, "not -EPIPE"), (2, None)])
def test_an_end_of_its_own_says_when_the_sender_s_is_closed(
    tmp_path: Path, fault: int, what: str | None
) -> None:
    """Both ends of a queue are one, and can't tell."""
    (tmp_path / "ending.cpp").write_text(ENDING)
    plugin = built(tmp_path / "ending.cpp", tmp_path / "ending.so", f"-DFAULT={fault}")

    _, broken = probe(str(plugin), "", 64, block=False)[-1]

    assert broken is None if what is None else what in str(broken)


# The end of a plugin whose ends may block and hold nothing.
PLUGIN = r"""
static void close_(void*) {}
const struct latlab_messaging* latlab_messaging_plugin(void) {
  static const struct latlab_messaging plugin = {1, LATLAB_CAN_BLOCK, 64, "w", "w", open_, send_, receive_,
                                                 close_};
  return &plugin;
}
"""

WAITING = (
    r"""
#include <latlab/messaging_plugin.h>
#include <time.h>
#include <unistd.h>
static char end_;
static int open_(const struct latlab_messaging_settings*, void** end) {
  *end = &end_;
  return 0;
}
static long send_(void*, const void*, size_t, size_t) { return 0; }
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
static long receive_(void*, void*, size_t, size_t) {
  for (double end = now() + 0.1; now() < end;) {
    if (FAULT == 1) usleep(1000);
    if (FAULT == 0) usleep(100000);
  }
  return 0;
}
"""
    + PLUGIN
)


@pytest.mark.parametrize(("fault", "what"), [(0, None), (1, "it polls"), (2, "it spins")])
def test_an_end_that_may_wait_waits_asleep(tmp_path: Path, fault: int, what: str | None) -> None:
    (tmp_path / "waiting.cpp").write_text(WAITING)
    plugin = built(tmp_path / "waiting.cpp", tmp_path / "waiting.so", f"-DFAULT={fault}")

    _, broken = probe(str(plugin), "", 64, block=True)[0]

    assert (None if broken is None else str(broken)[-len(what or "") :]) == what


STEPS = (
    r"""
#include <latlab/messaging_plugin.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>
static char end_;
static sem_t came;
static int open_(const struct latlab_messaging_settings*, void** end) {
  *end = &end_;
  return sem_init(&came, 0, 0);
}
static long send_(void*, const void*, size_t, size_t) { return sem_post(&came) == 0; }
static int wait_(void) {
  struct timespec until;
  if (FAULT) {
    usleep(20000);
    return sem_trywait(&came);
  }
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 20000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return sem_timedwait(&came, &until);
}
static long receive_(void*, void*, size_t, size_t) {
  for (int i = 0; i < 4; i++)
    if (wait_() == 0) return 1;
  return 0;
}
"""
    + PLUGIN
)


@pytest.mark.parametrize(("fault", "what"), [(0, None), (1, "it polls")])
def test_an_end_that_waits_in_steps_polls_only_if_what_is_sent_does_not_wake_it(
    tmp_path: Path, fault: int, what: str | None
) -> None:
    (tmp_path / "steps.cpp").write_text(STEPS)
    plugin = built(tmp_path / "steps.cpp", tmp_path / "steps.so", f"-DFAULT={fault}")

    _, broken = probe(str(plugin), "", 64, block=True)[0]

    assert (None if broken is None else str(broken)[-len(what or "") :]) == what


def test_a_plug_in_that_crashes_is_told_and_takes_nobody_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = FAULTY.replace("if (FAULT == 1) leaked = dup(0);", "*static_cast<volatile int*>(nullptr) = 1;")
    (tmp_path / "faulty.cpp").write_text(source)
    plugin = built(tmp_path / "faulty.cpp", tmp_path / "faulty.so", "-DFAULT=0")

    with pytest.raises(SystemExit) as left:
        main(["messaging", "conform", "--transport", str(plugin), "--json"])

    assert left.value.code == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["conforms"] is False
    assert "ended" in answer["checks"][-1]["wrong"]


@pytest.mark.parametrize(
    ("content", "said"), [(None, "there is no file"), (b"no object", "not a messaging plug-in")]
)
def test_what_is_no_plug_in_is_refused_with_what_to_do(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "other.so"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        measure_and_analyse(settings(path))


def test_a_plug_in_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.cpp").write_text(
        "#include <latlab/messaging_plugin.h>\n"
        'extern "C" const latlab_messaging* latlab_messaging_plugin() {\n'
        "  static latlab_messaging old{};\n  old.abi = 7;\n  return &old;\n}\n"
    )
    plugin = built(tmp_path / "old.cpp", tmp_path / "old.so")
    with pytest.raises(UsageError, match="version 7"):
        measure_and_analyse(settings(plugin))
