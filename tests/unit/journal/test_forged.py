"""Records that somebody forges in the bodies of others, who knows the file and where the next record will lie.

Whatever is damaged then, no load, reader or check takes one for a record: no bytes of any file are a sound record of
that file but those that were put there as one.
"""

from __future__ import annotations

import itertools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog.format.journal.file_header import FileHeader, JournalLayout, aligned
from binlog.format.journal.record import JournalRecord, Kind, check_seed, pack_record
from binlog.journal import lookalikes
from binlog.journal.check import check_journal
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record_reader import read_records
from binlog.storage.checksum import crc32c
from tests.support.checkout import ROOT
from tests.support.forging import (
    CARRIERS,
    FORGED,
    WAYS,
    Forger,
    Place,
    checked,
    files_used,
    foreseen,
    forged,
    has_forged,
    head,
    solved,
)
from tests.support.journals import (
    FILE_BYTES,
    SMALL,
    files,
    flip,
    header_of,
    ids,
    journal,
    records_in,
    reload,
    write_file,
)


def _tells_forged(path: Path) -> bool:
    """Whether anybody who reads the journal is told of a forged record; what is damaged is told in any case."""
    assert check_journal(path)
    found = any(FORGED in (record.record_id, record.tx_id) for record in read_records(path))
    return found or FORGED in ids(reload(path))


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_record_in_anothers_body_is_not_sound_there(tmp_path: Path, carrier: str, kind: Kind) -> None:
    append, before = CARRIERS[carrier]
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        append(opened, b"--" + forged(kind, foreseen(tmp_path), before + 2) + b"--")
        assert not has_forged(tmp_path)
    assert files_used(tmp_path) == [1, 2]
    assert check_journal(tmp_path) == []


@pytest.mark.slow
def test_whatever_is_damaged_of_the_outer_record_nobody_is_told_of_the_inner_one(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with journal(path) as (opened, _):
        opened.append_add(1, 1, b"there")
        opened.append_add(2, 1, b"--" + forged(Kind.ADD, foreseen(path), 20) + b"--")
        opened.append_add(3, 1, b"behind")
    for file in files(path)[:2]:
        for at in range(records_in(file)[0][1], records_in(file)[-1][2]):
            copy = tmp_path / f"{file.name}-{at}"
            shutil.copytree(path, copy)
            flip(copy / file.name, at, 0xFF)
            assert not _tells_forged(copy), at


class _Spanning:
    """A record that begins in the body of one record and ends in that of another; so many lie between."""

    def __init__(self, path: Path, *, between: int = 0, size: int = 40, alignment: int = 1) -> None:
        self._header, self._start = Place(*foreseen(path, alignment))[1:]
        self._records = 1 + between
        self._size = size
        self._alignment = alignment

    def bodies(self, *, apart: bool) -> Iterator[bytes]:
        """Those of all the records, which are adds; apart: each is on the disk before the next one."""
        header, at = self._header, self._start
        start, data = at + 18 + 5, b""
        filler = [bytes(self._size)] * self._records
        ends = [at]
        for body in filler:
            ends.append(aligned(ends[-1], self._alignment if apart else 1) + 22 + len(body) + 18 + 5)
        last = aligned(ends[-1], self._alignment if apart else 1)
        end = last + 18 + 9 + 4
        for number, body in enumerate(filler):
            begun = head(Kind.UPDATE, header, end - start - 22) if number == 0 else bytes(18)
            whole = bytes(5) + begun + body
            data = data.ljust(at - self._start, b"\0") + _packed(header, at, number, whole)
            at = aligned(self._start + len(data), self._alignment if apart else 1)
            yield whole
        data = data.ljust(at - self._start, b"\0") + _packed(header, at, self._records, bytes(20))
        assert at == last
        yield bytes(9) + checked(data[start - self._start : end - 4 - self._start], header, start) + bytes(7)


def _packed(header: FileHeader, at: int, number: int, body: bytes) -> bytes:
    return pack_record(JournalRecord(Kind.ADD, 0, 100 + number, 1, body), header, at)


@pytest.mark.parametrize("between", [0, 1, 2])
@pytest.mark.parametrize("sync", [Sync.WAIT, Sync.LATER])
@pytest.mark.parametrize("alignment", [1, 512])
@pytest.mark.parametrize("buffer_bytes", [64, 1 << 16])
def test_a_record_over_several_others_is_not_sound(
    tmp_path: Path, between: int, sync: Sync, alignment: int, buffer_bytes: int
) -> None:
    """Also over what is written apart, one by one, with zeros between; and where no record fits in a buffer."""
    options = replace(SMALL, file_bytes=1 << 14, alignment=alignment, buffer_bytes=buffer_bytes, flush_seconds=600)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"there")
        apart = sync is Sync.WAIT or buffer_bytes == 64
        for number, body in enumerate(_Spanning(tmp_path, between=between, alignment=alignment).bodies(apart=apart)):
            assert files_used(tmp_path) == [1]
            opened.append_add(100 + number, 1, body, sync=sync)
        opened.append_add(2, 1, b"behind")
        assert not has_forged(tmp_path)
    assert files_used(tmp_path) == [1, 2]
    assert check_journal(tmp_path) == []
    assert ids(reload(tmp_path, options)) == [1, *range(100, 102 + between), 2]


_APPEND = """
import sys
from binlog.journal.journal import Journal
from binlog.journal.keeper import Keeper
from binlog.journal.options import JournalOptions

with Journal(sys.argv[1], JournalOptions(file_bytes=int(sys.argv[2]), compact_files_min=0)) as journal:
    journal.load()
    journal.append_add(int(sys.argv[3]), 1, bytes.fromhex(sys.argv[4]))
"""


def _append_in_another_process(path: Path, record_id: int, body: bytes, file_bytes: int = FILE_BYTES) -> None:
    command = [sys.executable, "-c", _APPEND, path, str(file_bytes), str(record_id), body.hex()]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("between", [0, 1])
def test_a_record_over_several_others_of_several_processes_is_not_sound(tmp_path: Path, between: int) -> None:
    _append_in_another_process(tmp_path, 1, b"there")
    for number, body in enumerate(_Spanning(tmp_path, between=between).bodies(apart=True)):
        assert files_used(tmp_path) == [1]
        _append_in_another_process(tmp_path, 100 + number, body)
    assert not has_forged(tmp_path)
    assert files_used(tmp_path) == [1, 2]
    assert ids(reload(tmp_path)) == [1, *range(100, 102 + between)]


def _ending_behind(place: Place, distance: int, left: bytes = b"") -> bytes:
    """A body in which a record begins that ends so far behind: in zeros, or in what lies there already behind some."""
    start = place.at + 18 + 4
    size = 18 + 3 + 4 + distance

    def value(four: bytes) -> int:
        data = _packed(place.header, place.at, 2, four + begun)[22:] + bytes(16)
        data = (data + left[start + len(data) :]).ljust(size, b"\0")[:size]
        return int.from_bytes(checked(data[:-4], place.header, start)) ^ int.from_bytes(data[-4:])

    for filler in range(1 << 16):  # not every value can be had
        begun = head(Kind.UPDATE, place.header, size - 22) + filler.to_bytes(3)
        four = solved(value, 0)
        if four is not None:
            return four + begun
    raise AssertionError("nothing of that kind can be forged there")


@pytest.mark.parametrize("distance", [0, 1, 3, 4, 5, 16, 100, 1500])
def test_a_record_that_ends_in_zeros_behind_the_last_one_is_not_sound(tmp_path: Path, distance: int) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        opened.append_add(102, 1, _ending_behind(foreseen(tmp_path), distance))
        assert not has_forged(tmp_path)
    assert files_used(tmp_path) == [1, 2]


def test_zeros_are_written_once_up_to_where_anything_reaches(tmp_path: Path) -> None:
    """A head that leads to the end of a file takes no salt, so a stranger's message can have one."""
    options = replace(SMALL, file_bytes=1 << 20)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(tmp_path)
        body_bytes = options.file_bytes - place.at - 18 - 22
        opened.append_add(2, 1, head(Kind.ADD, place.header, body_bytes))
        written = _written_bytes()
        for number in range(20):
            opened.append_add(10 + number, 1, b"small", sync=Sync.WAIT)
        assert foreseen(tmp_path).file == place.file
        assert _written_bytes() - written < 20 * 1000


def _written_bytes() -> int:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])


def _used_again(path: Path) -> Journal:
    """A journal that goes on in a file which is full of what another use of it had, with one record there."""
    opened = Journal(path, SMALL)
    opened.start()
    opened.load()
    for number in range(2):
        opened.append_add(number, 1, os.urandom(FILE_BYTES - 200))
        opened.append_delete(number)
    opened.reclaim()
    while foreseen(path).header.file_id < 4:
        opened.append_add(opened.new_id(), 1, bytes(300))
    return opened


@pytest.mark.parametrize("distance", [40, 300, 1000])
def test_a_record_that_ends_in_what_an_earlier_use_has_left_is_not_sound(tmp_path: Path, distance: int) -> None:
    """Zeros lie there then; a load writes them again, for a power cut may have lost them."""
    opened = _used_again(tmp_path)
    place = foreseen(tmp_path)
    left = place.file.read_bytes()
    end = place.at + 18 + 4 + 21 + 4 + distance
    assert any(left[place.at + 80 : end])
    opened.append_add(102, 1, _ending_behind(place, distance, left))
    behind = foreseen(tmp_path).at
    assert foreseen(tmp_path).file == place.file
    assert not has_forged(tmp_path)
    opened.close()
    assert check_journal(tmp_path) == []
    place.file.write_bytes(place.file.read_bytes()[: behind + 16] + left[behind + 16 :])
    assert has_forged(tmp_path)
    reload(tmp_path)
    assert not has_forged(tmp_path)
    assert place.file.read_bytes() == place.file.read_bytes()[:behind].ljust(end, b"\0") + left[end:]


def _forger(path: Path, record_id: int, alignment: int = 1) -> Forger:
    place = foreseen(path, alignment)
    ends = [each[2] for each in records_in(place.file)]
    end = ends[-1] if ends else place.header.layout.header_bytes
    return Forger(place.header, place.file.read_bytes(), end, place.at, record_id)


def _at_id(path: Path, file_id: int, alignment: int = 1) -> JournalOptions:
    """A journal whose only file has an id, and a record."""
    header = FileHeader(JournalLayout.NATIVE, file_id, b"saltsalt", alignment)
    padding = bytes(aligned(header.layout.header_bytes, alignment) - header.layout.header_bytes)
    write_file(path, header, [padding, JournalRecord(Kind.ADD, 0, 1, 1, b"there")], 1 << 16)
    return replace(SMALL, file_bytes=1 << 16, alignment=alignment)


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("file_id", [11, 0x0B00000B])
def test_a_record_that_begins_in_a_check_and_goes_on_in_the_next_head_is_not_sound(
    tmp_path: Path, file_id: int, is_loaded: bool
) -> None:
    """A check is what a body makes it.  It ends in a kind and the beginning of the id, which the next kind ends."""
    options = _at_id(tmp_path, file_id)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(102, 1, _forger(tmp_path, 102).with_check(Kind.ROLLBACK, 0, 4).body)
        if not is_loaded:
            opened.append_add(_forger(tmp_path, 0).ending_a_mark(0).record_id, 1, b"")
    if is_loaded:
        with journal(tmp_path, options) as (opened, _):
            opened.append_add(_forger(tmp_path, 0).ending_a_mark(0).record_id, 1, b"")
    assert not has_forged(tmp_path)
    assert len(files_used(tmp_path)) == 2


def _full_of_heads(place: Place, size: int, step: int, *, leads_on: bool) -> bytes:
    """A body of what begins as records, each of which would end with the body; or behind it, each elsewhere."""
    ends = (size + 100 + number if leads_on else size for number in range(size // step))
    heads = (head(Kind.ADD, place.header, end - number * step - 22) for number, end in enumerate(ends))
    return b"".join(each.ljust(step, b"\0") for each in heads).ljust(size, b"\0")


@pytest.mark.slow
@pytest.mark.parametrize("step", [18, 256])
@pytest.mark.parametrize("leads_on", [False, True])
def test_of_a_body_full_of_beginnings_none_is_believed(
    tmp_path: Path, figure: Callable[[str], None], step: int, leads_on: bool
) -> None:
    """Where very many lead on, they are left behind: the next file has another id, so that they begin nothing there."""
    options = replace(SMALL, file_bytes=4 << 20)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"there")
        body = _full_of_heads(foreseen(tmp_path), 1 << 20, step, leads_on=leads_on)
        before = time.perf_counter()
        opened.append_add(2, 1, body, sync=Sync.LATER)
        figure(f"a body of 1 MiB with a beginning of a record each {step} bytes: {time.perf_counter() - before:.3f} s")
        opened.append_add(3, 1, b"behind")
        assert files_used(tmp_path) == ([1, 2] if leads_on and step == 18 else [1])
        assert not has_forged(tmp_path)
    loaded = reload(tmp_path, options)
    assert ([record.body for record in loaded.records], loaded.problems) == ([b"there", body, b"behind"], [])


def _equal(path: Path, record_id: int, count: int, first: int, end: int) -> bytes:
    """A body of what begins as records that end at one place, with CRCs that the same zeros make sound as of the first.

    first: where that begins, in this body or before.
    """
    header, at = foreseen(path)[1:]
    body = bytes(count * 22)
    region = foreseen(path).file.read_bytes()[first:at] + _packed(header, at, record_id, body)[:18]
    body = b""
    for start in range(at + 18 + 4, at + 18 + count * 22, 22):
        goes_on, seed = crc32c(region, check_seed(header, first)), check_seed(header, start)
        four = bytes(4) if start == first else solved(lambda four, crc=goes_on: crc32c(four, crc), seed)  # type: ignore[misc]
        assert four is not None
        begun = head(Kind.UPDATE, header, end - start - 22)
        region = begun if start == first else region + four + begun
        body += four + begun
    return body


def test_what_begins_is_counted_one_by_one_however_equal_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than are remembered each record behind would take longer."""
    monkeypatch.setattr(lookalikes, "_REMEMBERED_MAX", 10)
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        first = foreseen(tmp_path).at + 22
        opened.append_add(2, 1, _equal(tmp_path, 2, 6, first, 1900))
        assert files_used(tmp_path) == [1]
        opened.append_add(3, 1, _equal(tmp_path, 3, 6, first, 1900))
        assert files_used(tmp_path) == [1, 2]
        assert not has_forged(tmp_path)
    assert ids(reload(tmp_path)) == [1, 2, 3]


def _is_filled(path: Path, record_bytes: int) -> bool:
    """Whether each file but the last one has no room for another record."""
    used = [file for file in files(path) if records_in(file)]
    return all(records_in(file)[-1][2] + record_bytes > file.stat().st_size for file in used[:-1])


@pytest.mark.parametrize("count", [10, 100, 400])
@pytest.mark.parametrize("form", [">I", "<I", ">Q", ">H"])
def test_numbers_one_behind_the_other_lie_in_files_as_other_bodies_do(tmp_path: Path, form: str, count: int) -> None:
    """As an array has them: the number of a kind, and then that of the file."""
    body = b"".join(struct.pack(form, number) for number in range(count))
    records = 25 * 4096 // (22 + len(body))
    with journal(tmp_path, replace(SMALL, file_bytes=4096)) as (opened, _):
        for number in range(records):
            opened.append_add(number, 1, body, sync=Sync.LATER)
    assert len(files_used(tmp_path)) > 20
    assert _is_filled(tmp_path, 22 + len(body))
    assert not has_forged(tmp_path)
    loaded = reload(tmp_path, replace(SMALL, file_bytes=4096))
    assert (ids(loaded), loaded.problems) == (list(range(records)), [])


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("alignment", [1, 512])
def test_a_kind_and_a_counter_lie_in_files_as_other_bodies_do(tmp_path: Path, alignment: int, kind: Kind) -> None:
    """At the end of each body, where the counter goes as the ids of the files do."""
    options = replace(SMALL, file_bytes=2048, alignment=alignment)
    with journal(tmp_path, options) as (opened, _):
        for number in range(120):
            body = bytes(400) + bytes([kind]) + struct.pack(">I", 1 + number // 4)
            opened.append_add(number, 1, body, sync=Sync.WAIT if alignment > 1 else Sync.LATER)
    assert _is_filled(tmp_path, 427)
    assert not has_forged(tmp_path)
    assert ids(reload(tmp_path, options)) == list(range(120))


def test_where_nothing_is_forged_records_lie_as_they_always_did(tmp_path: Path) -> None:
    """One behind the other, and in the next file where there is no room."""
    bodies = [os.urandom(size) for size in range(0, 3000, 37)]
    with journal(tmp_path, replace(SMALL, file_bytes=8192)) as (opened, _):
        for number, body in enumerate(bodies):
            opened.append_add(number, 7, body, sync=Sync.LATER)
    rest = [JournalRecord(Kind.ADD, 0, number, 7, body) for number, body in enumerate(bodies)]
    for file in files(tmp_path):
        header, data = header_of(file), b""
        at = header.layout.header_bytes
        while rest and at + len(data) + 22 + len(rest[0].body) <= 8192:
            data += pack_record(rest.pop(0), header, at + len(data))
        assert file.read_bytes()[at:] == data.ljust(8192 - at, b"\0")
    assert not rest


def test_behind_a_record_that_zeros_would_end_in_anothers_body_no_load_goes_on(tmp_path: Path) -> None:
    """Nobody puts one there any more; a file may be older than that."""
    options = _at_id(tmp_path, 7)
    place = foreseen(tmp_path)
    data = bytearray(place.file.read_bytes())
    packed = _packed(place.header, place.at, 2, _ending_behind(place, 100))
    data[place.at : place.at + len(packed)] = packed
    place.file.write_bytes(data)
    assert has_forged(tmp_path)
    with journal(tmp_path, options) as (opened, loaded):
        assert (ids(loaded), loaded.problems) == ([1, 102], [])
        opened.append_add(3, 1, b"behind")
    assert files_used(tmp_path) == [7, 8]
    assert ids(reload(tmp_path, options)) == [1, 102, 3]


def _append(opened: Journal, record: JournalRecord) -> bool:
    if record.kind == Kind.ADD:
        return opened.try_append_add(record.record_id, 1, record.body)
    if record.kind == Kind.UPDATE:
        return opened.try_append_update(record.record_id, 1, record.body)
    return opened.try_append_delete(record.record_id)


def _damage(path: Path, number: int, mask: int) -> None:
    """One byte of one record."""
    used = [file for file in files(path) if records_in(file)]
    file = used[number % len(used)]
    _, at, end, *_ = records_in(file)[number % len(records_in(file))]
    flip(file, at + number % (end - at), mask)


_steps = st.tuples(st.integers(0, WAYS - 1), st.integers(0, 700), st.sampled_from(Kind))


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.sampled_from([1, 11, 12, 256]),
    st.sampled_from([1, 1, 64]),
    st.lists(st.lists(_steps, min_size=1, max_size=5), max_size=4),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), min_size=1, max_size=4),
)
def test_whatever_is_forged_and_damaged_only_what_was_appended_is_told(
    file_id: int, alignment: int, lives: list[list[tuple[int, int, Kind]]], damages: list[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, numbers = Path(folder, "journal"), itertools.count(1000)
        options = replace(_at_id(path, file_id, alignment), file_bytes=4096)
        appended = {(1, b"there")}
        for life in lives:
            with journal(path, options) as (opened, _):
                for step in life:
                    record = _forger(path, next(numbers), alignment).record(*step)
                    if _append(opened, record):
                        appended.add((record.record_id, record.body))
                    assert not has_forged(path)
        for number, (place, mask) in enumerate(damages):
            copy = Path(folder, str(number))
            shutil.copytree(path, copy)
            _damage(copy, place, mask)
            told = {(each.record_id, each.body) for each in read_records(copy) if each.kind in (Kind.ADD, Kind.UPDATE)}
            assert told <= appended
            assert {(each.record_id, each.body) for each in reload(copy, options).records} <= appended
