"""memory: what is known to be allocated is found again as a slope, and what cannot be told is not told."""

import functools
import os
import pickle
import signal
import time
from dataclasses import replace

import pytest

import grpcperf as gp
from grpcperf.memory import _Note
from grpcperf.memory_cost import FIELDS, Reading, slopes_of
from grpcperf.memstats import MemStats
from grpcperf.remarks import COLOURS
from grpcperf.result import Finding

QUICK = [0, 50, 100, 200]


def allocating(size):
    return {"grpcperf-hold": 1, "grpcperf-alloc-bytes": size}


CHUNK = 16  # what malloc lays round a block, which mallinfo2 counts
SERVERS = 24  # by which the slopes of two fresh servers differ: tables that double, buffers that calls share


def test_what_a_handler_allocates_is_found():
    """The difference of two slopes: the metadata that asks for it costs a server something, too."""

    def slope(size, levels):
        cost = gp.memory_per_call(gp.Server, levels, metadata=allocating(size), repeats=1)
        assert cost.heap_alloc.r2 > 0.999
        return cost.heap_alloc.slope

    many = [0, 5000, 10_000]
    bare = slope(0, many)
    for size, levels in ((1024, many), (4096, many), (65_536, [0, 1000, 2000])):
        assert slope(size, levels) - bare == pytest.approx(size + CHUNK, abs=0.02 * size + SERVERS)


def test_two_ways_of_counting_agree():
    """mallinfo2, and the object that counts each malloc and free: not one block is seen by one alone."""
    levels, asked = [0, 1000, 2000], allocating(4096)
    told = gp.memory_per_call(gp.Server, levels, metadata=asked, repeats=1).heap_alloc
    counting = functools.partial(gp.Server, count_allocations=True)
    counted = gp.memory_per_call(counting, levels, metadata=asked, repeats=1)
    assert counted.heap_alloc.slope == pytest.approx(told.slope, rel=0.02)
    assert counted.total_alloc.slope >= counted.heap_alloc.slope
    assert counted.heap_objects.slope == pytest.approx(counted.mallocs.slope - counted.frees.slope, abs=0.1)
    assert counted.mallocs.slope > 1


def test_calls_with_threads_show_their_stacks():
    cost = gp.memory_per_call(lambda: gp.Server("thread"), [0, 100, 200], repeats=1)
    assert 6 * 1024 < cost.stack_inuse.slope < 13 * 1024
    assert cost.stack_inuse.low < cost.stack_inuse.slope < cost.stack_inuse.high
    assert cost.tasks.slope == pytest.approx(1, abs=0.02)
    assert cost.own_threads.kept == 0


def test_a_goroutine_for_each_call_is_found():
    cost = gp.memory_per_call(gp.GoServer, [0, 200, 400], repeats=1)
    assert cost.goroutines.slope == cost.tasks.slope == pytest.approx(1, abs=0.02)
    assert 7 * 1024 < cost.stack_inuse.slope < 10 * 1024
    assert 2 * 1024 < cost.heap_alloc.slope < 6 * 1024
    assert not cost.warm


def test_what_calls_took_comes_back(server):
    cost = gp.memory_per_call(server, [0, 500, 1000, 2000], repeats=2)
    assert cost.warm
    assert 8 * 1024 < cost.heap_alloc.slope < 20 * 1024
    assert cost.stack_inuse.slope < 1024  # its handlers own no thread
    assert abs(cost.heap_alloc.kept) < 0.1 * cost.heap_alloc.slope * 2000
    assert cost.streams.kept == cost.running.kept == 0
    assert cost.heap_alloc.naive == pytest.approx(cost.heap_alloc.slope, rel=0.2)
    server.memstats()  # a target that was given is left as it is


@pytest.mark.usefixtures("no_leftovers")
def test_each_repeat_has_a_server_of_its_own():
    made = []

    def factory():
        made.append(gp.Server())
        return made[-1]

    cost = gp.memory_per_call(factory, [0, 20, 40], repeats=2)
    assert len({server.pid for server in made}) == 2
    assert all(server.closed for server in made)
    assert not cost.warm
    assert cost.valid
    rows = cost.rows()
    assert [row["repeat"] for row in rows] == [0] * 4 + [1] * 4
    assert [(row["level"], row["held"], row["phase"]) for row in rows[:4]] == [
        *((0, 0, "held"), (20, 20, "held"), (40, 40, "held"), (0, 0, "after"))
    ]
    assert [row["running"] for row in rows[:4]] == [0, 20, 40, 0]
    frame = cost.frame()
    assert len(frame) == 8
    assert {"repeat", "level", "heap_alloc", "rss", "tasks"} <= set(frame.columns)


@pytest.mark.parametrize("transport", ["wire", "core"])
def test_the_connections_are_no_part_of_a_call(transport):
    cost = gp.memory_per_call(gp.Server, [0, 40, 80], connections=20, transport=transport, repeats=1)
    assert cost.fds.slope == 0
    assert cost.running.slope == 1
    assert 8 * 1024 < cost.heap_alloc.slope < 25 * 1024


def test_a_process_that_is_only_seen_from_outside(server):
    target = gp.Target(server.address, pid=server.pid)
    cost = gp.memory_per_call(target, QUICK, kind="bidi", repeats=1)
    assert cost.warm
    assert cost.rss.slope > 0
    with pytest.raises(AttributeError, match=r"heap_alloc is not known of this process; what is: .*rss"):
        cost.heap_alloc  # noqa: B018
    with pytest.raises(AttributeError, match="no 'heap'"):
        cost.heap  # noqa: B018
    assert not hasattr(cost, "num_gc")


def test_connections_with_a_stream_each_and_without():
    streams = gp.memory_per_connection(gp.Server, QUICK, repeats=1)
    bare = gp.memory_per_connection(gp.Server, QUICK, kind=None, repeats=1)
    assert streams.fds.slope == bare.fds.slope == 1
    assert (streams.running.slope, bare.running.slope) == (1, 0)
    assert 20 * 1024 < streams.heap_alloc.slope < 45 * 1024
    assert 8 * 1024 < bare.heap_alloc.slope < streams.heap_alloc.slope - 8 * 1024
    assert streams.fds.kept == 0
    assert streams.valid
    assert "idle bidi stream" in repr(streams)
    assert "without a call" in repr(bare)


def test_levels_that_are_not_reached_are_told():
    with gp.Server(max_concurrent_streams=60) as limited:
        cost = gp.memory_per_call(limited, QUICK, repeats=1)
    assert [finding.code for finding in cost.findings] == ["level_not_reached"]
    assert "60 of 100 calls ran, 40 were queued; 60 of 200" in str(cost.findings[0])
    assert [row["held"] for row in cost.rows()[:4]] == [0, 50, 60, 60]
    assert 8 * 1024 < cost.heap_alloc.slope < 20 * 1024  # over those that the server had
    assert "level_not_reached" in repr(cost)
    assert "level_not_reached" in cost._repr_html_()


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"grpcperf-status": 8, "grpcperf-delay-us": 1}, "RESOURCE_EXHAUSTED"),
        ({"grpcperf-delay-us": 50_000}, "OK"),  # while memory is being read
    ],
)
def test_a_target_that_holds_nothing_has_no_slope(server, metadata, status):
    with pytest.raises(gp.InvalidRequest, match=rf"0 of 50 calls ran, 50 ended as {status}"):
        gp.memory_per_call(server, QUICK, metadata=metadata)


def test_a_level_that_keeps_changing_while_it_is_read_is_told(server):
    note, left = _Note(server, 0), iter(range(50, 0, -1))
    note(50, lambda: next(left))
    assert not note.readings[0].memory.settled
    assert note.readings[0].held == 41  # of the last reading
    note(50, lambda: 7)
    assert note.readings[1].memory.settled


class Restless(gp.Server):
    def memstats(self, settle=False):
        return replace(super().memstats(), settled=not settle)


def test_memory_that_does_not_come_to_rest_is_told():
    cost = gp.memory_per_call(Restless, [0, 10], repeats=1)
    assert [finding.code for finding in cost.findings] == ["not_settled"]
    assert (cost.heap_alloc.low, cost.heap_alloc.high) == (
        None,
        None,
    )  # two readings leave nothing to tell it


class Ended(gp.Server):
    """Meets its end at the third reading."""

    readings = 0

    def memstats(self, settle=False):
        self.readings += 1
        if self.readings == 3:
            self.meet_its_end()
        return super().memstats(settle)

    def meet_its_end(self):
        os.kill(self.pid, signal.SIGKILL)


class Interrupting(Ended):
    def meet_its_end(self):
        raise KeyboardInterrupt


@pytest.mark.usefixtures("no_leftovers")
@pytest.mark.parametrize("measure", [gp.memory_per_call, gp.memory_per_connection])
def test_a_server_that_dies_meanwhile_leaves_nothing(measure):
    with pytest.raises(gp.ServerDied, match="SIGKILL"):
        measure(Ended, [0, 10, 20, 30])


@pytest.mark.usefixtures("no_leftovers")
def test_an_interrupt_closes_what_was_made():
    with pytest.raises(gp.Interrupted, match="repeat 1 of 3"):
        gp.memory_per_call(Interrupting, [0, 10, 20, 30])


@pytest.mark.parametrize(
    "levels", [[], [5], [5, 5], [0, 10, 5], [-1, 5], [0, 2.5], "12", 7, None, [0, 1 << 40]]
)
def test_levels_have_to_rise(server, levels):
    with pytest.raises(gp.InvalidRequest, match="levels"):
        gp.memory_per_call(server, levels)


@pytest.mark.usefixtures("no_leftovers")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"repeats": 0}, "repeats"),
        ({"kind": "duplex"}, "kind"),
        ({"connections": 11}, "connections"),
        ({"metadata": {"bad key": "x"}}, "metadata"),
        ({"timeout": "soon"}, "timeout"),
    ],
)
def test_nonsense_is_refused_by_name(arguments, named):
    with pytest.raises(gp.InvalidRequest, match=named):
        gp.memory_per_call(gp.Server, [0, 10], **arguments)


def test_the_process_has_to_be_known(server):
    for target in (server.address, lambda: server.address):
        with pytest.raises(gp.InvalidRequest, match="pid="):
            gp.memory_per_call(target, QUICK)
    for target in (5, lambda: None, functools.partial(int, 3)):
        with pytest.raises(gp.InvalidRequest, match="target"):
            gp.memory_per_connection(target, QUICK)


def test_a_server_that_is_never_at_rest_says_so_in_time():
    growing = {"grpcperf-delay-us": 10_000_000, "grpcperf-alloc-bytes": 16_384}
    loads = {"rate": 500, "duration": 20, "warmup": 0, "drain": 0, "metadata": growing}
    with gp.Server() as server, gp.start(server, **loads):
        time.sleep(0.2)
        for _ in range(5):  # on a busy machine it may all stand still for a moment
            begin = time.monotonic()
            if not server.memstats(settle=True).settled:
                break
        else:
            pytest.fail("it was at rest five times while it grew")
        assert 1.5 < time.monotonic() - begin < 5
        assert server.memstats().settled  # nothing was asked of it


# --- the arithmetic


def reading(repeat, held, phase="held", **memory):
    return Reading(repeat=repeat, level=held, held=held, phase=phase, memory=MemStats(**memory))


def test_slopes_by_hand():
    """Two servers whose baselines lie 1,000,000 apart: 100 B for each call, 2 of them off the line."""
    repeats = [
        [
            reading(repeat, 0, rss=base + 30, threads=7),
            reading(repeat, 10, rss=base + 1000, threads=7),
            reading(repeat, 20, rss=base + 1970, threads=7),
            reading(repeat, 0, "after", rss=base + 50, threads=7, fds=3),
        ]
        for repeat, base in enumerate([0, 1_000_000])
    ]
    slopes = slopes_of(repeats)
    assert list(slopes) == ["rss", "threads", "tasks"]  # fds was known once only
    assert slopes["rss"].slope == slopes["rss"].naive == pytest.approx(97)
    assert slopes["rss"].kept == 20
    assert slopes["rss"].r2 == pytest.approx(1)
    assert (slopes["threads"].slope, slopes["threads"].r2, slopes["threads"].kept) == (0, None, 0)
    late = slopes_of([[one for one in repeats[0] if one.level or one.phase == "after"]])
    assert late["rss"].kept is None  # what there was before any call is not known


def test_its_text_has_units_and_leaves_out_what_did_not_move(server):
    cost = gp.memory_per_call(server, [0, 50, 100], repeats=1)
    lines = {line.split()[0]: line for line in repr(cost).splitlines()[2:]}
    assert lines["heap_alloc"].count("KiB") >= 4
    assert "stack_sys" not in lines
    assert "cpu_user_s" not in lines
    assert "(warm)" in repr(cost).splitlines()[0]
    page = cost._repr_html_()
    assert page.count("<tr") == len(lines) + 1
    assert "heap_alloc" in page
    assert set(cost.slopes) <= set(FIELDS)
    assert "cpu_user_s" in cost.slopes
    assert {"heap_alloc", "cpu_user_s", "frame"} <= set(dir(cost))
    assert pickle.loads(pickle.dumps(cost)) == cost
    worse = replace(cost, findings=(Finding(code="interrupted", severity="invalid", message="cut short"),))
    assert "✗ interrupted: cut short" in repr(worse)
    assert COLOURS["invalid"] in worse._repr_html_()
