"""Ctrl-C in the middle of a call: the call took effect completely or not at all, and the store is usable or
poisoned."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.commitlog import Flush, Message, MessageStore, Retention, check_store
from binlog.commitlog.append.flush_services import Pace
from binlog.errors import PoisonedError
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.interruptions import Interruption
from tests.support.repeated_interrupts import swallowed
from tests.support.stores import SMALL
from tests.support.waiting import until_dispatched

_NOW = Retention(hours=-1.0, at_hour=(12 + 12) % 24, expire_ratio=2, force_ratio=2, full_ratio=2, pause_seconds=0.0)
# Commit at once, because waiting for a commit is not tested here.
_OPTIONS = replace(SMALL, file_bytes=1 << 13, retention=_NOW, commit_pace=Pace(0.005, 0, 0.005))
_BEFORE = [b"%d" % number for number in range(10)]
_PLACES = 25  # that are interrupted in a call, at equal steps; a call has up to some thousand


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """Put the store into memory, because the durability of these calls is not tested here."""
    return in_memory


class Stage:
    """The arguments of a call: a store with messages in several files, and a half message."""

    def __init__(self, path: Path, flush: Flush) -> None:
        self.store = MessageStore(path, replace(_OPTIONS, flush=flush))
        for body in _BEFORE:
            self.store.append(Message.of("t", body.ljust(1500), keys=["k"]))
        self.half = self.store.transactions.prepare(Message("t", b"half"))
        until_dispatched(self.store)


def _append(stage: Stage) -> None:
    stage.store.append(Message.of("t", b"one", keys=["k"]))


def _append_several(stage: Stage) -> None:
    stage.store.append([Message("t", b"one"), Message("t", b"two")])


def _append_on_the_next_file(stage: Stage) -> None:
    stage.store.append(Message("t", bytes(4000)))
    stage.store.append(Message("t", bytes(4000)))


def _delay(stage: Stage) -> None:
    stage.store.append(Message.of("t", b"one", delay_level=18))


def _prepare(stage: Stage) -> None:
    stage.store.transactions.prepare(Message("t", b"another"))


def _commit(stage: Stage) -> None:
    stage.store.transactions.commit(stage.half)


def _roll_back(stage: Stage) -> None:
    stage.store.transactions.roll_back(stage.half)


def _read(stage: Stage) -> None:
    assert len(stage.store.pull("t", 0, 0, 10)) == len(stage.store.find("t", "k")) == 10


def _remove(stage: Stage) -> None:
    stage.store.remove_expired()


def _close(stage: Stage) -> None:
    stage.store.close()


_CALLS = [
    _append, _append_several, _append_on_the_next_file, _delay, _prepare, _commit, _roll_back, _read, _remove, _close,
]  # fmt: skip


_CASES = [(call, Flush.SYNC) for call in _CALLS]
_CASES += [
    (call, flush) for call in (_append_on_the_next_file, _commit, _close) for flush in (Flush.ASYNC, Flush.POOLED)
]


@swallowed  # an exception while a mapping is finalized
@pytest.mark.slow
@pytest.mark.parametrize(("call", "flush"), _CASES)
def test_an_interrupted_call_takes_effect_or_poisons_the_store(
    tmp_path: Path, call: Callable[[Stage], None], flush: Flush
) -> None:
    _, place_count = _interrupt(tmp_path / "none", call, 1 << 30, flush)
    before, usable = descriptors_before(), 0
    for at in range(0, place_count, max(place_count // _PLACES, 1)):
        is_usable, _ = _interrupt(tmp_path / str(at), call, at, flush)
        usable += is_usable
        gc.collect()
        assert count_descriptors() == before, at
    assert usable


def _interrupt(path: Path, call: Callable[[Stage], None], at: int, flush: Flush) -> tuple[bool, int]:
    """Interrupt a call at one of its places, if it has that many, and check the store afterwards.

    Returns whether the store was usable and not poisoned, and the number of places.
    """
    stage = Stage(path, flush)
    interruption = Interruption(at)
    interruption.run(lambda: call(stage))
    is_pending = None
    try:
        if call is not _close:
            stage.store.append(Message("t", b"behind"))
            is_pending = stage.half in stage.store.transactions.pending()
        stage.store.close()
        is_usable = True
    except PoisonedError:
        is_usable = False
        with suppress(PoisonedError):
            stage.store.close()
    assert check_store(path) == []
    with MessageStore(path, _OPTIONS) as store:
        found = [message.body.strip() for message in store.pull("t", 0, 0, 100)]
        pending = store.transactions.pending()
        assert len(store.find("t", "k")) == sum(body in _BEFORE for body in found) + (call is _append) * (
            b"one" in found
        )
    assert check_store(path) == []
    _judge(found, call)
    assert ([body for body in found if body == b"half"] == [b"half"]) == (call is _commit and stage.half not in pending)
    if is_usable and call is not _close:
        assert is_pending == (stage.half in pending)
        assert found[-1] == b"behind"
    return is_usable, interruption.passed


def _judge(found: list[bytes], call: Callable[[Stage], None]) -> None:
    """Check that each message is in the store once, in order."""
    kept = [body for body in found if body not in (b"behind", b"half")]
    done = {
        _append: [[b"one"]],
        _append_several: [[b"one", b"two"]],
        _append_on_the_next_file: [[bytes(4000)], [bytes(4000)] * 2],
    }.get(call, [])
    allowed = [_BEFORE, *([*_BEFORE, *more] for more in done)]
    if call is _remove:
        assert kept == _BEFORE[len(_BEFORE) - len(kept) :]
    else:
        assert kept in allowed


@swallowed
@pytest.mark.slow
def test_an_interrupted_opening_releases_the_store(tmp_path: Path) -> None:
    Stage(tmp_path, Flush.SYNC).store.close()
    opened: list[MessageStore] = []
    places = Interruption(1 << 30)
    places.run(lambda: opened.append(MessageStore(tmp_path, _OPTIONS)))
    opened.pop().close()
    before = descriptors_before()
    for at in range(0, places.passed, places.passed // _PLACES):
        Interruption(at).run(lambda: opened.append(MessageStore(tmp_path, _OPTIONS)))
        for store in opened:  # the exception came after the opening
            store.close()
        opened.clear()
        with MessageStore(tmp_path, _OPTIONS) as store:
            assert len(store.pull("t", 0, 0, 100)) == 10
        gc.collect()
        assert count_descriptors() == before, at
