"""Making a journal of the records of another one, by the calls that its user has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from binlog.errors import StateError
from binlog.format.journal.record import Kind
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record_reader import StoredRecord
from binlog.journal.record_states import RecordState
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors

_COUNTING = frozenset((RecordState.LIVE, RecordState.UPDATED, RecordState.PREPARED))
_UNFINISHED_END = ".importing"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import came to.

    record_count: records and updates that are there now.  prepared_count: transactions that wait for their end.
    left_out: updates of records that were damaged, and what else no journal takes.
    """

    record_count: int
    prepared_count: int
    left_out: int


def import_journal(path: str | os.PathLike[str], records: Iterable[StoredRecord], options: JournalOptions) -> Imported:
    """Make a journal in a new folder, or in an empty one, of what counts of the records, in their order.

    What is there comes back, in the transactions in which it was; those that are prepared stay so; what was deleted, or
    rolled back, or not ended, does not.  Ids continue above the largest that was met.
    The journal has its name once it is whole, and on the disk; otherwise nothing is there.
    Raises: StateError where the folder holds anything; FullError where a record fits in no file; AccessError;
    PoisonedError; and what reading the records raises.
    """
    path = os.path.abspath(path)
    unfinished = path + _UNFINISHED_END
    with own_errors(path, "looking into the folder"):
        if os.path.lexists(path) and os.listdir(path):
            raise StateError(f"{path} is not empty")
    with own_errors(unfinished, "making the directory"):
        os.mkdir(unfinished)
    try:
        with Journal(unfinished, options) as journal:
            journal.load()
            done = _Import(journal)
            for record in records:
                done.put(record)
            imported = done.finish()
        with Directory(unfinished) as directory:
            with own_errors(path, "naming the folder"):
                os.rename(unfinished, path)
            directory.sync_parent()
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return imported


class _Import:
    """Goes through the records."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._open: dict[int, int] = {}
        self._id_max = 0
        self._record_count = 0
        self._prepared_count = 0
        self._left_out = 0

    def put(self, record: StoredRecord) -> None:
        """The next record."""
        self._id_max = max(self._id_max, record.record_id or 0, record.tx_id or 0)
        if record.kind is Kind.COMMIT and record.tx_id in self._open:
            count = self._open.pop(record.tx_id)
            if count:
                self._journal.commit(record.tx_id, sync=Sync.LATER)
            self._record_count += count
        elif record.state not in _COUNTING:
            return
        elif record.tx_id is None:
            self._put_plain(record)
        elif record.kind is Kind.PREPARE:
            self._journal.prepare(record.tx_id, record.body, sync=Sync.LATER)
            self._open.pop(record.tx_id, None)
            self._prepared_count += 1
        else:
            self._join(record, record.tx_id)

    def finish(self) -> Imported:
        """After the last one."""
        for tx_id, count in self._open.items():  # nothing says that they were committed
            if count:
                self._journal.rollback(tx_id, sync=Sync.LATER)
            self._left_out += count
        if self._journal.new_id() <= self._id_max:
            # A transaction that does nothing, so that the next load meets the id.
            self._journal.prepare(self._id_max, sync=Sync.LATER)
            self._journal.rollback(self._id_max)
        return Imported(record_count=self._record_count, prepared_count=self._prepared_count, left_out=self._left_out)

    def _put_plain(self, record: StoredRecord) -> None:
        assert record.record_id is not None
        put = self._journal.try_append_add if record.kind is Kind.ADD else self._journal.try_append_update
        is_put = put(record.record_id, record.user_type or 0, record.body, sync=Sync.LATER)
        self._record_count += is_put
        self._left_out += not is_put

    def _join(self, record: StoredRecord, tx_id: int) -> None:
        assert record.record_id is not None
        count = self._open.setdefault(tx_id, 0)
        if record.kind is Kind.DELETE_TX:
            self._journal.append_delete_tx(tx_id, record.record_id, record.body)
            return
        join = self._journal.append_add_tx if record.kind is Kind.ADD_TX else self._journal.append_update_tx
        try:
            join(tx_id, record.record_id, record.user_type or 0, record.body)
        except StateError:  # there is such a record, which no journal says twice
            self._left_out += 1
            return
        self._open[tx_id] = count + 1
