"""demo: its numbers, its tables and its page. The measuring is made short here; `make demo` runs it whole."""

import json
import os
import re
import signal
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from grpcperf import demo, demo_page, figures
from grpcperf.errors import EngineError
from grpcperf.report import Page, Section, Table, render, require_writable, write


@pytest.fixture
def short(monkeypatch):
    """The same steps with fewer calls and shorter loads."""
    monkeypatch.setattr(demo, "LEVELS", (20, 40, 80))
    monkeypatch.setattr(demo_page, "LEVELS", (20, 40, 80))
    monkeypatch.setattr(demo, "CONNECTIONS", (1, 2, 4))
    monkeypatch.setattr(demo, "WARMUP_S", 0.05)
    monkeypatch.setattr(demo, "DURATION_S", 0.2)
    monkeypatch.setattr(demo, "ROUNDS", 2)


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read_page(path):
    text = Path(path).read_text(encoding="utf-8")
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    # Nothing from elsewhere.
    elsewhere = r'(src|href)\s*=\s*["\']?(https?:)?//|@import|fetch\(|<script |url\(["\']?http'
    assert not re.search(elsewhere, text)
    assert text.count("<script") == 1  # the page's own, which sorts tables
    return text, " ".join(parser.text)


@pytest.mark.usefixtures("short", "no_leftovers")
def test_the_demo_measures_and_writes_its_page(tmp_path, capsys):
    import sys

    document = demo.run(str(tmp_path / "demo.html"), sys.stdout)
    out = capsys.readouterr().out
    assert document["html"] == str(tmp_path / "demo.html")
    assert document["interrupted"] is False
    assert str(tmp_path / "demo.html") in out
    json.dumps(document, allow_nan=False)

    assert [(cost["model"], cost["kind"]) for cost in document["memory"]] == [
        (model, kind) for model in ("async", "thread") for kind in demo.KINDS
    ]
    for cost in document["memory"]:
        assert [level["calls"] for level in cost["levels"]] == [20, 40, 80]
        assert 1 < cost["slopes"]["heap"] < 64
        assert (cost["slopes"]["stack"] > 4) is (cost["model"] == "thread")
        for level in cost["levels"]:
            assert level["total"] == pytest.approx(level["heap"] + level["stack"])
            assert level["tasks_held"] - level["tasks_before"] == pytest.approx(level["calls"], abs=4)
            assert level["tasks_after"] == pytest.approx(level["tasks_before"], abs=4)
    assert sorted(row["connections"] for row in document["connections"]) == [1, 1, 2, 2, 4, 4]
    assert all(row["errors"] == 0 and row["concurrency"] == 64 for row in document["connections"])
    # Each row was printed too.
    assert len(re.findall(r"^ +slope +\d", out, re.MULTILINE)) == 6
    assert len(re.findall(r"^round \d +\d", out, re.MULTILINE)) == 6
    assert len(re.findall(r"^median +\d", out, re.MULTILINE)) == 3

    text, words = read_page(document["html"])
    assert text.count("<svg") == 4
    assert "a parked call holds" in words
    assert "calls/s" in words
    assert not set(re.findall(r"#0[a0]0[0-9a-f]{3}\b", text)) & {figures.INK, figures.GRID, *figures.SERIES}
    assert "prefers-color-scheme: dark" in text


@pytest.mark.usefixtures("short")
def test_an_interrupted_demo_keeps_what_it_has(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_measure_connections", interrupt)
    monkeypatch.setattr(demo, "KINDS", ("unary",))
    document = demo.run(str(tmp_path / "demo.html"), None)
    assert document["interrupted"] is True
    assert len(document["memory"]) == 2
    text, words = read_page(document["html"])
    assert "Interrupted" in words
    assert text.count("<svg") == 2


def test_ctrl_c_in_the_demo(cli, children, alive, within, tmp_path):
    page = tmp_path / "page.html"
    process = cli.start("demo", "--html", page)
    line = next(line for line in process.stdout if line.startswith("async"))
    assert "unary" in line
    time.sleep(0.3)
    kids = children(process.pid)
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert time.monotonic() - begin < 10
    assert "Traceback" not in err
    assert str(page) in out
    _, words = read_page(page)
    assert "Interrupted" in words
    assert all(within(2, lambda kid=kid: not alive(kid)) for kid in kids)


def test_a_page_with_nothing_yet():
    text = render(demo_page.page(demo.Measured(interrupted=True)))
    assert "Interrupted" in text
    assert "<svg" not in text


def test_missing_extras_are_said_before_anything_is_measured(cli, tmp_path):
    blocked = "import sys; sys.modules['matplotlib'] = sys.modules['jinja2'] = None"
    (tmp_path / "sitecustomize.py").write_text(blocked)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    begin = time.monotonic()
    done = cli("demo", "--html", tmp_path / "x.html", code=1, env={**os.environ, "PYTHONPATH": path})
    assert "pip install matplotlib jinja2" in done.stderr
    assert time.monotonic() - begin < 5
    assert not (tmp_path / "x.html").exists()


def test_a_page_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path):
    page = Page(title="t", lead="l", sections=[])
    with pytest.raises(EngineError, match="cannot be written"):
        write(page, tmp_path / "no" / "such" / "folder.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(EngineError, match="cannot be written"):
        write(page, tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_page_goes_where_a_link_leads_and_takes_no_devices_place(tmp_path):
    page = Page(title="t", lead="l", sections=[])
    real, link, pipe = tmp_path / "real.html", tmp_path / "link.html", tmp_path / "pipe"
    real.write_text("old")
    link.symlink_to(real)
    assert write(page, link) == real
    assert link.is_symlink()
    assert real.read_text().startswith("<!doctype html>")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    require_writable(pipe)
    write(page, pipe)
    assert os.read(reader, 15) == b"<!doctype html>"
    os.close(reader)
    assert pipe.is_fifo()
    require_writable(Path(os.devnull))
    write(page, Path(os.devnull))
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("name", ["no/such/x.html", ".", "x" * 300])
def test_where_no_page_can_be_is_told_before_measuring(tmp_path, name):
    with pytest.raises(EngineError, match="cannot be written"):
        require_writable(tmp_path / name)


def test_no_page_can_be_in_a_folder_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(EngineError, match="cannot be written"):
        require_writable(Path("x.html"))


def test_texts_are_escaped():
    table = Table(columns=["<a>"], rows=[["<script>x</script>"]])
    text = render(Page(title="<b>", lead="&", sections=[Section(title="<i>", table=table)]))
    assert "<script>x" not in text
    assert "&lt;script&gt;" in text


def points_of(*throughputs):
    """Points over 1, 2, 4 ... connections, each with a round for each of its throughputs."""

    class Round:
        def __init__(self, throughput):
            self.throughput_rps = throughput

    return [
        demo.Point(connections=2**number, rounds=[Round(value) for value in values])
        for number, values in enumerate(throughputs)
    ]


@pytest.mark.parametrize(
    ("throughputs", "words"),
    [
        ([[100, 90, 110], [150, 140, 160]], "150 calls/s: +50% against 1 connection (100), in every round"),
        ([[100, 90, 145], [150, 140, 160]], "but the rounds overlap"),
        ([[100, 90, 110], [50, 40, 60]], "bring nothing here: 1 connection carried the most, 100"),
        ([[0, 0, 0], [0, 0, 0]], ""),
    ],
)  # fmt: skip
def test_the_verdict_claims_a_difference_only_where_no_round_reaches_the_other(throughputs, words):
    verdict = demo_page._connections_verdict(points_of(*throughputs))
    assert words in verdict
    assert bool(words) is bool(verdict)


def test_a_figure_is_none_where_no_round_could_tell():
    point = points_of([1, 2, 3])[0]
    assert point.throughput_rps == demo.Figure(2, 1, 3)
    assert point.over_rounds(lambda _: None) == demo.Figure(None, None, None)


@pytest.mark.parametrize(("x", "y", "expected"), [((0, 1, 2), (5, 7, 9), 2), ((0, 250, 1000), (1, 1, 1), 0)])
def test_the_slope_is_of_the_least_squares_line(x, y, expected):
    assert demo.slope(x, y) == pytest.approx(expected)


def test_the_slope_agrees_with_numpy():
    import numpy as np

    x, y = [0, 250, 500, 1000], [3.0, 10.5, 17.0, 41.0]
    assert demo.slope(x, y) == pytest.approx(np.polyfit(x, y, 1)[0])
