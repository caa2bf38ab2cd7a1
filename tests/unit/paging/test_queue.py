"""The queue: what comes back, in which order, from memory and from pages, and what its methods promise."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binlog import Mode
from binlog.compose import open_queue
from binlog.errors import BusyError, ClosedError, FullError, GoneError, StateError
from binlog.format.paging.names import PAGE_END
from binlog.paging.inspection import check_paging
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.queue import Queue
from binlog.paging.transactions import PageTransaction

SMALL = PagingOptions(page_bytes=4096)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "queue"
    yield path
    if path.exists():
        assert check_paging(path) == []


def bodies(count: int, *, first: int = 0) -> list[bytes]:
    return [b"%06d" % number * 20 for number in range(first, first + count)]


def taken(queue_: Queue) -> list[bytes]:
    """All that can be got, acknowledged."""
    found = []
    while not queue_.empty():
        message = queue_.get_nowait()
        found.append(message.body)
        queue_.ack(message)
    return found


def copied(folder: Path) -> Path:
    """What another process would find if this one died now."""
    return Path(shutil.copytree(folder, f"{folder}-copy"))


def page_count(folder: Path) -> int:
    return len(list(folder.glob(f"*/*{PAGE_END}")))


@pytest.mark.parametrize("memory_bytes", [0, 2000, 1 << 20])
def test_a_queue_gives_what_was_put_in_its_order(folder: Path, memory_bytes: int) -> None:
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:
        for body in bodies(200):
            q.put(body)
        assert q.qsize() == 200
        assert taken(q) == bodies(200)
        with pytest.raises(queue.Empty):
            q.get_nowait()
        with pytest.raises(queue.Empty):
            q.get(timeout=0)


@pytest.mark.parametrize("memory_bytes", [0, 2000, 1 << 20])
def test_puts_and_gets_in_turns_keep_the_order_while_memory_runs_over_and_empties(
    folder: Path, memory_bytes: int
) -> None:
    numbers = itertools.count()
    found = []
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:
        for puts, gets in [(3, 1), (40, 10), (1, 33), (0, 5), (5, 0), (60, 65), (2, 1), (30, 31)]:
            for _ in range(puts):
                q.put(b"%06d" % next(numbers) * 20)
            for _ in range(min(gets, q.qsize())):
                message = q.get_nowait()
                found.append(message.body)
                q.ack(message)
        found += taken(q)
    assert found == bodies(next(numbers))


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_what_was_not_acknowledged_comes_back_after_a_kill_in_its_order(folder: Path, memory_bytes: int) -> None:
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:
        for body in bodies(100):
            q.put(body)
        got = [q.get() for _ in range(60)]
        for message in got[:50:2]:
            q.ack(message)
        left = [message.body for message in got[1:50:2] + got[50:]] + bodies(40, first=60)
        with open_queue(copied(folder)) as again:
            assert again.qsize() == again.unacknowledged_count == len(left)
            assert taken(again) == left
    with open_queue(folder) as again:
        assert taken(again) == left


def test_pages_go_once_all_in_them_was_acknowledged(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        for body in bodies(300):
            q.put(body)
        assert page_count(folder) > 5
        taken(q)
        q._manager.drain()
        assert page_count(folder) == 1
    with open_queue(folder) as q:
        assert q.empty()
        assert q.unacknowledged_count == 0
        q.put(b"more")
        assert taken(q) == [b"more"]


def test_a_message_is_acknowledged_once(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        for body in bodies(300):
            q.put(body)
        first = q.get()
        q.ack(first)
        with pytest.raises(StateError):
            q.ack(first)
        taken(q)
        q._manager.drain()
        with pytest.raises(GoneError):
            q.ack(first)


def test_a_message_that_was_given_back_comes_next(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        for body in bodies(3):
            q.put(body)
        q.nack(q.get())
        assert taken(q) == bodies(3)


def test_of_a_transaction_all_is_there_or_nothing(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        q.put(b"before")
        got = q.get()
        with q.transaction() as transaction:
            transaction.ack(got)
            for body in bodies(100):
                transaction.put(body)
            assert q.empty()
            with open_queue(copied(folder)) as again:
                assert taken(again) == [b"before"]
        q.put(b"behind")
        shutil.rmtree(f"{folder}-copy")
        with open_queue(copied(folder)) as again:
            assert taken(again) == [*bodies(100), b"behind"]
        assert taken(q) == [*bodies(100), b"behind"]
    with open_queue(folder) as again:
        assert again.empty()
        with pytest.raises(queue.Empty):
            again.get_nowait()
        again._manager.drain()
        assert not again._manager.transactions.counts, "what tells of transactions goes with their pages"


def test_a_transaction_that_is_rolled_back_leaves_everything_as_it_was(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        q.put(b"before")
        got = q.get()
        transaction = q.transaction()
        with contextlib.suppress(ZeroDivisionError), transaction:
            transaction.ack(got)
            transaction.put(b"never")
            raise ZeroDivisionError
        with pytest.raises(StateError):
            transaction.put(b"never")
        q.nack(got)
        assert taken(q) == [b"before"]


def test_a_transaction_whose_message_others_acknowledged_does_nothing(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        q.put(b"one")
        got = q.get()
        transaction = q.transaction()
        transaction.ack(got)
        with pytest.raises(StateError):
            transaction.ack(got)
        transaction.put(b"never")
        q.ack(got)
        with pytest.raises(StateError):
            transaction.commit()
        q.put(b"two")
        assert taken(q) == [b"two"]
    with open_queue(folder) as q:
        assert q.empty()


def test_a_transaction_for_which_there_is_no_room_can_be_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        q.put(b"before")
        got = q.get()
        transaction = q.transaction()
        transaction.ack(got)
        transaction.put(b"after")

        def full(*_: object) -> None:
            raise FullError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(q._store, "append", full)
            with pytest.raises(FullError):
                transaction.commit()
        assert q.empty()
        transaction.commit()
        with pytest.raises(StateError):
            transaction.commit()
        assert taken(q) == [b"after"]
    with open_queue(folder) as q:
        assert q.empty()


def test_a_signal_handler_that_raises_behind_a_commit_takes_nothing_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        transaction = q.transaction()
        transaction.put(b"one")
        commit = PageTransaction.commit

        def interrupted(self: PageTransaction) -> None:
            commit(self)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(PageTransaction, "commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                transaction.commit()
        with pytest.raises(StateError):
            transaction.commit()
        q.put(b"two")
        assert taken(q) == [b"one", b"two"]


def test_who_waits_is_given_what_is_put(folder: Path) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        found: list[bytes] = []

        def take() -> None:
            message = q.get()
            found.append(message.body)
            q.ack(message)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for body in bodies(2):
            q.put(body)
        with q.transaction() as transaction:
            for body in bodies(2, first=2):
                transaction.put(body)
        for thread in threads:
            thread.join()
        q.join()
        assert sorted(found) == bodies(4)


def test_who_waits_is_told_that_the_queue_was_closed(folder: Path) -> None:
    q = open_queue(folder)
    told: list[type[BaseException]] = []

    def wait(call: Callable[[], object]) -> None:
        try:
            call()
        except ClosedError as error:
            told.append(type(error))

    q.put(b"one")
    q.get()
    threads = [threading.Thread(target=wait, args=(call,)) for call in (q.get, q.join)]
    for thread in threads:
        thread.start()
    q.close()
    for thread in threads:
        thread.join()
    assert told == [ClosedError] * 2
    for call in (q.get, q.qsize, q.join, lambda: q.put(b"")):
        with pytest.raises(ClosedError):
            call()
    q.close()


def test_a_limit_on_pages_makes_the_queue_full_until_a_page_goes(folder: Path) -> None:
    options = PagingOptions(page_bytes=4096, page_count_max=2)
    with open_queue(folder, mode=Mode.FLUSH, options=options) as q:
        put = 0
        with contextlib.suppress(queue.Full):
            for body in bodies(1000):
                q.put_nowait(body)
                put += 1
        assert put < 1000
        assert q.full()
        last = b"last" * 30
        with pytest.raises(queue.Full):
            q.put(last, timeout=0)
        waiting = threading.Thread(target=q.put, args=(last,))
        waiting.start()
        found: list[bytes] = []
        while found[-1:] != [last]:
            message = q.get()
            found.append(message.body)
            q.ack(message)
        waiting.join()
        assert found == [*bodies(put), last]


@pytest.mark.parametrize(
    "options", [PagingOptions(page_count_max=1), PagingOptions(page_count_max=9, full_policy=Policy.DROP)]
)
def test_a_queue_refuses_options_by_which_it_would_lose_messages_or_stand_still(
    folder: Path, options: PagingOptions
) -> None:
    with pytest.raises(ValueError, match="a queue"):
        open_queue(folder, options=options)


def test_modes_and_messages_that_are_none_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="a queue knows"):
        open_queue(folder, mode=Mode.STAGE)
    with open_queue(folder) as q:
        with pytest.raises(ValueError, match="a queue knows"):
            q.put(b"", mode=Mode.STAGE)
        with pytest.raises(TypeError):
            q.put("text")  # type: ignore[arg-type]
        q.put(bytearray(b"bytes"))  # type: ignore[arg-type]
        assert taken(q) == [b"bytes"]


def test_a_queue_is_one_process_s_and_not_its_child_s(folder: Path) -> None:
    with open_queue(folder) as q:
        with pytest.raises(BusyError):
            open_queue(folder)
        q.put(b"parent's")
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (q.get_nowait, q.get_nowait, q.qsize, lambda: q.put(b"child's")):
                try:
                    call()
                except StateError:
                    refused += 1
            os._exit(0 if refused >= 3 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert taken(q) == [b"parent's"]


@pytest.mark.parametrize("memory_bytes", [0, 3000, 1 << 20])
def test_threads_get_each_message_once_and_those_of_a_producer_in_order(folder: Path, memory_bytes: int) -> None:
    producers, each = 4, 300
    got: list[list[tuple[int, int]]] = [[], [], []]
    with open_queue(folder, mode=Mode.FLUSH, memory_bytes=memory_bytes, options=SMALL) as q:

        def produce(producer: int) -> None:
            for number in range(0, each, 3):
                q.put(b"%d %d" % (producer, number))
                with q.transaction() as transaction:
                    transaction.put(b"%d %d" % (producer, number + 1))
                    transaction.put(b"%d %d" % (producer, number + 2))

        def consume(found: list[tuple[int, int]]) -> None:
            while (message := q.get()).body:
                producer, number = map(int, message.body.split())
                found.append((producer, number))
                q.ack(message)
            q.ack(message)

        producing = [threading.Thread(target=produce, args=(number,)) for number in range(producers)]
        consuming = [threading.Thread(target=consume, args=(found,)) for found in got]
        for thread in producing + consuming:
            thread.start()
        for thread in producing:
            thread.join()
        for _ in consuming:
            q.put(b"")
        for thread in consuming:
            thread.join()
        assert q.unacknowledged_count == 0
    for found in got:
        for producer in range(producers):
            numbers = [number for who, number in found if who == producer]
            assert numbers == sorted(numbers)
    assert sorted(itertools.chain(*got)) == [(who, number) for who in range(producers) for number in range(each)]


def test_a_put_that_a_signal_handler_ends_leaves_no_message_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_queue(folder, mode=Mode.FLUSH, options=SMALL) as q:
        q.put(b"one")
        assert q.get().body == b"one"
        with pytest.raises(queue.Empty):
            q.get_nowait()
        q.put(b"two")
        append = q._append

        def interrupted(message: bytes) -> int | None:
            append(message)
            raise KeyboardInterrupt

        q._append = interrupted  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            q.put(b"three")
        q._append = append
        q.put(b"four")
        assert taken(q) == [b"two", b"three", b"four"]


def test_a_full_disk_refuses_one_message_and_the_next_one_goes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_queue(folder, mode=Mode.FLUSH) as q:
        append = q._append

        def full(message: bytes) -> int | None:
            raise FullError("no space left")

        q._append = full  # type: ignore[assignment]
        with pytest.raises(FullError):
            q.put(b"one")
        q._append = append
        q.put(b"two")
        assert taken(q) == [b"two"]


def test_acknowledgements_of_what_a_power_cut_took_count_for_no_other_message(tmp_path: Path) -> None:
    """The acknowledgements were synced, and the end of their page was not."""
    with open_queue(tmp_path / "queue", mode=Mode.FLUSH) as opened:
        for body in bodies(10):
            opened.put(body)
        messages = [opened.get_nowait() for _ in range(10)]
        for message in messages[5:]:
            opened.ack(message, mode=Mode.SYNC)
        died = copied(tmp_path / "queue")
    (page,) = died.glob(f"*/*{PAGE_END}")
    os.truncate(page, page.read_bytes().index(bodies(1, first=5)[0]))
    for _ in range(2):
        with open_queue(died) as opened:
            assert [opened.get_nowait().body for _ in range(5)] == bodies(5)
            assert opened.empty()
            with pytest.raises(queue.Empty):
                opened.get_nowait()
    with open_queue(died) as opened:
        assert taken(opened) == bodies(5)
        assert taken(opened) == []
    assert not list(died.glob(f"*/*{PAGE_END}"))
