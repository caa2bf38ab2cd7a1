"""The observation of a sealed log after a crash: a writer recovers it, and it is sealed and verified.

A third of the states are also verified and sealed before that, as if the sealer were started first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from binlog import Reader, Writer
from binlog.errors import SealError
from binlog.format.seal.note import Note, parse_note
from binlog.format.seal.tree import Frontier, leaf_hash
from binlog.seal import Sealer, begin_seal, parse_anchor, verify, wait
from binlog.seal.folder import SealFolder
from stress.crash.marks import Values
from stress.crash.records import Identity, identity_of, record_bytes
from stress.crash.system import ProblemCollector
from stress.crash.systems.log.actor import PREPARE_BYTES
from stress.crash.systems.seal.actor import ANCHOR, KEY, has_begun, make_folders
from stress.crash.systems.seal.marks import Head, head_of, head_with, is_of_seal, mark_of

CHECKERS = (1999, 1998)
_LOCK_SECONDS = 20.0
_VKEY = str(KEY.verifier)


@dataclass(slots=True)
class Observation:
    """The observation of a state.

    problems: violations that do not depend on the marks.  records: of the log, at the end.
    roots: of its first records, by their count, for each count that a mark names and that the log reaches.
    anchored: the checkpoints that the anchor had.  opened_size: of the checkpoint that the sealer first opened with.
    size: of the last one.
    """

    problems: list[str] = field(default_factory=list)
    records: set[Identity] = field(default_factory=set)
    roots: dict[int, tuple[int, ...]] = field(default_factory=dict)
    anchored: set[Head] = field(default_factory=set)
    opened_size: int = 0
    size: int = 0


def observe(path: Path, marks: Sequence[Values], *, checker: int = CHECKERS[0]) -> Observation:
    """Take the steps of the module.  checker: the writer of the record appended."""
    seen = Observation()
    with ProblemCollector(seen.problems) as collector:
        _Run(path, seen, collector).run(marks, checker)
    return seen


class _Run:
    """One observation."""

    def __init__(self, path: Path, seen: Observation, collector: ProblemCollector) -> None:
        self._log = make_folders(path)
        self._anchor_path = path / ANCHOR
        self._anchor = parse_anchor(f"dir:{path / ANCHOR}")
        self._seen = seen
        self._collector = collector
        self._sizes: list[int] = []

    def run(self, marks: Sequence[Values], checker: int) -> None:
        seen = self._seen
        anchored = self._anchored()
        seen.anchored = {head_of(note) for note in anchored}
        visible = [*anchored, *self._in_folder()]
        if visible:
            self._sizes.append(max(head_of(note).size for note in visible))
        if visible and self._sizes[0] % 3 == 0:
            self._verify("before opening", visible)
            self._seal("before a writer")
        self._collector.step = "recovering the log"
        with Writer(self._log, prepare_bytes=PREPARE_BYTES, lock_timeout=_LOCK_SECONDS) as writer:
            ref = writer.append(record_bytes(checker, 0))
        if not has_begun(self._log):
            self._collector.step = "beginning the seal"
            begin_seal(self._log, KEY)
        note = self._seal("after a writer")
        self._collector.step = "waiting"
        if wait(self._log, ref, anchored=1, timeout=_LOCK_SECONDS) != note:
            seen.problems.append("another checkpoint covers the last record")
        self._collector.step = "reading"
        self._read({mark_of(each)[1].size for each in marks if is_of_seal(each)})
        self._verify("at the end", self._anchored(), count=len(seen.records))
        seen.opened_size, seen.size = self._sizes[bool(visible)], self._sizes[-1]
        if self._sizes != sorted(self._sizes):
            seen.problems.append(f"a smaller checkpoint after a larger one: {self._sizes}")

    def _seal(self, when: str) -> Note:
        """Open the sealer, seal and anchor; return the checkpoint."""
        self._collector.step = f"opening the sealer {when}"
        with Sealer(self._log, KEY, anchors=[self._anchor]) as sealer:
            self._sizes.append(0 if sealer.checkpoint is None else head_of(sealer.checkpoint).size)
            self._check_folder(f"opening the sealer {when}", sealer.checkpoint)
            self._collector.step = f"sealing {when}"
            note = sealer.seal()
            self._sizes.append(head_of(note).size)
            errors = [error for error in sealer.anchor().values() if error is not None]
        self._seen.problems += [f"anchoring {when}: {error}" for error in errors]
        self._check_folder(f"sealing {when}", note)
        return note

    def _check_folder(self, when: str, note: Note | None) -> None:
        if self._in_folder() != ([] if note is None else [note]):
            self._seen.problems.append(f"{when}: the folder has another checkpoint than the sealer")

    def _verify(self, when: str, checkpoints: Sequence[Note], count: int | None = None) -> None:
        """Verify the log.  count: of its records, all of which are sealed."""
        self._collector.step = f"verifying {when}"
        report = verify(self._log, _VKEY, checkpoints=checkpoints)
        problems = [f"a finding {when}: {finding}" for finding in report.findings]
        if not problems and count is not None and (report.size, report.verified, report.unsealed) != (count, count, 0):
            problems.append(f"{when}: {count} records, {report.size} sealed, {report.unsealed} after them")
        self._seen.problems += problems

    def _read(self, sizes: set[int]) -> None:
        """Read all records, and compute the root of the first ones for each of these counts."""
        with Reader(self._log) as reader:
            found = [_identity_and_leaf(entry.data) for entry in reader]
        for identity, _ in found:
            if identity is None or identity in self._seen.records:
                self._seen.problems.append(f"a record was never appended, or is in the log twice: {identity}")
            else:
                self._seen.records.add(identity)
        tree = Frontier()
        for size in sorted(each for each in sizes if each <= len(found)):
            tree.add(b"".join(leaf for _, leaf in found[tree.size : size]))
            self._seen.roots[size] = head_with(size, tree.root()).root

    def _in_folder(self) -> list[Note]:
        """Return the checkpoint in the folder, if there is one."""
        if not has_begun(self._log):
            return []
        with SealFolder(self._log) as folder:
            note = folder.checkpoint()
        return [] if note is None else [note]

    def _anchored(self) -> list[Note]:
        """Return the whole checkpoints that the anchor has."""
        notes = [note for path in self._anchor_path.iterdir() for note in _notes_in(path.read_bytes())]
        sizes = [head_of(note).size for note in notes]
        if sizes != sorted(sizes):
            self._seen.problems.append(f"the anchor has a smaller checkpoint after a larger one: {sizes}")
        return notes


@functools.lru_cache(maxsize=1 << 14)
def _identity_and_leaf(record: bytes) -> tuple[Identity | None, bytes]:
    return identity_of(record), leaf_hash(record)


def _notes_in(data: bytes) -> Iterator[Note]:
    """Yield the notes of an anchor's file; a power cut may have torn some."""
    for part in data.split(b"\n\n\n"):
        with suppress(SealError):
            yield parse_note(part + b"\n")
