"""The constructors that put two engines together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from binlog.format.paging.names import JOURNAL_FOLDER
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions
from binlog.journal.record import Loaded
from binlog.paging.manager import PagingManager
from binlog.paging.options import PagingOptions
from binlog.storage.files import make_directory


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
    with Journal(os.path.join(path, JOURNAL_FOLDER), journal_options) as journal:
        loaded = journal.load()
        with PagingManager(path, options, store=journal, stored=loaded) as manager:
            yield Paging(manager, journal, loaded)
