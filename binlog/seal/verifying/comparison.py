"""Comparison: compares the records of a log with the stored hashes, and the tree of both with the signed roots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from binlog.errors import BinlogError, GoneError, NotFoundError, SealError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import Checkpoint
from binlog.format.seal.note import encode_base64
from binlog.format.seal.statement import Kind, Statement
from binlog.format.seal.tree import HASH_BYTES, Frontier
from binlog.seal.hash_store import TILE_HASHES, HashStore
from binlog.seal.leaf_reader import BatchPart, LeafReader
from binlog.seal.verifying.report import Report, Rule

_STORED_AT_ONCE = 1 << 14


class Comparison:
    """Compares the records of a log with its seal, once.

    heads: signed checkpoints, smallest first, up to the report's size.  A head that covers none of the records to
    compare is skipped: its records are no longer in the log, or were compared before.
    oldest: returns the first leaf that is left in the log, and its ref; the size and None if no sealed one is.
    first_left: the first leaf that is left in the log, if files were removed meanwhile.
    """

    def __init__(
        self,
        reader: LeafReader,
        store: HashStore,
        heads: Iterator[Checkpoint],
        statements: Sequence[Statement],
        oldest: Callable[[], tuple[int, Ref | None]],
        report: Report,
    ) -> None:
        self._reader = reader
        self._oldest = oldest
        self._store = store
        self._heads = heads
        self._head = next(heads, None)
        self._report = report
        self._late = {(each.ref(), str(each.values["hash"])) for each in statements if each.kind is Kind.LATE}
        self._tree: Frontier | None = None
        self._wrong_size: int | None = None
        self._changed = 0
        self.first_unsealed: Ref | None = None
        self.next_ref: Ref | None = None
        self._unlisted = 0
        self.first_left = 0

    def run(self, start: Ref, leaf: int) -> None:
        """Compare the records from a ref on, whose leaf is given, and add findings to the report."""
        report, expected = self._report, leaf
        try:
            self._tree = Frontier(leaf, self._store.node)
        except SealError as error:  # without the hashes before, only the stored hashes are compared
            if not any(each.rule is Rule.NOT_SEALED for each in report.findings):
                report.add(Rule.NOT_SEALED, str(error))
        self._skip_heads(leaf)
        try:
            for part in self._parts(start, leaf):
                if part.leaf is None:
                    self._check_late(part)
                    continue
                sealed = part.before(report.size)
                if len(sealed) < len(part):
                    report.unsealed += len(part) - len(sealed)
                    self.first_unsealed = self.first_unsealed or part.ref(len(sealed))
                if len(sealed):
                    self._check_listed(part.batch.number)
                    expected = self._skip_removed(expected)
                    if part.leaf < expected:
                        report.add(
                            Rule.CHANGED, "the records from here on are in the log twice", part.ref(0), part.leaf
                        )
                        return
                    self._skip_missing(expected, part.leaf)
                    self._compare(sealed, part.leaf)
                    expected = part.leaf + len(sealed)
                    report.verified += len(sealed)
                    self.next_ref = sealed.end_ref()
        except BinlogError as error:
            report.add(Rule.DAMAGED, str(error))
        except ValueError as error:  # the start, where an earlier run has ended
            report.add(Rule.CUT, str(error))
            return
        expected = self._skip_removed(expected)
        if expected < report.size and not self._reader.is_lost(expected, report.size):
            report.add(Rule.CUT, f"{report.size - expected} of {report.size} sealed records are missing at the end")
        elif expected < report.size:
            self._grow_by_stored(expected, report.size)
        if self._wrong_size is not None and not self._changed:
            self._name_tiles(self._wrong_size)

    def _parts(self, start: Ref, leaf: int) -> Iterator[BatchPart]:
        """Yield the records from a ref on; after the removal of the file that is read, from the oldest one left."""
        place: Ref | None = start
        while place is not None:
            begun = place
            try:
                yield from self._reader.parts(place, leaf)
                return
            except (GoneError, NotFoundError):
                leaf, place = self._oldest()
                if place is not None and place.number <= begun.number:
                    raise
                self.first_left = leaf

    def _check_listed(self, number: int) -> None:
        """Add a finding if the seal does not list a file; its index would not be compared."""
        if not self._reader.lists(number) and number != self._unlisted:
            self._report.add(Rule.NOT_SEALED, f"the list of log files in the seal does not have file {number}")
            self._unlisted = number

    def _skip_removed(self, expected: int) -> int:
        """Add the leaves of files that were removed meanwhile; the caller judges whether they were allowed to go."""
        first_leaf = min(self.first_left, self._report.size)
        if expected < first_leaf:
            self._grow_by_stored(expected, first_leaf)
        return max(expected, first_leaf)

    def _compare(self, part: BatchPart, leaf: int) -> None:
        hashes, known = part.hashes(), self._store.leaves(leaf, len(part))
        if hashes != known:
            hashes = self._name_changed(part, hashes, known, leaf)
        self._grow(leaf, hashes)

    def _grow(self, leaf: int, hashes: bytes) -> None:
        """Add leaves to the tree, and compare its roots with those of the heads on the way."""
        end, done = leaf + len(hashes) // HASH_BYTES, 0
        while self._head is not None and self._head.size <= end:
            size = (self._head.size - leaf) * HASH_BYTES
            if self._tree is not None:
                self._tree.add(hashes[done:size])
                if self._tree.root() != self._head.root and self._wrong_size is None:
                    self._wrong_size = self._head.size
            done = size
            self._head = next(self._heads, None)
        if self._tree is not None:
            self._tree.add(hashes[done:])

    def _grow_by_stored(self, leaf: int, end: int) -> None:
        """Add leaves that are not in the log."""
        while leaf < end:
            count = min(end - leaf, _STORED_AT_ONCE)
            hashes = self._store.leaves(leaf, count)
            if len(hashes) < count * HASH_BYTES:
                self._report.add(Rule.NOT_SEALED, f"hashes of the seal are missing from record {leaf} on")
                self._tree = None
                return
            self._grow(leaf, hashes)
            leaf += count

    def _skip_heads(self, leaf: int) -> None:
        while self._head is not None and self._head.size < leaf:
            self._head = next(self._heads, None)
        self._grow(leaf, b"")

    def _skip_missing(self, expected: int, leaf: int) -> None:
        if expected == leaf:
            return
        if not self._reader.is_lost(expected, leaf):
            self._report.add(Rule.MISSING, f"the records {expected} to {leaf - 1} are missing", None, expected)
            self._changed += leaf - expected
        self._grow_by_stored(expected, leaf)

    def _check_late(self, part: BatchPart) -> None:
        if not self._reader.is_of_tree(part.batch.number):
            number = part.batch.number
            text = f"{len(part)} records are in file {number}, which the list of files in the seal does not have"
            self._report.add(Rule.CHANGED, text, part.ref(0))
            return
        hashes = part.hashes()
        for place in range(len(part)):
            leaf = hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            if (part.ref(place), encode_base64(leaf)) not in self._late:
                text = "the record was added after the next file was begun, and no statement tells of it"
                self._report.add(Rule.LATE, text, part.ref(place))

    def _name_changed(self, part: BatchPart, hashes: bytes, known: bytes, leaf: int) -> bytes:
        """Add a finding for each run of records that are not as sealed; return the hashes, repaired ones as sealed."""
        count = len(part)
        found = [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
        stored = [known[at : at + HASH_BYTES] for at in range(0, count * HASH_BYTES, HASH_BYTES)]
        for place in range(count):
            if found[place] != stored[place] and self._reader.is_filler(part, place):
                found[place] = stored[place]
        place = 0
        while place < count:
            end = place
            while end < count and found[end] != stored[end]:
                end += 1
            if end > place:
                text = "1 record is" if end - place == 1 else f"{end - place} records are"
                self._report.add(Rule.CHANGED, f"{text} not as sealed", part.ref(place), leaf + place)
                self._changed += end - place
            place = max(end, place + 1)
        return b"".join(found)

    def _name_tiles(self, size: int) -> None:
        """Add a finding for records that equal their stored hashes, although these do not give the signed root."""
        with suppress(SealError):
            for tile in range(size // TILE_HASHES):
                if self._store.tile_root(tile) != self._store.hashes(1, tile, 1):
                    first = tile * TILE_HASHES
                    text = f"at least one of the records {first} to {first + TILE_HASHES - 1} is not as sealed"
                    self._report.add(Rule.CHANGED, text)
        if not self._report.findings:
            self._report.add(Rule.FORK, f"the first {size} records do not give the signed root")
