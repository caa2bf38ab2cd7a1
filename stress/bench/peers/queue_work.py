"""The work of queues: durable transactions that put a message, get one, or both."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import NamedTuple

from stress.bench.contestant import BODY_BYTES
from stress.bench.loops import append_loop
from stress.bench.processes import Loop

# The number of messages at first, and of those put together when a transaction finds none.
FILLED = 1000


class QueueWork(enum.Enum):
    """The work of one transaction."""

    PUT = "put"
    GET = "get"
    BOTH = "both"


class QueueCalls(NamedTuple):
    """The transactions of a peer.

    put: one message.  get: one, and return whether there was any.  both: put one, and get one.  fill: put many
        together.
    """

    put: Callable[[bytes], object]
    get: Callable[[], bool]
    both: Callable[[bytes], object]
    fill: Callable[[list[bytes]], object]


def queue_loop(calls: QueueCalls, work: QueueWork) -> Loop:
    """Run one transaction after another."""
    body = os.urandom(BODY_BYTES)

    def get(body: bytes) -> None:
        while not calls.get():
            calls.fill([body] * FILLED)

    if work is not QueueWork.PUT:
        calls.fill([body] * FILLED)
    return append_loop({QueueWork.PUT: calls.put, QueueWork.GET: get, QueueWork.BOTH: calls.both}[work], body)
