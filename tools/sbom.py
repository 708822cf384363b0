"""Writes the software bill of materials of a wheel, as CycloneDX 1.6: what is bundled, and what is asked for.

Usage: sbom.py VERSION NANOBIND_VERSION OUTPUT
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def component(name: str, version: str, license_id: str, purl: str, what: str) -> dict[str, object]:
    """One part, as CycloneDX tells it."""
    part: dict[str, object] = {"type": "library", "bom-ref": purl, "name": name, "description": what}
    if version:
        part["version"] = version
    if license_id:
        part["licenses"] = [{"license": {"id": license_id}}]
    return {**part, "purl": purl}


def sbom(version: str, nanobind: str) -> dict[str, object]:
    """The whole document; the same sources give the same bytes."""
    assets = (_ROOT / "src/latlab/reports/assets/files.py").read_text()
    plotly = re.search(r"plotly\.js (\d+\.\d+\.\d+)", assets)
    if plotly is None:
        raise SystemExit("sbom.py: reports/assets/files.py no longer tells the version of plotly.js")
    bundled = [
        component("nanobind", nanobind, "BSD-3-Clause", f"pkg:pypi/nanobind@{nanobind}", "compiled in"),
        component("robin-map", "", "MIT", "pkg:github/Tessil/robin-map", "compiled in, by nanobind"),
        component("plotly.js", plotly[1], "MIT", f"pkg:npm/plotly.js@{plotly[1]}", "in the reports' pages"),
    ]
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    asked = []
    for line in project["dependencies"]:
        name = re.split(r"[^\w.-]", line)[0]
        asked.append(component(name, "", "", f"pkg:pypi/{name}", f"asked for: {line}"))
    purl = f"pkg:pypi/latlab@{version}"
    itself = component("latlab", version, project["license"], purl, project["description"])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**itself, "type": "application"}},
        "components": [*bundled, *asked],
        "dependencies": [{"ref": purl, "dependsOn": [one["bom-ref"] for one in (*bundled, *asked)]}],
    }


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(sbom(sys.argv[1], sys.argv[2]), indent=2) + "\n")
