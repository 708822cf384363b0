"""Print what `pip install .[extras]` would install besides latlab itself, from pyproject.toml.

--build: only what builds it.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())
names = list(project["build-system"]["requires"])
if sys.argv[1:] != ["--build"]:
    names += project["project"]["dependencies"]
    for extra in sys.argv[1].split(",") if sys.argv[1:] else []:
        names += project["project"]["optional-dependencies"][extra]
print("\n".join(sorted(set(names))))
