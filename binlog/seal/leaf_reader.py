"""LeafReader: reads the records of a sealed log with their leaves.

Each record has the leaf after that of the record before it, with two exceptions.  Lost records keep their leaves, and a
statement says so.  And a record that another program adds to a file after the next one was begun is late: it has no
leaf.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import binlog
from binlog.format.record import LENGTH_BYTES, Ref
from binlog.format.seal.state import SealedFile
from binlog.format.seal.statement import Loss
from binlog.format.seal.tree import HASH_BYTES, leaf_hashes
from binlog.log.maintain.fillers import has_filler_text
from binlog.seal.hash_store import HashStore

# Larger than a reader's default, because each batch takes some steps in Python.  Larger ones cause page faults.
_BATCH_BYTES, _BATCH_RECORDS = 1 << 19, 1 << 16


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Consecutive records of a batch.

    leaf: of the first one; None if they have none: they are late, or their file is not of the tree.
    begin, end: their places in the batch.
    """

    leaf: int | None
    batch: binlog.Batch
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def before(self, leaf: int) -> BatchPart:
        """Return the records before a leaf."""
        assert self.leaf is not None
        return replace(self, end=min(self.end, self.begin + max(leaf - self.leaf, 0)))

    def record(self, place: int) -> bytes:
        """Return a record, counted from 0 in the part."""
        start, end = self.batch.offsets[self.begin + place : self.begin + place + 2]
        return bytes(self.batch.data[start + LENGTH_BYTES : end])

    def hashes(self) -> bytes:
        """Return the leaf hash of each record, one after the other."""
        return leaf_hashes(self.batch.data, self.batch.offsets[self.begin : self.end + 1])

    def end_ref(self) -> Ref:
        """Return the ref after the last record."""
        return self.ref(len(self))

    def ref(self, place: int) -> Ref:
        """Return the ref of a record, counted from 0 in the part."""
        return Ref(self.batch.number, self.batch.offset + self.batch.offsets[self.begin + place])


class LeafReader:
    """Reads the sealed records of a log.  files: of the tree.  losses, repairs: as statements tell."""

    def __init__(
        self,
        path: str,
        files: Sequence[SealedFile],
        losses: Sequence[Loss],
        repairs: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._path = path
        self._repairs = repairs
        self._first = {file.number: file.first_leaf for file in files}
        self._end = {file.number: following.first_leaf for file, following in pairwise(files)}
        self._last = files[-1].number if files else 0
        self._losses = sorted(losses, key=lambda loss: loss.ref)

    def lists(self, number: int) -> bool:
        """Return whether the tree has a log file of this number."""
        return number in self._first

    def is_of_tree(self, number: int) -> bool:
        """Return whether a log file is one of the tree, or is later than all of them."""
        return number in self._first or number > self._last

    def parts(self, ref: Ref, leaf: int) -> Iterator[BatchPart]:
        """Yield the records from a ref on, whose leaf is given.

        The leaves of two parts may have a gap, if records are missing.  Blocks never: ends at the end of the log.
        Raises: as a Reader.
        """
        number = ref.number
        with binlog.Reader(self._path, ref, verify=False) as reader:
            while batch := reader.read_batch(bytes_max=_BATCH_BYTES, records_max=_BATCH_RECORDS):
                if batch.number < number:
                    continue  # added after this reader had left the file: the next one reads it in its place
                if batch.number != number:
                    number = batch.number
                    leaf = self._first.get(number, leaf)
                place = 0
                while place < len(batch):
                    part = self._part(batch, place, leaf)
                    if part.leaf is not None:
                        leaf = part.leaf + len(part)
                    place = part.end
                    yield part

    def _part(self, batch: binlog.Batch, place: int, leaf: int) -> BatchPart:
        at = batch.offset + batch.offsets[place]
        end = len(batch)
        if not self.is_of_tree(batch.number):
            return BatchPart(None, batch, place, end)
        for loss in self._losses:
            if loss.ref <= (batch.number, at):  # below, if the file ends there
                leaf = max(leaf, loss.end)
            elif loss.ref.number == batch.number and at < loss.ref.offset:
                end = min(bisect_left(batch.offsets, loss.ref.offset - batch.offset), end)
                break
        file_end = self._end.get(batch.number)
        if file_end is None:
            return BatchPart(leaf, batch, place, end)
        if leaf >= file_end:
            return BatchPart(None, batch, place, end)
        return BatchPart(leaf, batch, place, min(end, place + file_end - leaf))

    def is_lost(self, leaf: int, end: int) -> bool:
        """Return whether statements tell that these leaves are lost."""
        while leaf < end:
            found = [loss.end for loss in self._losses if loss.first <= leaf < loss.end]
            if not found:
                return False
            leaf = max(found)
        return True

    def is_as_sealed(self, part: BatchPart, store: HashStore) -> bool:
        """Return whether each record of a part has its sealed hash, or a statement tells of a filler in its place.

        Raises: SealError if hashes are missing.
        """
        assert part.leaf is not None
        found, known = part.hashes(), store.hashes(0, part.leaf, len(part))
        return found == known or all(
            found[at : at + HASH_BYTES] == known[at : at + HASH_BYTES] or self.is_filler(part, at // HASH_BYTES)
            for at in range(0, len(known), HASH_BYTES)
        )

    def is_filler(self, part: BatchPart, place: int) -> bool:
        """Return whether a record is a filler, and a statement tells of it."""
        leaf = (part.leaf or 0) + place
        return any(first <= leaf < end for first, end in self._repairs) and has_filler_text(part.record(place))

    def difference(self, store: HashStore, ref: Ref, leaf: int, end: int) -> str | None:
        """Return a text about the first leaf from a ref on, before `end`, that is not as sealed; None if each is.

        leaf: of the ref.  Raises: as a Reader, and SealError if hashes are missing.
        """
        for part in self.parts(ref, leaf):
            if part.leaf is None:
                continue
            if leaf < part.leaf and not self.is_lost(leaf, min(part.leaf, end)):
                break
            part = part.before(end)
            if len(part) == 0:
                return None
            assert part.leaf is not None
            leaf = part.leaf + len(part)
            if not self.is_as_sealed(part, store):
                return f"records from {part.leaf} to {leaf} are missing or changed"
        if leaf < end and not self.is_lost(leaf, end):
            return f"records from {leaf} to {end} are missing or changed"
        return None
