"""Recognising a journal's layout by all of its records, before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.journal.compiled import scan_columns
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.known_layouts import (
    ALIKE,
    HORNETQ_2_1,
    JBM,
    JBM_2008_07,
    Evidence,
    evidence_at,
    evidence_between,
    is_hornetq_2_1,
)
from binlog.format.journal.record import Kind

_TELLING = frozenset((Kind.DELETE_TX, Kind.DELETE, Kind.PREPARE, Kind.COMMIT))


class LaidOut(NamedTuple):
    """A file of a journal whose header has four bytes.

    number: in its name, the id of its first use.  read: gives all of its bytes.
    """

    path: str
    header: FileHeader
    number: int
    read: Callable[[], bytes]


class Recognition(NamedTuple):
    """What a journal's records tell of its layout.

    possible: names of the layouts that have each of these records.  seen: for each set of layouts to which a record
    points, how many do, the path of the first, and where it lies.
    """

    possible: frozenset[str]
    seen: dict[frozenset[str], tuple[int, str, int]]

    def count_for(self, layout: str) -> int:
        """How many records point to a layout."""
        return sum(count for layouts, (count, _, _) in self.seen.items() if layout in layouts)

    def refusal(self, layout: str) -> CorruptError | None:
        """Why the journal is not of a layout; None if it may be.

        If records point to no layout all together, some are damaged: then the layout of most of them is right.
        """
        against = {layouts: found for layouts, found in self.seen.items() if layout not in layouts}
        if not against:
            return None
        layouts, (_, path, offset) = max(against.items(), key=lambda each: each[1][0])
        if not self.possible and self.count_for(layout) > sum(count for count, _, _ in against.values()):
            return None
        text = f"a record of the layout {' or '.join(sorted(layouts))}, and not of {layout}; nothing was changed"
        return CorruptError(path, offset, "layout", text)

    def layout_for(self, layout: JournalLayout | None) -> JournalLayout | None:
        """The layout that was named, if any was.  Raises: CorruptError if the records are not of it."""
        if layout is not None and (refusal := self.refusal(layout.value)) is not None:
            raise refusal
        return layout


def recognise(files: Iterable[LaidOut]) -> Recognition:
    """What the records of files tell.  Raises: CorruptError if the headers are those of HornetQ 2.1."""
    seen: dict[frozenset[str], tuple[int, str, int]] = {}
    newer: list[str] = []
    count = 0
    for file in files:
        data = file.read()
        count += 1
        if is_hornetq_2_1(data, file.number):
            newer.append(file.path)
        for found in _evidence(data, file.header._replace(layout=JournalLayout.JBM)):
            known = seen.get(found.layouts, (0, file.path, found.offset))
            seen[found.layouts] = (known[0] + 1, *known[1:])
    if newer and len(newer) == count:
        raise CorruptError(newer[0], 0, "layout", f"the header is one of {HORNETQ_2_1} or later; nothing was changed")
    return Recognition(ALIKE.intersection(*seen), seen)


def recognised_for_reading(found: Recognition) -> JournalLayout:
    """The layout by which a journal is read that nobody named.  Raises: CorruptError if no layout fits."""
    if JBM not in found.possible and JBM_2008_07 in found.possible:
        return JournalLayout.JBM_2008_07
    if (refusal := found.refusal(JBM)) is not None:
        raise refusal
    return JournalLayout.JBM


def recognised_for_writing(found: Recognition, path: str) -> JournalLayout:
    """The layout of a journal that nobody named.  Raises: CorruptError unless it is sure."""
    for layout in (JournalLayout.JBM, JournalLayout.JBM_2008_07):
        if found.possible == {layout.value}:
            return layout
    names = ", ".join(sorted(found.possible)) or "no layout"
    text = f"its records fit {names}: say which it is with layout=; nothing was changed"
    raise CorruptError(path, 0, "layout", text)


def _evidence(data: bytes, header: FileHeader) -> Iterable[Evidence]:
    end, gaps = header.layout.header_bytes, list[tuple[int, int]]()
    for scan in scan_columns(data, header):
        offsets = memoryview(scan.offset).cast("q")
        for place, kind in enumerate(scan.kind):
            if kind in _TELLING and (found := evidence_at(data, offsets[place], header.record_id)) is not None:
                yield found
        gaps += scan.gaps
        end = scan.end
    yield from evidence_between(data, [*gaps, (end, len(data))], header.record_id)
