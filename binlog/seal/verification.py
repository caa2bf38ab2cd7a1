"""Verification: compares a log's records with a signed root, and names each difference."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import binlog
from binlog.errors import BinlogError, CorruptError, NotFoundError, SealError, VersionError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.format.seal.note import Note, VerifierKey, parse_note, parse_verifier_key
from binlog.format.seal.tree import HASH_BYTES, Frontier, leaf_hashes, root_hash
from binlog.seal.folder import SealFolder, seal_path
from binlog.seal.hash_store import TILE_HASHES, HashStore
from binlog.seal.keys import verified_keys
from binlog.seal.sealer import log_uuid

# Larger than a reader's default, because each batch reads its hashes from a file.
_BATCH_BYTES, _BATCH_RECORDS = 1 << 20, 1 << 16


class Rule(enum.StrEnum):
    """The kinds of findings."""

    CHANGED = "changed"  # records differ from the sealed ones
    CUT = "cut"  # records are missing at the end
    FORK = "fork"  # two roots for one size, or a root that these records do not give
    MISSING = "missing"  # records are missing at the beginning, or between
    NOT_SEALED = "not-sealed"  # the seal, or a part of it, does not exist
    KEY = "key"  # a note is not signed by the key
    DAMAGED = "damaged"  # the log or the seal cannot be read


@dataclass(frozen=True)
class Finding:
    """Something that is wrong.  ref, leaf: of the first record that it is about, if it is about records."""

    rule: Rule
    text: str
    ref: Ref | None = None
    leaf: int | None = None

    def __str__(self) -> str:
        place = "" if self.ref is None else f"{self.ref} (leaf {self.leaf}): "
        return f"{self.rule}: {place}{self.text}"


@dataclass
class Report:
    """The result of a verification.

    origin: of the log.  size: records that the newest checkpoint covers.  verified: of them, those that were compared.
    unsealed: records after them.  findings: empty if nothing is wrong.
    """

    origin: str
    size: int = 0
    verified: int = 0
    unsealed: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, rule: Rule, text: str, ref: Ref | None = None, leaf: int | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(rule, text, ref, leaf))


def verify(path: str | os.PathLike[str], vkey: str, *, checkpoints: Iterable[str | bytes | Note] = ()) -> Report:
    """Compare all records of a log with the newest checkpoint that is known.

    vkey: the public key, which must come from somewhere else than the log's directory.
    checkpoints: notes from elsewhere, such as an anchor; a cut log can be found only by one that its directory does not
    have.
    Reads the whole log, and writes nothing.  May run while others append and seal.
    Raises: NotFoundError if there is no log; SealError if the key, or one of the checkpoints given, is malformed or
    signed by another key; AccessError.
    """
    key = parse_verifier_key(vkey)
    report = Report(key.name)
    given = [_given(each, key) for each in checkpoints]
    report.size = max((head.size for head in given), default=0)
    try:
        if not binlog.stat(path).files and not os.path.exists(seal_path(path)):
            raise NotFoundError(f"{os.fspath(path)} has no log")
        with _opened(path, report) as folder:
            if folder is not None:
                _Verification(path, key, folder, report).run(given)
    except (CorruptError, VersionError) as error:
        report.add(Rule.DAMAGED, str(error))
    return report


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


def _given(checkpoint: str | bytes | Note, key: VerifierKey) -> Checkpoint:
    """Return a checkpoint that the caller trusts.  Raises: SealError."""
    note = (
        parse_note(checkpoint.encode() if isinstance(checkpoint, str) else checkpoint)
        if not isinstance(checkpoint, Note)
        else checkpoint
    )
    if not verified_keys(note, [key]):
        raise SealError(f"a checkpoint is not signed by {key.name}")
    head = parse_checkpoint(note.text)
    if head.origin != key.name:
        raise SealError(f"a checkpoint is of {head.origin}, not of {key.name}")
    return head


class _Verification:
    """One run."""

    def __init__(self, path: str | os.PathLike[str], key: VerifierKey, folder: SealFolder, report: Report) -> None:
        self._path = path
        self._key = key
        self._folder = folder
        self._report = report
        self._files: dict[int, int] = {}

    def run(self, given: list[Checkpoint]) -> None:
        heads = sorted([*given, *self._own_heads()], key=lambda head: head.size)
        if not heads:
            self._report.add(Rule.NOT_SEALED, "no checkpoint is signed by the key")
            return
        roots: dict[int, bytes] = {}
        for head in heads:
            if roots.setdefault(head.size, head.root) != head.root:
                self._report.add(Rule.FORK, f"two signed checkpoints have different roots for {head.size} records")
        self._report.size = heads[-1].size
        store = self._folder.hashes(heads[-1].size)
        self._check_stored(store, heads[-1])
        try:
            self._files = {file.number: file.first_leaf for file in self._folder.files()}
        except SealError as error:
            self._report.add(Rule.DAMAGED, str(error))
            return
        first_leaf, start = self._start(heads[-1].size)
        if start is not None:
            self._compare(store, roots, first_leaf, start)

    def _own_heads(self) -> Iterator[Checkpoint]:
        """Yield the checkpoint in the folder, if the key signed it.  Adds a finding if the beginning is not signed."""
        try:
            note, beginning = self._folder.beginning()
            if not verified_keys(note, [self._key]):
                self._report.add(Rule.KEY, "the beginning of the seal is not signed by the key")
            elif beginning.uuid != log_uuid(self._path):
                self._report.add(Rule.FORK, f"the log is another one: {log_uuid(self._path)}, not {beginning.uuid}")
        except NotFoundError:
            self._report.add(Rule.NOT_SEALED, "the beginning of the seal does not exist")
        except SealError as error:
            self._report.add(Rule.KEY, str(error))
        try:
            found = self._folder.checkpoint()
            if found is not None:
                yield _given(found, self._key)
        except SealError as error:
            self._report.add(Rule.KEY, f"the checkpoint in the folder: {error}")

    def _check_stored(self, store: HashStore, head: Checkpoint) -> None:
        """Compare the root of the stored hashes, which are derived, with the signed one."""
        try:
            if root_hash(head.size, store.node) != head.root:
                self._report.add(Rule.FORK, f"the hashes in the folder do not give the root of {head.size} records")
        except SealError as error:
            self._report.add(Rule.NOT_SEALED, str(error))

    def _start(self, size: int) -> tuple[int, Ref | None]:
        """Return the first leaf to compare, and its ref; None if the log has no records of the tree."""
        for file in binlog.stat(self._path).files:
            if file.number in self._files:
                first = self._files[file.number]
                if first > 0:
                    self._report.add(Rule.MISSING, f"the first {min(first, size)} records are missing")
                return first, Ref(file.number, file.first_offset)
        if size:
            self._report.add(Rule.CUT, f"all of the {size} sealed records are missing")
        return 0, None

    def _compare(self, store: HashStore, roots: dict[int, bytes], first_leaf: int, start: Ref) -> None:
        """Compare the records from a leaf on with the stored hashes, and the tree of both with the signed roots."""
        report = self._report
        tree, at = self._tree_before(store, first_leaf), first_leaf
        changed, wrong, number = 0, 0, 0
        try:
            with binlog.Reader(self._path, start, verify=False) as reader:
                while batch := reader.read_batch(bytes_max=_BATCH_BYTES, records_max=_BATCH_RECORDS):
                    inside = max(min(len(batch), report.size - at), 0)
                    report.unsealed += len(batch) - inside
                    if not inside:
                        continue
                    if batch.number != number:
                        number = batch.number
                        if self._files.get(number) != at:
                            text = (
                                f"the seal says {self._files.get(number)} for the first leaf of file {number}, not {at}"
                            )
                            report.add(Rule.DAMAGED, text)
                    leaves = leaf_hashes(batch.data, batch.offsets)[: inside * HASH_BYTES]
                    if leaves != (known := store.leaves(at, inside)):
                        changed += self._name_changed(batch, leaves, known, at)
                    done = 0
                    for size in [*(size for size in roots if at < size < at + inside), at + inside]:
                        tree.add(leaves[done : (size - at) * HASH_BYTES])
                        done = (size - at) * HASH_BYTES
                        if size in roots and tree.root() != roots[size] and not wrong:
                            wrong = size
                    at += inside
        except BinlogError as error:
            report.add(Rule.DAMAGED, str(error))
        report.verified = at - first_leaf
        if wrong and not changed:
            self._name_tiles(store, wrong)
        if at < report.size:
            text = f"{report.size - at} of {report.size} sealed records are missing at the end"
            report.add(Rule.CUT, text)

    def _name_tiles(self, store: HashStore, size: int) -> None:
        """Add a finding for records that equal their stored hashes, although these do not give the signed root."""
        with suppress(SealError):
            for tile in range(size // TILE_HASHES):
                if store.tile_root(tile) != store.hashes(1, tile, 1):
                    first = tile * TILE_HASHES
                    text = f"at least one of the records {first} to {first + TILE_HASHES - 1} is not as sealed"
                    self._report.add(Rule.CHANGED, text)
        if not self._report.findings:
            self._report.add(Rule.FORK, f"the first {size} records do not give the signed root")

    def _name_changed(self, batch: binlog.Batch, leaves: bytes, known: bytes, at: int) -> int:
        """Add a finding for each run of records that differ from what was sealed; return how many records differ."""
        count = len(leaves) // HASH_BYTES
        differs = [
            leaves[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            != known[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            for place in range(count)
        ]
        refs = batch.refs()
        place = 0
        while place < count:
            if not differs[place]:
                place += 1
                continue
            end = place
            while end < count and differs[end]:
                end += 1
            text = "1 record is" if end - place == 1 else f"{end - place} records are"
            self._report.add(Rule.CHANGED, f"{text} not as sealed", refs[place], at + place)
            place = end
        return sum(differs)

    def _tree_before(self, store: HashStore, leaves: int) -> Frontier:
        """Return the tree of the records that are no longer in the log, by the stored hashes."""
        with suppress(SealError):
            return Frontier(leaves, store.node)
        return Frontier()
