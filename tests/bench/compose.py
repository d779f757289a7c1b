"""What composing costs, and how often it errs: not a test. Overhead of a sweep's points, loading and drawing
ten thousand rows, the size of a page, comparisons of a thing with itself and with one that is a fifth
slower."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import grpcperf as gp
from grpcperf import report as pages
from grpcperf import store
from grpcperf.sweep_page import page_of

SHORT = {"duration": 0.05, "warmup": 0, "drain": 0.05, "concurrency": 1}


def say(name: str, figure: str, goal: str) -> None:
    print(f"{name:<58} {figure:>14}   {goal}", flush=True)


def overhead_of_points() -> None:
    sweep = gp.Sweep(connections=[1], response_size=range(1, 31))
    with gp.Server() as server, tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        sweep.run(lambda p: gp.load(server, **SHORT, **p), store=Path(folder) / "s.jsonl", progress=False)
        kept = (time.monotonic() - started) / len(sweep) - SHORT["duration"]
    few = gp.Sweep(connections=[1], response_size=range(1, 11))

    def anew(point: Any) -> gp.Result:
        with gp.Server() as server:
            return gp.load(server, **SHORT, **point)

    started = time.monotonic()
    few.run(anew, progress=False)
    new = (time.monotonic() - started) / len(few) - SHORT["duration"]
    say("a sweep's point beyond its duration, server kept", f"{kept * 1e3:.1f} ms", "under 50")
    say("a sweep's point beyond its duration, server anew", f"{new * 1e3:.1f} ms", "under 300")


def ten_thousand_rows() -> None:
    with gp.Server() as server:
        one = gp.Sweep(connections=[1]).run(lambda p: gp.load(server, **SHORT, **p), progress=False)
    line = one[0].to_json()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        points = [({"connections": at % 100 + 1}, at // 100) for at in range(10_000)]
        lines = ({**line, "point": point, "repeat": repeat} for point, repeat in points)
        store.write(path, one.header, lines)
        started = time.monotonic()
        results = gp.Results.load(path)
        results.plot("connections", "throughput_rps")
        say("10,000 rows loaded and drawn", f"{time.monotonic() - started:.2f} s", "under 2")
        lines = ({**line, "point": {"connections": at + 1}, "repeat": 0} for at in range(200))
        store.write(path, one.header, lines)
        page = pages.write(page_of(gp.Results.load(path)), Path(folder) / "r.html")
        say("a page of 200 points", f"{page.stat().st_size / 1e6:.2f} MB", "under 2")


def verdicts(comparisons: int) -> None:
    with gp.Server() as server:

        def run(busy_us: int) -> gp.Result:
            asked = {"grpcperf-busy-us": busy_us}
            return gp.load(server, concurrency=1, duration=0.03, warmup=0.01, drain=0.1, metadata=asked)

        def changed(busy_us: int, seed: int) -> bool:
            found = gp.compare(
                lambda: run(500), lambda: run(busy_us), metric="throughput_rps", seed=seed, progress=False
            )
            return found.changed

        same = sum(changed(500, seed) for seed in range(comparisons))
        slower = sum(changed(640, seed) for seed in range(10))
    say(f"A against A called changed, of {comparisons}", str(same), f"at most {comparisons * 8 // 100}")
    say("a fifth slower found, of 10 comparisons of 10 rounds", str(slower), "10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=100)
    options = parser.parse_args()
    overhead_of_points()
    ten_thousand_rows()
    verdicts(options.comparisons)


if __name__ == "__main__":
    main()
