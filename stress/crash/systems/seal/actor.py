"""A process that appends to a log and seals it, at random; it marks each checkpoint that it returned or handed over."""

from __future__ import annotations

import functools
import threading
from contextlib import ExitStack
from pathlib import Path

import binlog
from binlog import Mode
from binlog.errors import BinlogError, NotFoundError
from binlog.format.seal.note import Note, Signature
from binlog.format.seal.state import BEGINNING_FILE
from binlog.seal import Sealer, SigningKey, begin_seal, hash_store, keys
from binlog.seal.anchors.plain import DirectoryAnchor, ProofFrom
from binlog.seal.folder import SealFolder, seal_path
from binlog.storage.directory import Directory
from stress.crash.marks import Witness
from stress.crash.system import Actor, ProcessContext, Scenario, Step
from stress.crash.systems.log.actor import LogActor
from stress.crash.systems.seal.marks import Mark, MarkKind, head_of

KEY = SigningKey("example.org/crash", bytes(range(32)))
LOG, ANCHOR = "log", "anchor"
"""The folders of a system: the log, which has the seal in it, and the anchor."""

_TILE = 256
_FILE_HASHES = 128  # so that a log of some records has several files of hashes
_SMALL_BYTES = 16
_EVERY_SECONDS = 0.002

# Each state has the same few signatures again, and verifying them would take a third of its time.
_is_signed = functools.lru_cache(maxsize=1 << 12)(keys.is_signed)


def make_folders(path: Path) -> Path:
    """Make the folders of a system, durably, if they do not exist; return the log's, which a Writer makes."""
    hash_store.FILE_HASHES, keys.is_signed = _FILE_HASHES, _is_signed
    Directory(str(path), make=True).close()
    Directory(str(path / ANCHOR), make=True).close()
    return path / LOG


def has_begun(log: Path) -> bool:
    """Whether the log has a seal."""
    return Path(seal_path(log), BEGINNING_FILE).exists()


class _MarkingAnchor(DirectoryAnchor):
    """Marks each checkpoint that it has."""

    def __init__(self, path: Path, witness: Witness) -> None:
        super().__init__(str(path))
        self._witness = witness

    def publish(self, note: Note, proof_from: ProofFrom) -> tuple[Signature, ...]:
        signatures = super().publish(note, proof_from)
        self._witness.mark(Mark(MarkKind.ANCHORED, *head_of(note)))
        return signatures


class _MarkingSealer(Sealer):
    """Marks each checkpoint that `seal` returns."""

    def __init__(self, path: Path, witness: Witness) -> None:
        self._witness = witness
        super().__init__(path / LOG, KEY, anchors=[_MarkingAnchor(path / ANCHOR, witness)])

    def seal(self) -> Note:
        note = super().seal()
        self._witness.mark(Mark(MarkKind.SEALED, *head_of(note)))
        return note


class SealActor(Actor):
    """See the module.  It opens the sealer when it first seals."""

    def __init__(self, path: Path, process: ProcessContext) -> None:
        super().__init__(process)
        self._path = path
        self._log = make_folders(path)
        self._sealer: _MarkingSealer | None = None
        self._service: _Service | None = None
        self._appending = LogActor(self._log, process)

    # --- appending

    def append_one(self) -> None:
        """Append a record durably, and seal it if this process is the sealer, and no service does."""
        self._appending.append()
        if self._sealer is not None and self._service is None:
            self.seal_and_anchor()

    def append(self) -> None:
        """Append some records in some mode."""
        mode = self._chance.choice([*Mode])
        if self._chance.random() < 0.5:
            self._appending.append_many(self._chance.randint(2, 4), mode, size=_SMALL_BYTES)
        else:
            self._appending.append(mode, size=self._appending.any_size())

    def append_tile(self) -> None:
        """Append almost as many records as a tile of hashes has, some of them not durably."""
        count = self._chance.randint(_TILE - 10, _TILE - 2)
        self._appending.append_many(count, self._chance.choice([*Mode]), size=_SMALL_BYTES)

    def sync(self) -> None:
        """Make all records durable."""
        self._appending.sync()

    def cutover(self) -> None:
        """Cut over."""
        self._appending.cutover()

    def archive(self) -> None:
        """Archive closed files."""
        binlog.archive(self._log, keep_last=self._chance.randrange(2))

    # --- sealing

    def seal(self) -> None:
        """Seal all durable records."""
        self._opened_sealer().seal()

    def seal_and_anchor(self) -> None:
        """Seal, and hand the checkpoint to the anchor."""
        self.seal()
        self.anchor()

    def anchor(self) -> None:
        """Hand the last checkpoint to the anchor, perhaps again."""
        for error in self._opened_sealer().anchor().values():
            if error is not None:
                raise error

    def run_once(self) -> None:
        """Seal and anchor as a service that stops at once, and add the statements of its start and its stop."""
        stop = threading.Event()
        stop.set()
        self._opened_sealer().run(stop, scrub=0)

    def reopen(self) -> None:
        """Close the sealer; the next step opens it again."""
        if self._sealer is not None:
            self._sealer.close()
            self._sealer = None

    def serve(self) -> None:
        """Seal and anchor in threads from now on, until this process closes."""
        if self._service is None:
            self._service = _Service(self._opened_sealer())

    def wait_for_service(self) -> None:
        """Wait until the service ends, and raise the error that ended it."""
        assert self._service is not None
        self._service.wait()

    def see_checkpoint(self) -> None:
        """Mark the checkpoint in the folder, which anyone can see."""
        try:
            with SealFolder(self._log) as folder:
                note = folder.checkpoint()
        except NotFoundError:
            return
        if note is not None:
            self.mark(Mark(MarkKind.SEEN, *head_of(note)))

    def close(self) -> None:
        """Close everything."""
        with ExitStack() as closing:
            closing.callback(self._appending.close)
            closing.callback(self.reopen)
            if self._service is not None:
                self._service.stop()

    def _opened_sealer(self) -> _MarkingSealer:
        if self._sealer is None:
            if not has_begun(self._log):
                begin_seal(self._log, KEY)
            self._sealer = _MarkingSealer(self._path, self._process.witness)
        return self._sealer


class _Service:
    """A sealer that runs in a thread."""

    def __init__(self, sealer: Sealer) -> None:
        self._stop = threading.Event()
        self._failure: BinlogError | None = None
        self._thread = threading.Thread(target=self._run, args=(sealer,), daemon=True)
        self._thread.start()

    def _run(self, sealer: Sealer) -> None:
        try:
            sealer.run(self._stop, _EVERY_SECONDS)
        except BinlogError as error:
            self._failure = error

    def stop(self) -> None:
        """Stop it, and raise the error that ended it."""
        self._stop.set()
        self.wait()

    def wait(self) -> None:
        """Wait until it ends, and raise the error that ended it."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure


_A = SealActor
_APPENDS: dict[Step, int] = {_A.append: 6, _A.sync: 1}
_SEALS: dict[Step, int] = {
    _A.seal: 2, _A.seal_and_anchor: 3, _A.anchor: 1, _A.run_once: 1, _A.reopen: 1, _A.see_checkpoint: 1,
}  # fmt: skip

SCENARIOS = {
    "begun": Scenario((_A.append_one, _A.seal_and_anchor)),
    "rounds": Scenario({**_APPENDS, **_SEALS}, 8),
    "tiles": Scenario((_A.append_tile, *(_A.append, _A.seal_and_anchor) * 3)),
    "files": Scenario({**_APPENDS, **_SEALS, _A.cutover: 5, _A.archive: 1}, 8),
    "runs": Scenario((_A.append_one, _A.run_once, _A.append, _A.seal_and_anchor, _A.append_one)),
    "service": Scenario((_A.serve, *(_A.append,) * 3, _A.sync, _A.cutover, _A.append, _A.append_one)),
    "writer": Scenario({**_APPENDS, _A.cutover: 1, _A.see_checkpoint: 3}, 7),
    "sealer": Scenario(_SEALS, 6),
}
