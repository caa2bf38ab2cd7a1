"""How an item or a batch ends: done, failed, given back; by a block, an exception, a cancelled task, or `close`."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path

import pytest

from binlog import ClosedError, ConsumerGroup, LeaseLostError, Reader, Retry, Writer
from binlog.format.consumers.operation import Kind, group_seed, parse_operation

GROUP = "billing"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with Writer(tmp_path) as writer:
        writer.append_many([b"%d" % number for number in range(120)])
    return tmp_path


@pytest.mark.parametrize(
    ("error", "delivery", "counted"),
    [(None, None, 0), (ValueError, 2, 1), (KeyboardInterrupt, 1, 0), (SystemExit, 1, 0), (GeneratorExit, 1, 0)],
)
def test_a_block_ends_its_item_as_its_exception_says(
    log: Path, error: type[BaseException] | None, delivery: int | None, counted: int
) -> None:
    with ConsumerGroup(log, GROUP, retry=Retry(first=0)) as group:
        item = group.get(timeout=10)
        assert item is not None
        with nullcontext() if error is None else pytest.raises(error), item:
            if error is not None:
                raise error("no")
        counters = group.stat().counters
        assert (counters.done, counters.failed) == (error is None, counted)
        again = {each.sequence: each.delivery for each in group.consume(timeout=0) if each.ack() is None}
        assert again.get(0) == delivery


@pytest.mark.slow
def test_a_cancelled_task_gives_its_item_back_uncounted(log: Path) -> None:
    async def main() -> None:
        with ConsumerGroup(log, GROUP) as group:
            has_item = asyncio.Event()

            async def hold() -> None:
                async for item in group.consume(prefetch=0):
                    async with item:
                        has_item.set()
                        await asyncio.sleep(3600)

            task = asyncio.create_task(hold())
            await has_item.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            counters = group.stat().counters
            assert (counters.done, counters.failed, counters.started) == (0, 0, 1)
            async for item in group.consume(timeout=0.01):
                async with item:
                    assert item.delivery == 1
            assert group.stat().counters.done == 120

    asyncio.run(main())


def test_an_item_that_a_task_ends_after_the_group_was_closed_is_refused(log: Path) -> None:
    async def main() -> None:
        group = ConsumerGroup(log, GROUP)
        async for item in group.consume(prefetch=0):
            with pytest.raises(ClosedError):
                async with asyncio.timeout(20), item:
                    group.close()
            break
        with pytest.raises(ClosedError):
            await anext(aiter(group.consume()))

    asyncio.run(main())
    with ConsumerGroup(log, GROUP) as group:
        assert group.stat().counters.done == 0


def test_a_failed_task_reports_a_failure(log: Path) -> None:
    async def main() -> None:
        with ConsumerGroup(log, GROUP, retry=Retry(first=0)) as group:
            item = await anext(aiter(group.consume(prefetch=0)))
            with pytest.raises(ValueError, match="no"):
                async with item:
                    raise ValueError("no")
            assert group.stat().counters.failed == 1

    asyncio.run(main())


def test_of_a_batch_one_failed_item_is_delivered_again_and_the_others_are_done_by_one_operation(log: Path) -> None:
    with ConsumerGroup(log, GROUP, retry=Retry(first=0)) as group:
        batches = group.batches(100)
        batch = next(batches)
        assert [item.sequence for item in batch] == list(range(100))
        with batch:
            batch.nack(17, delay=0, error="no")
        counters = group.stat().counters
        assert (counters.done, counters.failed) == (99, 1)
        following = next(batches)
        assert sorted((item.sequence, item.delivery) for item in following) == [
            (17, 2),
            *((sequence, 1) for sequence in range(100, 120)),
        ]
        following.ack()
    folder = log / "groups" / GROUP
    seed = group_seed((folder / "00000001.dat").read_bytes()[32:48])
    counts = []
    for entry in Reader(folder):
        operation = parse_operation(entry.data, seed)
        assert operation is not None
        sections = dict(operation.sections)
        if Kind.DONE in sections:
            counts.append((len(sections[Kind.DONE]), len(sections.get(Kind.RETRY, ()))))
    assert counts == [(99, 1), (21, 0)]


def test_a_batch_ends_each_item_as_it_was_marked(log: Path) -> None:
    with ConsumerGroup(log, GROUP, retry=Retry(first=3600)) as group:
        batch = next(iter(group.batches(5)))
        with batch:
            batch.nack(0)
            batch.reject(1, "bad")
            batch.back(2)
            batch[3].ack()
        counters = group.stat().counters
        assert (counters.done, counters.failed) == (2, 2)
        assert group.stat().delayed == 1
    with ConsumerGroup(log, GROUP) as group:
        again = {item.sequence: item.delivery for item in group.consume(timeout=0) if item.ack() is None}
        assert (again.get(0), again.get(1), again.get(2), again.get(3)) == (None, None, 1, None)


def test_a_failed_batch_reports_a_failure_of_each_item(log: Path) -> None:
    with ConsumerGroup(log, GROUP, retry=Retry(first=0)) as group:
        batch = next(iter(group.batches(3)))
        with pytest.raises(ValueError, match="no"), batch:
            raise ValueError("no")
        assert group.stat().counters.failed == 3
        again = {item.sequence: item.delivery for item in group.consume(timeout=0) if item.ack() is None}
        assert (again[0], again[1], again[2], again[3]) == (2, 2, 2, 1)


def test_an_acknowledgement_of_a_batch_names_the_messages_that_others_have(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group, ConsumerGroup(log, GROUP) as other:
        batch = next(iter(group.batches(3)))
        other.ack(batch[1].token)
        with pytest.raises(LeaseLostError, match="message 1"):
            batch.ack()
        assert group.stat().counters.done == 3


@pytest.mark.slow
def test_a_member_that_closes_gives_back_what_it_has_uncounted(log: Path) -> None:
    one, two = ConsumerGroup(log, GROUP), ConsumerGroup(log, GROUP)
    try:
        items = one.consume(prefetch=10)
        first = next(items)
        assert first.sequence == 0
        assert one.stat().in_hand == 11
        one.close()
        found = [(item.sequence, item.delivery) for item in two.consume(timeout=0) if item.ack() is None]
        assert sorted(found) == [(sequence, 1) for sequence in range(120)]
    finally:
        one.close()
        two.close()
