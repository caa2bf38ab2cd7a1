"""A signal handler that ends items or closes the group in the middle of a call: its call is right, or is refused."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from binlog import ClosedError, ConsumerGroup, LeaseLostError, StateError, Writer
from binlog.consumers.item import Item
from tests.support.group_workers import idle_count
from tests.support.interruptions import Interruption
from tests.support.repeated_interrupts import swallowed
from tests.support.signals import signal_main_thread
from tests.support.waiting import until

GROUP = "billing"
_MESSAGES = 100


@pytest.fixture
def log(in_memory: Path) -> Path:
    with Writer(in_memory / "log") as writer:
        writer.append_many([b"x"] * _MESSAGES)
    return in_memory / "log"


@pytest.fixture(autouse=True)
def _never_for_ever() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError("a call waits for itself")

    before = {number: signal.signal(number, end) for number in (signal.SIGALRM, signal.SIGUSR1)}
    signal.alarm(60)
    yield
    signal.alarm(0)
    for number, handler in before.items():
        signal.signal(number, handler)


class _Handler(Interruption):
    """Makes a call at one of the places of another call at which Python may run a signal handler."""

    def __init__(self, at: int, call: Callable[[], object]) -> None:
        super().__init__(at)
        self._call = call

    def _step(self) -> None:
        self.passed += 1
        if self.passed == self._at + 1:
            self._call()


def _taken(group: ConsumerGroup) -> Item:
    item = group.get(timeout=10)
    assert item is not None
    return item


def _places(step: int) -> Iterator[int]:
    """Yield every `step`-th place, from a random first one."""
    at = random.SystemRandom().randrange(step)
    while True:
        yield at
        at += step


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_an_acknowledgement_of_a_signal_handler_counts_or_is_refused(log: Path, step: int) -> None:
    refused = counted = 0
    with Writer(log, mode="flush") as writer, ConsumerGroup(log, GROUP, mode="flush") as group:
        for at in _places(step):
            writer.append_many([b"x"] * 2)
            held, mine = _taken(group), list[Item]()
            is_ended = False

            def end_held(held: Item = held) -> None:
                nonlocal refused, counted, is_ended
                try:
                    held.ack()
                except StateError:
                    refused += 1
                else:
                    counted += 1
                    is_ended = True

            def get_and_ack(mine: list[Item] = mine) -> None:
                mine.append(_taken(group))
                mine[0].ack()

            handler = _Handler(at, end_held)
            handler.run(get_and_ack)
            if not is_ended:
                held.ack()
            if not handler.raised:
                break
        assert refused > 0
        assert counted > 0
        stat = group.stat()
        assert (stat.floor, stat.in_hand) == (stat.counters.done, 0)


@pytest.mark.parametrize("step", [101, pytest.param(17, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_group_that_a_signal_handler_closes_gives_everything_back(log: Path, step: int) -> None:
    done = 0
    for at in _places(step):
        group = ConsumerGroup(log, GROUP, mode="flush")
        held = _taken(group)
        acked = list[int]()

        def get_and_ack(group: ConsumerGroup = group, acked: list[int] = acked) -> None:
            item = _taken(group)
            item.ack()
            acked.append(item.sequence)

        handler = _Handler(at, group.close)
        try:
            handler.run(get_and_ack)
        except ClosedError:
            assert handler.raised
        group.close()
        with pytest.raises(ClosedError):
            held.ack()
        with ConsumerGroup(log, GROUP, mode="flush") as other:
            stat = other.stat()
            assert stat.in_hand == 0
            assert stat.members == ()
            # An acknowledgement whose call ended with ClosedError may count.
            assert 0 <= stat.counters.done - done - len(acked) <= 1
            done = stat.counters.done
            assert stat.floor <= held.sequence
        if not handler.raised:
            break
    assert at > step


def test_a_signal_handler_during_a_wait_is_refused_and_the_wait_continues(log: Path) -> None:
    with ConsumerGroup(log, GROUP, start="end") as group, ConsumerGroup(log, GROUP) as other, Writer(log) as writer:
        writer.append(b"first")
        held = _taken(group)
        errors = list[str]()

        def end_held(*_: object) -> None:
            try:
                held.ack()
            except StateError as error:
                errors.append(str(error))

        def interrupt_and_append() -> None:
            until(lambda: idle_count(log, GROUP) == 1)
            for count in range(1, 4):
                signal_main_thread(signal.SIGUSR1)
                until(lambda count=count: len(errors) == count)  # type: ignore[misc]
            writer.append(b"second")

        signal.signal(signal.SIGUSR1, end_held)
        thread = threading.Thread(target=interrupt_and_append)
        thread.start()
        second = group.get(timeout=60)
        assert second is not None
        thread.join()
        assert (second.data, len(errors)) == (b"second", 3)
        held.ack()
        second.ack()
        assert other.stat().counters.done == 2


def test_a_signal_handler_ends_a_wait_by_closing_the_group(log: Path) -> None:
    group = ConsumerGroup(log, GROUP, start="end")
    signal.signal(signal.SIGUSR1, lambda *_: group.close())

    def interrupt() -> None:
        until(lambda: idle_count(log, GROUP) == 1)
        signal_main_thread(signal.SIGUSR1)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(ClosedError):
        group.get(timeout=60)
    thread.join()
    group.close()
    with ConsumerGroup(log, GROUP) as other:
        assert other.stat().members == ()


def test_an_exception_of_a_signal_handler_ends_a_wait_and_the_member_continues(log: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with ConsumerGroup(log, GROUP, start="end") as group, Writer(log) as writer:
        signal.signal(signal.SIGUSR1, interrupt)

        def send() -> None:
            until(lambda: idle_count(log, GROUP) == 1)
            signal_main_thread(signal.SIGUSR1)

        thread = threading.Thread(target=send)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            group.get(timeout=60)
        thread.join()
        writer.append(b"next")
        item = _taken(group)
        assert item.data == b"next"
        item.ack()


def test_any_thread_may_end_an_item(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = _taken(group)
        thread = threading.Thread(target=item.ack)
        thread.start()
        thread.join()
        assert group.stat().counters.done == 1


@swallowed
@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_ctrl_c_at_any_place_of_a_call_loses_no_item(log: Path, step: int) -> None:
    """What the interrupted call got, and its caller has not, the next call returns."""
    interrupted = 0
    with Writer(log, mode="flush") as writer, ConsumerGroup(log, GROUP, mode="flush") as group:
        for at in _places(step):
            writer.append(b"x")
            got = list[Item]()

            def get_and_ack(got: list[Item] = got) -> None:
                got.append(_taken(group))
                got[0].ack()

            interruption = Interruption(at)
            interrupted += interruption.run(get_and_ack)
            for item in got:
                with suppress(LeaseLostError):  # the acknowledgement counted before the interruption
                    item.ack()
            if not interruption.raised:
                break
        for item in group.consume(timeout=0):
            item.ack()
        stat = group.stat()
        assert (stat.in_hand, stat.ready, stat.lag) == (0, 0, 0)
    assert interrupted > 5
