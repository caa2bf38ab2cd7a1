"""Verification: compares a log with its seal, and with checkpoints from elsewhere."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import binlog
from binlog.errors import BinlogError, CorruptError, NotFoundError, SealError, VersionError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.format.seal.note import Note, VerifierKey, parse_last_note, parse_verifier_key
from binlog.format.seal.policy import Policy, parse_policy
from binlog.format.seal.state import HISTORY_FILE, HISTORY_SECONDS, Beginning
from binlog.format.seal.statement import Kind, Loss, holds_of, losses_of, prune_limit, repairs_of
from binlog.format.seal.tree import root_hash
from binlog.format.values import duration_of
from binlog.seal.folder import SealFolder, is_other_log, log_uuid, seal_path
from binlog.seal.hash_store import HashStore
from binlog.seal.keys import verified_keys
from binlog.seal.leaf_reader import LeafReader
from binlog.seal.note_file import NoteFile
from binlog.seal.statements import StatementLog
from binlog.seal.verifying.comparison import Comparison
from binlog.seal.verifying.index_times import SignedTimes, check_index_times
from binlog.seal.verifying.progress import Progress, read_progress, write_progress
from binlog.seal.verifying.report import Report, Rule


def verify(
    path: str | os.PathLike[str],
    vkey: str | None = None,
    *,
    policy: Policy | str | bytes | None = None,
    checkpoints: Iterable[str | bytes | Note] = (),
    max_age: float | timedelta | str | None = None,
    progress: str | os.PathLike[str] | None = None,
) -> Report:
    """Compare the records of a log with the newest checkpoint that is known.

    vkey: the public key, which must come from somewhere else than the log's directory.
    policy: in place of vkey, or its text; it has the key, and the witnesses that must have signed a checkpoint.
    checkpoints: notes from elsewhere, or the bytes of a `dir:` anchor's file, of which only the last note is used.
    Only a checkpoint that the log's directory does not have shows that the end of the log was cut off.
    max_age: of the newest checkpoint, and of records that are not sealed: seconds, a timedelta, or "1h".
    progress: a file outside of the log's directory.  Only records that were added since the last run with this file are
    compared, and the tree must have grown from the one of that run.  If nothing is wrong, the file is written, durably.
    None: the whole log is compared, and nothing is written.  May run while others append and seal.
    Raises: NotFoundError if there is no log; SealError if the key or the policy is malformed, or one of the checkpoints
    given is malformed or signed by another key; AccessError; ValueError for both a key and a policy, or neither.
    """
    trusted = _trusted(vkey, policy)
    key = trusted.logs[0]
    report = Report(key.name)
    notes = [each if isinstance(each, Note) else parse_last_note(_bytes(each)) for each in checkpoints]
    given = [_head(note, key) for note in notes]
    report.size = max((head.size for head in given), default=0)
    age = None if max_age is None else duration_of(max_age, "max_age")
    try:
        if not binlog.stat(path).files and not os.path.exists(seal_path(path)):
            raise NotFoundError(f"{os.fspath(path)} has no log")
        with _opened(path, report) as folder:
            if folder is not None:
                known = None if progress is None else read_progress(progress, key.name)
                run = _Verification(os.fspath(path), key, folder, report, known)
                run.check(given, age)
                run.check_policy(trusted, notes)
                if progress is not None and run.progress is not None and not report.findings:
                    write_progress(progress, run.progress)
    except (CorruptError, VersionError) as error:
        report.add(Rule.DAMAGED, str(error))
    return report


def _trusted(vkey: str | None, policy: Policy | str | bytes | None) -> Policy:
    """Return the policy, or one with the key alone.  Raises: SealError; ValueError."""
    if (vkey is None) == (policy is None):
        raise ValueError("verify needs either vkey or policy")
    if vkey is not None:
        return Policy([parse_verifier_key(vkey)])
    found = policy if isinstance(policy, Policy) else parse_policy(_bytes(policy or b""))
    if len(found.logs) != 1:
        raise ValueError(f"the policy has {len(found.logs)} logs; to verify one log, it must have one")
    return found


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


@contextmanager
def _opened(path: str | os.PathLike[str], report: Report) -> Iterator[SealFolder | None]:
    """Open the folder for a block; None, with a finding, if it does not exist."""
    try:
        folder = SealFolder(path)
    except NotFoundError:
        report.add(Rule.NOT_SEALED, f"there is no folder {seal_path(path)}")
        yield None
        return
    with folder:
        yield folder


def _head(note: Note, key: VerifierKey) -> Checkpoint:
    """Return the checkpoint of a note, if it is of the key's log.  Raises: SealError."""
    if not verified_keys(note, [key]):
        raise SealError(f"a checkpoint is not signed by {key.name}")
    head = parse_checkpoint(note.text)
    if head.origin != key.name:
        raise SealError(f"a checkpoint is of {head.origin}, not of {key.name}")
    return head


class _Verification:
    """One run of `verify`."""

    def __init__(self, path: str, key: VerifierKey, folder: SealFolder, report: Report, known: Progress | None) -> None:
        """known: how far the log was verified before."""
        self._known = known
        self.progress = known  # how far it is verified by now
        self._path = path
        self._key = key
        self._folder = folder
        self._report = report
        self._beginning: Beginning | None = None
        self._times = SignedTimes()
        self._statements = StatementLog(folder, key)
        self._has_bad_statements = False
        report.statements = self._statements.known

    def check(self, given: list[Checkpoint], max_age: float | None) -> None:
        """Compare the log with the checkpoints given and those of the folder."""
        report = self._report
        before = [] if self._known is None else [self._known.head()]
        heads = sorted([*before, *given, *self._own_heads()], key=lambda head: head.size)
        if not heads:
            report.add(Rule.NOT_SEALED, "no checkpoint is signed by the key")
            return
        newest = heads[-1]
        for head, following in pairwise(heads):
            if head.size == following.size and head.root != following.root:
                report.add(Rule.FORK, f"two signed checkpoints have different roots for {head.size} records")
        report.size = newest.size
        self._read_statements()
        self._check_statements(heads)
        store = self._folder.hashes(newest.size)
        self._check_stored(store, newest)
        try:
            files = self._folder.files()
        except SealError as error:
            report.add(Rule.DAMAGED, str(error))
            return
        first_leaves = {file.number: file.first_leaf for file in files}
        losses = losses_of(report.statements)
        reader = LeafReader(self._path, files, losses, repairs_of(report.statements))
        signed = heapq.merge(self._history(newest.size), heads, key=lambda head: head.size)
        comparison = Comparison(
            reader, store, signed, report.statements, lambda: self._first_left(first_leaves), report
        )
        first_leaf, start = self._first_left(first_leaves)
        if start is not None and self._known is not None and self._can_continue(first_leaf, losses, self._known):
            comparison.run(self._known.next_ref, self._known.size)
        elif start is not None:
            comparison.run(start, first_leaf)
        elif report.size:
            first_leaf = 0
            report.add(Rule.CUT, f"all of the {report.size} sealed records are missing")
        if comparison.next_ref is not None:
            self.progress = Progress(self._key.name, newest.size, newest.root, comparison.next_ref)
        for _ in signed:  # the rest of the history, if the comparison did not come as far
            pass
        if newest.seconds is not None:
            self._check_history(newest.seconds)
            self._times.add(newest.size, newest.seconds)
        self._read_statements()  # files that were removed meanwhile need a later one
        self._check_removed(max(first_leaf, comparison.first_left), reader)
        check_index_times(self._path, first_leaves, losses, self._times, report.statements, report)
        self._check_age(newest, comparison.first_unsealed, max_age)

    def check_policy(self, policy: Policy, notes: list[Note]) -> None:
        """Check that the witnesses of the policy have signed one of the checkpoints."""
        try:
            own = self._folder.checkpoint(cosigned=True)
        except SealError as error:
            self._report.add(Rule.KEY, f"the checkpoint of witnesses in the folder: {error}")
            own = None
        for note in [*notes, *([] if own is None else [own])]:
            try:
                if policy.is_met(verified_keys(note, [self._key, *policy.witnesses.values()])):
                    return
            except SealError as error:
                self._report.add(Rule.KEY, f"a checkpoint of witnesses: {error}")
        if not policy.is_met([]):
            self._report.add(Rule.KEY, f"the quorum {policy.quorum!r} has signed no checkpoint")

    def _own_heads(self) -> Iterator[Checkpoint]:
        """Yield the checkpoint in the folder, if the key signed it.  Adds a finding if the beginning is not signed."""
        try:
            note, beginning = self._folder.beginning()
            if not verified_keys(note, [self._key]):
                self._report.add(Rule.KEY, "the beginning of the seal is not signed by the key")
            elif is_other_log(uuid := log_uuid(self._path), beginning.uuid):
                self._report.add(Rule.FORK, f"the log is another one: {uuid}, not {beginning.uuid}")
            else:
                self._beginning = beginning
        except NotFoundError:
            self._report.add(Rule.NOT_SEALED, "the beginning of the seal does not exist")
        except SealError as error:
            self._report.add(Rule.KEY, str(error))
        for cosigned in (False, True):
            try:
                found = self._folder.checkpoint(cosigned=cosigned)
                if found is not None:
                    yield _head(found, self._key)
            except SealError as error:
                name = "checkpoint of witnesses" if cosigned else "checkpoint"
                self._report.add(Rule.KEY, f"the {name} in the folder: {error}")

    def _history(self, size: int) -> Iterator[Checkpoint]:
        """Yield the checkpoints of the history, up to a size."""
        last_size, last_seconds = 0, 0
        for note in NoteFile(self._folder.directory, HISTORY_FILE).notes():
            try:
                head = _head(note, self._key)
            except SealError as error:
                self._report.add(Rule.KEY, f"a checkpoint of the history: {error}")
                return
            if head.size < last_size or (head.seconds or 0) < last_seconds:
                self._report.add(Rule.DAMAGED, "the checkpoints of the history are not in order")
                return
            if head.size > size:
                return
            last_size, last_seconds = head.size, head.seconds or 0
            self._times.add(last_size, last_seconds)
            yield head

    @staticmethod
    def _can_continue(first_leaf: int, losses: list[Loss], known: Progress) -> bool:
        """Return whether the next record is where the last run ended: no loss at the end, and no removal, moved it."""
        return first_leaf < known.size and not any(loss.first < known.size <= loss.end for loss in losses)

    def _check_history(self, seconds: int) -> None:
        """Add a finding if the history ends before the time of the newest checkpoint."""
        last = self._times.seconds[-1] if self._times.seconds else 0
        if seconds - last >= HISTORY_SECONDS:
            self._report.add(Rule.MISSING, "the end of the history of checkpoints is missing")

    def _read_statements(self) -> None:
        """Read the statements that were added since the last call."""
        if self._has_bad_statements:
            return
        try:
            self._statements.refresh()
        except SealError as error:
            self._has_bad_statements = True
            self._report.add(Rule.KEY, str(error))

    def _check_statements(self, heads: list[Checkpoint]) -> None:
        try:
            for head in heads:
                self._statements.check(head)
        except SealError as error:
            self._report.add(Rule.MISSING, str(error))

    def _check_stored(self, store: HashStore, head: Checkpoint) -> None:
        """Compare the root of the stored hashes, which are derived, with the signed one."""
        try:
            if root_hash(head.size, store.node) != head.root:
                self._report.add(Rule.FORK, f"the hashes in the folder do not give the root of {head.size} records")
        except SealError as error:
            self._report.add(Rule.NOT_SEALED, str(error))

    def _first_left(self, first_leaves: dict[int, int]) -> tuple[int, Ref | None]:
        """Return the first leaf that is left in the log, and the ref of the log's first record.

        The size and None if no sealed record is left.
        """
        files = binlog.stat(self._path).files
        for file in files:
            if file.number in first_leaves:
                return first_leaves[file.number], Ref(files[0].number, files[0].first_offset)
        return self._report.size, None

    def _check_removed(self, first_leaf: int, reader: LeafReader) -> None:
        """Add a finding if records before a leaf were removed, and no statement explains it."""
        statements, report = self._report.statements, self._report
        if first_leaf == 0:
            return
        allowed = prune_limit(statements)
        may_go = 0 if allowed is None else allowed.integer("leaf")
        if first_leaf > may_go and not reader.is_lost(may_go, first_leaf):
            count = min(first_leaf, report.size) - may_go
            first = "the first" if may_go == 0 else f"after the {may_go} that were allowed to go,"
            report.add(Rule.MISSING, f"{first} {count} records are missing")
        for name, hold in holds_of(statements).items():
            if hold.integer("leaf") < first_leaf and not reader.is_lost(hold.integer("leaf"), first_leaf):
                text = f"records from {hold.integer('leaf')} to {first_leaf - 1} are missing, under the hold {name}"
                report.add(Rule.MISSING, text)
        keep = 0 if self._beginning is None else self._beginning.keep_seconds
        if allowed is not None and keep:
            sealed = self._times.of(min(first_leaf, may_go))
            if sealed is None or allowed.seconds - sealed < keep:
                text = f"records before {may_go} were allowed to go, younger than the {keep} s that the seal demands"
                report.add(Rule.MISSING, text)

    def _check_age(self, newest: Checkpoint, unsealed: Ref | None, max_age: float | None) -> None:
        """Add a finding if the newest checkpoint is too old, or records are not sealed that should be."""
        report, now = self._report, time.time()
        if any(each.kind is Kind.END for each in report.statements):
            if unsealed is not None:
                report.add(Rule.UNSEALED, "records were added after the end of the log", unsealed, report.size)
            return
        if max_age is None:
            return
        if newest.seconds is None or now - newest.seconds > max_age:
            text = "has no time" if newest.seconds is None else f"is {now - newest.seconds:.0f} s old"
            report.add(Rule.STALE, f"the newest checkpoint {text}; the limit is {max_age:g} s")
        if unsealed is not None:
            try:
                with binlog.Reader(self._path, unsealed, verify=False) as reader:
                    age = now - next(reader).time.timestamp()
            except BinlogError as error:
                report.add(Rule.DAMAGED, str(error))
                return
            if age > max_age:
                text = f"the record is {age:.0f} s old, and not sealed; the limit is {max_age:g} s"
                report.add(Rule.UNSEALED, text, unsealed, report.size)
