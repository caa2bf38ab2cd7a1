"""A consumer group of a Redis stream, on a server that syncs its append-only file in every iteration of its loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from stress.bench.measuring import Prepare, Prepared
from stress.bench.peers.claim_work import Claims, claim_loop, claim_many_loop, parts
from stress.bench.peers.redis_stream import client_of, missing, server
from stress.bench.processes import Loop

__all__ = ["claiming", "missing"]

_STREAM, _GROUP = "log", "group"


def claiming(count: int, *, messages: int = 1) -> Prepare:
    """Read messages that no other consumer has with XREADGROUP, `messages` at a time, and XACK them."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        with server(directory) as address:
            with closing(client_of(address)) as client:
                client.xgroup_create(_STREAM, _GROUP, id="0", mkstream=True)
                for bodies in parts(count):
                    _fill(client, bodies)

            @contextmanager
            def opener(index: int) -> Iterator[Loop]:
                with closing(client_of(address)) as client:
                    client.ping()
                    claims = _claims(client, f"worker-{index}", messages)
                    yield claim_loop(claims) if messages == 1 else claim_many_loop(claims)

            yield Prepared(opener, None)

    return prepare


def _claims(client: Any, name: str, messages: int) -> Claims:
    def take() -> int:
        identifiers = _identifiers(client.xreadgroup(_GROUP, name, {_STREAM: ">"}, count=messages))
        if identifiers:
            client.xack(_STREAM, _GROUP, *identifiers)
        return len(identifiers)

    return Claims(take, lambda bodies: _fill(client, bodies))


def _identifiers(answer: Any) -> list[Any]:
    # The client's version decides whether the streams of an answer are a dictionary, or a list of pairs.
    streams = answer.values() if isinstance(answer, dict) else (entries for _, entries in answer)
    return [identifier for entries in streams for identifier, _ in entries]


def _fill(client: Any, bodies: list[bytes]) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for body in bodies:
            pipeline.xadd(_STREAM, {"record": body})
        pipeline.execute()
