"""binlog's journal: adds by threads of one process, loading and scanning."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from binlog.format.journal.compiled import scan_file
from binlog.journal.files.listing import read_use, view_folder
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions, Sync
from stress.bench.contestant import BODY_BYTES
from stress.bench.loops import append_loop, in_threads, pass_loop
from stress.bench.measuring import Prepare, preparing
from stress.bench.processes import Loop, Work

_USER_TYPE = 1
_OPTIONS = JournalOptions()
_SMALL_BODY_BYTES = 100


@contextmanager
def _loaded(directory: Path) -> Iterator[Journal]:
    with Journal(directory / "journal", _OPTIONS) as journal:
        journal.load()
        yield journal


def adding(sync: Sync, *, threads: int = 1) -> Prepare:
    """Add records, one a call; a load then finds all of them."""

    def loop(journal: Journal) -> Loop:
        adds = in_threads(append_loop(_adder(journal, sync), os.urandom(BODY_BYTES)), threads)

        def add_and_sync(work: Work) -> int:
            count = adds(work)
            journal.append_add(-1, _USER_TYPE, b"")  # the time ends after everything is on the disk
            return count

        return adds if sync is Sync.WAIT else add_and_sync

    return preparing(_loaded, loop, stored=_stored)


def _adder(journal: Journal, sync: Sync) -> Callable[[bytes], None]:
    numbers = itertools.count(1)
    append = journal.append_add

    def add(body: bytes) -> None:
        append(next(numbers), _USER_TYPE, body, sync=sync)  # type: ignore[call-overload]

    return add


def _stored(directory: Path) -> int:
    with Journal(directory / "journal", _OPTIONS) as journal:
        return sum(record.record_id > 0 for record in journal.load().records)


def loading(records: int) -> Prepare:
    """Load a journal of small records again and again, which makes an object for each record."""

    def load(directory: Path) -> None:
        with Journal(directory / "journal", _OPTIONS) as journal:
            assert len(journal.load().records) == records

    return _reading(records, load)


def scanning(records: int) -> Prepare:
    """Scan the same journal as a check does, which makes no objects."""

    def scan(directory: Path) -> None:
        files = view_folder(directory / "journal", _OPTIONS.names).files
        assert sum(scan_file(read_use(file), file.header).record_count for file in files) == records

    return _reading(records, scan)


def _reading(records: int, read: Callable[[Path], None]) -> Prepare:
    def make(directory: Path) -> None:
        body = os.urandom(_SMALL_BODY_BYTES)
        with _loaded(directory) as journal:
            for number in range(1, records + 1):
                journal.append_add(number, _USER_TYPE, body, sync=Sync.LATER)

    return preparing(nullcontext, lambda directory: pass_loop(lambda: read(directory), records), make=make)
