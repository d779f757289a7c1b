"""spec: Load checks what it is given, says what is wrong with it, and never ignores what it cannot do."""

import copy
import inspect
import itertools
import json
import pickle
from dataclasses import FrozenInstanceError, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpcperf.errors import InvalidRequest
from grpcperf.metadata import from_shell
from grpcperf.spec import KINDS, Load
from grpcperf.values import FrozenDict, refuse_unknown


class Message:
    def SerializeToString(self):
        return b"\x08\x01"


class Broken:
    def SerializeToString(self):
        raise ValueError("a field is missing")


class Array(list):
    """As numpy's are: of more than one value, compared value by value."""

    ndim = 1
    tolist = list.copy
    __hash__ = None

    def __eq__(self, other):
        raise ValueError("the truth value of an array is ambiguous")


def test_the_defaults_are_the_published_ones():
    spec = Load()
    published = {
        "kind": "unary", "method": None, "request": None, "connections": 1, "concurrency": 64,
        "duration": 2.0, "calls": None,
        "warmup": 0.5, "drain": 1.0, "rate": None, "arrival": "poisson", "steps": None, "catch_up": "bounded",
        "max_in_flight": 10_000, "think_time": 0, "request_size": 16, "response_size": 16,
        "messages_per_stream": None,
        "deadline": None, "metadata": {}, "compression": None, "transport": "wire", "pick": "round_robin",
        "calls_per_connection": None, "window": None, "channel_args": {}, "keepalive": None,
        "busy_poll": False,
        "threads": 1, "seed": 0, "cpus": None,
    }  # fmt: skip
    assert {field.name: getattr(spec, field.name) for field in fields(spec)} == published
    assert list(inspect.signature(Load).parameters) == list(published)


def test_durations_and_sizes_become_numbers():
    spec = Load(
        duration="200ms", warmup="1s", drain=0, think_time="50us", deadline="1m", request_size="64KiB"
    )
    assert (spec.duration, spec.warmup, spec.drain, spec.think_time, spec.deadline) == (
        0.2,
        1.0,
        0,
        50e-6,
        60,
    )
    assert (spec.request_size, spec.message_bytes, spec.response_bytes) == (65536, 65536, 16)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"connections": 0}, "connections must be a whole number from 1 to .*, not 0"),
        ({"connections": True}, "connections .* not True"),
        ({"concurrency": -1}, "concurrency must be a whole number from 1 to .*, not -1"),
        ({"concurrency": 2, "connections": 4}, r"concurrency must be at least connections \(4\), not 2"),
        ({"concurrency": float("nan")}, "concurrency .* not nan"),
        ({"duration": float("nan")}, "duration must be a duration above 0 s to 7 d, .* not nan"),
        ({"duration": 0}, "duration must be a duration above 0 s to 7 d, .* not 0"),
        ({"duration": "soon"}, "duration .* not 'soon'"),
        ({"duration": None}, "duration is None and calls is None"),
        ({"calls": 0}, "calls must be a whole number from 1 to .*, not 0"),
        ({"calls": 5, "duration": "-1s"}, "duration .* not '-1s'"),
        ({"warmup": -1}, "warmup must be a duration from 0 s to 7 d, .* not -1"),
        ({"drain": "inf"}, "drain .* not 'inf'"),
        ({"think_time": -1}, "think_time .* not -1"),
        ({"deadline": 0}, "deadline must be a duration above 0 s"),
        ({"request_size": -1}, "request_size must be a size from 0 to 1 GiB, .* not -1"),
        ({"response_size": "2GiB"}, "response_size .* not '2GiB'"),
        ({"threads": 0}, "threads must be a whole number from 1 to 1,024, not 0"),
        ({"threads": 2}, r"threads must be at most connections \(1\), not 2"),
        ({"seed": -1}, "seed must be a whole number from 0 to .*, not -1"),
        ({"kind": "stream"}, "kind must be one of 'unary', .* not 'stream'"),
        ({"kind": None}, "kind must be one of .* not None"),
        ({"transport": "carrier pigeon"}, "transport must be one of 'wire', 'core', not"),
        ({"compression": "zip"}, "compression must be one of 'gzip', not 'zip'"),
        ({"window": 0}, "window must be a size from 1 to"),
        ({"window": "4GiB"}, "window must be .* not '4GiB'"),
        ({"window": "1MiB", "transport": "core"}, "window is of transport 'wire'; .*lookahead_bytes"),
        ({"busy_poll": 1}, "busy_poll must be True or False, not 1"),
        ({"busy_poll": True, "transport": "core"}, "busy_poll is of transport 'wire'"),
        ({"channel_args": {"grpc.enable_retries": 1}}, "channel_args are gRPC C core.s; .* transport=.core."),
        ({"messages_per_stream": 5}, "messages_per_stream has no meaning for kind 'unary'"),
        ({"kind": "bidi", "messages_per_stream": 0}, "messages_per_stream must be .*, not 0"),
        ({"kind": "bidi", "calls": 5}, "calls=5 of kind 'bidi' would never end"),
        ({"method": "Service/Method"}, 'method must be "/package.Service/Method", not'),
        ({"method": "/a/b/c", "request": b""}, "method must be"),
        ({"method": "/a/b\n", "request": b""}, "method must be"),
        ({"method": 5}, "method must be"),
        ({"method": "/pkg.Service/Method"}, "method /pkg.Service/Method needs request="),
        ({"request": {"field": 1}}, "request must be bytes or a protobuf message: a dict needs descriptors"),
        ({"request": []}, "request is a pool without a request"),
        ({"request": {b"a"}}, "request must be .* for a set has no order"),
        ({"request": [b"a", "b"]}, r"request\[1\] must be bytes or a protobuf message, not 'b'"),
        ({"request": [{"field": 1}]}, r"request\[0\] must be bytes .* a dict needs descriptors"),
        ({"request": itertools.repeat(b"")}, "request: a pool is .* at most 1,000,000 requests"),
        ({"request": "text"}, "request must be bytes, a protobuf message or a list of these, not 'text'"),
        ({"request": Broken()}, "request cannot be serialized: a field is missing"),
        ({"request_size": []}, "request_size is a pool without a request"),
        ({"request_size": [16, -1]}, r"request_size\[1\] must be a size from 0 to 1 GiB, .* not -1"),
        ({"request_size": ["1GiB", 1]}, "request_size: a pool is .* of 1 GiB together"),
        ({"request_size": b"16"}, "request_size must be a size .* not b'16'"),
        ({"request": 5}, "request must be bytes"),
        ({"request": b"", "request_size": 16}, "request_size .* contradicts request="),
        ({"metadata": [("a", "b")]}, "metadata must be a dict"),
        ({"metadata": {"": "x"}}, "metadata key '' must be"),
        ({"metadata": {":path": "x"}}, "metadata key ':path' must be"),
        ({"metadata": {"grpc-timeout": "x"}}, "metadata key 'grpc-timeout' is reserved"),
        ({"metadata": {"TE": "x"}}, "metadata key 'TE' is reserved"),
        ({"metadata": {"token-bin": "x"}}, "metadata 'token-bin' is binary, .* must be bytes, not 'x'"),
        ({"metadata": {"Token-Bin": 1}}, "metadata 'token-bin' is binary, .* not 1"),
        ({"metadata": {"token": b"x"}}, "metadata 'token' must be printable ASCII .* end in -bin"),
        ({"metadata": {"a": "\udc80"}}, "metadata 'a' must be printable ASCII"),
        ({"metadata": {"A": "1", "a": "2"}}, "metadata key 'a' is given twice"),
        ({"metadata": {"a": "line\nbreak"}}, "metadata 'a' must be printable ASCII"),
        ({"metadata": {"a": " space"}}, "metadata 'a' must be printable ASCII"),
        ({"metadata": {"a": "ü"}}, "metadata 'a' must be printable ASCII"),
        ({"metadata": {"a": None}}, "metadata 'a' must be printable ASCII"),
        ({"metadata": {"a": True}}, "metadata 'a' must be printable ASCII"),
        ({"metadata": {5: "a"}}, "metadata key 5 must be"),
        ({"channel_args": [1]}, "channel_args must be a dict"),
        ({"channel_args": {"": 1}}, "channel_args: '' is not the name"),
        ({"channel_args": {"a": 1}}, "unknown channel argument 'a'"),
        ({"channel_args": {"unchecked:a": 2**31}}, r":a'\] must be a whole number from -2,147,483,648"),
        ({"channel_args": {"unchecked:a": 1.5}}, r"channel_args\['unchecked:a'\] must be a whole number"),
        ({"channel_args": {"unchecked:a": "x\0y"}}, r"channel_args\['unchecked:a'\] must be text without"),
        ({"channel_args": {"unchecked:a": "\udc80"}}, r"channel_args\['unchecked:a'\] .* lone surrogates"),
        ({"channel_args": {"\udc80": 1}}, "channel_args: .* is not the name"),
        ({"cpus": []}, "cpus must name at least one CPU"),
        ({"cpus": [-1]}, "cpus must be a whole number from 0 to"),
        ({"cpus": "3-1"}, "cpus must be a whole number from 3 to"),
        ({"cpus": "a"}, "cpus must be a whole number"),
        ({"cpus": 1.5}, "cpus must be CPU numbers"),
        ({"cpus": b"1"}, "cpus must be CPU numbers, .* not b'1'"),
        ({"cpus": "\udc80"}, "cpus must be a whole number"),
        ({"kind": Array([1, 2])}, "kind must be one value, not an array"),
        ({"rate": Array([1, 2])}, "rate must be one value, not an array"),
        ({"pick": Array([1, 2])}, "pick must be one value, not an array"),
        ({"pick": "random"}, "pick must be .*least_loaded"),
        ({"calls_per_connection": 0}, "calls_per_connection must be a whole number from 1"),
        ({"calls_per_connection": 5, "transport": "core"}, "calls_per_connection is of transport 'wire'"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_and_named(arguments, says):
    with pytest.raises(InvalidRequest, match=says):
        Load(**arguments)


def test_options_of_wire_are_normalised():
    spec = Load(window="1MiB", compression="gzip", busy_poll=True)
    assert (spec.window, spec.compression, spec.busy_poll) == (1 << 20, "gzip", True)


STREAMS = {"kind": "bidi", "messages_per_stream": 5}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"rate": 0}, "rate must be calls per second, above 0 to 1,000,000,000, not 0"),
        ({"rate": -5}, "rate must be .* not -5"),
        ({"rate": 2e9}, "rate must be .* not 2000000000.0"),
        ({"rate": float("nan")}, "rate must be .* not nan"),
        ({"rate": "fast"}, "rate must be .* not 'fast'"),
        ({"rate": True}, "rate must be .* not True"),
        ({"rate": 5, "concurrency": 5}, "concurrency contradicts rate: .*max_in_flight bounds them"),
        ({"steps": [(5, 1)], "concurrency": 5}, "concurrency contradicts steps"),
        ({"rate": 5, "think_time": 1}, "think_time contradicts rate"),
        ({"rate": 5, "steps": [(5, 1)]}, "rate contradicts steps"),
        ({"rate": 5, "kind": "bidi"}, "rate of kind 'bidi' opens streams that would never end"),
        ({"rate": 5, "arrival": "random"}, "arrival must be one of 'poisson', 'constant', 'uniform'"),
        ({"rate": 5, "catch_up": True}, "catch_up must be one of 'bounded', 'none', 'full'"),
        ({"rate": 5, "max_in_flight": 0}, "max_in_flight must be a whole number from 1 to"),
        ({"rate": 5, "max_in_flight": 3, "connections": 4}, r"max_in_flight must be at least connections"),
        ({"arrival": "constant"}, "arrival is of an open loop; give rate"),
        ({"catch_up": "full"}, "catch_up is of an open loop"),
        ({"max_in_flight": 5}, "max_in_flight is of an open loop"),
        ({"steps": []}, "steps must be a list .* there is no step"),
        ({"steps": "100:5s"}, "steps must be a list .* not '100:5s'"),
        ({"steps": [100, 200]}, "steps must be a list .* not 100"),
        ({"steps": [(100,)]}, r"steps must be a list .* not \(100,\)"),
        ({"steps": [(1, 2, 3, 4)]}, "steps must be a list"),
        ({"steps": [(100, 0)]}, "the length of a step must be a duration above 0 s"),
        ({"steps": [(-1, 1)]}, "the rate of a step must be calls per second, from 0 to .* not -1"),
        ({"steps": [(1, "x", 1)]}, "the rate of a step must be .* not 'x'"),
        ({"steps": [(0, 1), (0, 0, 1)]}, "no step has a rate above 0"),
    ],
)
def test_nonsense_about_loops_is_refused(arguments, says):
    with pytest.raises(InvalidRequest, match=says):
        Load(**arguments)


def test_a_rate_makes_an_open_loop():
    spec = Load(rate="10,000", arrival="constant", catch_up="none", max_in_flight=50)
    assert (spec.rate, spec.is_open_loop, spec.most_in_flight) == (10_000.0, True, 50)
    assert not Load().is_open_loop
    assert Load().most_in_flight == 64
    assert Load(rate=5, connections=20_000).max_in_flight == 20_000
    assert Load(rate=5, **STREAMS).is_open_loop
    assert Load(rate=5).replace(rate=None, concurrency=3).most_in_flight == 3
    assert Load(rate=5, calls=10).duration is None
    assert hash(Load(rate=5)) == hash(Load(rate=5.0))


def test_steps_are_holds_and_ramps_and_say_how_long_it_takes():
    spec = Load(steps=[(1000, "5s"), [1000, 4000, "500ms"], (0, 2)])
    assert spec.steps == ((1000.0, 5.0), (1000.0, 4000.0, 0.5), (0.0, 2.0))
    assert spec.duration == 7.5
    assert spec.replace() == spec
    assert spec.replace(steps=[(5, 1)]).duration == 1
    assert spec.replace(duration=8).duration == 8
    with pytest.raises(
        InvalidRequest, match=r"duration must be at least that of the steps \(7.5 s\), not 3 s"
    ):
        spec.replace(duration=3)
    assert spec.replace(calls=9).duration is None
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(spec.replace())
    assert json.loads(json.dumps(spec.steps)) == [[1000, 5], [1000, 4000, 0.5], [0, 2]]


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(
        InvalidRequest, match=r"unknown argument of Load 'conections'; did you mean connections"
    ):
        Load(conections=3)
    with pytest.raises(InvalidRequest, match="unknown argument of Load 'conections'"):
        Load().replace(conections=3)
    with pytest.raises(InvalidRequest, match="unknown colour 'zzz'; there are red, green"):
        refuse_unknown(["zzz"], ["red", "green"], "colour")
    with pytest.raises(TypeError):
        Load("unary")  # keywords throughout


@given(st.integers(1, 500), st.one_of(st.none(), st.integers(1, 500)))
def test_connections_raise_only_the_default_concurrency(connections, concurrency):
    if concurrency is None:
        assert Load(connections=connections).concurrency == max(connections, 64)
    elif concurrency >= connections:
        assert Load(connections=connections, concurrency=concurrency).concurrency == concurrency
    else:
        with pytest.raises(InvalidRequest, match="concurrency must be at least connections"):
            Load(connections=connections, concurrency=concurrency)


def test_concurrency_given_is_kept():
    assert Load(connections=8, concurrency=8).concurrency == 8
    assert Load(connections=8).concurrency == 64
    assert Load(connections=128).concurrency == 128


def test_calls_switch_duration_off_unless_both_are_given():
    assert Load(calls=10).duration is None
    both = Load(calls=10, duration=1)
    assert (both.calls, both.duration) == (10, 1.0)
    assert Load(kind="bidi", calls=10, messages_per_stream=5).duration is None
    assert Load(kind="bidi", calls=10, duration=1).messages_per_stream is None


def test_replace_checks_anew_and_leaves_defaults_to_themselves():
    assert Load().replace(connections=128).concurrency == 128
    assert Load(connections=128).replace(connections=1).concurrency == 64
    assert Load(calls=5).replace(calls=None).duration == 2.0
    assert Load().replace(calls=5).duration is None
    assert Load(duration=3).replace(calls=5).duration == 3.0
    with pytest.raises(InvalidRequest, match="concurrency must be at least"):
        Load(concurrency=64).replace(connections=128)
    spec = Load(kind="bidi", duration="1s", metadata={"A": 1})
    assert spec.replace() == spec
    assert spec.replace(kind="unary") == Load(duration=1, metadata={"a": "1"})


def test_equal_specs_are_equal_whoever_was_explicit():
    assert Load() == Load(concurrency=64)
    assert hash(Load()) == hash(Load(concurrency=64))
    assert Load(metadata={"a": "1"}) != Load(metadata={"a": "2"})
    assert "_given" not in repr(Load(concurrency=5))


@pytest.mark.parametrize("remake", [lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy])
def test_copies_keep_what_was_explicit(remake):
    made = remake(Load(connections=2, metadata={"a": "1"}))
    assert made == Load(connections=2, metadata={"a": "1"})
    assert made.replace(connections=128).concurrency == 128
    with pytest.raises(InvalidRequest):
        remake(Load(concurrency=2)).replace(connections=128)


def test_a_spec_cannot_be_changed():
    spec = Load(metadata={"a": "1"}, channel_args={"unchecked:x": 1}, transport="core")
    with pytest.raises(FrozenInstanceError):
        spec.kind = "bidi"
    for change in (
        lambda d: d.update(a="2"), lambda d: d.pop("a"), lambda d: d.clear(), lambda d: d.setdefault("b", 1),
        lambda d: d.__setitem__("a", 1), lambda d: d.__delitem__("a"), lambda d: d.__ior__({"b": 1}),
        lambda d: d.popitem(),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="frozen"):
            change(spec.metadata)
    assert spec == Load(metadata={"a": "1"}, channel_args={"unchecked:x": 1}, transport="core")


def test_the_metadata_of_the_caller_is_not_kept():
    mine = {"a": "1"}
    spec = Load(metadata=mine)
    mine["a"] = "2"
    assert spec.metadata == {"a": "1"}
    assert json.dumps(spec.metadata) == '{"a": "1"}'
    assert FrozenDict({"a": 1}) == {"a": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_method(kind):
    names = {
        "unary": "UnaryCall",
        "server_stream": "StreamingFromServer",
        "client_stream": "StreamingFromClient",
        "bidi": "StreamingCall",
        "bidi_free": "StreamingBothWays",
    }
    spec = Load(kind=kind)
    assert spec.path == f"/grpc.testing.BenchmarkService/{names[kind]}"
    assert spec.is_stream is (kind != "unary")


def test_a_pool_is_kept_as_bytes_in_its_order():
    spec = Load(method="/a/b", request=(one for one in [b"a", bytearray(b"bcd"), Message()]))
    assert spec.request == (b"a", b"bcd", b"\x08\x01")
    assert (spec.payload_sizes, spec.message_bytes) == ((1, 3, 2), 2)
    assert spec.replace(seed=1).request == spec.request  # also of what can be walked through once
    assert Load(request=[b"abc"]) == Load(request=b"abc")
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(spec.replace())
    spec = Load(request_size=[16, "1KiB", 10])
    assert (spec.request_size, spec.payload_sizes, spec.message_bytes) == ((16, 1024, 10),) * 2 + (350,)
    assert Load(request_size=[16]) == Load()
    assert Load(request_size=Array([1, 2])).request_size == (1, 2)
    number = Array()
    number.ndim, number.tolist = 0, lambda: 5  # as numpy's own numbers
    assert (Load(cpus=number).cpus, Load(calls=number).calls) == ((5,), 5)


def test_metadata_is_as_grpc_has_it():
    spec = Load(metadata={"Grpcperf-Delay-US": 20000, "x-trace.id": "a b", "empty": ""})
    assert spec.metadata == {"grpcperf-delay-us": "20000", "x-trace.id": "a b", "empty": ""}
    binary = Load(metadata={"A-Bin": b"\0\xff", "b-bin": bytearray(), "c-bin": memoryview(b"x")})
    assert binary.metadata == {"a-bin": b"\0\xff", "b-bin": b"", "c-bin": b"x"}
    assert from_shell({"a": "AP8", "a-bin": "AP8", "B-BIN": "AP8="}) == {
        "a": "AP8", "a-bin": b"\0\xff", "B-BIN": b"\0\xff",
    }  # fmt: skip
    for text in ("AP8!", "A", "ü", "AP8=="):
        with pytest.raises(InvalidRequest, match=r"metadata a-bin: .* is not base64"):
            from_shell({"a-bin": text})


def test_channel_args_and_cpus_are_normalised():
    given = {"grpc.enable_retries": True, "unchecked:a": "x", "grpc.max_receive_message_length": -1}
    args = Load(channel_args=given, transport="core").channel_args
    assert args == given
    assert type(args["grpc.enable_retries"]) is int
    assert Load(cpus="0-2,5").cpus == (0, 1, 2, 5)
    assert Load(cpus=[3, 1, 3]).cpus == (1, 3)
    assert Load(cpus=2).cpus == (2,)


@pytest.mark.parametrize(
    "request_", [b"\x08\x01", bytearray(b"\x08\x01"), memoryview(b"\x08\x01"), Message()]
)
def test_any_method_with_its_request(request_):
    spec = Load(method="/pkg.Service/Method", request=request_)
    assert (spec.path, spec.request, spec.message_bytes) == ("/pkg.Service/Method", b"\x08\x01", 2)
    assert not spec.is_benchmark_service


def test_what_the_engine_is_given():
    def encode(request_size, response_size, seed):
        return b"%d:%d:%d" % (request_size, response_size, seed)

    spec = Load(
        kind="bidi",
        request_size=3,
        response_size=5,
        messages_per_stream=7,
        deadline="1s",
        metadata={"a": 1, "b-bin": b"\0"},
    )
    assert spec.engine_request(encode) == {
        "kind": "bidi",
        "method": "/grpc.testing.BenchmarkService/StreamingCall",
        "pool": (b"3:5:0",),
        "seed": 0,
        "metadata": [("a", "1"), ("b-bin", b"\0")],
        "deadline": 1.0,
        "messages": 7,
    }
    own = Load(method="/a/b", request=b"xyz").engine_request(encode)
    assert (own["pool"], own["method"], own["deadline"], own["messages"]) == ((b"xyz",), "/a/b", 0.0, 0)
    pool = Load(request_size=[3, 4], seed=2**64 - 1).engine_request(encode)
    assert (pool["pool"], pool["seed"]) == ((b"3:16:%d" % (2**64 - 1), b"4:16:0"), 2**64 - 1)
    assert Load(request=[b"x", b""]).engine_request(encode)["pool"] == (b"x", b"")
