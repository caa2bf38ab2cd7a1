"""What begins as a record within the bytes of others: against all that the file would come to, byte by byte."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.journal.file_header import FileHeader, JournalLayout, aligned
from binlog.format.journal.record import JournalRecord, Kind, is_record, pack_record, said_end
from binlog.journal.lookalikes import Lookalikes
from binlog.storage.checksum import crc32c
from binlog.storage.journal_records import carry_crc, find_lookalikes, pack_appended, pack_journal, skip_marked
from tests.support.forging import WAYS, Forger, head, mark, shortened, sound_places

_FILE_BYTES = 1500
_FIRST = JournalLayout.NATIVE.header_bytes
_ID = 5
# Of which some may have a mark that goes on behind a record; the last ones are those of no small file.
_IDS = [1, 11, 12, 19, 256, 2816, 0x0B00000B, 0x0B0B0B0B, 0x10101010, 0xFFFFFFFF]


class _File:
    """A file in memory, its records, and what is told of what lies in them."""

    def __init__(self, file_id: int, alignment: int = 1) -> None:
        self.header = FileHeader(JournalLayout.NATIVE, file_id, b"saltsalt", alignment)
        self.end = _FIRST
        self._data = bytearray(_FILE_BYTES)
        self._places: list[int] = []
        self._lookalikes = Lookalikes(self.header, _FILE_BYTES)

    @property
    def at(self) -> int:
        """Where the next record will lie."""
        return aligned(self.end, self.header.alignment)

    @property
    def forger(self) -> Forger:
        """Who sees it as it is."""
        return Forger(self.header, bytes(self._data), self.end, self.at, _ID)

    def load(self) -> None:
        """As a process that goes on in it."""
        self._lookalikes = Lookalikes(self.header, _FILE_BYTES)
        assert self._lookalikes.take_all(bytes(self._data[_FIRST : self.end]), _FIRST)

    def put(self, record: JournalRecord) -> bool:
        """Put it behind the others, where it may lie there: where no other one is sound then."""
        at = self.at
        packed = pack_record(record, self.header, at)
        if at + len(packed) > _FILE_BYTES:
            return True
        data = self._data[:]
        data[at : at + len(packed)] = packed
        is_harmless = sound_places(bytes(data), self.header) == [*self._places, at]
        assert self._may_lie(record, packed) is is_harmless
        if is_harmless:
            self._data, self.end = data, at + len(packed)
            self._places.append(at)
            assert all(each <= self._lookalikes.reach for each in self.forger.begun().values())
        return is_harmless

    def _may_lie(self, record: JournalRecord, packed: bytes) -> bool:
        """As who appends asks."""
        data = bytearray(len(packed) + 64)
        used = pack_appended(data, 0, *_arguments(self.header, self.at, record))
        assert (abs(used), data[: len(packed)]) == (len(packed), packed)  # see journal_shorter.c and journal_pack.c
        return (used > 0 and not self._lookalikes.is_open) or self._lookalikes.take(packed, self.at)


def _arguments(
    header: FileHeader, at: int, record: JournalRecord
) -> tuple[int, bytes, int, int, int, int, int, bytes, bytes]:
    return header.record_id, header.salt, at, record.kind, *record[1:4], record.body, b""


@pytest.mark.slow
@given(
    st.sampled_from(_IDS),
    st.sampled_from([1, 1, 64]),
    st.lists(st.tuples(st.integers(0, WAYS - 1), st.integers(0, 700), st.sampled_from(Kind), st.booleans())),
)
def test_a_record_may_lie_where_no_other_one_is_sound_then(
    file_id: int, alignment: int, steps: list[tuple[int, int, Kind, bool]]
) -> None:
    """Whatever somebody puts into bodies, and whoever goes on in the file."""
    file = _File(file_id, alignment)
    for way, number, kind, is_loaded in steps:
        if is_loaded:
            file.load()
        file.put(file.forger.record(way, number, kind))


@pytest.mark.parametrize("file_id", _IDS)
@pytest.mark.parametrize("way", [3, 4, 6])
def test_what_somebody_forges_is_found(file_id: int, way: int) -> None:
    """That the test above has something to find."""
    file = _File(file_id)
    assert file.put(file.forger.add(head(Kind.UPDATE, file.header, 100)))
    assert not file.put(file.forger.record(way, 7, Kind.ADD))


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("alignment", [1, 64])
@pytest.mark.parametrize("number", [0, 17, 299])
def test_what_zeros_behind_a_later_record_end_is_found(number: int, alignment: int, is_loaded: bool) -> None:
    file = _File(1, alignment)
    assert file.put(file.forger.ended_by_zeros_later(number, Kind.UPDATE))
    if is_loaded:
        file.load()
    assert not file.put(file.forger.add(b""))
    assert file.put(file.forger.add(b"another"))


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_the_first_bytes_of_the_next_record_end_is_found(size: int, is_loaded: bool) -> None:
    file = _File(1)
    assert file.put(file.forger.ended_by_a_mark(size))
    if is_loaded:
        file.load()
    assert not file.put(file.forger.add(b""))
    assert file.put(JournalRecord(Kind.DELETE, 0, _ID))


@pytest.mark.parametrize("kind", [Kind.ADD, Kind.UPDATE, Kind.ROLLBACK])
@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize(
    ("file_id", "mark_bytes", "gap"),
    [(11, 4, 0), (12, 4, 0), (0x0B00000B, 4, 0), (256, 4, 1), (256, 4, 3), (11, 3, 1), (11, 2, 2), (12, 1, 3)],
)
def test_what_begins_in_a_check_and_goes_on_in_the_next_head_is_found(
    file_id: int, mark_bytes: int, gap: int, is_loaded: bool, kind: Kind
) -> None:
    file = _File(file_id, 64 if gap else 1)
    padding = -(file.at + 18 + 4 + 4 + gap) % file.header.alignment
    assert file.put(file.forger.with_check(kind, padding, mark_bytes))
    if is_loaded:
        file.load()
    assert file.at - file.end == gap
    assert not file.put(file.forger.ending_a_mark(7))


def _may_go_on(file_id: bytes) -> bool:
    """Whether bytes that end a record may go on as the mark of one: in zeros, and in what the next one begins with."""
    behind = [bytes(gap) + bytes([kind]) + file_id for gap in range(5) for kind in Kind]
    return any((file_id[:own] + each).startswith(file_id) for own in range(4) for each in behind)


@given(
    st.one_of(st.sampled_from(_IDS), st.binary(min_size=4, max_size=4).map(int.from_bytes)),
    st.lists(st.one_of(st.binary(max_size=140), st.integers(0, 9)), max_size=4),
    st.sampled_from(Kind),
    st.integers(0, 50),
)
def test_a_mark_is_seen_wherever_it_lies(file_id: int, parts: list[bytes | int], kind: Kind, place: int) -> None:
    """A mark may also go on behind the record, where the id of the file lets it."""
    header = FileHeader(JournalLayout.NATIVE, file_id, b"saltsalt")
    body = b"".join(each if isinstance(each, bytes) else mark(header, kind)[:each] for each in parts)
    record = JournalRecord(Kind.ADD, 0, _ID, 1, body)
    data, plain = bytearray(len(body) + 150), bytearray(len(body) + 150)
    used = pack_appended(data, place, *_arguments(header, 88, record))
    assert pack_journal(plain, place, *_arguments(header, 88, record)) == abs(used)
    assert data == plain
    packed = bytes(data[place : abs(used)])
    whole = re.compile(rb"[\x0b-\x13]" + re.escape(file_id.to_bytes(4)), re.DOTALL)
    beginnings = {mark(header, each)[:size] for each in Kind for size in range(1, 5)}
    may_go_on = _may_go_on(file_id.to_bytes(4)) and any(packed.endswith(each) for each in beginnings)
    assert (used < 0) is (whole.search(packed, 1) is not None or may_go_on)


def _shorter_ones(packed: bytes, at: int, header: FileHeader) -> list[int]:
    """The ends of all shorter records that one bit makes of one."""
    ends = []
    for bit in range(8 * min(26, len(packed))):
        changed = bytearray(bytes(at) + packed)
        changed[at + bit // 8] ^= 1 << bit % 8
        end = said_end(bytes(changed), at, header)
        if end is not None and end < len(changed) and is_record(changed, at, header):
            ends.append(end)
    return ends


@given(
    st.sampled_from([Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX, Kind.PREPARE]),
    st.integers(0, 1000),
    st.integers(0, 9),
    st.sampled_from([1, 64]),
    st.sampled_from([0, 3, 4, 7, 8, 15, 16, 17, 99]),
)
def test_a_record_is_seen_that_one_bit_of_a_length_makes_a_shorter_one(
    kind: Kind, size: int, bit: int, alignment: int, zeros: int
) -> None:
    """Its check lies in the body then, whatever lies behind it."""
    header, at = FileHeader(JournalLayout.NATIVE, 1, b"saltsalt", alignment), 128
    record = shortened(JournalRecord(kind, 5, 6, 7, bytes(size)), header, at, 1 << bit, zeros)
    data = bytearray(len(record.body) + 150)
    used = pack_appended(data, 0, *_arguments(header, at, record))
    packed = pack_record(record, header, at)
    assert data[: len(packed)] == packed
    assert (used == 0) is bool(_shorter_ones(packed, at, header))


@given(
    st.lists(st.tuples(st.sampled_from([5, 11, 12, 19, 20]), st.integers(0, 3)), max_size=30),
    st.sampled_from(_IDS),
    st.integers(0, 3),
)
def test_ids_are_skipped_that_lie_in_the_data_too_often(
    marks: list[tuple[int, int]], file_id: int, count_max: int
) -> None:
    data = b"".join(bytes([kind]) + ((file_id + number) % 2**32).to_bytes(4) for kind, number in marks)

    def is_skipped(number: int) -> bool:
        own = ((file_id + number) % 2**32).to_bytes(4)
        return len(re.findall(rb"(?=[\x0b-\x13]" + re.escape(own) + b")", data, re.DOTALL)) > count_max

    assert skip_marked(data, file_id, count_max) == next(each for each in itertools.count() if not is_skipped(each))


@given(st.binary(), st.binary(), st.integers(0, 2**32 - 1))
def test_a_difference_of_crcs_is_carried_on(one: bytes, same: bytes, crc: int) -> None:
    assert crc32c(same, crc32c(one)) ^ crc32c(same, crc) == carry_crc(crc32c(one) ^ crc, len(same))


@pytest.mark.parametrize(
    ("at", "own", "salt", "file_bytes"),
    [(-1, 5, b"saltsalt", 99), (5, 4, b"saltsalt", 99), (5, 5, b"", 99), (5, 5, b"salt", 99), (5, 5, b"saltsalt", 7)],
)
def test_lookalikes_are_of_a_file_that_has_them(at: int, own: int, salt: bytes, file_bytes: int) -> None:
    with pytest.raises(ValueError, match="salt"):
        find_lookalikes(bytes(3), at, own, 1, salt, file_bytes, 9)
