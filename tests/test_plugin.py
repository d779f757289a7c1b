"""The pytest plugin, as its users have it: in a pytest of their own."""

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
                *args,
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
    assert "error" not in done.stdout.lower()


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
            assert set(dir(grpcperf)) == set(gp.__all__)
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
