"""The constructors that put two engines together."""

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
from binlog.paging.transaction_store import refuse_other_numbers
from binlog.queue.queue import MEMORY_BYTES, Queue
from binlog.storage.files import make_directory
from binlog.storage.group_commit import Mode

# Transactions of a queue take little of it.
_QUEUE_JOURNAL = JournalOptions(file_bytes=1 << 20)
_COUNTING = (RecordState.LIVE, RecordState.UPDATED, RecordState.PREPARED)


class Paging(NamedTuple):
    """A paging manager with its journal.  loaded: what that had, also of what is not paging's."""

    manager: PagingManager
    journal: Journal
    loaded: Loaded


@contextmanager
def open_paging(
    path: str | os.PathLike[str],
    options: PagingOptions | None = None,
    journal_options: JournalOptions | None = None,
) -> Iterator[Paging]:
    """The paging in a folder, whose transactions are recorded in a journal below it, for the block.

    The folder is made where there is none, in one that is there.  Both are started, and stopped behind the block.
    Raises: BusyError; AccessError; CorruptError; VersionError; FullError; PoisonedError.
    """
    make_directory(os.fspath(path))
    _refuse_other_numbers(os.path.join(path, JOURNAL_FOLDER), journal_options or JournalOptions())
    with Journal(os.path.join(path, JOURNAL_FOLDER), journal_options) as journal:
        loaded = journal.load()
        with PagingManager(path, options, store=journal, stored=loaded) as manager:
            yield Paging(manager, journal, loaded)


def open_queue(
    path: str | os.PathLike[str],
    *,
    mode: Mode | str = Mode.SYNC,
    memory_bytes: int = MEMORY_BYTES,
    deliveries_max: int | None = None,
    options: PagingOptions | None = None,
    journal_options: JournalOptions | None = None,
) -> Queue:
    """Open the queue in a folder, which is made where there is none, in one that is there; close it in the end.

    mode: Mode.SYNC or Mode.FLUSH, how far a message is when `put` has returned.  memory_bytes: of messages that nobody
    has got yet; what is beyond stays in pages.  deliveries_max: a message given so often, and not acknowledged,
    is put into `Queue.dead_letters`; None for no limit.  options: of the pages; with page_count_max, two or more,
    `put` waits or raises queue.Full.  journal_options: of the journal that says which transactions were committed.
    Raises: BusyError; AccessError; CorruptError; VersionError; FullError; PoisonedError; ValueError.
    """
    options = options or PagingOptions()
    if options.page_count_max is not None and (options.page_count_max < 2 or options.full_policy is not Policy.FAIL):
        raise ValueError("a queue has two pages at least, and puts no message into none")
    make_directory(os.fspath(path))
    _refuse_other_numbers(os.path.join(path, JOURNAL_FOLDER), journal_options or _QUEUE_JOURNAL)
    opening = ExitStack()
    try:
        journal = Journal(os.path.join(path, JOURNAL_FOLDER), journal_options or _QUEUE_JOURNAL)
        opening.enter_context(journal)
        manager = PagingManager(path, options, store=journal, stored=journal.load())
        opening.push(manager)  # also if a signal handler raises as the start ends
        manager.start()
        queue = Queue(manager, mode=mode, memory_bytes=memory_bytes, deliveries_max=deliveries_max, close=journal.close)
    except BaseException:
        with suppress(BinlogError):
            opening.close()
        raise
    return queue


def _refuse_other_numbers(path: str, options: JournalOptions) -> None:
    """Look at a journal of JBoss Messaging's before anything is written to it.  Raises: VersionError; CorruptError."""
    names = {"prefix": options.prefix, "extension": options.extension}
    if not os.path.isdir(path):
        return
    try:
        if view_folder(path, options.names, options.layout).layout in (None, JournalLayout.NATIVE):
            return
        records = read_records(path, **names, layout=options.layout)
    except NotFoundError:
        return
    refuse_other_numbers(
        Record(each.record_id, each.user_type, each.body)
        for each in records
        if each.state in _COUNTING and each.record_id is not None and each.user_type is not None
    )
