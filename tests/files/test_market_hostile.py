"""Hostile inputs of every framing through the commands of market: no silent success, no loss."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from market_framings import lines, packed_capture, soup, units

from latlab.cli._main import main
from latlab.market import census, generate

CASES = 36  # for each framing: 216 inputs
FRAMINGS = ("binary", "soup", "pcap", "units", "lines", "gz")
SYMBOLS = {"units": "ZVZZT", "lines": "SH"}  # AAAA in the others
# What each command needs behind FILE; SOUND is a feed that is whole, OUT a path for the output.
COMMANDS: dict[str, list[str]] = {
    "inside": ["-o", "OUT.txt"],
    "census": [],
    "depth": [],
    "trades": ["-o", "OUT.csv"],
    "bars": ["--every", "1s", "-o", "OUT.csv"],
    "snapshot": ["--on-change", "-o", "OUT.csv"],
    "stats": ["-o", "OUT.csv"],
    "decode": ["-o", "OUT"],
    "lobster": ["--symbol", "SYMBOL", "-o", "OUT"],
    "delay": ["SOUND"],
    "replay": ["--to", "OUT.itch"],
}
STRICT_ONLY = ("replay",)


def sound_input(framing: str, day: bytes) -> bytes:
    made: dict[str, Callable[[], bytes]] = {
        "binary": lambda: day,
        "soup": lambda: soup(day),
        "pcap": lambda: packed_capture(day),
        "units": lambda: units(200),
        "lines": lambda: lines(300),
        "gz": lambda: gzip.compress(day),
    }
    return made[framing]()


def hurt_input(sound: bytes, case: int, rng: random.Random) -> tuple[str, bytes]:
    hurt = bytearray(sound)
    how = ("cut", "flip", "splice", "swap", "insert", "drop")[case % 6]
    at = rng.randrange(30, len(hurt) - 30)
    if how == "cut":
        del hurt[at:]
    elif how == "flip":
        hurt[at] ^= 1 << rng.randrange(8)
    elif how == "splice":
        hurt[at:] = hurt[rng.randrange(len(hurt)) :]
    elif how == "swap":
        other = rng.randrange(30, len(hurt) - 60)
        hurt[at : at + 30], hurt[other : other + 30] = hurt[other : other + 30], hurt[at : at + 30]
    elif how == "insert":
        hurt[at:at] = rng.randbytes(rng.randrange(1, 60))
    else:
        del hurt[at : at + rng.randrange(1, 60)]
    return how, bytes(hurt)


def outputs(folder: Path) -> dict[str, bytes]:
    made = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in made}


def run(command: str, file: Path, sound: Path, symbol: str, out: Path, *more: str) -> int:
    out.mkdir()
    known = {"SOUND": str(sound), "SYMBOL": symbol}
    options = [
        str(out / option) if option.startswith("OUT") else known.get(option, option)
        for option in COMMANDS[command]
    ]
    try:
        main(["market", command, str(file), *options, *more])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def commands_of(case: int) -> list[str]:
    """The inside, and two of the others in turn: each command sees inputs of every kind and framing."""
    others = [command for command in COMMANDS if command != "inside"]
    turn = case + case // 6
    return ["inside", others[turn % len(others)], others[(turn + 5) % len(others)]]


@pytest.mark.long
@pytest.mark.parametrize("framing", FRAMINGS)
def test_no_hostile_input_is_a_silent_success_a_traceback_or_a_loss(
    tmp_path: Path, framing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    attack(tmp_path, framing, commands_of, lambda: capsys.readouterr())


def attack(
    folder: Path,
    framing: str,
    commands: Callable[[int], list[str]],
    said_by: Callable[[], tuple[str, str]],
) -> int:
    """Every hostile input of a framing through some commands; returns how many runs there were."""
    generate(folder / "day.itch", seed=4, messages=400, symbols=5)
    sound = folder / "sound"
    sound.write_bytes(sound_input(framing, (folder / "day.itch").read_bytes()))
    messages, symbol = census(sound).messages, SYMBOLS.get(framing, "AAAA")
    right: dict[str, tuple[str, dict[str, bytes]]] = {}
    rng = random.Random(framing)
    runs = 0
    for case in range(CASES):
        how, hurt = hurt_input(sound.read_bytes(), case, rng)
        file = folder / "hurt"
        file.write_bytes(hurt)
        for command in commands(case):
            if framing == "lines" and command in ("replay", "delay"):
                continue  # ASCII PITCH is not sent, and these lines move the inside once
            if command not in right:
                said_by()
                status = run(command, sound, sound, symbol, folder / f"right-{command}")
                assert status == 0, (command, said_by())
                printed = "" if command == "replay" else said_by()[0]
                right[command] = printed, outputs(folder / f"right-{command}")
            for more in ((), ("--lenient",))[: 1 if command in STRICT_ONLY else 2]:
                out = folder / f"out-{case}-{command}-{len(more)}"
                status = run(command, file, sound, symbol, out, *more)
                printed, said = said_by()
                what = (framing, case, how, command, *more, status, said)
                runs += 1
                assert file.read_bytes() == hurt, what
                assert "Traceback" not in said, what
                assert status in (0, 1, 3), what
                nothing = ("holds neither", "has no symbol", "decompressed offset 0 ")
                assert status != 1 or not more or any(why in said for why in nothing), what
                printed = "" if command == "replay" else printed  # its times
                if status == 0 and (printed, outputs(out)) != right[command]:
                    # What a field of a message says can't be known to be wrong; that one is missing can.
                    whole = census(file, lenient=True).messages >= messages
                    # Nor that lines are missing, which have no numbers, or the end of a file.
                    lost = how == "cut" or (framing, how) in (("lines", "splice"), ("lines", "drop"))
                    assert whole or lost, what
    return runs
