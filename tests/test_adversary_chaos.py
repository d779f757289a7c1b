"""A peer that does anything at any time, by a seed: whatever it does, every call is counted once, and no more
calls are OK than were answered so."""

import random
import struct
import time

import pytest
from adversary import (
    MAX_STREAMS,
    OK_FIELDS,
    PING,
    WINDOW,
    Peer,
    message,
    plain,
    trailers,
)

import grpcperf as gp

CALLS = 400
DEADLINE_S = 0.2


class Chaos:
    """Each step of a connection is drawn from what a peer can do; `answered` counts correct answers said."""

    def __init__(self, seed):
        self.seed = seed
        self.answered = 0

    def __call__(self, connection):
        chance = random.Random(f"{self.seed}-{connection.number}")
        connection.greet({MAX_STREAMS: chance.choice([3, 100]), WINDOW: chance.choice([500, 65_535])})
        for request in connection.each():
            if request.reset is None:
                act = chance.choices(*zip(*self.acts(), strict=True))[0]
                act(connection, request, chance)

    def acts(self):
        """What can be done with a request that has come, and how often it is."""
        return [
            (self.answer, 60),
            (self.answer_in_pieces, 5),
            (self.fail, 5),
            (lambda c, r, chance: c.rst(r.stream, chance.randrange(14)), 5),
            (self.answer_in_part, 3),
            (self.chatter, 5),
            (lambda c, r, chance: None, 2),  # never answered
            (self.leave, 2),
            (lambda c, r, chance: c.close(), 1),
            (lambda c, r, chance: c.abort(), 1),
            (self.break_a_rule, 1),
        ]

    def answer(self, connection, request, chance):
        self.answered += 1
        connection.reply(request, bytes(chance.choice([0, 5, 5000])))

    def answer_in_pieces(self, connection, request, chance):
        self.answered += 1
        connection.raw(connection.reply_bytes(request, bytes(20)), pieces=chance.randint(1, 9))

    def fail(self, connection, request, chance):
        connection.reply(request, status=chance.randint(1, 20), text="%00 by chance")

    def answer_in_part(self, connection, request, chance):
        connection.headers(request.stream)
        connection.data(request.stream, message(bytes(50))[: chance.randrange(55)])
        if chance.random() < 0.7:
            connection.headers(request.stream, trailers(chance.choice([0, 5])), end=True)

    def chatter(self, connection, request, chance):
        connection.frame(PING, 0, 0, bytes(8))
        connection.send_settings({WINDOW: chance.choice([100, 1000, 65_535])})
        connection.window_update(request.stream, chance.randint(1, 1000))
        connection.frame(0xBE, 0, request.stream, bytes(9))
        connection.headers(request.stream, [(":status", "103")])
        self.answer(connection, request, chance)

    def leave(self, connection, request, chance):
        """As a server does that is told to stop: what it has begun it serves."""
        connection.goaway(request.stream, chance.choice([0, 0, 11]))
        self.answer(connection, request, chance)
        connection.linger()

    def break_a_rule(self, connection, request, chance):
        stream, payload = chance.choice([0, request.stream, 2, 9999]), chance.randbytes(chance.randrange(20))
        connection.frame(chance.randrange(12), chance.randrange(256), stream, payload)
        connection.raw(plain(OK_FIELDS) + struct.pack(">I", chance.getrandbits(32)))


@pytest.mark.parametrize("seed", range(6))
def test_anything_may_happen(seed):
    chaos = Chaos(seed)
    begin = time.monotonic()
    with Peer(chaos) as peer:
        result = gp.load(
            peer.address, transport="wire", calls=CALLS, concurrency=10, connections=2, warmup=0, drain=1,
            deadline=DEADLINE_S, request_size=[16, 3000][seed % 2],
        )  # fmt: skip
    assert time.monotonic() - begin < 20
    assert result.calls == sum(result.status.values()) == CALLS
    assert 0 < result.latency.count == result.status["OK"] <= chaos.answered
    assert result.latency.max < DEADLINE_S + 1
    assert result.status["in_flight_at_end"] == 0
    # Of the others each has come to the peer: no class but these can be without it.
    unseen = result.status["transport"] + result.status["DEADLINE_EXCEEDED"]
    assert peer.requests >= CALLS - unseen
    assert result.reconnects <= len(peer.connections) - result.connections
