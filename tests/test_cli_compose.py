"""The commands sweep, compare and report."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import grpcperf as gp

QUICK = ("-c", "8", "-d", "60ms", "--warmup", "10ms", "--drain", "200ms")


@pytest.fixture(scope="module")
def store(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "s.jsonl"
    cli(
        "sweep",
        "--connections",
        "1,2",
        "--request-size",
        "16,4KiB",
        "--repeats",
        "3",
        *QUICK,
        "--store",
        path,
    )
    return path


def test_sweep_prints_one_document(cli: Any, store: Path) -> None:
    """Taken from the store, where all is."""
    wanted = ("sweep", "--connections", "1,2", "--request-size", "16,4KiB", "--repeats", "3", *QUICK)
    before = store.read_text()
    document = cli.json(*wanted, "--store", store)
    assert store.read_text() == before
    rows = document["rows"]
    assert len(rows) == 12
    assert {(row["connections"], row["request_size"]) for row in rows} == {
        (1, 16),
        (1, 4096),
        (2, 16),
        (2, 4096),
    }
    assert {row["repeat"] for row in rows} == {0, 1, 2}
    assert all(row["concurrency"] == 8 and row["valid"] in (True, False) for row in rows)


def test_sweep_tells_people_a_table(cli: Any, store: Path) -> None:
    wanted = ("sweep", "--connections", "1,2", "--request-size", "16,4KiB", "--repeats", "3", *QUICK)
    told = cli(*wanted, "--store", store).stdout
    assert re.search(r"connections +request_size +n +calls/s", told)
    assert len(re.findall(r"^ +[12] +(16|4096) +3 ", told, re.M)) == 4


def test_without_a_list_there_is_one_point(cli: Any) -> None:
    rows = cli.json("sweep", *QUICK, "--repeats", "2")["rows"]
    assert [row["concurrency"] for row in rows] == [8, 8]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-c", "1", "--connections", "1,2"), "concurrency must be at least connections"),
        (("--connections", "1,,2"), "empty"),
        (("--connections", "1,1"), "comes twice"),
        (("--connections", "1,x"), "connections"),
        (("--conections", "1,2"), "unrecognized"),
        (("--connections", "1,2", "--repeats", "0"), "repeats"),
        (("--connections", "1,2", "--order", "sorted"), "order"),
    ],
)
def test_nonsense_is_refused_before_anything_is_measured(cli: Any, arguments: Any, told: str) -> None:
    assert told in cli("sweep", *arguments, code=2, timeout=10).stderr


def test_another_sweep_does_not_take_the_store(cli: Any, store: Path) -> None:
    before = store.read_text()
    other = cli(
        "sweep", "--connections", "1,2", "--request-size", "16,4KiB", "-d", "70ms", "--store", store, code=2
    )
    assert "another function" in other.stderr
    assert store.read_text() == before
    cli("sweep", "--connections", "1,2", *QUICK, "--store", store.parent / "none" / "s.jsonl", code=1)


def test_every_point_failing_is_an_error(cli: Any) -> None:
    done = cli("sweep", "127.0.0.1:9", "--connections", "1,2", *QUICK, "--json", code=1)
    assert [row["error"] is not None for row in json.loads(done.stdout)["rows"]] == [True, True]
    assert "every point failed" in done.stderr


def test_compare_says_that_it_was_not_interleaved(cli: Any, store: Path) -> None:
    document = cli.json("compare", store, store, "--metric", "throughput_rps")
    assert document["interleaved"] is False
    assert len(document["rows"]) == 4
    assert all(row["ratio"] == 1 and row["verdict"] != "changed" for row in document["rows"])
    assert "not interleaved" in cli("compare", store, store).stderr
    assert "did you mean" in cli("compare", store, store, "--metric", "throughput", code=2).stderr


def scaled(store: Path, path: Path, factor: float, fingerprint: str) -> Path:
    """The same store, as if it had been so much faster, and on another machine."""
    header, *lines = [json.loads(line) for line in store.read_text().splitlines()]
    for line in lines:
        line["row"]["throughput_rps"] = 1000 * factor + line["repeat"]
    header["fingerprint"] = fingerprint
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)))
    return path


def test_compare_judges_only_on_the_same_machine(cli: Any, store: Path, tmp_path: Path) -> None:
    one = scaled(store, tmp_path / "1.jsonl", 1, "here")
    two = scaled(store, tmp_path / "2.jsonl", 2, "here")
    far = scaled(store, tmp_path / "3.jsonl", 2, "there")
    verdicts = [
        {row["verdict"] for row in cli.json("compare", one, other, "--metric", "throughput_rps")["rows"]}
        for other in (two, far)
    ]
    assert verdicts == [{"changed"}, {"inconclusive"}]
    cli("compare", one, far, "--metric", "throughput_rps", "--strict", code=3)
    gp.Results.load(two)


def test_report_is_one_file(cli: Any, store: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    cli("report", store, "--html", page)
    text = page.read_text()
    assert text.count("<svg") == 2
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//|@import|fetch\(', text)
    assert "shared_cpus" in text
    assert "No such file" in cli("report", tmp_path / "none.jsonl", "--html", page, code=1).stderr
    cli("report", page, "--html", page, code=2)
    cli("report", store, "--html", tmp_path / "none" / "r.html", code=1)


def test_results_that_are_not_valid_do_not_pass_strict(cli: Any, store: Path, tmp_path: Path) -> None:
    one = scaled(store, tmp_path / "1.jsonl", 1, "here")
    spoilt = tmp_path / "2.jsonl"
    spoilt.write_text(scaled(store, spoilt, 2, "here").read_text().replace('"valid": true', '"valid": false'))
    cli(
        "compare",
        one,
        scaled(store, tmp_path / "3.jsonl", 2, "here"),
        "--metric",
        "throughput_rps",
        "--strict",
    )
    cli("compare", one, spoilt, "--metric", "throughput_rps", "--strict", code=3)


def test_another_target_is_another_sweep(cli: Any, store: Path) -> None:
    wanted = ("sweep", "--connections", "1,2", "--request-size", "16,4KiB", "--repeats", "3", *QUICK)
    assert "another function" in cli(*wanted, "--tls", "--store", store, code=2).stderr


def test_calls_that_all_fail_are_an_error(cli: Any) -> None:
    failing = ("sweep", "--connections", "1,2", *QUICK, "--metadata", "grpcperf-status=13")
    assert "every call of every point failed" in cli(*failing, code=1).stderr


def test_a_report_does_not_overwrite_its_store(cli: Any, store: Path) -> None:
    before = store.read_text()
    assert "overwrite" in cli("report", store, "--html", store, code=2).stderr
    assert store.read_text() == before


def test_what_is_no_number_is_not_compared(cli: Any, store: Path) -> None:
    for metric in ("valid", "connections", "kind"):
        cli("compare", store, store, "--metric", metric, code=2)
