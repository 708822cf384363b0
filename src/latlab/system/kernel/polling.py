"""Which sampled addresses lie in loops that only look whether something has changed.

Such a loop loads from places that it doesn't move, compares and jumps back: it makes no progress by itself.
It may let others run, or read the clock, to give up in time. One that only reads the clock passes time on
purpose, as a program does that stands in for work: that is work. One that tries to take a word by an atomic
exchange is a lock that spins. Read from the program's file with capstone and pyelftools, where these are
installed; x86-64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from latlab.system.kernel.binaries.elf_code import CodeFile

__all__ = ["LOOKS", "TAKES", "Polling"]

LOOKS = "looks"
TAKES = "takes"
_RESTS = "rests"  # counts `pause`s and loads nothing: a part of the loop around it

_MOST_INSTRUCTIONS = 48  # of a loop that only looks
_MOST_WITH_CLOCK = 96  # of one that reads the clock, and reckons with what it says
_MOST_LONG = 15 * _MOST_WITH_CLOCK  # bytes of it, with what lies between its parts
_FREE = ("cmp", "test", "nop", "pause", "endbr64", "lfence", "mfence", "tpause")
_CHEAP = ("mov", "movzx", "movsx", "movsxd", "movabs", "xor", "and", "or", "not", "shl", "shr", "sar", "bt",
          "lea", "add", "sub", "inc", "dec", "neg", "cdqe", "cltq")  # fmt: skip
_ATOMIC = (
    "xchg",
    "cmpxchg",
    *(f"lock {name}" for name in ("cmpxchg", "bts", "btr", "or", "and", "xadd", "xchg")),
)
_READS_CLOCK = ("rdtsc", "rdtscp")
# Of seconds and nanoseconds one number: what a loop reckons that reads the clock.
_RECKONS = re.compile(
    r"v?(cvt\w+|(add|sub|mul|div|fmadd\w*|comi|ucomi|xor|and|max|min|sqrt)[sp][sd]|mov[aud]\w*|movq|movs[sd]|pxor|punpck\w+|unpck\w+)$|"
    r"(i?mul|i?div|cqo|cdq|mulx|sbb|adc|set\w+|cmov\w+|shld|shrd|rol|ror)$"
)
_CLOCK = re.compile(
    r"^_*(?:vdso_)?(clock_gettime|gettimeofday|time|clock)(?:64)?$|"
    r"(?:steady|system|high_resolution)_clock3nowEv$|(?:Instant|SystemTime|Timespec)[\w.$]{0,8}?(?:3now|7elapsed|14duration_since)"
)
_YIELDS = re.compile(r"^_*(GI_|libc_)?(sched_yield|thrd_yield|pthread_yield)$")
_GO_TAKES = re.compile(r"^sync\.\(\*(Mutex\)\.(lockSlow|Lock)|RWMutex\)\.Lock)$")
_GO_RELEASES = re.compile(r"^sync\.\(\*(RW)?Mutex\)\.Unlock$")
_GUARD = "__stack_chk_fail"  # ends the program: what a compiler puts behind a function with an array
_DEEP = 3  # functions around the one that reads the clock
_EXITS = 2  # of a loop that reads the clock: one for the time, and one for what it waits for


class Polling:
    """Looks at addresses in files; remembers what it has read. Finds nothing where a tool is missing."""

    def __init__(self) -> None:
        try:
            import capstone
            import elftools  # noqa: F401
        except ModuleNotFoundError:
            self._capstone: Any = None
        else:
            self._capstone = capstone
        self._files: dict[str, CodeFile | None] = {}

    @property
    def missing(self) -> bool:
        """Whether loops can't be told from work, for want of capstone or pyelftools."""
        return self._capstone is None

    def kind(self, module: str, offset: int) -> str:
        """LOOKS, TAKES or "" for a running sample's place: the innermost, or where it called the clock.

        Args:
            offset: of the address in the file.
        """
        file = self._file(module)
        found = None if file is None else file.function(offset)
        return "" if file is None or found is None else _judged(self._capstone, file, *found, offset)

    def reads_clock(self, module: str, offset: int) -> bool:
        """Whether the function around a place does nothing but read the clock."""
        file = self._file(module)
        found = None if file is None else file.function(offset)
        return file is not None and found is not None and _clock(self._capstone, file, found[1], 0)

    def in_go_mutex(self, module: str, offset: int) -> bool:
        """Whether a place in a function of Go's is where that holds a mutex, by the order of its code."""
        file = self._file(module)
        found = None if file is None else file.function(offset)
        steps = () if file is None or found is None else _go_mutex(self._capstone, file, *found)
        before = [takes for place, takes in steps if place < offset]
        after = [takes for place, takes in steps if place >= offset]
        return any(before) and (before[-1] or (bool(after) and not after[0]))

    def _file(self, module: str) -> CodeFile | None:
        if self._capstone is None or not module.startswith("/"):
            return None
        if module not in self._files:
            self._files[module] = CodeFile.read(module)
        return self._files[module]


@lru_cache(maxsize=4096)
def _judged(capstone: Any, file: CodeFile, code: bytes, begin: int, offset: int) -> str:
    """What the smallest loop around an address does; one that looks, in one that takes, is part of that.

    A loop that only rests between two looks is part of the one that looks; by itself it passes time.
    """
    around = []
    for low, high in _loops(capstone, code, begin):
        if not low <= offset <= high:
            continue
        body = _body(capstone, code, begin, low, high) if high - low <= _MOST_LONG else ()
        if not body:
            around.append((high - low, low, high))
        elif any(at <= offset < at + size for at, size in body):
            around.append((len(body), low, high))
    kinds: list[str] = []
    for length, low, high in sorted(around):
        kind = _kind_of_loop(capstone, file, code, begin, low, high) if length <= _MOST_WITH_CLOCK else ""
        if kind == _RESTS and not kinds:
            continue
        kinds.append(kind)
        if not kinds[0]:
            return ""
    if not kinds or TAKES in kinds:
        return TAKES if kinds else ""
    # What rests inside of a loop may stand behind the jump that ends this one: it goes back into it.
    begins = min(around)[1]
    outer = [
        (low, high)
        for low, high in _loops(capstone, code, begin)
        if low < begins <= high < offset and high - low <= _MOST_WITH_CLOCK
    ]
    kinds = [_kind_of_loop(capstone, file, code, begin, *one) for one in outer]
    return TAKES if TAKES in kinds else LOOKS


@lru_cache(maxsize=512)
def _loops(capstone: Any, code: bytes, begin: int) -> tuple[tuple[int, int], ...]:
    """Where each loop of a function begins, and the jump that ends it; one out of the function is a call.

    Read without details: a function of an interpreter has ten thousand instructions, and a detailed one
    costs as much as twenty plain ones.
    """
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    found = set()
    for address, _, name, operands in reader.disasm_lite(code, begin):
        if name.startswith(("j", "loop")) and operands.startswith("0x"):
            target = int(operands, 16)
            if begin <= target <= address:
                found.add((target, address))
    return tuple(sorted(found))


@lru_cache(maxsize=4096)
def _go_mutex(capstone: Any, file: CodeFile, code: bytes, begin: int) -> tuple[tuple[int, bool], ...]:
    """Where a function of Go's takes (True) or releases a mutex, by its code's order; empty if it takes none.

    The compiler puts the atomic instruction in line, and what is called if that fails at the end.
    """
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    steps = []
    locks = False
    for address, _, name, operands in reader.disasm_lite(code, begin):
        called = file.name(int(operands, 16)) if name == "call" and operands.startswith("0x") else ""
        locks = locks or bool(_GO_TAKES.match(called))
        if name == "lock cmpxchg" or (_GO_TAKES.match(called) and not called.endswith("Slow")):
            steps.append((address, True))
        elif name == "lock xadd" or _GO_RELEASES.match(called):
            steps.append((address, False))
    return tuple(steps) if locks else ()


@lru_cache(maxsize=4096)
def _kind_of_loop(capstone: Any, file: CodeFile, code: bytes, begin: int, low: int, high: int) -> str:
    inside = {at for at, _ in _body(capstone, code, begin, low, high)}
    # The jump itself is up to six bytes long.
    read = _detailed(capstone, code[low - begin : high - begin + 15], low)
    return _kind_of(capstone, file, [one for one in read if one.address in inside])


@lru_cache(maxsize=4096)
def _body(capstone: Any, code: bytes, begin: int, low: int, high: int) -> tuple[tuple[int, int], ...]:
    """(place, length) of the instructions from which the jump that ends a loop is reached before its begin.

    What a compiler puts between them is of another loop with the same begin, or leaves both. None where the
    instructions up to the jump can't be read in a row, as where data stand among them.
    """
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    body = [one for one in reader.disasm_lite(code[low - begin : high - begin + 15], low) if one[0] <= high]
    if not body or body[-1][0] != high:
        return ()
    at = {address: index for index, (address, *_) in enumerate(body)}
    before: dict[int, list[int]] = {}
    for index, (_, _, name, operands) in enumerate(body):
        target = int(operands, 16) if name.startswith(("j", "loop")) and operands.startswith("0x") else -1
        if target in at:
            before.setdefault(at[target], []).append(index)
        if name not in ("jmp", "ret"):
            before.setdefault(index + 1, []).append(index)
    known, left = {0, len(body) - 1}, [len(body) - 1]
    while left:
        for one in before.get(left.pop(), ()):
            if one not in known:
                known.add(one)
                left.append(one)
    return tuple((body[index][0], body[index][1]) for index in sorted(known))


def _detailed(capstone: Any, code: bytes, begin: int) -> Iterator[Any]:
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    reader.detail = True
    yield from reader.disasm(code, begin)


def _kind_of(capstone: Any, file: CodeFile, body: list[Any]) -> str:
    calls = [one for one in body if capstone.CS_GRP_CALL in one.groups and not _yields(capstone, file, one)]
    if not all(_calls_clock(capstone, file, one, 0) for one in calls):
        return ""
    timed = bool(calls) or any(one.mnemonic in _READS_CLOCK for one in body)
    if not timed and len(body) > _MOST_INSTRUCTIONS:
        return ""
    steady = _Steady(capstone, body)
    loads = takes = False
    exits = 0
    for one in body:
        name = f"{one.mnemonic}"
        steady.at(one)
        if capstone.CS_GRP_RET in one.groups:
            return ""
        if capstone.CS_GRP_CALL in one.groups or capstone.CS_GRP_JUMP in one.groups:
            exits += capstone.CS_GRP_JUMP in one.groups and name != "jmp"
            steady.passed(one)
            continue
        atomic = name in _ATOMIC
        reckons = timed and (name in _READS_CLOCK or bool(_RECKONS.match(name)))
        if not (atomic or reckons or name in _FREE or name in _CHEAP):
            return ""
        for operand in one.operands:
            if operand.type != capstone.CS_OP_MEM or name in ("lea", "nop"):
                continue
            base, index = one.reg_name(operand.mem.base), one.reg_name(operand.mem.index)
            stack = base in ("rsp", "rbp")
            moved = any(steady.moves(reg) for reg in (base, index) if reg)
            stores = bool(operand.access & capstone.CS_AC_WRITE)
            if moved or (stores and not atomic and not stack):
                return ""
            constant = base == "rip" and file.constant(one.address + one.size, operand.mem.disp)
            loads = loads or not (stack or constant)
            takes = takes or atomic
        steady.passed(one)
    if timed and exits < _EXITS:
        return ""
    if takes or loads:
        return TAKES if takes else LOOKS
    return _RESTS if any(one.mnemonic in ("pause", "tpause") for one in body) and not timed else ""


def _calls_clock(capstone: Any, file: CodeFile, call: Any, deep: int) -> bool:
    """Whether an instruction calls what reads the clock, and nothing else."""
    (target,) = call.operands
    if target.type == capstone.CS_OP_IMM:
        return _clock(capstone, file, target.imm, deep)
    return _points_at_clock(capstone, file, call)


def _yields(capstone: Any, file: CodeFile, call: Any) -> bool:
    """Whether an instruction calls what lets others run: such a loop rests between two looks."""
    (target,) = call.operands
    if target.type == capstone.CS_OP_MEM and call.reg_name(target.mem.base) == "rip":
        return bool(_YIELDS.match(file.slot(call.address + call.size, target.mem.disp)))
    if target.type != capstone.CS_OP_IMM:
        return False
    stub = _detailed(capstone, file.stub(target.imm) or b"", target.imm)
    jump = next((one for one in stub if capstone.CS_GRP_JUMP in one.groups), None)
    if jump is not None and jump.operands[0].type == capstone.CS_OP_MEM:
        return bool(_YIELDS.match(file.slot(jump.address + jump.size, jump.operands[0].mem.disp)))
    return bool(_YIELDS.match(file.name(target.imm)))


def _points_at_clock(capstone: Any, file: CodeFile, one: Any) -> bool:
    """Whether an instruction goes where a word that the linker fills says, and that is the clock."""
    (target,) = one.operands
    if target.type != capstone.CS_OP_MEM or one.reg_name(target.mem.base) != "rip":
        return False
    return bool(_CLOCK.search(file.slot(one.address + one.size, target.mem.disp)))


def _guards(capstone: Any, file: CodeFile, call: Any, deep: int = 0) -> bool:
    """Whether an instruction calls what is never called while all is well."""
    (target,) = call.operands
    if target.type != capstone.CS_OP_IMM:
        return (
            target.type == capstone.CS_OP_MEM
            and file.slot(call.address + call.size, target.mem.disp) == _GUARD
        )
    if file.name(target.imm) == _GUARD:
        return True
    jumps = (
        one for one in _detailed(capstone, file.stub(target.imm) or b"", target.imm)
        if capstone.CS_GRP_JUMP in one.groups
    )  # fmt: skip
    jump = next(jumps, None)
    # (A stub may jump to where stubs begin, and that to itself.)
    return jump is not None and deep < _DEEP and _guards(capstone, file, jump, deep + 1)


@lru_cache(maxsize=4096)
def _clock(capstone: Any, file: CodeFile, place: int, deep: int) -> bool:
    """Whether a function reads the clock and does nothing else: by its name, or by what it calls."""
    if _CLOCK.search(file.name(place)):
        return True
    if stub := file.stub(place):
        for one in _detailed(capstone, stub, place):
            if capstone.CS_GRP_JUMP in one.groups:
                return _points_at_clock(capstone, file, one)
        return False
    found = file.function(place)
    if found is None or found[1] != place or deep >= _DEEP:
        return False
    reads = False
    for one in _detailed(capstone, *found):
        name = f"{one.mnemonic}"
        if capstone.CS_GRP_CALL in one.groups:
            if _guards(capstone, file, one):
                continue
            if not _calls_clock(capstone, file, one, deep + 1):
                return False
            reads = True
        elif capstone.CS_GRP_JUMP in one.groups:
            if one.operands[0].type != capstone.CS_OP_IMM:
                return False
            if not found[1] <= one.operands[0].imm < found[1] + len(found[0]):  # it ends with such a call
                if name != "jmp" or not _calls_clock(capstone, file, one, deep + 1):
                    return False
                reads = True
            elif one.operands[0].imm <= one.address:
                return False
        reads = reads or name in _READS_CLOCK
    return reads


class _Steady:
    """Which registers hold the same in every turn of a loop, or what was loaded from the same place again."""

    def __init__(self, capstone: Any, body: Sequence[Any]) -> None:
        self._capstone = capstone
        self._written = {reg for one in body for reg in self._writes(one)}
        self._moving = set(self._written)
        self._coming: dict[int, set[str]] = {}  # place -> what moves where jumps come from
        self._backwards = {
            one.operands[0].imm for one in body if self._jumps(one) and one.operands[0].imm <= one.address
        }

    def _jumps(self, one: Any) -> bool:
        jumps = self._capstone.CS_GRP_JUMP in one.groups
        return bool(jumps and one.operands and one.operands[0].type == self._capstone.CS_OP_IMM)

    def _writes(self, one: Any) -> set[str]:
        if self._capstone.CS_GRP_CALL in one.groups:
            return set()  # the clock's: what it says is no address
        return {_whole(one.reg_name(reg)) for reg in one.regs_access()[1]} - {"flags"}

    def at(self, one: Any) -> None:
        """Come to an instruction: before it is looked at."""
        if one.address in self._backwards:
            self._moving = set(self._written)
        self._moving |= self._coming.pop(one.address, set())

    def moves(self, register: str) -> bool:
        """Whether it may hold another value in every turn."""
        return _whole(register) in self._moving

    def passed(self, one: Any) -> None:
        """Go on behind an instruction."""
        if self._jumps(one):
            self._coming.setdefault(one.operands[0].imm, set()).update(self._moving)
            return
        steady = one.mnemonic in ("mov", "movzx", "movsxd", "lea", "movabs")
        steady = steady and not any(self.moves(one.reg_name(reg)) for reg in one.regs_access()[0])
        self._moving = self._moving - self._writes(one) if steady else self._moving | self._writes(one)


def _whole(register: str) -> str:
    """One name for all widths of a register."""
    if register in ("rflags", "eflags"):
        return "flags"
    if match := re.fullmatch(r"r(\d+)[dwb]?", register):
        return f"r{match[1]}"
    short = register.lstrip("re") if register[:1] in "re" else register
    return short[:1] + "x" if re.fullmatch(r"[abcd][xlh]", short) else short.removesuffix("l")
