"""A journal under random calls, checked against the model after each load.

A crash keeps what was written to the kernel: the next load runs on a copy, made while nothing is written.  The copy
must have all that was acknowledged, and of later calls a prefix.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from binlog.errors import NotFoundError, StateError
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.journal.inspection.inspection import Inspection, check_journal, inspect_journal
from binlog.journal.journal import Journal
from binlog.journal.loading.record_states import RecordState
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record import Deleted, Record
from stress.journal.expectation import Expectation

_IDS = st.integers(1, 12)
_TX_IDS = st.integers(100, 104)
_BODIES = st.integers(0, 400).map(lambda size: bytes([size % 251]) * size)
_SYNCS = st.sampled_from([Sync.WAIT, Sync.FUTURE, *[Sync.LATER] * 5])
_SLOW_SECONDS = 3000.0  # long enough that records without a waiter stay in memory


class JournalMachine(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="binlog-journal-"))
        self._path = self._folder / "journal"
        self._copies = 0
        self._expected = Expectation()
        self._possible: list[Expectation] = []
        self._journal: Journal | None = None

    @initialize(
        layout=st.sampled_from([JournalLayout.NATIVE, JournalLayout.JBM]),
        alignment=st.sampled_from([1, 1, 64, 512]),
        slow=st.booleans(),
        pool=st.sampled_from([None, 0, 4]),
        by_itself=st.booleans(),
    )
    def begin(self, layout: JournalLayout, alignment: int, slow: bool, pool: int | None, by_itself: bool) -> None:
        self._options = JournalOptions(
            file_bytes=1024,
            layout=layout,
            alignment=alignment,
            pool_files=pool,
            buffer_bytes=300,
            flush_seconds=_SLOW_SECONDS if slow else 0.001,
            compact_files_min=3 if by_itself else 0,
            compact_ratio=0.5,
        )
        self._open()

    def _open(self) -> None:
        if self._path.exists():
            # The check reports nothing that a crash leaves by design, and finds the same records as the load.
            problems = check_journal(self._path)
            assert not problems, problems
            there = live_ids(inspect_journal(self._path, JournalNames()))
        else:
            there = []
        self._journal = Journal(self._path, self._options)
        self._journal.start()
        loaded = self._journal.load()
        assert not loaded.problems, loaded.problems
        assert there == sorted(record.record_id for record in loaded.records)
        wrong = [expected.differs(loaded) for expected in self._possible or [self._expected]]
        assert "" in wrong, wrong
        if self._possible:
            self._expected = self._possible[wrong.index("")].copy()
        self._expected.left = {}  # reported once
        least = self._expected.id_max if self._options.layout is JournalLayout.NATIVE else 0
        assert loaded.id_max >= max([least, *there])
        self._possible = [self._expected.copy()]

    @property
    def _opened(self) -> Journal:
        assert self._journal is not None
        return self._journal

    def _did(self, sync: Sync) -> None:
        after = self._expected.copy()
        after.reload()
        self._possible = [*self._possible, after] if sync is Sync.LATER else [after]

    def _call(self, call: Callable[..., Any], *arguments: Any, sync: Any) -> bool:
        """Make a call and return whether it did anything.  Waits for a future, so a future counts as acknowledged."""
        done = call(*arguments, sync=sync)
        if isinstance(done, Future):
            assert done.result(timeout=60) is None
        return done is not False

    @rule(record_id=_IDS, body=_BODIES, sync=_SYNCS)
    def add(self, record_id: int, body: bytes, sync: Any) -> None:
        is_new = not self._expected.is_taken(record_id)
        assert self._call(self._opened.try_append_add, record_id, 1, body, sync=sync) is is_new
        if is_new:
            self._expected.put(Record(record_id, 1, body))
            self._did(sync)

    @rule(record_id=_IDS, body=_BODIES, sync=_SYNCS)
    def update(self, record_id: int, body: bytes, sync: Any) -> None:
        there = self._expected.has(record_id)
        assert self._call(self._opened.try_append_update, record_id, 2, body, sync=sync) is there
        if there:
            self._expected.put(Record(record_id, 2, body, is_update=True))
            self._did(sync)

    @rule(record_id=_IDS, sync=_SYNCS)
    def delete(self, record_id: int, sync: Any) -> None:
        there = self._expected.has(record_id)
        assert self._call(self._opened.try_append_delete, record_id, sync=sync) is there
        if there:
            self._expected.take(record_id)
            self._did(sync)

    @rule(body=_BODIES, sync=_SYNCS, keeps=st.booleans())
    def add_with_a_new_id(self, body: bytes, sync: Any, keeps: bool) -> None:
        record_id = self._opened.new_id()
        least = self._expected.id_max if self._options.layout is JournalLayout.NATIVE else 0
        assert record_id > max([least, *(record.record_id for record in self._expected.records)])
        self.add(record_id, body, sync)
        if not keeps:
            self.delete(record_id, sync)

    @rule(tx_id=_TX_IDS, record_id=_IDS, body=_BODIES, kind=st.integers(0, 2), sync=_SYNCS)
    def join(self, tx_id: int, record_id: int, body: bytes, kind: int, sync: Any) -> None:
        refused = tx_id in self._expected.prepared or (kind == 0 and self._expected.is_taken(record_id))
        try:
            if kind == 2:
                self._call(self._opened.append_delete_tx, tx_id, record_id, body, sync=sync)
                item: Record | Deleted = Deleted(record_id, body)
            elif kind == 1:
                self._call(self._opened.append_update_tx, tx_id, record_id, 3, body, sync=sync)
                item = Record(record_id, 3, body, is_update=True)
            else:
                self._call(self._opened.append_add_tx, tx_id, record_id, 4, body, sync=sync)
                item = Record(record_id, 4, body)
        except StateError:
            assert refused
            return
        assert not refused
        self._expected.join(tx_id, item)
        self._did(sync)

    @rule(tx_id=_TX_IDS, extra=st.binary(max_size=9), sync=_SYNCS)
    def prepare(self, tx_id: int, extra: bytes, sync: Any) -> None:
        refused = tx_id in self._expected.prepared
        try:
            self._call(self._opened.prepare, tx_id, extra, sync=sync)
        except StateError:
            assert refused
            return
        assert not refused
        self._expected.prepare(tx_id, extra)
        self._did(sync)

    @rule(tx_id=_TX_IDS, sync=_SYNCS, commits=st.booleans())
    def end(self, tx_id: int, sync: Any, commits: bool) -> None:
        there = tx_id in self._expected.open
        try:
            self._call(self._opened.commit if commits else self._opened.rollback, tx_id, sync=sync)
        except NotFoundError:
            assert not there
            return
        assert there
        (self._expected.commit if commits else self._expected.roll_back)(tx_id)
        self._did(sync)

    @rule()
    def reclaim(self) -> None:
        self._opened.reclaim()
        if not self._options.compact_files_min:
            assert all(any(each[2:]) for each in self._opened.file_pins())

    @rule()
    def compact(self) -> None:
        self._opened.compact()
        assert self._opened.problems() == []

    @rule()
    def reload(self) -> None:
        self._opened.close()
        self._expected.reload()
        self._possible = [self._expected]
        self._open()

    @rule()
    def crash(self) -> None:
        self._copies += 1
        copy = self._folder / f"copy-{self._copies}"
        _copy_at_rest(self._path, copy)
        left = self._journal
        note(f"a crash, after which {len(self._possible)} states are possible")
        self._path = copy
        self._open()
        assert left is not None
        left.close()
        shutil.rmtree(left.path)

    def teardown(self) -> None:
        if self._journal is not None:
            self._journal.close()
        shutil.rmtree(self._folder)


def live_ids(journal: Inspection) -> list[int]:
    """Return the ids of live records and updates."""
    return sorted(
        file.columns.id_of(index)
        for file, states in zip(journal.files, journal.states.states, strict=True)
        for index, state in enumerate(states)
        if state in (RecordState.LIVE, RecordState.UPDATED)
    )


def _copy_at_rest(path: Path, copy: Path) -> None:
    """Copy the folder of a journal as of one moment: again if a file changed meanwhile."""
    while True:
        with contextlib.suppress(shutil.Error, FileNotFoundError):  # a file was renamed or removed
            shutil.copytree(path, copy)
            if _contents(path) == _contents(copy):
                return
        shutil.rmtree(copy, ignore_errors=True)


def _contents(path: Path) -> dict[Path, bytes]:
    return {each.relative_to(path): each.read_bytes() for each in path.rglob("*") if each.is_file()}
