"""Print what `pip install .[extras]` would install besides latlab itself, from pyproject.toml."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())
wanted = sys.argv[1].split(",") if sys.argv[1:] else []
names = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
for extra in wanted:
    names += project["project"]["optional-dependencies"][extra]
print("\n".join(sorted(set(names))))
