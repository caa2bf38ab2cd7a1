from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog.compose import Paging, open_paging
from binlog.errors import GoneError, StateError
from binlog.paging.cursor import PageCursor
from binlog.paging.options import PagingOptions
from binlog.paging.store import PagingStore

SMALL = PagingOptions(page_bytes=1024)
MESSAGES = [b"%d" % number * 50 for number in range(100)]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Paging, PagingStore, PageCursor]]:
    with open_paging(path, SMALL) as paging:
        store = paging.manager.store("orders")
        store.start_paging()
        yield paging, store, paging.manager.cursor("orders")


def _read(cursor: PageCursor) -> dict[int, bytes]:
    """All that there is for now, by its places."""
    found = {}
    while run := cursor.read():
        found.update(dict(enumerate(run.messages, run.place)))
    return found


def test_messages_come_in_order_and_pages_go_once_all_is_acknowledged(tmp_path: Path) -> None:
    with _opened(tmp_path) as (paging, store, cursor):
        places = [store.append(message) for message in MESSAGES]
        found = _read(cursor)
        assert list(found.items()) == list(zip(places, MESSAGES, strict=True))
        assert store.page_count > 3
        for place in reversed(found):
            cursor.ack(place)
        paging.manager.drain()
        assert [page.is_open for page in store.pages] == [True]
        last = store.pages[0].page_id
        names = {path.name for path in Path(store.folder.path).iterdir()}
        assert names == {"address.txt", f"{last:09d}.page", f"{last:09d}.acks"}


def test_what_was_acknowledged_does_not_come_back(tmp_path: Path) -> None:
    with _opened(tmp_path) as (_, store, cursor):
        places = [store.append(message) for message in MESSAGES]
        for place in places[::3]:
            assert place is not None
            cursor.ack(place)
        with pytest.raises(StateError):
            cursor.ack(places[0] or 0)
    with _opened(tmp_path) as (_, _, cursor):
        left = [message for number, message in enumerate(MESSAGES) if number % 3]
        assert list(_read(cursor).values()) == left
        with pytest.raises(GoneError):
            cursor.ack(999 << 32)


def test_reading_goes_on_with_what_is_appended_meanwhile(tmp_path: Path) -> None:
    with _opened(tmp_path) as (_, store, cursor):
        for message in MESSAGES:
            store.append(message)
            assert list(_read(cursor).values()) == [message]


def test_a_place_to_go_on_from(tmp_path: Path) -> None:
    with _opened(tmp_path) as (_, store, cursor):
        places = [store.append(message) for message in MESSAGES]
        cursor.seek(places[42] or 0)
        assert list(_read(cursor).values()) == MESSAGES[42:]
