"""Sealer: adds a log's durable records to the tree, and signs its root.

Each round: the records that a sync covers become leaves; their hashes are synced; then the state with the signed note
is written, and then the checkpoint.  So after a crash at any place the sealer continues from its state, and the same
records give the same root.  It never signs a smaller size, or another root for a size, because it stops if the log is
not as its state says (SealError): an older copy was put back, or records were changed.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import NamedTuple

import binlog
from binlog.errors import AccessError, BinlogError, FullError, GoneError, NotFoundError, SealError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import Checkpoint, extension_lines, parse_checkpoint
from binlog.format.seal.note import Note
from binlog.format.seal.state import (
    BEGINNING_FILE,
    HASH_FOLDER,
    HISTORY_FILE,
    HISTORY_SECONDS,
    Beginning,
    SealedFile,
    SealState,
)
from binlog.format.seal.statement import Kind, Loss, Value, broken_text, losses_of, prune_limit, repairs_of
from binlog.format.seal.tree import leaf_hashes, root_hash
from binlog.seal.anchors import Anchor
from binlog.seal.folder import SealFolder, is_other_log, log_uuid, seal_path
from binlog.seal.hash_store import TILE_HASHES
from binlog.seal.keys import Signer, signed_note, verified_keys
from binlog.seal.leaf_reader import LeafReader
from binlog.seal.note_file import NoteFile
from binlog.seal.sealing.anchoring import Anchoring
from binlog.seal.sealing.losses import find_losses
from binlog.seal.sealing.scrubbing import Scrubber
from binlog.seal.sealing.seal_clock import SealClock
from binlog.seal.statements import StatementLog
from binlog.seal.waiting import Bell
from binlog.storage.directory import Directory
from binlog.storage.file_access import user_name
from binlog.storage.handle import Handle
from binlog.storage.waiting.worker import Worker

# Without a new record or statement, the last size is signed again after this time.
HEARTBEAT_SECONDS = 600
# A sealer that starts tells of the time without one, if it was longer.
GAP_SECONDS = 2 * HEARTBEAT_SECONDS
# Up to this many leaves are hashed between two writes of hashes.
_LEAVES_AT_ONCE = 1 << 16


class _Place(NamedTuple):
    """How far the tree has come in the log; see SealState."""

    size: int
    next_ref: Ref
    tile_ref: Ref
    files: tuple[SealedFile, ...]
    last_ref: Ref | None


class Sealer(Handle):
    """Seals the log in a directory; one at a time.

    path: of the log, which has a seal (`begin_seal`).  key: the one that the seal began with.
    anchors: places that get the checkpoints; they are asked for their latest one when the sealer opens.
    accept_loss: a text that says why records are missing, or `repair` put fillers in their place; then statements tell
    of the loss, and the sealer continues.  None refuses to open such a log.
    May run beside any number of writers and readers, which it never blocks.  It needs the permission to read the log,
    and to write to its folder `seal`.
    Raises: BusyError if another process seals the log; NotFoundError if it has no seal; SealError if the key is
    another one, or the log differs from its seal: records are missing or changed; AccessError.
    """

    kind = "sealer of"
    lock_name = "lock"

    def __init__(
        self,
        path: str | os.PathLike[str],
        key: Signer,
        *,
        anchors: Sequence[Anchor] = (),
        accept_loss: str | None = None,
    ) -> None:
        if not os.path.isdir(seal_path(path)):
            raise NotFoundError(f"{os.fspath(path)} has no seal; see `binlog seal init`")
        self.log_path = os.fspath(path)
        self._key = key
        self._anchors = anchors
        self._accepted = accept_loss
        super().__init__(seal_path(path))
        self._acquire()

    def _open(self, undoing: ExitStack) -> None:
        self._folder = SealFolder(self.log_path, self._directory)
        undoing.callback(self._folder.close)
        note, beginning = self._folder.beginning()
        if verified_keys(note, [self._key.verifier]) == set():
            raise SealError(f"{self.path} began with another key than {self._key.verifier}")
        self._beginning = beginning
        try:
            self._state = self._folder.state()
        except NotFoundError:
            self._state = SealState(0, beginning.first, beginning.first, 0, None)
        self._store = self._folder.hashes(self._state.size)
        self._files = tuple(self._folder.files(self._state.file_count))
        self._statements = StatementLog(self._folder, self._key.verifier)
        self._history = NoteFile(self._directory, HISTORY_FILE)
        self._history_seconds: int | None = None  # of its last checkpoint, once it was read
        self._anchoring = Anchoring(self._anchors, self._folder)
        with self._alarm():
            self._check_statements()
            self._check_state()
            if self._accepted is not None:
                self._accept_loss(self._accepted)
            self._check_log()
            self._anchoring.check(self._state.size, lambda note: bool(verified_keys(note, [self._key.verifier])))
        self._requests = Bell(self._directory, "requests", make=True)
        undoing.callback(self._requests.close)
        self._answers = Bell(self._directory, "answers")
        undoing.callback(self._answers.close)
        self._is_anchored = False
        if self._state.note is not None:
            self._write_note(self._state.note)  # a crash may have come before it
        self._start_clock()

    @contextmanager
    def _alarm(self) -> Iterator[None]:
        """Tell the anchors if a block finds that the log differs from its seal."""
        try:
            yield
        except SealError as error:
            text = broken_text(self._beginning.origin, int(time.time()), str(error))
            self._anchoring.alarm(signed_note(text, [self._key]))
            raise

    def _start_clock(self) -> None:
        """Begin with the last signed time; tell if the clock is before it, or if no sealer ran for long."""
        last, now = self._signed_seconds, int(time.time())
        self._clock = SealClock(last)
        if self._state.note is not None and now - last > GAP_SECONDS:
            self.add_statement(Kind.GAP, begin=last, end=now)
        if self._state.note is not None and last - now > 1:
            self.add_statement(Kind.CLOCK, before=last, after=now)

    @property
    def _signed_seconds(self) -> int:
        """When the last checkpoint was signed, or the seal began; since 1970 UTC."""
        if self._state.note is None:
            return self._beginning.seconds
        return parse_checkpoint(self._state.note.text).seconds or 0

    def add_statement(self, kind: Kind, **values: Value) -> None:
        """Add a statement, durably; the next checkpoint covers it.  Raises: SealError; FullError; PoisonedError."""
        self._statements.add(self._key, kind, self._state.size, **values)

    def _end(self) -> None:
        """Do nothing: each round makes everything durable."""

    def _close_parts(self) -> None:
        self._requests.close()
        self._answers.close()
        self._folder.close()

    @property
    def checkpoint(self) -> Note | None:
        """The last signed checkpoint."""
        return self._state.note

    def seal(self) -> Note:
        """Add all records to the tree that are durable now, and return a checkpoint that covers them.

        Durable when it returns.  Signs only if there are new records or statements, or if the last checkpoint is older
        than ten minutes: the new one then shows that the log has no new records, and that a sealer runs.
        Raises: SealError if the log differs from its seal; FullError, AccessError, PoisonedError: the next call tries
        again.
        """
        with self._guard:
            self._check_last()
            if (step := self._clock.step()) is not None:
                self.add_statement(Kind.CLOCK, before=step.before, after=step.after)
            state = self._state
            place = _Place(state.size, state.next_ref, state.tile_ref, self._files, state.last_ref)
            log = binlog.stat(self.log_path)  # asked once: otherwise the round might never end beside quick writers
            while (following := self._add_some(place, log)) != place:
                place = following
            note = self._state.note
            self._statements.refresh()
            if note is None or place.size > self._state.size or not self._is_current(note):
                return self._sign(place)
            return note

    def _is_current(self, note: Note) -> bool:
        """Return whether a checkpoint has all statements, and is not old."""
        count, _ = parse_checkpoint(note.text).statements
        return count == len(self._statements.known) and self._clock.age() < HEARTBEAT_SECONDS

    def anchor(self) -> dict[str, BinlogError | None]:
        """Hand the last checkpoint to all anchors; return the error of each by its name, or None.

        May run in another thread than `seal`.  Blocks: until the slowest has answered, some 20 s at most.
        Raises: SealError if an anchor knows a checkpoint that contradicts this one: the log has two histories;
        AccessError, FullError, PoisonedError.
        """
        note = self._state.note
        errors = {} if note is None else self._anchoring.publish(note)
        self._answers.ring()
        return errors

    def run(
        self,
        stop: threading.Event,
        every: float = 1.0,
        on_failure: Callable[[str], None] | None = None,
        *,
        scrub: float = 0.01,
    ) -> None:
        """Seal each `every` seconds, and hand new checkpoints to the anchors, until `stop` is set; and once more.

        Sooner if a caller waits for a record (`wait`).  It notices `stop` after a signal, or `every` seconds at most.
        Tells of its start and its stop in a statement.
        scrub: the share of a core that a thread takes to compare old records with the seal again and again; 0 for none.
        on_failure: called with a message if there is no space or no permission, an anchor cannot be reached, or old
        records cannot be read, before the next attempt.
        Raises: SealError if the log differs from its seal or an anchor's checkpoint, after a note to the anchors; and
        other errors of `seal`.
        """
        failures: list[SealError] = []
        worker = Worker(lambda: self._anchor_quietly(on_failure, failures))
        worker.start()
        scrubber = Scrubber(self._folder, self._key, lambda: (self._state.size, self._files), scrub, on_failure)
        started = threading.Thread(target=scrubber.run, daemon=True) if scrub else None
        pending = [(Kind.START, {"every": every})]
        is_last = False
        try:
            if started is not None:
                started.start()
            seen = self._requests.value()
            while not is_last:
                if not stop.is_set() and not pending:
                    self._requests.wait(seen, every)
                is_last = stop.is_set()
                if is_last:
                    pending.append((Kind.STOP, {}))
                seen = self._requests.value()  # before the records are read: a later caller wakes it again
                try:
                    with self._alarm():
                        while pending:
                            self.add_statement(pending[0][0], **pending[0][1])
                            del pending[0]
                        before = self._state.note
                        if self.seal() is not before or not self._is_anchored:
                            worker.notify()
                        for failure in failures + scrubber.failures:
                            raise failure
                except (FullError, AccessError) as error:
                    if on_failure is None:
                        raise
                    on_failure(str(error))
                    if pending:
                        stop.wait(every)
        finally:
            scrubber.stop()
            if started is not None and started.ident is not None:
                started.join()
            worker.stop()
        self._anchor_quietly(on_failure, failures)
        if failures:
            raise failures[0]

    def wake(self) -> None:
        """Make `run` seal at once, or notice that it must stop.  May run in another thread."""
        self._requests.ring()

    def _anchor_quietly(self, on_failure: Callable[[str], None] | None, failures: list[SealError]) -> None:
        """Hand the last checkpoint to all anchors, and add a contradiction to `failures`."""
        found: list[BinlogError] = []
        try:
            found = [error for error in self.anchor().values() if error is not None]
        except SealError as error:
            failures.append(error)
        except BinlogError as error:
            found = [error]
        self._is_anchored = not found
        for each in found:
            if on_failure is not None:
                on_failure(str(each))

    def _sign(self, place: _Place) -> Note:
        self._store.sync()
        self._statements.sync()
        if len(place.files) > len(self._files):
            self._folder.write_files(len(self._files), list(place.files[len(self._files) :]))
        root = root_hash(place.size, self._store.node)
        seconds, statements = self._clock.sign(), self._statements
        moment = extension_lines(seconds, len(statements.known), statements.last_hash())
        note = signed_note(Checkpoint(self._beginning.origin, place.size, root, moment).text(), [self._key])
        state = SealState(place.size, place.next_ref, place.tile_ref, len(place.files), note, place.last_ref)
        self._folder.write_state(state)
        self._write_note(note)
        # Only now: `anchor`, perhaps in another thread, must not hand over a checkpoint whose state may be lost.
        self._state, self._files = state, place.files
        self._answers.ring()
        return note

    def _write_note(self, note: Note) -> None:
        """Replace the checkpoint, after the history has it: so the history never ends long before the checkpoint.

        The first one after opening, which another sealer may have signed, is added if it covers more records.
        """
        head = parse_checkpoint(note.text)
        seconds, last = head.seconds or 0, self._history.last() if self._history_seconds is None else None
        known = None if last is None else parse_checkpoint(last.text)
        before = self._history_seconds if known is None else known.seconds
        is_new = known is not None and known.size < head.size
        if before is None or is_new or seconds - before >= HISTORY_SECONDS:
            self._history.append(note)
            before = seconds
        self._history_seconds = before
        self._folder.write_checkpoint(note)

    def _add_some(self, place: _Place, log: binlog.LogStat) -> _Place:
        """Add some of the records that are durable according to `log`; return how far it has come then."""
        self._store = self._folder.hashes(place.size) if self._store.size != place.size else self._store
        ends = durable_ends(log)
        leaves: list[bytes] = []
        size, files, tile_ref = place.size, list(place.files), place.tile_ref
        next_ref, last_ref = place.next_ref, place.last_ref
        with self._reader(place.next_ref) as reader:
            while size - place.size < _LEAVES_AT_ONCE and (batch := reader.read_batch()):
                sealed = batch.before(ends.get(batch.number, 0))
                if len(sealed) == 0:
                    break
                if not files or files[-1].number != sealed.number:
                    files.append(SealedFile(sealed.number, size))
                leaves.append(leaf_hashes(sealed.data, sealed.offsets))
                count = len(sealed)
                first_of_tile = (size + count) // TILE_HASHES * TILE_HASHES - size
                next_ref = sealed.next_ref
                last_ref = Ref(sealed.number, sealed.offset + sealed.offsets[count - 1])
                if first_of_tile >= 0:
                    tile_ref = Ref(sealed.number, sealed.offset + sealed.offsets[first_of_tile])
                size += count
                if count < len(batch):
                    break
        if leaves:
            self._store.append(b"".join(leaves))
        following = _following(next_ref, log)
        return _Place(size, following, following if tile_ref == next_ref else tile_ref, tuple(files), last_ref)

    def _reader(self, ref: Ref, *, verify: bool = True) -> binlog.Reader:
        try:
            return binlog.Reader(self.log_path, ref, verify=verify)
        except (GoneError, NotFoundError, ValueError) as error:
            text = f"{self.log_path} differs from its seal: {self._state.size} records, up to {ref}"
            raise SealError(f"{text}; {error}") from error

    def _check_state(self) -> None:
        """Check that the state is as new as the other files, which are always written after it."""
        notes = [each for each in (self._folder.checkpoint(), self._history.last()) if each is not None]
        sizes = [parse_checkpoint(each.text).size for each in notes if verified_keys(each, [self._key.verifier])]
        sealed = max([*sizes, *(each.size for each in self._statements.known)], default=0)
        if (sizes and self._state.note is None) or sealed > self._state.size:
            found = "does not exist" if self._state.note is None else f"has {self._state.size} records"
            raise SealError(f"{self.path}: the sealer's state {found}, and {sealed} records were sealed")

    def _check_statements(self) -> None:
        """Check that the statements continue one another, are those of the checkpoint, and that the log has no end."""
        self._statements.refresh()
        if self._state.note is not None:
            self._statements.check(parse_checkpoint(self._state.note.text))
        if any(each.kind is Kind.END for each in self._statements.known):
            raise SealError(f"{self.path}: the log has ended, by a statement")

    def _check_last(self) -> None:
        """Check that the last sealed record is as it was: if the end was cut, others may have taken its place since."""
        state, reader = self._state, self._leaf_reader()
        if state.last_ref is None or reader.is_lost(state.size - 1, state.size):
            return
        try:
            text = reader.difference(self._store, state.last_ref, state.size - 1, state.size)
        except (GoneError, NotFoundError):
            return  # retention removed its file
        except ValueError as error:
            text = f"{state.size} records, the last one at {state.last_ref}; {error}"
        if text is not None:
            raise SealError(f"{self.log_path} differs from its seal: {text}")

    def _check_log(self) -> None:
        """Check that the log still has the records of the last tile, and is as long as the state says."""
        state = self._state
        first = state.size // TILE_HASHES * TILE_HASHES
        uuid = log_uuid(self.log_path)
        if is_other_log(uuid, self._beginning.uuid):
            raise SealError(f"{self.log_path} is another log: {uuid} in place of {self._beginning.uuid}")
        if state.note is not None:
            head, signed = root_hash(state.size, self._store.node), parse_checkpoint(state.note.text)
            if (self._beginning.origin, state.size, head) != (signed.origin, signed.size, signed.root):
                raise SealError(f"{self.path}: the hashes there do not give the root that was signed")
        start, leaf = self._first_left(state.tile_ref, first)
        try:
            text = self._leaf_reader().difference(self._store, start, leaf, state.size)
        except (GoneError, NotFoundError, ValueError) as error:
            text = f"{state.size} records, up to {state.next_ref}; {error}"
        if text is not None:
            raise SealError(f"{self.log_path} differs from its seal: {text}")
        self._reader(state.next_ref).close()

    def _accept_loss(self, why: str) -> None:
        """Tell of lost records and of fillers, and continue after them."""
        start, leaf = self._first_left(self._beginning.first, 0)
        reader, allowed = self._leaf_reader(), prune_limit(self._statements.known)
        found = find_losses(self.log_path, reader, self._store, start, leaf, self._state.size)
        may_go = 0 if allowed is None else allowed.integer("leaf")
        if leaf > may_go and not reader.is_lost(may_go, leaf):
            found.losses.insert(0, Loss(may_go, leaf, start))
        told = repairs_of(self._statements.known)
        for first, end in found.fillers:
            if (first, end) not in told:
                self.add_statement(Kind.REPAIR, leaf=first, end=end, by=user_name(os.geteuid()), why=why)
        for loss in found.losses:
            self.add_statement(
                Kind.LOSS, leaf=loss.first, end=loss.end, ref=str(loss.ref), by=user_name(os.geteuid()), why=why
            )
        for loss in losses_of(self._statements.known):
            if loss.end == self._state.size:
                # The next record is sealed as leaf `end`.  A crash before this is mended by the next attempt.
                first_of_tile = loss.end // TILE_HASHES * TILE_HASHES
                tile_ref = self._state.tile_ref if first_of_tile < loss.first else loss.ref
                self._files = tuple(file for file in self._files if file.number <= loss.ref.number)
                self._folder.cut_files(len(self._files))
                self._state = self._state._replace(next_ref=loss.ref, tile_ref=tile_ref, file_count=len(self._files))
                self._folder.write_state(self._state)

    def _leaf_reader(self) -> LeafReader:
        known = self._statements.known
        return LeafReader(self.log_path, self._files, losses_of(known), repairs_of(known))

    def _first_left(self, ref: Ref, leaf: int) -> tuple[Ref, int]:
        """Return the ref of a leaf and the leaf, or those of the first later one that retention left."""
        oldest = binlog.stat(self.log_path).files[0]
        if ref.number >= oldest.number:
            return ref, leaf
        leaves = [file.first_leaf for file in self._files if file.number >= oldest.number]
        return Ref(oldest.number, oldest.first_offset), leaves[0] if leaves else self._state.size


def begin_seal(path: str | os.PathLike[str], key: Signer, *, keep_seconds: float = 0) -> Beginning:
    """Begin to seal a log, from its first record on; the name of the key becomes the log's origin.

    keep_seconds: retention must not remove records that were sealed less than this ago.
    Makes the folder `seal` in the log's directory, durably.
    Raises: SealError if it has a seal; NotFoundError if it has no log; AccessError, FullError, PoisonedError.
    """
    log = binlog.stat(path)
    if not log.files:
        raise NotFoundError(f"{os.fspath(path)} has no log yet; a Writer makes it")
    first = log.files[0]
    start = Ref(first.number, first.first_offset)
    beginning = Beginning(key.verifier.name, log_uuid(path), start, int(time.time()), math.ceil(keep_seconds))
    with Directory(os.path.abspath(seal_path(path)), make=True) as directory:
        if directory.has(BEGINNING_FILE):
            raise SealError(f"{os.fspath(path)} has a seal already")
        directory.make_folder(HASH_FOLDER)
        directory.write_new(f".{BEGINNING_FILE}", str(signed_note(beginning.text(), [key])).encode())
        directory.rename(f".{BEGINNING_FILE}", BEGINNING_FILE)
    return beginning


def durable_ends(log: binlog.LogStat) -> dict[int, int]:
    """Return the offset in each log file up to which its records are durable.

    A cutover syncs the file that it closes.  jPOS syncs a file before it ends an append; so if it made the file, or has
    appended to it last, all of it is durable.
    """
    return {
        file.number: file.tail
        if file.closed or file.durable_end is None or file.record_count is None
        else file.durable_end
        for file in log.files
    }


def _following(ref: Ref, log: binlog.LogStat) -> Ref:
    """Return the ref; if it is the end of a closed file, which retention may remove, the start of the next file."""
    for file, following in pairwise(log.files):
        if (file.number, file.tail) == ref and file.closed:
            return Ref(following.number, following.first_offset)
    return ref
