"""Producers of messages: what a message has, and what an id adds."""

from __future__ import annotations

import gc
import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Batch, ConsumerGroup, Item, Message, Mode, Producer, Reader, Ref, Writer
from binlog.errors import BusyError, ClosedError, FullError, StateError
from tests.support.children import Child, run_script
from tests.support.interruptions import Interruption
from tests.support.logs import jpos_file
from tests.support.waiting import until

ID = "till-7"
GROUP = "billing"
_PLACES_MAX = 60
# Python prints and drops an exception that is raised within a finalizer.
_FINALIZERS = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def _messages(log: Path) -> list[Message]:
    return [Message.parse(entry.data) for entry in Reader(log)]


def _numbered(log: Path) -> list[tuple[int, bytes]]:
    """Return the messages of the id: their numbers and bodies, in the order of the log."""
    this = hashlib.sha256(ID.encode()).digest()[:16]
    messages = [each for each in _messages(log) if each.made_by is not None and each.made_by.producer == this]
    return [(each.made_by.sequence, bytes(each.body)) for each in messages if each.made_by is not None]


def _places(call: Callable[[], object]) -> list[int]:
    """Make a call; return places in it at which another one can be interrupted."""
    counting = Interruption(1 << 40)
    counting.run(call)
    return list(range(0, counting.passed, counting.passed // _PLACES_MAX + 1))


def _taken(group: ConsumerGroup, count: int) -> dict[bytes, Item]:
    """Take some items of a group, acknowledge them, and return them by their data."""
    items: dict[bytes, Item] = {}
    while len(items) < count:
        item = group.get(timeout=60)
        assert item is not None
        items[item.data] = item
        item.ack()
    return items


def test_a_message_has_what_it_was_given(log: Path) -> None:
    before_ns = time.time_ns()
    with Producer(log) as producer:
        ref = producer.append(b"body", key=b"customer", headers={"kind": b"order"}, delay=1.5, expires="1h")
        after_ns = time.time_ns()
        assert producer.append(b"plain") is not None
        assert producer.last is None
    first, plain = _messages(log)
    assert ref == Ref(1, 256)
    assert (first.body, first.key, first.headers, first.made_by) == (b"body", b"customer", {"kind": b"order"}, None)
    assert before_ns <= first.produced_ns <= after_ns
    assert first.due_ns - first.produced_ns == 1_500_000_000
    assert first.expiry_ns - first.produced_ns == 3600 * 10**9
    assert plain == Message(body=b"plain", produced_ns=plain.produced_ns)


@pytest.mark.parametrize("mode", Mode)
def test_a_producer_without_an_id_appends_in_its_mode(log: Path, mode: Mode) -> None:
    with Producer(log, mode=mode) as producer:
        place = producer.append(b"one")
        refs = list(producer.append_many([b"two", Message(body=memoryview(b"three"), key=b"k"), bytearray(b"four")]))
    entries = list(Reader(log))
    assert place == (None if mode is Mode.STAGE else entries[0].ref)
    assert refs == [entry.ref for entry in entries[1:]]
    assert [message.body for message in _messages(log)] == [b"one", b"two", b"three", b"four"]


def test_messages_are_numbered_and_a_new_producer_continues(log: Path) -> None:
    with Producer(log, ID) as producer, Producer(log, "another") as another:
        assert [producer.last, another.last] == [None, None]
        assert producer.append(b"0") == Ref(1, 256)
        another.append(b"of another")
        producer.append_many([b"1", Message(body=b"2")])
        assert [producer.last, another.last] == [2, 0]
        assert producer.append_many([]) == []
    with Producer(log, ID) as producer:
        assert producer.last == 2
        refs = producer.append_many([b"3", b"4"])
        assert producer.last == 4
    assert _numbered(log) == [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
    assert refs == [entry.ref for entry in Reader(log)][-2:]


def test_a_message_that_is_in_the_log_is_not_appended_again(log: Path) -> None:
    with Producer(log, ID) as producer:
        producer.append(b"0")
        refs = producer.append_many([b"1", b"2", b"3"], sequence=1)
    for _ in range(2):
        with Producer(log, ID) as producer:
            assert producer.append(b"0", sequence=0) is None  # its place is not known any more
            assert [producer.append(b"again", sequence=number) for number in (1, 2, 3)] == refs
            assert producer.append_many([b"0", b"1", b"2", b"3"], sequence=0) == [None, *refs]
            assert producer.last == 3
    with Producer(log, ID) as producer:
        assert producer.append_many([b"2", b"3", b"4", b"5"], sequence=2)[:2] == refs[1:]
        producer.append(b"8", sequence=8)
        assert producer.last == 8
        producer.append(b"9")
    assert _numbered(log) == [(number, b"%d" % number) for number in (0, 1, 2, 3, 4, 5, 8, 9)]


def test_the_last_message_counts_after_retention_removed_it(log: Path) -> None:
    with Producer(log, ID) as producer:
        producer.append(b"0")
        with Writer(log) as writer:
            writer.cutover()
            writer.append(b"other")
        binlog.prune(log, before=Ref(2, 256))
        assert producer.append(b"0", sequence=0) is None
    with Producer(log, ID) as producer:
        assert producer.last == 0
        assert producer.append(b"0", sequence=0) is None
        producer.append(b"1")
    assert _numbered(log) == [(1, b"1")]


def test_one_object_has_an_id_at_a_time(log: Path) -> None:
    with Producer(log, ID) as producer:
        with pytest.raises(BusyError, match=f"'{ID}' of .* belongs to process {os.getpid()}") as caught:
            Producer(log, ID)
        assert caught.value.holder == f"process {os.getpid()}"
        with Producer(log, "another"), Producer(log):
            producer.append(b"0")
    with Producer(log, ID) as producer:
        producer.append(b"1")
    abandoned = Producer(log, ID)
    del abandoned
    gc.collect()
    Producer(log, ID).close()
    assert [number for number, _ in _numbered(log)] == [0, 1]


def test_the_id_is_the_name_of_a_producer_of_batches(log: Path) -> None:
    with Writer(log) as writer, Producer(log, ID) as producer:
        writer.append_idempotent([Batch.from_records([b"a batch"])], producer=ID, sequence=0)
        with pytest.raises(StateError, match="nothing was appended: another program has appended message 0"):
            producer.append(b"0")
        assert producer.last == 0
        producer.append(b"1")
        last = writer.last_producer_batch(ID)
        assert last is not None
        assert last.sequence == 1
        writer.append_idempotent([Batch.from_records([b"a batch"])], producer=ID, sequence=2)
        assert producer.append(b"2", sequence=2) is None
        assert producer.append(b"3", sequence=3) is not None
    assert _numbered(log) == [(1, b"1"), (3, b"3")]


@pytest.mark.slow
def test_an_error_before_the_append_leaves_no_doubt(log: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"theirs"])
    with Producer(log, ID) as producer:
        with pytest.raises(StateError, match="cut over first"):
            producer.append(b"0")
        with Writer(log) as writer:
            writer.cutover()
        producer.append(b"0")
        with pytest.raises(FullError, match="the limit is"):
            producer.append(bytes(65 << 20))
        producer.append(b"1")
    assert _numbered(log) == [(0, b"0"), (1, b"1")]


@pytest.mark.slow
def test_threads_share_a_producer(log: Path) -> None:
    with Producer(log, ID) as producer, ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(producer.append, b"x") for _ in range(40)]:
            each.result()
    assert [number for number, _ in _numbered(log)] == list(range(40))


def test_a_forked_child_does_not_have_its_parents_id(log: Path) -> None:
    with Producer(log, ID) as producer, Producer(log) as plain:
        producer.append(b"0")

        def use() -> None:
            for sequence in (None, 0):
                with pytest.raises(StateError, match="belongs to the parent process"):
                    producer.append(b"x", sequence=sequence)
            with pytest.raises(StateError, match="belongs to the parent process"):
                _ = producer.last
            producer.close()
            plain.append(b"of the child")
            with pytest.raises(BusyError) as caught, Producer(log, ID):
                pass
            assert caught.value.holder == f"process {os.getppid()}"

        Child(use).join()
        producer.append(b"1")
    assert _numbered(log) == [(0, b"0"), (1, b"1")]


def test_a_forked_child_that_lives_on_does_not_keep_the_id(log: Path) -> None:
    producer = Producer(log, ID)
    producer.append(b"0")
    wait, end = os.pipe()

    def live_on() -> None:
        os.close(end)
        os.read(wait, 1)

    child = Child(live_on)
    producer.close()
    with Producer(log, ID) as another:
        assert another.last == 0
    os.close(end)
    os.close(wait)
    child.join()


def test_a_producer_whose_lock_the_program_closed_refuses(log: Path) -> None:
    producer = Producer(log, ID)
    assert producer._numbered is not None
    os.close(producer._numbered._lock.fd)
    with Producer(log, ID) as another:
        another.append(b"0")
        with pytest.raises(StateError, match="lost its lock"):
            producer.append(b"0")
        producer.close()
    assert _numbered(log) == [(0, b"0")]


def test_a_closed_producer_refuses(log: Path) -> None:
    for producer in (Producer(log), Producer(log, ID)):
        producer.close()
        producer.close()
        with pytest.raises(ClosedError):
            producer.append(b"x")
        with pytest.raises(ClosedError):
            producer.append_many([b"x"])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"delay": -1}, ValueError, "delay is 0 to"),
        ({"delay": float("inf")}, ValueError, "delay is 0 to"),
        ({"delay": "soon"}, ValueError, "delay: "),
        ({"delay": b"1"}, TypeError, "delay is seconds, a timedelta"),
        ({"expires": 0}, ValueError, "expires is more than 0 and more than delay"),
        ({"expires": 5, "delay": timedelta(seconds=5)}, ValueError, "expires is more than 0 and more than delay"),
        ({"key": "text"}, TypeError, "a key is bytes, not str"),
        ({"key": bytes(70_000)}, ValueError, "the limit of an envelope"),
        ({"headers": [("name", b"value")]}, TypeError, "headers are a mapping, not list"),
        ({"headers": {"name": "text"}}, TypeError, "its value is bytes"),
        ({"headers": {str(number): b"" for number in range(70_000)}}, ValueError, "no room for"),
        ({"sequence": -1}, ValueError, "a sequence is "),
        ({"sequence": 1 << 70}, ValueError, "a sequence is "),
        ({"sequence": "1"}, TypeError, "whole number, not str"),
    ],
)
def test_wrong_arguments_are_refused(log: Path, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with Producer(log, ID) as producer:
        with pytest.raises(error, match=text):
            producer.append(b"x", **options)
        producer.append(b"0")
    assert _numbered(log) == [(0, b"0")]


def test_what_only_a_producer_says_is_refused(log: Path) -> None:
    with Producer(log) as producer:
        with pytest.raises(ValueError, match="only the messages of a producer with an id"):
            producer.append(b"x", sequence=0)
        with pytest.raises(ValueError, match="no `made_by` and no `acks`"):
            producer.append_many([Message(body=b"x", made_by=binlog.format.consumers.message.MadeBy(bytes(16), 0))])
        with pytest.raises(TypeError, match="append_many takes several messages"):
            producer.append_many(b"x")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not str"):
            producer.append("x")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="no room for a time"):
            producer.append_many([Message(body=b"x", due_ns=1 << 64)])
    with pytest.raises(ValueError, match=r"Mode\.SYNC, because each message is durable"):
        Producer(log, ID, mode="flush")
    for wrong in ("", "x" * 256):
        with pytest.raises(ValueError, match="1 to 255 characters"):
            Producer(log, wrong)
    with pytest.raises(TypeError, match="a producer's id is a str"):
        Producer(log, 7)  # type: ignore[arg-type]
    assert list(Reader(log)) == []


@pytest.mark.slow
def test_a_delayed_message_is_delivered_when_it_is_due(log: Path) -> None:
    with Producer(log) as producer:
        producer.append(b"in an hour", delay=timedelta(hours=1))
        producer.append(b"soon", delay=0.2)
        producer.append(b"now", key=b"k", headers={"a": b"b"})
    with ConsumerGroup(log, GROUP) as group:
        taken = _taken(group, 2)
        assert set(taken) == {b"now", b"soon"}
        assert (taken[b"now"].key, taken[b"now"].headers) == (b"k", {"a": b"b"})
        assert time.time_ns() >= _messages(log)[1].due_ns
        assert group.get(timeout=0.05) is None


def test_a_message_that_expired_becomes_a_dead_letter(log: Path) -> None:
    with Producer(log) as producer:
        producer.append(b"short", expires=0.001)
        producer.append(b"long", expires=3600)
    until(lambda: time.time_ns() > _messages(log)[0].expiry_ns)
    with ConsumerGroup(log, GROUP) as group:
        assert list(_taken(group, 1)) == [b"long"]
        assert group.get(timeout=0.1) is None
    (letter,) = Reader(log / "groups" / GROUP / "dead")
    message = Message.parse(letter.data)
    assert (message.body, message.headers["binlog-reason"]) == (b"short", b"expired")


@pytest.mark.slow
@_FINALIZERS
def test_a_call_that_ctrl_c_ended_is_made_again_with_its_sequence(log: Path) -> None:
    with Producer(log, ID) as producer:

        def append(number: int) -> Ref | None:
            return producer.append(b"%d" % number, sequence=number)

        places = _places(partial(append, 0))
        for number, at in enumerate(places, 1):
            Interruption(at).run(partial(append, number))
            assert append(number) is not None
            assert producer.last == number
    assert _numbered(log) == [(number, b"%d" % number) for number in range(len(places) + 1)]


@pytest.mark.slow
@_FINALIZERS
def test_after_ctrl_c_a_message_without_a_sequence_is_refused_until_the_last_is_read(log: Path) -> None:
    expected, refused = [b"first"], 0
    with Producer(log, ID) as producer:
        for at in _places(lambda: producer.append(b"first")):
            before = producer.last
            Interruption(at).run(partial(producer.append, b"perhaps %d" % at))
            try:
                producer.append(b"after %d" % at)
            except StateError:  # "may be in the log"
                refused += 1
                if producer.last != before:
                    expected.append(b"perhaps %d" % at)
                producer.append(b"after %d" % at)
            else:
                bodies = [body for _, body in _numbered(log)]
                expected += [b"perhaps %d" % at] * bodies.count(b"perhaps %d" % at)
            expected.append(b"after %d" % at)
    assert refused > 10
    assert _numbered(log) == list(enumerate(expected))


@pytest.mark.slow
@_FINALIZERS
def test_ctrl_c_while_a_producer_opens_or_closes_leaves_no_lock(log: Path) -> None:
    def use() -> None:
        Producer(log, ID).close()

    for at in _places(use):
        Interruption(at).run(use)
        gc.collect()
        Producer(log, ID).close()


def test_a_program_that_uses_no_messages_does_not_wait_for_their_modules() -> None:
    script = "import sys, binlog; print([name for name in sys.modules if 'binlog.consumers.producer' in name])"
    assert run_script(script).stdout.strip() == "[]"


@pytest.mark.parametrize("producer_id", [None, ID])
def test_a_producer_takes_the_options_of_a_writer(tmp_path: Path, producer_id: str | None) -> None:
    with Producer(tmp_path, producer_id, cutover_bytes=300, record_bytes_max="1KiB", permissions=0o600) as producer:
        refs = [producer.append(b"%d" % number * 100) for number in range(3)]
        with pytest.raises(FullError):
            producer.append(bytes(2000))
    assert [ref.number for ref in refs if ref is not None] == [1, 2, 3]
    assert (tmp_path / "00000003.dat").stat().st_mode & 0o777 == 0o600
    with pytest.raises(TypeError, match="no_such_option"):
        Producer(tmp_path, producer_id, no_such_option=1)  # type: ignore[call-arg]
