"""Scrubber: compares old records with the seal again and again, at a small share of a core.

So a change in an old file shows in hours, even if no person runs `verify`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import binlog
from binlog.errors import BinlogError, CorruptError, GoneError, NotFoundError, SealError
from binlog.format.record import Ref
from binlog.format.seal.note import encode_base64
from binlog.format.seal.state import SealedFile
from binlog.format.seal.statement import Kind, losses_of, repairs_of
from binlog.format.seal.tree import HASH_BYTES
from binlog.seal.folder import SealFolder
from binlog.seal.keys import Signer
from binlog.seal.leaf_reader import BatchPart, LeafReader
from binlog.seal.statements import StatementLog

# Between two passes over a log, and after an error.
_PAUSE_SECONDS = 5.0


class Scrubber:
    """Compares the records with their sealed hashes, in a thread of the sealer.

    sealed: returns how many records are sealed, and the log files of the tree.  share: of a core, above 0, at most 1.
    on_failure: called with a message if records cannot be read, before the next attempt.
    failures: the differences found; the sealer must stop at the first.
    """

    def __init__(
        self,
        folder: SealFolder,
        key: Signer,
        sealed: Callable[[], tuple[int, Sequence[SealedFile]]],
        share: float,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        self._folder = folder
        self._key = key
        self._sealed = sealed
        self._share = share
        self._on_failure = on_failure
        self._stop = threading.Event()
        self.failures: list[SealError] = []

    def run(self) -> None:
        """Compare all records again and again, until `stop` is called or a difference is found."""
        while not self._stop.is_set() and not self.failures:
            try:
                self._pass()
            except (CorruptError, SealError) as error:
                self.failures.append(SealError(f"{self._folder.log_path} differs from its seal: {error}"))
            except (GoneError, NotFoundError):
                pass  # retention removed the file; the next pass begins with a later one
            except BinlogError as error:
                if self._on_failure is not None:
                    self._on_failure(f"old records cannot be compared: {error}")
            self._stop.wait(_PAUSE_SECONDS)

    def stop(self) -> None:
        """End `run` soon."""
        self._stop.set()

    def _pass(self) -> None:
        size, files = self._sealed()
        statements = StatementLog(self._folder, self._key.verifier)
        statements.refresh()
        store = self._folder.hashes(size)
        oldest = binlog.stat(self._folder.log_path).files[0]
        first = next((file.first_leaf for file in files if file.number >= oldest.number), size)
        reader = LeafReader(self._folder.log_path, files, losses_of(statements.known), repairs_of(statements.known))
        begun = time.thread_time()
        for part in reader.parts(Ref(oldest.number, oldest.first_offset), first):
            if not reader.is_of_tree(part.batch.number):
                raise SealError(f"file {part.batch.number} had no records when the log was sealed")
            if part.leaf is None:
                self._tell_late(statements, part, size)
                continue
            part = part.before(size)
            if len(part) == 0 or self._stop.is_set():
                return
            assert part.leaf is not None
            if not reader.is_as_sealed(part, store):
                last = part.leaf + len(part) - 1
                text = f"one or more of the records from {part.leaf} to {last} in file {part.batch.number} were changed"
                raise SealError(text)
            now = time.thread_time()
            self._stop.wait((now - begun) * (1 / self._share - 1))
            begun = now

    def _tell_late(self, statements: StatementLog, part: BatchPart, size: int) -> None:
        known = {str(each.values["ref"]) for each in statements.known if each.kind is Kind.LATE}
        hashes = part.hashes()
        for place in range(len(part)):
            ref = str(part.ref(place))
            if ref not in known:
                leaf = hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]
                statements.add(self._key, Kind.LATE, size, ref=ref, hash=encode_base64(leaf))
