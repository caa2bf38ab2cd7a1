"""What in the bytes of a journal's records begins as a record of their file, and was not put there as one.

A load that meets a damaged record goes on byte by byte, and believes the next sound one.  A record's check holds in one
use of a file and at one offset alone; but who has read the file's salt, and foresees where the next body will lie, can
put a record into it that is sound there.  So a record goes nowhere where any but itself would be sound then: one that
lies in it, one that began in the records before and ends in it, or one that zeros behind it end.

- Behind the last record all counts as zeros; so they must be written as far as anything that has begun may reach.
- What has begun, and leads on, is remembered until all its bytes are known, in whatever records these come.
- What may not lie in a file goes to the next one, and if not there either, to one whose salt is drawn then, and whose
  id is one that it has not often: whoever made it has not foreseen both.
- CRCs are linear: two that go on over the same bytes differ, behind these, by what depends on how many there are, and
  not on which.  So one CRC goes on over all that is appended, and of what has begun no byte is kept, but by how much
  its own CRC differs from that one: as it will at the file's end, where all can be compared with one number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from binlog.format.crc import crc32c
from binlog.format.journal.file_header import FileHeader
from binlog.format.journal.record import CHECK_BYTES, check_seed
from binlog.storage.journal_records import carry_crc, find_lookalikes, skip_marked

# So many are remembered in one file.  Each costs a look; bodies have more of them only where somebody puts them there.
_REMEMBERED_MAX = 4096
_ONES = 0xFFFFFFFF
_ID_MASK = 0xFFFFFFFF  # what records have of the id of their file


class _Stretch(NamedTuple):
    """Bytes of a file from the offset `at` on; crc: the one that goes on over all, before these."""

    at: int
    data: bytes
    crc: int

    def crcs(self, offsets: Iterable[int]) -> Iterator[int]:
        """The CRC before each of these offsets, which ascend."""
        start, data, crc = self
        view, at = memoryview(data), start
        for offset in offsets:
            crc = crc32c(view[at - start : offset - start], crc)
            at = offset
            yield crc

    def check_at(self, offset: int) -> int:
        """What would end a record there, with zeros behind the bytes."""
        start = offset - self.at
        return int.from_bytes(self.data[start : start + CHECK_BYTES].ljust(CHECK_BYTES, b"\0"))


class _Begun(NamedTuple):
    """What has begun, and would end there.

    difference: of its CRC from the one that goes on over all, carried to the end of the file.
    by_zeros: which CRC of all, carried so, has zeros make it sound.
    """

    end: int
    difference: int
    by_zeros: int


def ids_to_skip(record: bytes | bytearray, file_id: int) -> int:
    """How many ids of files, from one on, are not for the file of a record: too much in it would begin as one of these.

    Half of what is remembered is left for what comes behind it.  Takes a time that goes by the record's bytes alone.
    """
    return skip_marked(record, file_id & _ID_MASK, _REMEMBERED_MAX // 2)


class Lookalikes:
    """Those in one use of a file, from its first record on to the last one that was put there.

    is_open: some have begun of which not all bytes are known, and so all that is appended is to be told here; else only
    what holds a mark (see `pack_appended`).  reach: up to there zeros must lie behind the last record.
    """

    def __init__(self, header: FileHeader, file_bytes: int) -> None:
        self.is_open = False
        self.reach = 0
        self._header = header
        self._file_bytes = file_bytes
        self._rest = _Stretch(0, b"", 0)
        self._begun: list[_Begun] = []  # by their ends
        # Of all of them since it was open.  Who knows the salt can make them equal in the set, so it tells no count.
        self._by_zeros: set[int] = set()
        self._begun_count = 0

    def take(self, record: bytes | bytearray, at: int) -> bool:
        """Whether a record may be put at an offset, behind all others; it counts as put there then."""
        if not self.is_open:
            return self._take(_Stretch(at, bytes(record), 0), at)
        start, data, crc = self._rest
        between = bytes(at - start - len(data))
        return self._take(_Stretch(start, b"".join((data, between, record)), crc), at)

    def take_all(self, data: bytes, at: int) -> bool:
        """The same of all records that a file has, whose bytes from the offset `at` on are `data`."""
        return self._take(_Stretch(at, data, 0), at + len(data))

    def _take(self, stretch: _Stretch, own: int) -> bool:
        """own: where the record begins that was put there; what would end before that was judged before."""
        header, end = self._header, stretch.at + len(stretch.data)
        count_max = _REMEMBERED_MAX - self._begun_count
        found = find_lookalikes(
            stretch.data, stretch.at, own, header.record_id, header.salt, self._file_bytes, count_max
        )
        if found is None:
            return False
        places, open_at = found
        begun = list(self._measured(stretch, places)) if places else []
        # From there on bytes are kept: a head that is not whole, or a check.
        kept = max(stretch.at, min(open_at, end - CHECK_BYTES + 1))
        kept_crc, crc = stretch.crcs((kept, end))
        by_zeros = self._carried(~crc & _ONES, end)
        due = self._begun[: self._count_before(end + CHECK_BYTES)]
        if (
            by_zeros in self._by_zeros
            or any(by_zeros == each.by_zeros for each in begun)
            or (due and self._is_any_sound(stretch, due))
        ):
            return False
        self._remember(begun, end)
        self.is_open = bool(self._begun) or open_at < end
        self._rest = _Stretch(kept, stretch.data[kept - stretch.at :], kept_crc)
        if not self.is_open:
            self._by_zeros.clear()
            self._begun_count = 0
            self.reach = 0
        return True

    def _measured(self, stretch: _Stretch, places: Sequence[tuple[int, int]]) -> Iterator[_Begun]:
        crcs = stretch.crcs(start for start, _ in places)
        for (start, end), crc in zip(places, crcs, strict=True):
            difference = self._carried(crc ^ check_seed(self._header, start), start)
            yield _Begun(end, difference, difference ^ self._carried(_ONES, end - CHECK_BYTES))

    def _is_any_sound(self, stretch: _Stretch, due: Sequence[_Begun]) -> bool:
        checks = [each.end - CHECK_BYTES for each in due]
        for each, at, crc in zip(due, checks, stretch.crcs(checks), strict=True):
            if self._carried(crc ^ stretch.check_at(at), at) == each.difference:
                return True
        return False

    def _remember(self, begun: Sequence[_Begun], end: int) -> None:
        settled = self._count_before(end + 1)
        if begun or settled:
            self._begun = sorted([*self._begun[settled:], *begun])
        self._by_zeros.update(each.by_zeros for each in begun)
        self._begun_count += len(begun)
        self.reach = max([self.reach, *(each.end for each in begun)])

    def _count_before(self, end: int) -> int:
        """How many have begun that would end before an offset."""
        return bisect_left(self._begun, end, key=itemgetter(0))

    def _carried(self, crc: int, at: int) -> int:
        """A difference of CRCs at an offset, as it is at the end of the file."""
        return carry_crc(crc, self._file_bytes - at)
