"""Constructors that combine two engines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from binlog.errors import BinlogError, NotFoundError
from binlog.format.journal.file_header import JournalLayout
from binlog.format.paging.names import JOURNAL_FOLDER
from binlog.journal.files.listing import view_folder
from binlog.journal.inspection.record_reader import read_records
from binlog.journal.journal import Journal
from binlog.journal.loading.record_states import RecordState
from binlog.journal.options import JournalOptions
from binlog.journal.record import Loaded, Record
from binlog.paging.manager import PagingManager
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.transaction_store import refuse_2008_records
from binlog.queue.queue import MEMORY_BYTES, Queue
from binlog.storage.files import make_directory
from binlog.storage.mode import Mode

# The transactions of a queue take little space.
_QUEUE_JOURNAL = JournalOptions(file_bytes=1 << 20)
_COUNTED_STATES = (RecordState.LIVE, RecordState.UPDATED, RecordState.PREPARED)


class OpenedPaging(NamedTuple):
    """A paging manager and its journal.  loaded: the contents of the journal, including other records."""

    manager: PagingManager
    journal: Journal
    loaded: Loaded


@contextmanager
def open_paging(
    path: str | os.PathLike[str],
    options: PagingOptions | None = None,
    journal_options: JournalOptions | None = None,
) -> Iterator[OpenedPaging]:
    """Open the paging in a folder, with a journal in it that records transactions; close both after the block.

    The folder is created if it does not exist; its parent must exist.
    Raises: BusyError; AccessError; CorruptError; VersionError; FullError; PoisonedError.
    """
    make_directory(os.fspath(path))
    _refuse_2008_journal(os.path.join(path, JOURNAL_FOLDER), journal_options or JournalOptions())
    with Journal(os.path.join(path, JOURNAL_FOLDER), journal_options) as journal:
        loaded = journal.load()
        with PagingManager(path, options, store=journal, stored=loaded) as manager:
            yield OpenedPaging(manager, journal, loaded)


def open_queue(
    path: str | os.PathLike[str],
    *,
    mode: Mode | str = Mode.SYNC,
    memory_bytes: int = MEMORY_BYTES,
    deliveries_max: int | None = None,
    options: PagingOptions | None = None,
    journal_options: JournalOptions | None = None,
) -> Queue:
    """Open the queue in a folder, which is created if it does not exist; its parent must exist.  Close it when done.

    mode: how durable a message is when `put` returns, Mode.SYNC or Mode.FLUSH.  memory_bytes: limit of messages in
    memory that no consumer has got; others stay in pages.  deliveries_max: a message that was delivered this often, and
    not acknowledged, goes to `Queue.dead_letters`; None for no limit.  options: of the pages.  With page_count_max, at
    least 2, `put` waits or raises queue.Full.  journal_options: of the journal that records which transactions were
    committed.
    Raises: BusyError; AccessError; CorruptError; VersionError; FullError; PoisonedError; ValueError.
    """
    options = options or PagingOptions()
    if options.page_count_max is not None and (options.page_count_max < 2 or options.full_policy is not Policy.FAIL):
        raise ValueError("a queue needs page_count_max of at least 2, and full_policy Policy.FAIL")
    make_directory(os.fspath(path))
    _refuse_2008_journal(os.path.join(path, JOURNAL_FOLDER), journal_options or _QUEUE_JOURNAL)
    opening = ExitStack()
    try:
        journal = Journal(os.path.join(path, JOURNAL_FOLDER), journal_options or _QUEUE_JOURNAL)
        opening.enter_context(journal)
        manager = PagingManager(path, options, store=journal, stored=journal.load())
        opening.push(manager)  # also if a signal handler raises as `start` returns
        manager.start()
        queue = Queue(manager, mode=mode, memory_bytes=memory_bytes, deliveries_max=deliveries_max, close=journal.close)
    except BaseException:
        with suppress(BinlogError):
            opening.close()
        raise
    return queue


def _refuse_2008_journal(path: str, options: JournalOptions) -> None:
    """Check a journal of JBoss Messaging before anything is written to it.  Raises: VersionError; CorruptError."""
    names = {"prefix": options.prefix, "extension": options.extension}
    if not os.path.isdir(path):
        return
    try:
        if view_folder(path, options.names, options.layout).layout in (None, JournalLayout.NATIVE):
            return
        records = read_records(path, **names, layout=options.layout)
    except NotFoundError:
        return
    refuse_2008_records(
        Record(each.record_id, each.user_type, each.body)
        for each in records
        if each.state in _COUNTED_STATES and each.record_id is not None and each.user_type is not None
    )
