"""memstats: None is not 0, and every name says the same thing it says in Go."""

import json
import os
import socket
from dataclasses import FrozenInstanceError, fields

import pytest

import grpcperf as gp
from grpcperf.memstats import MemStats

INSIDE = {
    "heap_alloc": 13_000_000, "heap_sys": 20_000_000, "heap_idle": 7_000_000, "stack_inuse": 9_000,
    "stack_sys": 65_536,
    "sys": 21_000_000, "threads": 12, "running": 500, "streams": 501, "threadless": 480, "settled": True,
}  # fmt: skip
OUTSIDE = {
    "time": 5.5, "rss": 30_000_000, "rss_anon": 25_000_000, "peak_rss": 31_000_000, "cpu_user_s": 1.5,
    "cpu_system_s": 0.5,
    "threads": 13, "writable": 40_000_000, "mappings": 150,
}  # fmt: skip


def test_the_native_server_is_read_from_inside_and_outside():
    m = MemStats.from_native(INSIDE, OUTSIDE | {"context_switches": 77, "fds": 9, "pss": 29_000_000})
    assert {name: getattr(m, name) for name in INSIDE} == INSIDE
    assert (m.rss, m.rss_anon, m.peak_rss, m.pss) == (30_000_000, 25_000_000, 31_000_000, 29_000_000)
    assert (m.cpu_user_s, m.cpu_system_s, m.context_switches, m.fds) == (1.5, 0.5, 77, 9)
    for go_only in (
        "num_gc",
        "pause_total_ns",
        "gc_cpu_fraction",
        "goroutines",
        "mallocs",
        "frees",
        "total_alloc",
    ):
        assert getattr(m, go_only) is None, go_only
    assert m.heap_objects is None


def test_any_process_tells_what_the_kernel_knows():
    m = MemStats.from_process(OUTSIDE)
    assert (m.rss, m.sys, m.threads) == (30_000_000, 40_000_000, 13)
    known = {field.name for field in fields(m) if getattr(m, field.name) is not None}
    assert known == {"rss", "rss_anon", "peak_rss", "cpu_user_s", "cpu_system_s", "threads", "sys", "settled"}
    assert MemStats.from_process({"rss": 1}).sys is None


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ({"goroutines": 1010, "threads": 8}, 1010),
        ({"threads": 12, "threadless": 480}, 492),
        ({"threads": 14, "own_threads": 4, "threadless": 480}, 484),  # ten of them are gRPC's pools
        ({"threads": 12, "threadless": 0}, 12),
        ({"threads": 12}, 12),
        ({}, None),
        ({"goroutines": 0, "threads": 5}, 0),
    ],
)
def test_tasks(given, tasks):
    assert MemStats(**given).tasks == tasks


def test_go_names_are_only_those_that_are_known():
    m = MemStats.from_native(INSIDE, OUTSIDE)
    assert m.as_go() == {
        "HeapAlloc": 13_000_000,
        "HeapSys": 20_000_000,
        "HeapIdle": 7_000_000,
        "StackInuse": 9_000,
        "StackSys": 65_536,
        "Sys": 21_000_000,
    }
    go = MemStats(
        total_alloc=1,
        mallocs=2,
        frees=3,
        heap_objects=4,
        num_gc=5,
        pause_total_ns=6,
        gc_cpu_fraction=0.0,
        rss=9,
    )
    assert go.as_go() == {
        "TotalAlloc": 1,
        "Mallocs": 2,
        "Frees": 3,
        "HeapObjects": 4,
        "NumGC": 5,
        "PauseTotalNs": 6,
        "GCCPUFraction": 0.0,
    }


def test_every_published_name_is_there():
    published = {
        *("heap_alloc", "heap_sys", "heap_idle", "stack_inuse", "stack_sys", "sys", "total_alloc", "mallocs"),
        *("frees", "heap_objects", "num_gc", "pause_total_ns", "gc_cpu_fraction", "rss", "rss_anon", "pss"),
        *("peak_rss", "socket_bytes", "cpu_user_s", "cpu_system_s", "context_switches", "threads", "fds"),
        *("streams", "running", "goroutines", "tasks"),
    }
    assert published <= set(MemStats().as_dict())
    assert json.loads(json.dumps(MemStats.from_native(INSIDE, OUTSIDE).as_dict()))["tasks"] == 492


def test_its_text_has_units_and_leaves_out_what_is_not_known():
    text = repr(MemStats.from_native(INSIDE, OUTSIDE))
    assert text.startswith("MemStats\n")
    lines = dict(line.split(maxsplit=1) for line in text.splitlines()[1:])
    assert (lines["heap_alloc"], lines["stack_sys"], lines["running"]) == ("12.4 MiB", "64 KiB", "500")
    assert lines["tasks"] == "492"
    assert "num_gc" not in lines
    assert "settled" not in lines
    assert "did not come to rest" in repr(MemStats(settled=False))
    assert MemStats(heap_alloc=0)._lines() == [("heap_alloc", "0 B")]


def test_html_has_the_same_lines():
    page = MemStats.from_native(INSIDE, OUTSIDE)._repr_html_()
    assert page.count("<tr ") == len(repr(MemStats.from_native(INSIDE, OUTSIDE)).splitlines()) - 1
    assert "12.4 MiB" in page


def test_it_is_a_value():
    assert MemStats(rss=1) == MemStats(rss=1)
    assert hash(MemStats(rss=1)) == hash(MemStats(rss=1))
    with pytest.raises(FrozenInstanceError):
        MemStats().rss = 5


def test_what_is_queued_in_sockets_is_socket_bytes():
    here = gp.Target("127.0.0.1:1", pid=os.getpid())
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as sender,
        listener.accept()[0],
    ):
        idle = here.memstats().socket_bytes
        sender.setblocking(False)
        sent = sender.send(bytes(100_000))
        assert sent > 10_000
        assert sent / 2 < here.memstats().socket_bytes - idle < 20 * sent
    assert here.memstats().socket_bytes < idle + sent / 2


def test_what_is_known_from_inside_goes_before_what_the_kernel_says():
    outside = {"rss": 1, "threads": 2, "writable": 3, "socket_bytes": 4, "time": 5.0}
    memory = MemStats.from_process(outside, {"sys": 6, "heap_alloc": 7})
    assert (memory.rss, memory.threads, memory.sys, memory.heap_alloc, memory.socket_bytes) == (1, 2, 6, 7, 4)
    assert MemStats.from_process(outside).sys == 3
    assert MemStats.from_process({}).as_dict() == MemStats().as_dict()
