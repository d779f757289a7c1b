"""Reading /proc and /sys: what is not there, or not shown, is empty or None and never an error."""

from __future__ import annotations

import os
from collections.abc import Iterator

ROOT = "/"


def read(path: str) -> str:
    """The text of a file, without the white space around it."""
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def number(path: str) -> int | None:
    """Of a file that is a whole number; None of one that says "max", or -1, and means that there is none."""
    text = read(path)
    return int(text) if text.isdigit() else None


def field(path: str, name: str) -> str | None:
    """The first `name: value` or `name value` of a file of such lines."""
    for line in read(path).splitlines():
        key, _, value = line.replace("\t", " ").partition(" " if ":" not in line else ":")
        if key.strip() == name:
            return value.strip()
    return None


def names(path: str) -> list[str]:
    """What is in a folder, sorted."""
    try:
        return sorted(os.listdir(os.path.join(ROOT, path)))
    except OSError:
        return []


def control_groups(controller: str) -> Iterator[str]:
    """The folders of this process's control group and of all above it, which bound it too, for a controller
    ("pids"), in either version of control groups (cgroups(7))."""
    for line in read("proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers != "" and controller not in controllers.split(","):
            continue
        root = "sys/fs/cgroup" + (f"/{controllers}" if controllers else "")
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts), -1, -1):
            yield "/".join([root, *parts[:depth]])
