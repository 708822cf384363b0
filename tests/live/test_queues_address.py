import subprocess
from typing import Any

import pytest
from tests.files.tables import table_of

from latlab.cli import main
from latlab.errors import InputError, UsageError
from latlab.queues import load, parse_remote_queue, readers_by_address
from latlab.system.kernel.binaries.symbols import plain_name

pytest.importorskip("elftools", reason="symbols need the extra 'address'")
pytestmark = pytest.mark.side_by_side  # counters are read where they lie: no time is judged

PROGRAM = """
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

namespace trading {
struct Ring {                       // an application's own: it knows nothing of latlab
  char before[24];
  volatile std::uint64_t in = 0;    // at 24
  char between[64];
  volatile std::uint32_t out = 0;   // at 96
};
Ring orders;
}
static volatile std::uint32_t tail = 0, head = 0;    // start again at 10
volatile std::uint64_t pointed[2] = {0, 0};
volatile std::uint64_t* where = pointed;

int main() {
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    trading::orders.in = trading::orders.in + 5;
    tail = (tail + 3) % 10;
    pointed[0] = pointed[0] + 2;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    trading::orders.out = trading::orders.out + 5;
    head = (head + 3) % 10;
    pointed[1] = pointed[1] + 2;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}
"""


@pytest.fixture(scope="module", params=[["-pie", "-fPIE"], ["-no-pie"]], ids=["pie", "fixed"])
def application(request: Any, tmp_path_factory: Any) -> Any:
    folder = tmp_path_factory.mktemp("uninstrumented")
    (folder / "app.cpp").write_text(PROGRAM)
    build = ["g++", "-std=c++17", "-O1", *request.param, str(folder / "app.cpp"), "-o", str(folder / "app")]
    try:
        subprocess.run(build, check=True)
    except FileNotFoundError:
        pytest.skip("g++ is not installed")
    process = subprocess.Popen([str(folder / "app")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_a_program_that_knows_nothing_of_it_is_recorded_as_any_other(
    application: Any, tmp_path: Any, capsys: Any
) -> None:
    run = tmp_path / "run"
    queues = [
        "orders in=trading::orders+24 out=trading::orders+96 capacity=64 source=feed drain=book",
        "rounds in=tail out=head bytes=4 modulus=10 capacity=9",
        "pointed in=*where out=*where+8",
    ]
    arguments = ["queues", "record", str(application.pid), "-o", str(run), "--seconds", "0.6", "--json"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--period", "500us", *(word for text in queues for word in ("--queue", text))])
    assert ended.value.code == 0, capsys.readouterr().err
    seen = load(run)
    assert [queue.name for queue in seen.queues] == ["orders", "rounds", "pointed"]
    assert (seen.queues[0].source, seen.queues[0].drain, seen.queues[0].capacity) == ("feed", "book", 64)
    rows = seen.samples
    for number, planted in ((0, {0, 5}), (1, {0, 3}), (2, {0, 2})):
        mine = rows["queue"] == number
        fills = rows["in"][mine].astype("i8") - rows["out_high"][mine].astype("i8")
        # The program writes one index after the other: a look may fall between the two.
        assert len(fills) > 10
        assert set(fills.tolist()) <= planted
        assert (rows["in"][mine][1:] >= rows["in"][mine][:-1]).all()
    assert seen.processes[0].pid == application.pid


def test_a_variable_that_is_not_there_is_an_error_that_names_what_is_near(application: Any) -> None:
    queue = parse_remote_queue("q in=trading::order+24 out=tail")
    with pytest.raises(InputError, match=r"has no variable 'trading::order'; similar names: trading::orders"):
        readers_by_address(application.pid, [queue])


def test_a_null_pointer_and_a_wild_address_are_errors(application: Any) -> None:
    with pytest.raises(InputError, match="can't be read"):
        readers_by_address(application.pid, [parse_remote_queue("q in=0x10 out=0x18")])
    with pytest.raises(InputError, match="is null"):
        readers_by_address(application.pid, [parse_remote_queue("q in=*head+0 out=*trading::orders+8")])


@pytest.mark.parametrize(
    "text", ["q", "q in=a", "q in=a out=b bytes=3", "q in=a out=b x=1", "in=a out=b", ""]
)
def test_what_describes_no_queue_is_a_usage_error(text: Any) -> None:
    with pytest.raises(UsageError):
        parse_remote_queue(text)


def test_a_queue_by_address_needs_one_process_id(tmp_path: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["queues", "record", "name", "-o", str(tmp_path / "run"), "--queue", "q in=a out=b"])
    assert ended.value.code == 2
    assert "one process id" in capsys.readouterr().err


test_symbols_have_the_names_of_the_source = table_of(
    plain_name,
    {
        "g_orders": "g_orders",
        "_ZN7trading6ordersE": "trading::orders",
        "_ZL4head": "head",
        "_ZN12_GLOBAL__N_14ringE": "ring",
        "_ZN1a1bIiE1cE": "_ZN1a1bIiE1cE",
    },
)
