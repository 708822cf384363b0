"""Components of C++ under a plan: measured, recorded, replayed, simulated.

Over 400 lines: programs in C++ of a few lines, each beside the test of what a study may ask of it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.files.stub_spends import require_as_asked

import latlab
from latlab.cli import main
from latlab.errors import LatlabError
from latlab.stubs import StudyPlan
from latlab.stubs.components import plan as _plan
from latlab.stubs.studies.runner import Lab
from latlab.system.kernel.tracing import unavailable

CLASS = """#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>
namespace net {
enum class Mode : short { kA = 1, kB = 2 };
class Base { int id_ = 7; public: void id(int v) { id_ = v; } int id() const { return id_; } };
struct Leg { char side = 'b'; double price = 0; };
class Connection : public Base {
  Mode mode_ = Mode::kA; short fixed_[3] = {1, 2, 3};
  std::string name_; std::vector<Leg> legs_; std::map<std::string, int> map_; std::optional<double> maybe_;
  Leg* next_ = nullptr;
 public:
  void fill() { mode_ = Mode::kB; fixed_[1] = 9; name_ = "x"; legs_ = {{'s', 2.5}}; map_["k"] = 3; id(42); }
  bool filled() const { return name_ == "x" && legs_.at(0).price == 2.5 && map_.at("k") == 3 && id() == 42
                               && fixed_[1] == 9 && mode_ == Mode::kB && !maybe_ && next_ == nullptr; }
};
}
"""
USE = """#include "spec.hpp"
int main(int argc, char** argv) {
  using namespace latlab::stub;
  net::Connection made;
  if (argc > 2) {
    made.fill();
    record(argv[1]);
    save_state("conn", "class Connection", &made);
    stop();
    return 0;
  }
  replay(argv[1]);
  load_state("conn", &made);
  return made.filled() ? 0 : 1;
}
"""
EVERY_KIND = """#pragma once
#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
namespace kinds {
enum Plain { kA, kB = 5 };
struct Base {
  virtual ~Base() = default;
  int open = 1;
 protected: int guarded_ = 2;
 private: short hidden_ = 3;
  friend class All;
};
struct Mixin { double weight = 1.5; };
class All : public Base, private Mixin {
  struct Inner { int a = 1; std::string s = "in"; bool operator==(const Inner&) const = default; };
  enum class Secret : char { kX = 1, kY };
 protected:
  Inner inner_; Secret secret_ = Secret::kX; Plain plain_ = kA; bool flag_ = false; float ratio_ = 0;
  int grid_[2][3] = {}; char text_[8] = ""; std::array<Inner, 2> pair_;
  std::list<std::string> names_; std::list<Inner> inners_; std::deque<int> deque_; std::set<int> set_;
  std::map<std::string, std::vector<int>> map_; std::unordered_map<int, int> table_;
  std::optional<std::string> maybe_; std::pair<int, double> two_{}; std::unique_ptr<int> owned_;
 private:
  const int constant_ = 4; unsigned bits_ : 3; int* array_ = nullptr; Inner* one_ = nullptr; int& ref_;
  void (*code_)(int) = nullptr; union { int i; float f; } either_{0}; static inline int shared_ = 9;
 public:
  explicit All(int& ref) : bits_(0), ref_(ref) {}
  void fill() {
    open = 11; guarded_ = 12; hidden_ = 13; weight = 14.5; inner_ = {15, "i"}; secret_ = Secret::kY;
    plain_ = kB; flag_ = true; ratio_ = 0.5F; grid_[1][2] = 16; text_[0] = 'x'; pair_[1] = {17, "p"};
    names_ = {"a", "b"}; inners_ = {{18, "l"}}; deque_ = {19}; set_ = {20, 21}; map_ = {{"m", {22, 23}}};
    table_ = {{24, 25}}; maybe_ = "o"; two_ = {26, 27.5}; owned_ = std::make_unique<int>(28);
  }
  bool filled() const {
    return open == 11 && guarded_ == 12 && hidden_ == 13 && weight == 14.5 && inner_ == Inner{15, "i"} &&
           secret_ == Secret::kY && plain_ == kB && flag_ && ratio_ == 0.5F && grid_[1][2] == 16 &&
           text_[0] == 'x' && pair_[1] == Inner{17, "p"} && names_ == std::list<std::string>{"a", "b"} &&
           inners_ == std::list<Inner>{{18, "l"}} && deque_ == std::deque<int>{19} &&
           set_ == std::set<int>{20, 21} && map_.at("m") == std::vector<int>{22, 23} && table_.at(24) == 25 &&
           maybe_ == "o" && two_ == std::pair{26, 27.5} && owned_ && *owned_ == 28 && constant_ == 4 &&
           bits_ == 0 && !array_ && !one_ && ref_ == 1 && !code_ && either_.i == 0 && shared_ == 9;
  }
};
}
"""
USE_EVERY_KIND = """#include "spec.hpp"
int main(int, char** argv) {
  using namespace latlab::stub;
  int referred = 1;
  kinds::All from(referred);
  kinds::All to(referred);
  from.fill();
  record(argv[1]);
  save_state("all", "class All", &from);
  stop();
  replay(argv[1]);
  return load_state("all", &to) == &to && to.filled() ? 0 : 1;
}
"""
USE_HOSTILE = (
    USE_EVERY_KIND.replace("  int referred = 1;\n", "")
    .replace("kinds::All", "outer::deep::All")
    .replace("(referred)", "")
)
SYSTEM = """#include <latlab/stub.hpp>
int main() {
  long total = 0;
  for (int i = 0; i < 5; ++i) {
    total += latlab::stub::component("work", [] {
      volatile long sum = 0;
      for (long k = 0; k < 5'000'000; ++k) sum = sum + k;
      return static_cast<long>(sum);
    });
  }
  return total == 5 * 12'499'997'500'000L ? 0 : 1;
}
"""


def compile_in(folder: Path, source: str) -> Path:
    (folder / "main.cpp").write_text(source)
    command = [
        "g++",
        "-O1",
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        f"-I{latlab.get_include()}",
    ]
    done = subprocess.run(
        [*command, "main.cpp", "-o", "main"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "main"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_in(tmp_path_factory.mktemp("system"), SYSTEM)


def require_castxml() -> None:
    if shutil.which("castxml", path=str(Path(sys.executable).parent)) is None and not shutil.which("castxml"):
        pytest.skip("castxml is not installed")


def write_specification(header: Path, text: str, name: str) -> None:
    """Into spec.hpp beside a header of this text."""
    require_castxml()
    header.write_text(text)
    with pytest.raises(SystemExit) as left:
        main(["stubs", "spec", str(header), "--class", name, "-o", str(header.parent / "spec.hpp")])
    assert not left.value.code


@pytest.mark.side_by_side
def test_a_generated_specification_carries_private_members_and_marks_pointers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_specification(tmp_path / "conn.hpp", CLASS, "net::Connection")
    assert "1 members are marked" in capsys.readouterr().err
    assert "MARK next_" in (tmp_path / "spec.hpp").read_text()
    program = compile_in(tmp_path, USE)
    trace = str(tmp_path / "t.trace")
    subprocess.run([str(program), trace, "record"], check=True)
    subprocess.run([str(program), trace], check=True)
    with pytest.raises(SystemExit):
        main(["stubs", "decode", trace])
    out = capsys.readouterr().out
    assert out.startswith("0;5;conn;17;class Connection;0;")
    assert out.strip().endswith(";42;2;1;9;3;x;115;2.5;k;3;None")


@pytest.mark.side_by_side
def test_members_of_every_kind_come_back_and_what_cannot_be_written_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_specification(tmp_path / "kinds.hpp", EVERY_KIND, "kinds::All")
    marks = set(re.findall(r"MARK (\S+):", (tmp_path / "spec.hpp").read_text()))
    assert marks == {"constant_", "bits_", "array_", "one_", "ref_", "code_", "either_"}
    program = compile_in(tmp_path, USE_EVERY_KIND)
    subprocess.run([str(program), str(tmp_path / "t.trace")], check=True)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["stubs", "decode", str(tmp_path / "t.trace")])
    assert capsys.readouterr().out.startswith("0;4;all;10;class All;0;")


@pytest.mark.side_by_side
def test_what_no_serialisation_can_know_is_marked_and_the_rest_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_castxml()
    shutil.copy(Path(__file__).parents[1] / "data/stubs/hostile.hpp", tmp_path / "hostile.hpp")
    with pytest.raises(SystemExit) as left:
        main(["stubs", "spec", str(tmp_path / "hostile.hpp"), "--class", "outer::deep::All",
              "-o", str(tmp_path / "spec.hpp")])  # fmt: skip
    assert not left.value.code
    marks = set(re.findall(r"MARK (\S+):", (tmp_path / "spec.hpp").read_text()))
    assert marks == {
        "at_", "b_", "co_", "fn_", "mu_", "nameless_", "ptr_", "span_", "sv_", "ua_", "un_", "up_", "vol_",
        "vp_", "ws_",
    }  # fmt: skip
    assert "15 members are marked" in capsys.readouterr().err
    program = compile_in(tmp_path, USE_HOSTILE)
    subprocess.run([str(program), str(tmp_path / "t.trace")], check=True)
    for name in ("CStyle", "outer::deep::Ring<int,4>"):
        with pytest.raises(SystemExit) as left:
            main(["stubs", "spec", str(tmp_path / "hostile.hpp"), "--class", name])
        assert not left.value.code
        assert "struct Serial<" in capsys.readouterr().out


def test_a_component_of_a_c_program_is_studied(
    system: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.toml").write_text('component = "work"\nkind = "c++"\nseconds = 4\n')
    with pytest.raises(SystemExit) as left:
        main(["stubs", "study", str(tmp_path / "study.toml"), "--json", "--", str(system)])
    result = json.loads(capsys.readouterr().out)
    assert result["calls"] == 5
    require_trusted(left.value.code, result)
    assert result["curve"][-1]["gain"] > 0.2


def test_a_stubs_calls_are_measured_as_the_components_are(system: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    require_as_asked(Lab([str(system)], StudyPlan("work", kind="c++"), tmp_path / "scratch"))


@pytest.mark.side_by_side
def test_the_first_calls_begin_splits_a_run_of_several_threads(tmp_path: Path) -> None:
    whole = SYSTEM.replace("int main", "int calls").replace("#include", "#include <thread>\n#include")
    several = "int main() { std::thread one(calls), other(calls); one.join(); other.join(); }\n"
    (tmp_path / "scratch").mkdir()
    lab = Lab(
        [str(compile_in(tmp_path, whole + several))], StudyPlan("work", kind="c++"), tmp_path / "scratch"
    )
    lab.flags = ("opening",)
    run = lab.run("off")
    assert lab.segments is not None
    before, since = lab.segments.tolist()
    assert before + since == run.wall_ns
    assert before > 0
    assert since > 0


SEVERAL = """#include <chrono>
#include <functional>
#include <latlab/stub.hpp>
#include <stdexcept>
using latlab::stub::component;
long spin(long us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
  while (std::chrono::steady_clock::now() < end) {}
  return us;
}
long parse() { return spin(500); }
long book() { return spin(2000); }
int over() { return 7; }
double over(double x) { return x; }
struct Server {
  long us;
  long first() { return spin(us); }
  long second() { return spin(2 * us); }
};
template <class T>
T twice(const char* name, T x) { return component(name, [&] { return static_cast<T>(x + x); }); }
int main() {
  Server server{300};
  std::string name;
  long total = 0;
  for (int i = 0; i < 8; ++i) {
    total += component("parse", &parse) + component("book", &book);
    total += component("first", std::bind_front(&Server::first, &server));
    total += component("second", std::bind_front(&Server::second, &server));
    total += component("over", static_cast<int (*)()>(&over));
    total += static_cast<long>(component("over double", [] { return over(2.0); }));
    total += twice("twice int", 4) + static_cast<long>(twice("twice double", 2.5));
    for (const char* each : {"made a", "made b"}) {
      name = each;
      total += component(name.c_str(), &parse);
    }
    total += component("same", [] { return spin(100); });
    total += component("same", [] { return spin(700); });
  }
  return total == 8 * (500 + 2000 + 300 + 600 + 7 + 2 + 8 + 5 + 2 * 500 + 100 + 700) ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_in(tmp_path_factory.mktemp("several"), SEVERAL)


def one_of_several(program: Path, name: str, folder: Path) -> list[float]:
    """The typical busy time of each measured thread's calls, in us; and its stub must leave the sum alone."""
    folder.mkdir()
    lab = Lab([str(program)], StudyPlan(name, kind="c++"), folder)
    units = lab.measure()
    lab.run("record")
    lab.keep(units)
    lab.run("flat")
    return [sorted(unit.times[:, 0].tolist())[len(unit.times) // 2] / 1e3 for unit in units.values()]


@pytest.mark.parametrize(
    ("name", "us"),
    [("parse", 500), ("book", 2000), ("first", 300), ("second", 600), ("made a", 500), ("made b", 500)],
)
def test_components_of_one_type_of_callable_have_a_plan_each(
    several: Path, name: str, us: float, tmp_path: Path
) -> None:
    (found,) = one_of_several(several, name, tmp_path / "a b")
    assert us * 0.95 < found < us * 1.3


@pytest.mark.side_by_side
@pytest.mark.parametrize("name", ["over", "over double", "twice int", "twice double", "same"])
def test_overloads_and_templates_are_recorded_and_replayed_each_by_its_name(
    several: Path, name: str, tmp_path: Path
) -> None:
    assert len(one_of_several(several, name, tmp_path / "lab")) == 1


def test_a_name_at_two_places_can_be_studied_by_its_place(several: Path, tmp_path: Path) -> None:
    line = SEVERAL[: SEVERAL.index("spin(700)")].count("\n") + 1
    (found,) = one_of_several(several, f"same@main.cpp:{line}", tmp_path / "lab")
    assert 650 < found < 950


REFUSED = {
    "results of different types": (
        'component("x", [] { return 1; }); component("x", [] { return 2.5; });',
        "two components are named 'x', with results of different types: x@main.cpp:",
    ),
    "an exception": (
        'try { component("x", []() -> int { throw 1; }); } catch (int) {}',
        "a call of it throws an exception",
    ),
}


@pytest.mark.side_by_side
@pytest.mark.parametrize("what", list(REFUSED))
def test_what_a_stub_in_cpp_cannot_stand_for_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    body, said = REFUSED[what]
    source = "#include <latlab/stub.hpp>\nusing latlab::stub::component;\nint main() { BODY }\n"
    program = compile_in(tmp_path, source.replace("BODY", body))
    (tmp_path / "lab").mkdir()
    lab = Lab([str(program)], StudyPlan("x", kind="c++"), tmp_path / "lab")
    with pytest.raises(LatlabError, match=re.escape(said)):
        lab.run("record")


@pytest.mark.side_by_side
def test_a_component_that_returns_a_reference_is_told_by_the_compiler(tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text(
        "#include <latlab/stub.hpp>\nint kept;\n"
        'int main() { latlab::stub::component("x", []() -> int& { return kept; }); }\n'
    )
    include = Path(latlab.__file__).parent / "include"
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", f"-I{include}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "a stub has no object to refer to" in done.stderr


SIDES = """#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <latlab/stub.hpp>
#include <thread>
std::atomic<int> there{0};
std::atomic<bool> first_called{false};
// Both live before either calls; SWAP says which of them is the first to call.
long side(int who, int calls) {
  const bool last = (std::getenv("SWAP") != nullptr) == (who == 1);
  ++there;
  while (there < 2 || (last && !first_called)) std::this_thread::yield();
  long sum = 0;
  for (int i = 0; i < calls; ++i) {
    sum += latlab::stub::component("side", [&] { return 100L * who + i; });
    first_called = true;
  }
  return sum;
}
int main() {
  long one = 0, other = 0;
  std::thread a([&] { one = side(1, 3); }), b([&] { other = side(2, 5); });
  a.join();
  b.join();
  std::printf("%ld %ld\\n", one, other);
}
"""


@pytest.mark.side_by_side
def test_threads_are_the_same_whichever_of_them_calls_first(tmp_path: Path) -> None:
    program = compile_in(tmp_path, SIDES)
    counts = []
    for turn, swap in enumerate(({}, {"SWAP": "1"})):
        state = tmp_path / f"state{turn}"
        state.mkdir()
        for mode in ("measure", "record", "flat"):
            entry = _plan.Entry(mode, "side", str(state))
            (tmp_path / "plan").write_text(_plan.text([entry]))
            for counter in state.glob("*.count"):
                counter.unlink()
            # What is recorded in one order of the first calls is replayed in the other.
            order = ({} if swap else {"SWAP": "1"}) if mode == "flat" else swap
            environment = {**os.environ, **order, "LATLAB_STUBS_PLAN": str(tmp_path / "plan")}
            done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=True)
            assert done.stdout == "303 1010\n"
            if mode == "measure":
                (times,) = state.glob("*.times")
                counts.append({n: len(one.rows) // 16 for n, one in _plan.read_times(str(times)).items()})
    assert counts == [{1: 3, 2: 5}, {1: 3, 2: 5}]


@pytest.mark.side_by_side
def test_a_plan_of_another_version_is_refused_and_not_ignored(system: Path, tmp_path: Path) -> None:
    (tmp_path / "plan").write_text("latlab-stubs-plan 2\nmeasure 1.0 0 - /tmp work\n")
    environment = {**os.environ, "LATLAB_STUBS_PLAN": str(tmp_path / "plan")}
    done = subprocess.run([str(system)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is a plan of another version ('latlab-stubs-plan 2'" in done.stderr


def require_trusted(code: int | str | None, result: dict[str, Any]) -> None:
    """Skip what rests on the figures where latlab says itself that they can't be trusted, and why."""
    if code == 3:
        pytest.skip(next(one for one in result["warnings"] if "not steady" in one))
    assert not code


TWO_PERIODS = """#include <chrono>
#include <latlab/stub.hpp>
#include <thread>
void work(long steps) {
  volatile long sum = 0;
  for (long k = 0; k < steps; ++k) sum = sum + k;
}
int main() {
  for (int i = 0; i < 6; ++i) {
    latlab::stub::component("work", [] {
      work(1'000'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      work(4'000'000);
      return 1;
    });
  }
}
"""


@pytest.mark.rights
def test_each_working_period_of_a_component_that_waits_is_studied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if why := unavailable():
        pytest.skip(why)
    program = compile_in(tmp_path, TWO_PERIODS)
    (tmp_path / "study.toml").write_text('component = "work"\nkind = "c++"\nseconds = 8\n')
    with pytest.raises(SystemExit) as left:
        main(["stubs", "study", str(tmp_path / "study.toml"), "--json", "--", str(program)])
    result = json.loads(capsys.readouterr().out)
    waits = next(step for step in result["steps"] if step["name"] == "waits")
    require_trusted(left.value.code, result)
    longer, shorter = result["periods"]
    assert (longer["number"], shorter["number"]) == (2, 1)
    assert 3 < longer["busy_ns"] / shorter["busy_ns"] < 5.3
    assert shorter["wait_ns"] == pytest.approx(18e6, rel=0.3)
    assert longer["wait_ns"] == 0
    assert longer["gain"] > shorter["gain"]
    assert waits["verdict"] == "by period"
