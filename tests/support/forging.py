"""Records that somebody forges who has read a journal's files, and foresees where the next record will lie."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from binlog.format.crc import crc32c
from binlog.format.journal.file_header import FileHeader, aligned
from binlog.format.journal.record import CHECK_BYTES, JournalRecord, Kind, check_seed, is_record, pack_record, said_end
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from binlog.storage.journal_records import scan_records
from tests.support.journals import files, header_of, records_in

# Of what is forged; what the forger has appended has another id, but where that is a part of what is forged.
FORGED = 66
# How a journal appends a body of each, and what lies before that.
CARRIERS: dict[Kind, tuple[Callable[[Journal, bytes], object], int]] = {
    Kind.ADD: (lambda opened, body: opened.append_add(2, 1, body), 18),
    Kind.UPDATE: (lambda opened, body: opened.append_update(1, 1, body), 18),
    Kind.ADD_TX: (lambda opened, body: opened.append_add_tx(5, 2, 1, body, sync=Sync.WAIT), 26),
    Kind.UPDATE_TX: (lambda opened, body: opened.append_update_tx(5, 1, 1, body, sync=Sync.WAIT), 26),
    Kind.DELETE_TX: (lambda opened, body: opened.append_delete_tx(5, 1, body, sync=Sync.WAIT), 25),
    Kind.PREPARE: (lambda opened, body: opened.prepare(5, body), 21),
}
WITH_BODIES = list(CARRIERS)
# What a Forger can try.
WAYS = 9
_LENGTHS_AT = {Kind.ADD: 13, Kind.UPDATE: 13, Kind.ADD_TX: 21, Kind.UPDATE_TX: 21, Kind.DELETE_TX: 21, Kind.PREPARE: 13}
_ADD_BYTES = 18


class Place(NamedTuple):
    """Where the next record will lie."""

    file: Path
    header: FileHeader
    at: int


def foreseen(path: Path, alignment: int = 1) -> Place:
    """Behind the last record of a journal, all of which is on the disk."""
    file = next((each for each in reversed(files(path)) if records_in(each)), files(path)[0])
    header = header_of(file)
    end = records_in(file)[-1][2] if records_in(file) else header.layout.header_bytes
    return Place(file, header, aligned(end, alignment))


def marked_places(data: bytes, header: FileHeader, stop: int | None = None) -> list[int]:
    """All offsets of a file at which something begins as a record of it, wherever."""
    mark = re.compile(rb"(?=[\x0b-\x13]" + re.escape(header.record_id.to_bytes(4)) + b")", re.DOTALL)
    start = header.layout.header_bytes
    return [found.start() for found in mark.finditer(data, start, len(data) if stop is None else stop)]


def sound_places(data: bytes, header: FileHeader) -> list[int]:
    """Those at which a sound record lies, also within others: what a load may ever believe."""
    view = memoryview(data)
    return [at for at in marked_places(data, header) if is_record(view, at, header)]


def forged(kind: Kind, place: Place, before: int) -> bytes:
    """A record that is sound so many bytes behind where the next one will lie."""
    body = b"forged" if kind in WITH_BODIES else b""
    counts = ((place.header.record_id, 1),) if kind in (Kind.PREPARE, Kind.COMMIT) else ()
    return pack_record(JournalRecord(kind, 5, FORGED, 7, body, counts), place.header, place.at + before)


def files_used(path: Path) -> list[int]:
    """The ids of those that have records, in order."""
    return [header_of(file).file_id for file in files(path) if records_in(file)]


def has_forged(path: Path) -> bool:
    """Whether anything in a journal's files is sound, and was not put there as a record."""
    return any(_holds_forged(file.read_bytes(), header_of(file)) for file in files(path))


def _holds_forged(data: bytes, header: FileHeader) -> bool:
    return sound_places(data, header) != [each[1] for each in scan_records(data, header).records]


def checked(region: bytes, header: FileHeader, at: int) -> bytes:
    """What must follow a region that begins at an offset, for it to be a sound record."""
    return crc32c(region, check_seed(header, at)).to_bytes(4)


def mark(header: FileHeader, kind: int) -> bytes:
    """What a record of a kind begins with."""
    return bytes([kind]) + header.record_id.to_bytes(4)


def head(kind: Kind, header: FileHeader, body_bytes: int) -> bytes:
    """What lies before such a body."""
    fields = pack_record(JournalRecord(kind, 1, FORGED, 7), header, 0)[:-CHECK_BYTES]
    at = _LENGTHS_AT[kind]
    return fields[:at] + body_bytes.to_bytes(4) + fields[at + 4 :]


def shortened(record: JournalRecord, header: FileHeader, at: int, bit: int, zeros: int) -> JournalRecord:
    """A record that is a shorter one, at an offset, without a bit of its length; so many zeros lie behind that one."""
    size = len(record.body) | bit
    fields = pack_record(record._replace(body=b""), header, at)[:-CHECK_BYTES]
    lies_at = _LENGTHS_AT[record.kind]
    begun = fields[:lies_at] + (size ^ bit).to_bytes(4) + fields[lies_at + 4 :]
    text = record.body[: size ^ bit].ljust(size ^ bit, b"\0")
    body = text + checked(begun + text, header, at) + bytes(zeros)
    return record._replace(body=body.ljust(size, b"x")[:size])


def solved(value: Callable[[bytes], int], target: int) -> bytes | None:
    """Four bytes that make a value of 32 bits what is wanted; each bit of it is a sum of bits of theirs, as of a CRC.

    None where there are none.
    """
    zero = value(bytes(4))
    rows = [(value((1 << bit).to_bytes(4)) ^ zero, 1 << bit) for bit in range(32)]
    wanted, chosen = target ^ zero, 0
    for bit in reversed(range(32)):
        pivot = next((row for row in rows if row[0] >> bit & 1), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows = [(row[0] ^ pivot[0], row[1] ^ pivot[1]) if row[0] >> bit & 1 else row for row in rows]
        if wanted >> bit & 1:
            wanted, chosen = wanted ^ pivot[0], chosen ^ pivot[1]
    return chosen.to_bytes(4) if wanted == 0 else None


def overlong(header: FileHeader, at: int, bit: int, between: int, rest: bytes) -> list[JournalRecord]:
    """Adds for an offset: with a bit more in its length the first is sound too, and ends in the last one.

    between: how many records lie whole in it then.  rest: what the body of the last one has behind it.
    """
    end = at + _ADD_BYTES + 40 + (1 << bit)
    whole = [JournalRecord(Kind.ADD, 0, 100 + number, 1, b"between" * number) for number in range(between)]
    records = [JournalRecord(Kind.ADD, 0, FORGED, 1, b"a" * 40), *whole]
    last_at = aligned(at + len(_joined(header, at, records)), header.alignment)
    room = end - last_at - _ADD_BYTES
    assert room >= 0, "it does not end in the body of the last one"
    last = JournalRecord(Kind.ADD, 0, 200, 1, bytes(room + CHECK_BYTES) + rest)
    data = with_longer(_joined(header, at, [*records, last]), 0, bit)
    body = bytes(room) + checked(data[: end - at], header, at) + rest
    return [*records, last._replace(body=body)]


def with_longer(data: bytes, at: int, bit: int) -> bytes:
    """A file with a bit of the length of an add the other way."""
    changed = bytearray(data)
    changed[at + _LENGTHS_AT[Kind.ADD] + 3 - bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _joined(header: FileHeader, at: int, records: list[JournalRecord]) -> bytes:
    """Records one behind the other, from an offset on."""
    data = b""
    for record in records:
        data = data.ljust(aligned(at + len(data), header.alignment) - at, b"\0")
        data += pack_record(record, header, at + len(data))
    return data


class Forger:
    """Sees a file, and chooses the record that comes next; which lies at `at`, and has the id, where it is an add.

    data: all of the file.  end: of its last record.
    """

    def __init__(self, header: FileHeader, data: bytes, end: int, at: int, record_id: int) -> None:
        self._header = header
        self._data = data
        self._end = end
        self._at = at
        self._record_id = record_id

    def begun(self) -> dict[int, int]:
        """Where what begins as a record would end, behind the last one."""
        places = marked_places(self._data, self._header, self._end)
        ends = {at: said_end(self._data, at, self._header) for at in places}
        return {at: end for at, end in ends.items() if end is not None and end > self._end}

    def record(self, way: int, number: int, kind: Kind) -> JournalRecord:
        """A record that tries one of WAYS; what it forges has a kind."""
        with_body = kind if kind in WITH_BODIES else Kind.ADD
        if way == 0:
            return self.add(bytes(number % 40))
        if way == 1:  # ends in what a record begins with
            return self.add(bytes(number % 9) + mark(self._header, kind)[: 1 + number % 5])
        if way == 2:  # a head, which leads somewhere
            return self.add(bytes(number % 7) + head(with_body, self._header, number) + bytes(number % 11))
        if way == 3:  # a whole one
            at = self._at + _ADD_BYTES + number % 7
            return self.add(bytes(number % 7) + pack_record(JournalRecord(kind, 1, FORGED), self._header, at))
        if way == 4:
            return self.ended_by_zeros(number, with_body)
        if way == 5:
            return self.with_check(kind, number % 13, 1 + number % 4)
        if way == 6:
            return self.ending_another(number)
        if way == 7:
            return self.ending_a_mark(number)
        return self.ended_by_zeros_later(number, with_body)

    def add(self, body: bytes) -> JournalRecord:
        """An add with a body."""
        return JournalRecord(Kind.ADD, 0, self._record_id, 1, body)

    def ended_by_zeros(self, number: int, kind: Kind) -> JournalRecord:
        """In its body something begins that zeros behind it end; the check of that is chosen by what lies before."""
        begun = head(kind, self._header, number % 300 + 20) + bytes(number % 13)
        start = self._at + _ADD_BYTES + 4
        size = len(begun) - number % 13 + number % 300 + 20

        def value(four: bytes) -> int:
            data = self._packed(self.add(four + begun))[start - self._at :].ljust(size, b"\0")
            return int.from_bytes(checked(data[:size], self._header, start))

        four = solved(value, 0)
        return self.add(b"" if four is None else four + begun)

    def ended_by_zeros_later(self, number: int, kind: Kind) -> JournalRecord:
        """The same, but that the zeros are behind the next record, if that is `add(b"")`."""
        begun = head(kind, self._header, number % 300 + 80) + bytes(number % 13)
        start = self._at + _ADD_BYTES + 4
        size = len(begun) - number % 13 + number % 300 + 80

        def value(four: bytes) -> int:
            data = self._packed(self.add(four + begun))
            next_at = aligned(self._at + len(data), self._header.alignment)
            data = data.ljust(next_at - self._at, b"\0") + pack_record(self.add(b""), self._header, next_at)
            data = data[start - self._at :].ljust(size, b"\0")
            return int.from_bytes(checked(data[:size], self._header, start))

        four = solved(value, 0)
        return self.add(b"" if four is None else four + begun)

    def ended_by_a_mark(self, size: int) -> JournalRecord:
        """In its body something begins that the first bytes of the next record end, if that is an add."""
        start = self._at + _ADD_BYTES + 4

        def value(four: bytes) -> int:
            data = self._packed(self.add(four + begun))[start - self._at :] + mark(self._header, Kind.ADD)[:size]
            return int.from_bytes(checked(data[:-4], self._header, start)) ^ int.from_bytes(data[-4:])

        for filler in range(1 << 16):  # not every value can be had
            begun = head(Kind.UPDATE, self._header, 3 + size) + filler.to_bytes(3)
            four = solved(value, 0)
            if four is not None:
                return self.add(four + begun)
        raise AssertionError("nothing of that kind can be forged there")

    def with_check(self, kind: Kind, padding: int, mark_bytes: int) -> JournalRecord:
        """Its own check ends in so much of what a record begins with; none, where that has one bit at most."""
        wanted = mark(self._header, kind)[:mark_bytes].rjust(4, b"x")
        if int.from_bytes(wanted).bit_count() <= 1:  # no record with such a check is appended
            return self.add(bytes(padding))

        def value(four: bytes) -> int:
            return int.from_bytes(self._packed(self.add(bytes(padding) + four))[-4:])

        four = solved(value, int.from_bytes(wanted))
        assert four is not None
        return self.add(bytes(padding) + four)

    def ending_another(self, number: int) -> JournalRecord:
        """In its body it has the check of something that began before."""
        first = self._at + _ADD_BYTES
        ends = sorted((end, start) for start, end in self.begun().items() if end - 4 >= first)
        if not ends:
            return self.add(b"")
        end, start = ends[number % len(ends)]
        body = bytes(end - first + number % 5)
        region = self._data[start : self._at] + self._packed(self.add(body))
        check = checked(region[: end - 4 - start], self._header, start)
        return self.add(body[: end - 4 - first] + check + body[end - first :])

    def ending_a_mark(self, number: int) -> JournalRecord:
        """It goes on with what the last check has begun: its own kind and file id may be a part of that."""
        own = self._header.record_id & 0xFF
        kind = Kind(own) if own in (Kind.ADD, Kind.UPDATE, Kind.DELETE) else Kind.ADD
        for start in range(self._end - 4, self._end):
            begun = self._data[start : self._at]
            field = start + 8 - self._at  # in the id of the record: where a DELETE has its check, and an ADD its length
            goes_on = (begun + mark(self._header, kind)).startswith(mark(self._header, begun[0]))
            if not goes_on or not 0 <= field <= 4:
                continue
            if begun[0] in (Kind.DELETE, Kind.ROLLBACK):
                region = begun + self._packed(JournalRecord(kind))
                return JournalRecord(kind, 0, _id_with(checked(region[:13], self._header, start), field))
            if begun[0] in (Kind.ADD, Kind.UPDATE) and kind != Kind.DELETE:
                padding = bytes(number % 50)
                body_bytes = self._at - start + len(padding)
                record = JournalRecord(kind, 0, _id_with(body_bytes.to_bytes(4), field), 1, padding + bytes(4))
                region = begun + self._packed(record)
                return record._replace(body=padding + checked(region[: 18 + body_bytes], self._header, start))
        return self.add(b"")

    def _packed(self, record: JournalRecord) -> bytes:
        return pack_record(record, self._header, self._at)


def _id_with(four: bytes, at: int) -> int:
    return int.from_bytes((bytes(at) + four).ljust(8, b"\0"), signed=True)
