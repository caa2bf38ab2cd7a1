"""Layouts of files with a four-byte header, told apart by their records.

JBoss Messaging and HornetQ changed the format of records four times, and no file says which format it has.  Most
records are the same in all layouts.  A record that fits only some of them is evidence for those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from binlog.format.journal.file_header import JournalLayout, aligned
from binlog.format.journal.record import Kind

JBM = JournalLayout.JBM.value
JBM_2008_07 = JournalLayout.JBM_2008_07.value
# Used for six days in September 2008: as before, but PREPARE has the user's bytes.
JBM_2008_09 = "jbm-2008-09"
# Since July 2009, and in HornetQ 2.0: COMMIT and PREPARE have a single count, of all records.
HORNETQ_2_0 = "hornetq-2.0"
# Since April 2010, and in Artemis: a header of sixteen bytes.
HORNETQ_2_1 = "hornetq-2.1"
FOUR_BYTE_LAYOUTS = frozenset((JBM, JBM_2008_07, JBM_2008_09, HORNETQ_2_0))

_HEAD_BYTES = 5
_TX_BYTES = 8
_COUNT_BYTES = 8
_CHECK_BYTES = 4
_TX_END = _HEAD_BYTES + _TX_BYTES
_ALIGNMENT = 512
_TRIES_MAX = 1000
_USER_VERSION_MAX = 1 << 16
_FILL = b"\0J"
_HEADER_2_1_BYTES = 16


class Evidence(NamedTuple):
    """A record that fits only some layouts: where it starts and ends, and these layouts."""

    offset: int
    end: int
    layouts: frozenset[str]


class _Shape(NamedTuple):
    """The shape of a record in some layouts.  size: returns its size, given the bytes of the file and its offset."""

    kind: int
    layouts: frozenset[str]
    size: Callable[[bytes, int], int]


def _fixed(size: int) -> Callable[[bytes, int], int]:
    return lambda _data, _at: size


def _counts_only(data: bytes, at: int) -> int:
    return _TX_END + 4 + _COUNT_BYTES * _i32(data, at + _TX_END) + _CHECK_BYTES


def _extra_then_files(data: bytes, at: int) -> int:
    extra, files = _i32(data, at + _TX_END), _i32(data, at + _TX_END + 4)
    return _TX_END + 8 + extra + _COUNT_BYTES * files + _CHECK_BYTES if min(extra, files) >= 0 else -1


def _count_then_extra(data: bytes, at: int) -> int:
    count, extra = _i32(data, at + _TX_END), _i32(data, at + _TX_END + 4)
    return _TX_END + 8 + extra + _CHECK_BYTES if min(count, extra) >= 0 else -1


def _body(data: bytes, at: int) -> int:
    body = _i32(data, at + _TX_END + 8)
    return _TX_END + 12 + body + _CHECK_BYTES if body >= 0 else -1


_OLD_DELETES = frozenset((JBM_2008_07, JBM_2008_09))
_NEW_DELETES = frozenset((JBM, HORNETQ_2_0))
_SHAPES = (
    _Shape(Kind.DELETE_TX, _OLD_DELETES, _fixed(_HEAD_BYTES + 8 + _CHECK_BYTES)),  # their DELETE
    _Shape(Kind.DELETE_TX, _NEW_DELETES, _body),
    _Shape(Kind.DELETE, _OLD_DELETES, _fixed(_TX_END + 8 + _CHECK_BYTES)),  # their DELETE_TX
    _Shape(Kind.DELETE, _NEW_DELETES, _fixed(_HEAD_BYTES + 8 + _CHECK_BYTES)),
    _Shape(Kind.PREPARE, frozenset((JBM_2008_07,)), _counts_only),
    _Shape(Kind.PREPARE, frozenset((JBM, JBM_2008_09)), _extra_then_files),
    _Shape(Kind.PREPARE, frozenset((HORNETQ_2_0,)), _count_then_extra),
    _Shape(Kind.COMMIT, frozenset((JBM, JBM_2008_07, JBM_2008_09)), _counts_only),
    _Shape(Kind.COMMIT, frozenset((HORNETQ_2_0,)), _fixed(_TX_END + 4 + _CHECK_BYTES)),
)


def evidence_at(data: bytes, at: int, file_id: int) -> Evidence | None:
    """Return the evidence of the record at an offset; None if there is none.  file_id: as records have it."""
    head = data[at : at + _HEAD_BYTES]
    if len(head) < _HEAD_BYTES or head[1:] != file_id.to_bytes(4):
        return None
    layouts_by_size: dict[int, frozenset[str]] = {}
    for shape in _SHAPES:
        if shape.kind == head[0]:
            size = shape.size(data, at)
            if _TX_END < size <= len(data) - at and _i32(data, at + size - _CHECK_BYTES) == size:
                layouts_by_size[size] = layouts_by_size.get(size, frozenset()) | shape.layouts
    if len(layouts_by_size) != 1:
        return None  # no record, or two possible sizes, which happens only by chance
    ((size, layouts),) = layouts_by_size.items()
    return Evidence(at, at + size, layouts) if layouts != FOUR_BYTE_LAYOUTS else None


def evidence_between(data: bytes, gaps: Iterable[tuple[int, int]], file_id: int) -> Iterable[Evidence]:
    """Yield evidence in gaps between records of `jbm`: at the start of each gap, and after each record found there.

    Not at other offsets, so bytes that a user put into the body of a damaged record are no evidence.
    """
    for start, stop in gaps:
        at = start
        for _ in range(_TRIES_MAX):
            while at < stop and data[at] in _FILL:
                at += 1
            evidence = evidence_at(data, at, file_id) or evidence_at(data, aligned(at, _ALIGNMENT), file_id)
            if evidence is None or evidence.end > stop:
                break
            yield evidence
            at = evidence.end


def is_hornetq_2_1(data: bytes, number: int) -> bool:
    """Whether a file begins like one of HornetQ 2.1 or Artemis: format 1 or 2, a user version, an id of eight bytes.

    number: from the name of the file; the id of its first use.
    """
    if len(data) < _HEADER_2_1_BYTES or not 1 <= _i32(data, 0) <= 2:
        return False
    return 0 <= _i32(data, 4) < _USER_VERSION_MAX and 0 < number <= int.from_bytes(data[8:16]) < 1 << 40


def _i32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], signed=True)
