"""What makes both sides anew before each block of pairs, with another placement where that is wanted."""

from __future__ import annotations

import os
import subprocess

import numpy as np

from latlab.errors import LatlabError

__all__ = ["build_anew", "padding"]


def padding(seed: int, number: int) -> str:
    """Compiler flags that move every function by a distance that is drawn for each build.

    GCC and Clang put this number of no-operation instructions before each function, where nothing runs them:
    the later a function stands in its file, the farther it moves, and with it all of its branches.
    """
    count = int(np.random.default_rng([seed, number]).integers(64))
    return f"-fpatchable-function-entry={count},{count}"


def build_anew(command: str, number: int, padded_by: int | None) -> None:
    """Run the build of a block.

    Args:
        command: of the shell.
        number: of the block.
        padded_by: the seed that draws how far functions are moved; None moves none.

    Raises:
        LatlabError: it failed.
    """
    environment = {**os.environ, "LATLAB_BUILD": str(number), "LATLAB_PADDING": ""}
    if padded_by is not None:
        moved = environment["LATLAB_PADDING"] = padding(padded_by, number)
        for name in ("CFLAGS", "CXXFLAGS"):
            environment[name] = f"{environment.get(name, '')} {moved}".strip()
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["it printed nothing"]
        raise LatlabError(f"the build ended with {done.returncode}: {lines[-1]}")
