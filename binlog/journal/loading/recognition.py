"""Recognition of a journal's layout by its records, before a load changes anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.journal.compiled import scan_columns
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.known_layouts import (
    FOUR_BYTE_LAYOUTS,
    HORNETQ_2_1,
    JBM,
    JBM_2008_07,
    Evidence,
    evidence_at,
    evidence_between,
    is_hornetq_2_1,
)
from binlog.format.journal.record import Kind

_DISTINCTIVE = frozenset((Kind.DELETE_TX, Kind.DELETE, Kind.PREPARE, Kind.COMMIT))


class JbmFile(NamedTuple):
    """A journal file with a four-byte header.

    number: from its name; the id of its first use.  read: returns all of its bytes.
    """

    path: str
    header: FileHeader
    number: int
    read: Callable[[], bytes]


class Recognition(NamedTuple):
    """The layouts that fit a journal's records.

    possible: names of the layouts that fit all records.
    seen: for each set of layouts that some record fits, how many such records there are, and the path and the offset of
    the first one.
    """

    possible: frozenset[str]
    seen: dict[frozenset[str], tuple[int, str, int]]

    def count_for(self, layout: str) -> int:
        """Return how many records fit a layout and not all others."""
        return sum(count for layouts, (count, _, _) in self.seen.items() if layout in layouts)

    def refusal(self, layout: str) -> CorruptError | None:
        """Return why the journal cannot be of a layout; None if it can.

        If no layout fits all records, some are damaged, and the layout that fits most of them is accepted.
        """
        against = {layouts: evidence for layouts, evidence in self.seen.items() if layout not in layouts}
        if not against:
            return None
        layouts, (_, path, offset) = max(against.items(), key=lambda each: each[1][0])
        if not self.possible and self.count_for(layout) > sum(count for count, _, _ in against.values()):
            return None
        text = f"a record of the layout {' or '.join(sorted(layouts))}, and not of {layout}; nothing was changed"
        return CorruptError(path, offset, "layout", text)

    def confirm_layout(self, layout: JournalLayout | None) -> JournalLayout | None:
        """Return the layout, which may be None.  Raises: CorruptError if the records contradict it."""
        if layout is not None and (refusal := self.refusal(layout.value)) is not None:
            raise refusal
        return layout


def recognise(files: Iterable[JbmFile]) -> Recognition:
    """Read the files and weigh their records.  Raises: CorruptError if the headers are those of HornetQ 2.1."""
    seen: dict[frozenset[str], tuple[int, str, int]] = {}
    newer: list[str] = []
    count = 0
    for file in files:
        data = file.read()
        count += 1
        if is_hornetq_2_1(data, file.number):
            newer.append(file.path)
        for evidence in _evidence(data, file.header._replace(layout=JournalLayout.JBM)):
            known = seen.get(evidence.layouts, (0, file.path, evidence.offset))
            seen[evidence.layouts] = (known[0] + 1, *known[1:])
    if newer and len(newer) == count:
        raise CorruptError(newer[0], 0, "layout", f"the header is one of {HORNETQ_2_1} or later; nothing was changed")
    return Recognition(FOUR_BYTE_LAYOUTS.intersection(*seen), seen)


def layout_for_reading(recognition: Recognition) -> JournalLayout:
    """Return the layout by which to read a journal.  Raises: CorruptError if no layout fits."""
    if JBM not in recognition.possible and JBM_2008_07 in recognition.possible:
        return JournalLayout.JBM_2008_07
    if (refusal := recognition.refusal(JBM)) is not None:
        raise refusal
    return JournalLayout.JBM


def layout_for_writing(recognition: Recognition, path: str) -> JournalLayout:
    """Return the layout in which to append to a journal.  Raises: CorruptError unless exactly one fits."""
    for layout in (JournalLayout.JBM, JournalLayout.JBM_2008_07):
        if recognition.possible == {layout.value}:
            return layout
    names = ", ".join(sorted(recognition.possible)) or "no layout"
    text = f"its records fit {names}: say which it is with layout=; nothing was changed"
    raise CorruptError(path, 0, "layout", text)


def _evidence(data: bytes, header: FileHeader) -> Iterable[Evidence]:
    end, gaps = header.layout.header_bytes, list[tuple[int, int]]()
    for scan in scan_columns(data, header):
        offsets = memoryview(scan.offset).cast("q")
        for index, kind in enumerate(scan.kind):
            if kind in _DISTINCTIVE and (evidence := evidence_at(data, offsets[index], header.record_id)) is not None:
                yield evidence
        gaps += scan.gaps
        end = scan.end
    yield from evidence_between(data, [*gaps, (end, len(data))], header.record_id)
