"""A store whose folder is moved or removed while it is open: it refuses appends, which would be lost."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from binlog.errors import BinlogError, GoneError
from tests.support.checked_stores import OPTIONS
from tests.support.waiting import until


def _move(path: Path) -> None:
    path.rename(path.parent / "moved")


def _move_and_replace(path: Path) -> None:
    _move(path)
    with MessageStore(path, OPTIONS) as store:
        store.append(Message("t", b"theirs"))


_ENDS = [_move, _move_and_replace, shutil.rmtree]


@pytest.mark.parametrize("end", _ENDS)
@pytest.mark.parametrize("flush", Flush)
def test_appends_to_a_moved_or_removed_store_are_refused(
    tmp_path: Path, flush: Flush, end: Callable[[Path], None]
) -> None:
    path = tmp_path / "store"
    store = MessageStore(path, dataclasses.replace(OPTIONS, flush=flush))
    store.append(Message("t", b"before"))
    until(lambda: store.queue_range("t", 0) == range(1))
    end(path)
    dispatched: list[BinlogError] = []

    def refused() -> bool:
        try:
            store.append(Message("t", b"after"))
        except BinlogError as error:
            dispatched.append(error)
        return bool(dispatched)

    if flush is Flush.SYNC:
        assert refused()
    else:
        until(refused)
    assert isinstance(dispatched[0], GoneError)
    assert str(path) in str(dispatched[0])
    with pytest.raises(BinlogError):
        store.close()
