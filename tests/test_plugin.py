"""The pytest plugin, as its users have it: in a pytest of their own."""

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def users_pytest(tmp_path):
    """Writes a test file and runs pytest on it, in a process of its own."""

    def run(code, *args):
        (tmp_path / "test_user.py").write_text(textwrap.dedent(code))
        return subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                "pytest",
                "-q",
                "--color=no",
                "-p",
                "no:cacheprovider",
                *map(str, args),
                str(tmp_path),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        )

    return run


def test_a_check_that_fails_is_told_in_short(users_pytest):
    done = users_pytest("""
        def test_fast(grpcperf):
            server = grpcperf.Server()
            grpcperf.load(server, concurrency=2, calls=200, warmup=0).check(p50="<5s", errors=0)

        def test_slow(grpcperf):
            server = grpcperf.Server()
            grpcperf.load(server, concurrency=2, duration=0.3).check(p99="<1us")
    """)
    assert "1 failed, 1 passed" in done.stdout
    assert re.search(r"^E .*p99.*\d", done.stdout, re.MULTILINE)
    assert ">       grpcperf.load(" in done.stdout
    assert "raise CheckFailed" not in done.stdout
    assert "checks.py" not in done.stdout


def test_targets_are_closed_with_the_test_or_the_fixture_that_made_them(users_pytest):
    done = users_pytest("""
        import os
        import pytest

        pids = {}

        def alive(pid):
            return os.path.exists(f"/proc/{pid}")

        @pytest.fixture(scope="session")
        def whole(grpcperf):
            server = grpcperf.Server()
            pids["session"] = server.pid
            return server

        @pytest.fixture(scope="module")
        def late(request):
            server = request.getfixturevalue("grpcperf").Server()
            pids["module"] = server.pid
            yield server
            assert server.counters().started >= 0  # still there in its own teardown

        @pytest.fixture
        def each(grpcperf, late):
            server = grpcperf.Server()
            pids["function"] = server.pid
            return server

        def test_1(whole, late, each, grpcperf):
            pids["test"] = grpcperf.Server().pid
            assert all(alive(pid) for pid in pids.values())
            assert grpcperf.load(each, concurrency=1, calls=3, warmup=0).errors == 0

        class TestInClass:
            @pytest.fixture(scope="class")
            def of_class(self, grpcperf):
                pids["class"] = grpcperf.Server().pid

            def test_2(self, whole, late, of_class):
                assert alive(whole.pid) and alive(late.pid) and alive(pids["class"])
                assert not alive(pids["function"]) and not alive(pids["test"])

        def test_3(whole, grpcperf):
            assert alive(whole.pid) and not alive(pids["class"])
            pids["mirror"] = grpcperf.Mirror().pid

        def test_4():
            assert not alive(pids["mirror"])
    """)
    assert "4 passed" in done.stdout, done.stdout
    assert not re.search(r"\d errors?\b|ERROR", done.stdout)


def test_targets_are_closed_when_the_test_fails_and_none_is_left(users_pytest, tmp_path, alive):
    done = users_pytest(f"""
        def test_it(grpcperf):
            server = grpcperf.Server()
            open({str(tmp_path / "pid")!r}, "w").write(str(server.pid))
            raise RuntimeError("of the user")
    """)
    assert "1 failed" in done.stdout
    assert "of the user" in done.stdout
    assert not alive(int((tmp_path / "pid").read_text()))


def test_it_has_the_packages_names(users_pytest):
    done = users_pytest("""
        import grpcperf as gp
        import pytest

        def test_names(grpcperf):
            assert set(dir(grpcperf)) == {*gp.__all__, "assert_no_leak", "assert_memory_per_call"}
            assert grpcperf.Async is gp.Async and grpcperf.InvalidRequest is gp.InvalidRequest
            server = grpcperf.Server()
            assert isinstance(server, grpcperf.Server) and isinstance(server, gp.Server)
            assert not isinstance(server, grpcperf.Target)
            assert grpcperf.Server.has_counters
            with pytest.raises(AttributeError):
                grpcperf.nonsense
    """)
    assert "1 passed" in done.stdout


def test_mistakes_inside_the_package_keep_their_traceback(users_pytest):
    done = users_pytest("""
        import sys

        def test_it(grpcperf, monkeypatch):
            monkeypatch.setattr(sys.modules["grpcperf.load"], "as_target", lambda target: 1 / 0)
            grpcperf.load("127.0.0.1:1", calls=1)
    """)
    assert "ZeroDivisionError" in done.stdout
    assert "load.py" in done.stdout


def test_runs_that_do_not_use_it_pay_little(users_pytest):
    done = users_pytest("""
        import sys

        def test_it():
            assert "numpy" not in sys.modules and "matplotlib" not in sys.modules
    """)
    assert "1 passed" in done.stdout


# --- what a session keeps


MEASURES = """
    import pytest

    @pytest.fixture(scope="module")
    def server(grpcperf):
        return grpcperf.Server()

    def test_load(grpcperf, server):
        grpcperf.load(server, concurrency=2, calls=500, warmup=0).check(errors=0)
        grpcperf.load(server, concurrency=1, calls=500, warmup=0)

    def test_compare(grpcperf, server):
        def run():
            return grpcperf.load(server, concurrency=1, calls=50, warmup=0)
        grpcperf.compare(lambda: 1.0, lambda: 2.0, metric="throughput_rps", rounds=4)

    def test_fails(grpcperf, server):
        grpcperf.load(server, concurrency=3, calls=300, warmup=0, metadata={"x": "y"}).check(p50="<1ns")

    def test_without():
        pass
"""


def test_what_a_session_measured_is_shown_and_kept(users_pytest, tmp_path, cli):
    files = ("--grpcperf-json", tmp_path / "out.json", "--grpcperf-benchmark-json", tmp_path / "bench.json")
    done = users_pytest(MEASURES, *files)
    assert "1 failed, 3 passed" in done.stdout
    table = done.stdout[done.stdout.index(" grpcperf ") :]
    assert re.search(r"test_load +[\d,]+ ", table)
    assert "test_load (2)" in table
    assert re.search(r"test_compare +changed +B/A 2", table)

    document = json.loads((tmp_path / "out.json").read_text())
    assert document["schema"] == 1
    rows = document["tests"]
    names = [row["test"].partition("::")[2] for row in rows]
    assert names == ["test_load", "test_load", "test_compare", "test_fails"]
    assert [row["outcome"] for row in rows] == ["passed", "passed", "passed", "failed"]
    assert [row["measurement"] for row in rows] == ["load", "load", "comparison", "load"]
    assert rows[0]["status"] == {"OK": 500}

    again = re.search(r"again in a shell: grpcperf (.+)", done.stdout)
    assert again is not None
    row = cli.json(*again[1].split())
    assert (row["calls"], row["concurrency"]) == (300, 3)

    command = [sys.executable, "-P", "-c", "from pytest_benchmark.cli import main; main()"]
    command += ["compare", str(tmp_path / "bench.json")]
    read = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert read.returncode == 0, read.stderr
    assert "test_load" in read.stdout
    assert "test_fails" in read.stdout


def test_unwritable_files_are_told(users_pytest, tmp_path):
    early = users_pytest(MEASURES, "--grpcperf-json", tmp_path / "none" / "out.json")
    assert "no such folder" in early.stderr
    assert "INTERNALERROR" not in early.stdout
    late = users_pytest(MEASURES, "--grpcperf-json", tmp_path)
    assert "was not written" in late.stdout
    assert "1 failed, 3 passed" in late.stdout
    assert late.returncode != 0


def test_again_in_a_shell_says_what_it_needs(users_pytest):
    done = users_pytest("""
        def test_it(grpcperf):
            server = grpcperf.Server()
            method = "/grpc.testing.BenchmarkService/UnaryCall"
            grpcperf.load(server, method=method, request=b"", calls=50, warmup=0).check(p50="<1ns")
    """)
    assert "--request FILE TARGET" in done.stdout


def test_quick_measures_for_a_moment(users_pytest, tmp_path):
    done = users_pytest(
        """
        def test_load(grpcperf):
            server = grpcperf.Server()
            result = grpcperf.load(server, concurrency=2, duration=60, warmup=10)
            assert result.window_s < 1
            assert grpcperf.load(server, concurrency=2, calls=10**9).calls == 200
            grpcperf.load(server, steps=[(100, 30), (200, 30)])
        """,
        "--grpcperf-quick",
    )
    assert "1 passed" in done.stdout
    assert "too short to judge by" in done.stdout


def test_skip_marker_and_parallel_workers(users_pytest):
    assert "1 passed, 3 skipped" in users_pytest(MEASURES, "--grpcperf-skip").stdout
    assert "1 passed, 3 deselected" in users_pytest(MEASURES, "-m", "not grpcperf", "--strict-markers").stdout
    parallel = users_pytest(MEASURES, "-n", "2", "-rs").stdout
    assert "1 passed, 3 skipped" in parallel
    assert "does not measure in 2 processes" in parallel


UNDECIDED = """
    from dataclasses import replace

    def test_undecided(grpcperf):
        result = grpcperf.load(grpcperf.Server(), concurrency=1, calls=500, warmup=0)
        p50 = result.latency.p50
        bounds = result.interval("p50")
        assert bounds.low < bounds.high
        result.check(p50=f"<{(bounds.low + bounds.high) / 2 * 1e9:.0f}ns")
"""


def test_what_cannot_be_decided_warns_or_under_strict_fails(users_pytest):
    assert "1 passed, 1 warning" in users_pytest(UNDECIDED).stdout
    strict = users_pytest(UNDECIDED, "--grpcperf-strict").stdout
    assert "1 failed" in strict
    assert "InconclusiveWarning" in strict


def test_leaks_are_found_and_their_absence(users_pytest):
    done = users_pytest("""
        def test_none(grpcperf):
            server = grpcperf.Server()
            def action():
                with grpcperf.hold(server, calls=5) as held:
                    held.release()
            report = grpcperf.assert_no_leak(server, action, cycles=5, tolerated={"heap_alloc": 16384})
            assert not report.leak and "streams" in report.slopes

        def test_some(grpcperf):
            server = grpcperf.Server()
            left = []
            def action():
                held = grpcperf.hold(server, calls=3, kind="bidi").__enter__()
                left.append(held)
            try:
                grpcperf.assert_no_leak(server, action, cycles=6)
            finally:
                for held in left:
                    held.__exit__(None, None, None)
    """)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert re.search(r"^E .*it leaks.* 3 streams", done.stdout, re.MULTILINE)


def test_memory_per_call_is_held_against_a_bound(users_pytest):
    done = users_pytest("""
        def test_small(grpcperf):
            small = {"levels": [0, 50, 100], "repeats": 2}
            cost = grpcperf.assert_memory_per_call(grpcperf.Server, below="1MiB", **small)
            assert cost.heap_alloc.slope > 0

        def test_large(grpcperf):
            small = {"levels": [0, 50, 100], "repeats": 2}
            grpcperf.assert_memory_per_call(grpcperf.Server, below="1KiB", **small)
    """)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert re.search(r"^E .*costs .*KiB.*wanted below 1 KiB", done.stdout, re.MULTILINE)
