"""The records and the checkpoints of a sealed log that the marks promise."""

from __future__ import annotations

from collections.abc import Iterator

from stress.crash.marks import Values
from stress.crash.systems.log import expectation as log_expectation
from stress.crash.systems.seal.marks import Head, MarkKind, is_of_seal, mark_of
from stress.crash.systems.seal.observation import Observation


class Expectation:
    """The state according to the marks until some moment.

    records: of the log.  heads: the checkpoints that a process has had.  anchored: those that the anchor has.
    """

    def __init__(self) -> None:
        self.records = log_expectation.Expectation()
        self.heads: dict[int, Head] = {}
        self.anchored: set[Head] = set()
        self.wrong: list[str] = []
        self._size_returned = 0

    def add(self, values: Values) -> None:
        """Add one mark."""
        if not is_of_seal(values):
            self.records.add(values)
            return
        kind, head = mark_of(values)
        known = self.heads.setdefault(head.size, head)
        if known != head:
            self.wrong.append(f"two roots for one size: {known}; {head}")
        if kind is MarkKind.ANCHORED:
            self.anchored.add(head)
        if kind is MarkKind.SEALED:
            if head.size < self._size_returned:
                self.wrong.append(f"a checkpoint of {head} was returned after one of {self._size_returned} records")
            self._size_returned = head.size

    def died(self) -> None:
        """Note that only a process died."""
        self.records.died()

    @property
    def promised(self) -> int:
        """The number of promised records."""
        return self.records.promised

    def violations(self, seen: Observation) -> Iterator[str]:
        """Yield the promises that the state does not keep."""
        yield from self.wrong
        for (writer, index), record in self.records.records.items():
            if self.records.is_owed(record) and (writer, index) not in seen.records:
                yield f"record {index} of writer {writer} was acknowledged, but is missing"
        for head in self.heads.values():
            root = seen.roots.get(head.size)
            if root is None:
                yield f"a checkpoint has {head}, but there are {len(seen.records)} records in the log"
            elif root != head.root:
                yield f"a checkpoint has {head}, but these records have {Head(head.size, root)}"
        most = max(self.heads, default=0)
        if seen.opened_size < most:
            yield f"a checkpoint has {most} records, but the sealer continued from {seen.opened_size}"
        for head in self.anchored - seen.anchored:
            yield f"the anchor had a checkpoint of {head}, which it has lost"
