"""One writer's records are in the log in the order of its calls, in every mixture of methods."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Batch, Mode, Writer
from tests.support.external_files import external_file, external_files
from tests.support.logs import read_all
from tests.support.turns import in_turn


class Appends:
    """Appends numbered records in many ways.  Each way but `cutover` and `sync` appends at least one."""

    def __init__(self, log: Path, writer: Writer[Any]) -> None:
        self.log = log
        self.writer = writer
        self.numbers = count()

    def _next(self, records: int = 1, size: int = 0) -> list[bytes]:
        return [(b"%06d" % next(self.numbers)).ljust(size, b".") for _ in range(records)]

    def stage(self) -> None:
        self.writer.append(*self._next(), mode=Mode.STAGE)

    def flush(self) -> None:
        self.writer.append(*self._next(), mode=Mode.FLUSH)

    def durable(self) -> None:
        self.writer.append(*self._next())

    def large(self) -> None:
        """A record larger than a ring, so that it does not go through shared memory."""
        self.writer.append(*self._next(size=3 << 20))

    def large_staged(self) -> None:
        self.writer.append(*self._next(size=3 << 20), mode=Mode.STAGE)

    def stage_many(self) -> None:
        self.writer.append_many(self._next(3), mode=Mode.STAGE)

    def many(self) -> None:
        self.writer.append_many(self._next(3))

    def batch(self) -> None:
        self.writer.append_batch(Batch.from_records(self._next(2)), mode=Mode.STAGE)

    def batches(self) -> None:
        self.writer.append_batches([Batch.from_records(self._next(2)), Batch.from_records(self._next(2))])

    def idempotent(self) -> None:
        number = next(self.numbers)
        records = [b"%06d" % number]
        self.writer.append_idempotent([Batch.from_records(records)], producer="s", sequence=number)

    def ingest(self) -> None:
        self.writer.ingest(external_files(self.log, self._next(2), self._next(2)))

    def ingest_copied(self) -> None:
        name = f"small-{next(self.numbers)}"
        self.writer.ingest([external_file(self.log / "aside", name, self._next(2), durable_from=1 << 30)])

    def cutover(self) -> None:
        self.writer.cutover()

    def sync(self) -> None:
        self.writer.sync()


WAYS: list[Callable[[Appends], None]] = [
    value for name, value in vars(Appends).items() if callable(value) and not name.startswith("_")
]


def _in_order(log: Path) -> bool:
    found = [record[:6] for record in read_all(log)]
    return found == sorted(set(found))


@pytest.fixture(params=["alone", "beside"])
def beside(request: pytest.FixtureRequest, log: Path) -> Iterator[bool]:
    """Whether another writer has the log open as well, with its own ring."""
    if request.param == "alone":
        yield False
    else:
        with Writer(log):
            yield True


@pytest.mark.slow
@pytest.mark.parametrize("second", in_turn(WAYS), ids=lambda way: way.__name__)
def test_every_pair_of_ways_to_append(log: Path, beside: bool, second: Callable[[Appends], None]) -> None:
    for mode in Mode:
        with Writer(log, mode=mode) as writer:
            appends = Appends(log, writer)
            appends.numbers = count(sum(1 for _ in read_all(log)) + 1000 * mode)
            for first in WAYS:
                first(appends)
                second(appends)
                first(appends)
    assert _in_order(log)
    assert binlog.check(log) == []


@pytest.mark.slow
def test_any_way_after_any_others(log: Path) -> None:
    chance = random.Random(5)
    with Writer(log) as writer:
        appends = Appends(log, writer)
        for _ in range(150):
            chance.choice(WAYS)(appends)
    assert _in_order(log)


@pytest.mark.parametrize(("first", "second"), list(product((Appends.stage, Appends.stage_many), WAYS)))
def test_a_thread_that_begins_after_another_one_returned(
    log: Path, first: Callable[[Appends], None], second: Callable[[Appends], None]
) -> None:
    with Writer(log) as writer:
        appends = Appends(log, writer)
        for way in (first, second, first, second):
            thread = threading.Thread(target=way, args=(appends,))
            thread.start()
            thread.join()
    assert _in_order(log)
