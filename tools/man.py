"""Writes a man page for every command: python tools/man.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from click_man.core import write_man_pages

from latlab import __version__
from latlab.cli._main import latlab

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_man_pages("latlab", latlab, version=__version__, target_dir=str(folder))
    print(f"{len(list(folder.glob('*.1')))} man pages in {folder}")
