"""Print the requirements of the build, the package and one of its extras, from pyproject.toml.

Usage: requirements.py EXTRA
"""

import re
import sys
import tomllib
from pathlib import Path


def requirements(project: dict, extra: str) -> list[str]:
    """The requirements of an extra, with extras of the package itself (`grpcperf[plot]`) spelled out."""
    found = []
    for line in project["optional-dependencies"][extra]:
        own = re.fullmatch(r"grpcperf\[(\w+)\]", line)
        found += requirements(project, own[1]) if own else [line]
    return found


if __name__ == "__main__":
    settings = tomllib.loads(Path("pyproject.toml").read_text())
    project = settings["project"]
    always = [*settings["build-system"]["requires"], *project["dependencies"]]
    print(*always, *requirements(project, sys.argv[1]), sep="\n")
