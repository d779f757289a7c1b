"""Allocations counted in any process: what reaches Python of it, and what stands in the way. That each
function is counted to the last block is test_allocations.c's."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

import grpcperf as gp
from grpcperf import _engine
from grpcperf.targets import child
from grpcperf.targets.allocations import LIBRARY, Counting

pytestmark = pytest.mark.usefixtures("no_leftovers")

# 1000 blocks, every other one freed; then it says so and waits. All without stdio, which allocates.
PROGRAM = """
    #include <malloc.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(void)
    {
        for (int i = 0; i < 1000; i++) {
            char *volatile block = malloc(512);
            block[0] = 1;
            if (i % 2)
                free(block);
        }
        if (write(1, "ready\\n", 6) == 6)
            pause();
    }
"""
USABLE = 520  # of 512 bytes asked for from glibc on a 64-bit machine
KNOWN = {
    "mallocs": 1000,
    "frees": 500,
    "heap_objects": 500,
    "total_alloc": 1000 * USABLE,
    "heap_alloc": 500 * USABLE,
}
STATIC = "void _start(void) { for (;;) ; }"


def compiled(folder, source, *options):
    (folder / "program.c").write_text(textwrap.dedent(source))
    path = folder / "program"
    subprocess.run([os.environ.get("CC", "cc"), *options, "-o", path, folder / "program.c"], check=True)
    return str(path)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("known"), PROGRAM)


@pytest.fixture
def counting():
    counting = Counting()
    yield counting
    counting.close()


@contextlib.contextmanager
def started(counting, *command, **variables):
    """A process that counts, once it says that it is ready."""
    env = counting.environment({**os.environ, **variables})
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_known_allocations_are_counted_exactly(counting, program):
    with started(counting, program) as pid:
        assert counting.read(pid) == KNOWN
        assert counting.missing(pid) is None


def test_a_stopped_process_is_read_and_so_is_a_dead_one(counting, program):
    with started(counting, program) as pid:
        os.kill(pid, signal.SIGSTOP)
        assert counting.read(pid) == KNOWN
    assert counting.read(pid) == KNOWN


def test_a_program_that_is_executed_counts_for_itself(counting, program):
    with started(counting, "sh", "-c", f"exec '{program}'") as pid:
        assert counting.read(pid) == KNOWN
    with started(counting, "sh", "-c", f"'{program}'; true") as shell:  # a child of the shell's
        assert 0 < counting.read(shell)["mallocs"] < KNOWN["mallocs"]


def test_a_process_that_does_not_count_has_no_counts(counting, program):
    assert counting.read(os.getpid()) is None
    with started(counting, "env", "-u", "LD_PRELOAD", program) as pid:  # `env` itself did count
        assert counting.read(pid) is None
        assert "not counted" in counting.missing(pid)
    for nonsense in (0, 2**22 + 1):
        assert counting.read(nonsense) is None


def test_a_static_program_is_not_counted_and_that_is_said(counting, tmp_path, within):
    path = compiled(tmp_path, STATIC, "-static", "-nostdlib")
    process = subprocess.Popen(["sh", "-c", f"exec '{path}'"], env=counting.environment(os.environ))
    try:
        assert within(5, lambda: os.readlink(f"/proc/{process.pid}/exe") == path)
        assert counting.read(process.pid) is None
        assert "statically linked" in counting.missing(process.pid)
    finally:
        process.kill()
        process.wait()


def test_an_object_of_the_users_own_is_loaded_as_well(counting, program):
    other = _engine.__file__  # any shared object
    assert counting.environment({"LD_PRELOAD": other})["LD_PRELOAD"].endswith(f"{LIBRARY}:{other}")
    assert "LD_PRELOAD" not in os.environ
    library = child.executable(LIBRARY)
    with started(counting, program, LD_PRELOAD="libm.so.6") as pid:
        with open(f"/proc/{pid}/maps") as maps:
            text = maps.read()
        assert str(library) in text
        assert "libm.so.6" in text
        assert counting.read(pid) == KNOWN


@pytest.mark.parametrize("folder", ["with a space", "with:colon", "with$dollar"])
def test_it_is_loaded_from_any_path(tmp_path, program, monkeypatch, folder):
    path = tmp_path / folder / LIBRARY
    path.parent.mkdir()
    shutil.copy(child.executable(LIBRARY), path)
    monkeypatch.setattr(child, "executable", lambda name: path)
    counting = Counting()
    with started(counting, program) as pid:
        assert counting.read(pid) == KNOWN
    counting.close()


def test_closing_lets_go_of_all_and_disturbs_no_process(program):
    before = len(os.listdir("/proc/self/fd"))
    counting = Counting()
    with started(counting, program) as pid:
        counting.close()
        counting.close()
        assert len(os.listdir("/proc/self/fd")) == before + 1  # the pipe
        with pytest.raises(gp.InvalidRequest, match="closed"):
            counting.read(pid)
        os.kill(pid, 0)


def test_a_process_runs_on_when_its_parent_is_killed(program, alive):
    script = f"""
        import os, signal, subprocess
        from grpcperf.targets.allocations import Counting
        counting = Counting()
        command = ["sh", "-c", "sleep 0.2; exec '{program}'"]
        child = subprocess.Popen(command, env=counting.environment(os.environ))
        print(child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    python = [sys.executable, "-P", "-c", textwrap.dedent(script)]
    with subprocess.Popen(python, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == "ready\n"  # executed when there was nowhere to count any more
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)


# --- the native server


def test_a_servers_calls_are_known_by_their_allocations():
    with gp.Server(count_allocations=True) as server:
        gp.load(server, calls=500, warmup=0, concurrency=1)
        rates = []
        for _ in range(2):
            before = server.memstats()
            gp.load(server, calls=2000, warmup=0, concurrency=1)
            after = server.memstats()
            rates.append((after.mallocs - before.mallocs) / 2000)
            assert after.frees - before.frees == pytest.approx(after.mallocs - before.mallocs, rel=0.05)
            assert 2_000 < (after.total_alloc - before.total_alloc) / 2000 < 50_000
        assert after.heap_objects == after.mallocs - after.frees > 0
        assert 0 < after.heap_alloc < after.total_alloc
        assert 1 < rates[0] < 50
        assert rates[1] == pytest.approx(rates[0], rel=0.05)
        assert server.peek(5.0)["mallocs"] >= after.mallocs
        assert after.heap_sys > after.heap_alloc


def test_without_being_asked_for_there_are_no_counts(server):
    m = server.memstats()
    assert (m.total_alloc, m.mallocs, m.frees, m.heap_objects) == (None, None, None, None)
    assert m.heap_alloc > 0


def per_call(size, low=500, high=3000):
    """Bytes of heap per parked call that allocates so many, by the counter and by mallinfo2."""
    metadata = {"grpcperf-alloc-bytes": str(size), "grpcperf-hold": "1"}
    readings = []
    with gp.Server(count_allocations=True) as server:
        for calls in (low, high):
            with gp.hold(server, calls=calls, metadata=metadata):
                inside = server._child.memstats(True, 10.0)
                readings.append((server.memstats().heap_alloc, inside["heap_alloc"]))
    (low_counted, low_told), (high_counted, high_told) = readings
    return (high_counted - low_counted) / (high - low), (high_told - low_told) / (high - low)


def test_known_bytes_per_call_are_found_by_both_ways_of_counting():
    bare, _ = per_call(1)
    for size in (1024, 4096, 65536):
        counted, told = per_call(size)
        assert told == pytest.approx(counted, rel=0.02)
        assert counted - bare == pytest.approx(size, rel=0.05)


def test_a_server_that_cannot_count_does_not_start(monkeypatch):
    monkeypatch.setattr(Counting, "environment", lambda self, env: dict(env))
    with pytest.raises(gp.EngineError, match=r"count_allocations.*statically linked"):
        gp.Server(count_allocations=True)
