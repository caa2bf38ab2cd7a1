"""The quick refresh of a header believes nothing that a careful read would not, and shows what has changed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binlog.errors import CorruptError
from binlog.format.log_header import LOG_HEADER, Flag, LogHeader, new_log_header, parse_log_header
from binlog.log.files.header import HeaderCache, check_header
from binlog.storage.descriptors import identity_of
from binlog.storage.native import ffi, lib

SAME, APPENDED, UNSURE = lib.BINLOG_HEADER_SAME, lib.BINLOG_HEADER_APPENDED, lib.BINLOG_HEADER_UNSURE
BOOT = bytes(range(16))
NEW = new_log_header(
    number=3, uuid=bytes(range(100, 116)), first_sequence=70, created_ns=1, boot_id=BOOT, flags=Flag.STRICT
)


def _as_it_is(header: LogHeader) -> LogHeader:
    return header


def _appended(header: LogHeader, *, tail: int, record_count: int, boot_id: bytes) -> LogHeader:
    return header._replace(
        tail=tail, published_tail=tail, confirmed_end=tail, record_count=record_count, boot_id=boot_id
    )


KNOWN = _appended(NEW, tail=1000, record_count=5, boot_id=BOOT)
MORE = _appended(KNOWN, tail=2000, record_count=9, boot_id=BOOT)
JPOS = LOG_HEADER.pack(
    {field.name: bytes(field.size) if field.kind.startswith("bytes") else 0 for field in LOG_HEADER.fields}
    | {"header_length": 252, "version": 1, "tail": 300, "number": 3}
)[:24].ljust(256, b"\0")


def _at(header: LogHeader | bytes, name: str, value: bytes) -> bytes:
    """Return the header with other bytes in a field, and its CRCs as they were."""
    data = header if isinstance(header, bytes) else header.pack()
    start = LOG_HEADER.offset(name)
    return data[:start] + value + data[start + len(value) :]


@contextmanager
def _file(data: bytes) -> Iterator[tuple[int, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        fd = os.open(path, os.O_RDONLY)
        try:
            yield fd, path
        finally:
            os.close(fd)


def _look(known: bytes, now: bytes) -> tuple[int, int, int, bytes]:
    """Return the answer, and the cache after it: tail, previous doorbell, bytes."""
    with _file(now) as (fd, _):
        struct = ffi.new("struct binlog_header_cache *")
        header = parse_log_header(known, path="")
        struct.fd, struct.header, struct.tail = fd, known, header.tail
        reference = HeaderCache(header.number, "", _as_it_is)
        with _file(known) as (known_fd, _):
            reference.begin(known_fd, identity_of(known_fd))
        struct.seed = reference._cache.seed
        answer = lib.binlog_header_refresh(struct)
        return answer, struct.tail, struct.doorbell_at_previous_read, ffi.buffer(struct.header)[:]


RUNG = _at(MORE, "doorbell", b"\0\0\0\7")

CASES: dict[str, tuple[bytes, int]] = {
    "nothing": (KNOWN.pack(), SAME),
    "the bell alone": (_at(KNOWN, "doorbell", b"\0\0\0\7"), SAME),
    "an append": (MORE.pack(), APPENDED),
    "an append and its bell": (RUNG, APPENDED),
    "an append and its slots": (MORE._replace(slot_0=bytes(56), slot_1=b"x" * 56).pack(), APPENDED),
    "an append that marks the log as mixed": (MORE._replace(flags=MORE.flags | Flag.FOREIGN_WRITERS).pack(), APPENDED),
    "half an append: the tail without the block": (_at(KNOWN, "tail", MORE.pack()[8:16]), UNSURE),
    "half an append: the block without the tail": (_at(MORE, "tail", KNOWN.pack()[8:16]), UNSURE),
    "half an append: the block without its CRC": (_at(MORE, "live_crc", KNOWN.pack()[124:128]), UNSURE),
    "another program's tail": (_at(KNOWN, "tail", (1500).to_bytes(8, "big")), UNSURE),
    "the tail gone back": (_appended(KNOWN, tail=900, record_count=4, boot_id=BOOT).pack(), UNSURE),
    "an append and the close": (MORE._replace(status=1, next_number=4).pack(), UNSURE),
    "the close": (KNOWN._replace(status=1, next_number=4).pack(), UNSURE),
    "a status that cannot be": (_at(MORE, "status", b"\1\0"), UNSURE),
    "the next number": (MORE._replace(next_number=4).pack(), UNSURE),
    "another boot": (_appended(KNOWN, tail=2000, record_count=9, boot_id=bytes(16)).pack(), UNSURE),
    "a recovery": (MORE._replace(epoch=1).pack(), UNSURE),
    "a count that cannot be": (MORE._replace(record_count=2**63 - 1).pack(), UNSURE),
    "a tail that cannot be": (MORE._replace(tail=2**63, published_tail=2**63).pack(), UNSURE),
    "another log": (MORE._replace(uuid=bytes(range(16))).pack(), UNSURE),
    "another number": (MORE._replace(number=4).pack(), UNSURE),
    "the identity's CRC": (_at(MORE, "identity_crc", b"abcd"), UNSURE),
    "the zeros at the end": (_at(MORE, "zero", b"\0\0\0\0\0\0\0\1"), UNSURE),
    "the file's end": (MORE.pack()[:255], UNSURE),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_the_header_is_recognized(name: str) -> None:
    known = _at(KNOWN, "doorbell", b"\0\0\0\5")
    now, expected = CASES[name]
    answer, tail, bell, data = _look(known, now)
    assert answer == expected
    if answer == UNSURE:
        assert (tail, data) == (1000, known)
    else:
        # The doorbell that is waited on was read before this tail was.
        assert (tail, bell, data) == (1000 if answer == SAME else 2000, 5, now)


def test_a_foreign_file_never_counts_as_appended_to() -> None:
    assert _look(JPOS, JPOS)[0] == SAME
    assert _look(JPOS, _at(JPOS, "tail", (400).to_bytes(8, "big")))[0] == UNSURE


def _believable(known: LogHeader, data: bytes) -> LogHeader | None:
    """Return what the rule in files/header.py believes of one read, or None, in a plain and slow way."""
    header = parse_log_header(data, path="", number=known.number)
    if header == known._replace(doorbell=header.doorbell):
        return header
    if not header.is_consistent or header.tail < known.tail:
        return None
    check_header(header, "")
    return header


_FIELDS = st.sampled_from([field.name for field in LOG_HEADER.fields])


@st.composite
def _changed(draw: st.DrawFn) -> bytes:
    """Headers after some appends, with some bytes from before them, and some wrong ones."""
    data = bytearray(draw(st.sampled_from([KNOWN, MORE, MORE._replace(status=1, next_number=4)])).pack())
    for name in draw(st.lists(_FIELDS, max_size=3)):
        field = next(field for field in LOG_HEADER.fields if field.name == name)
        start = LOG_HEADER.offset(name)
        other = draw(
            st.sampled_from([KNOWN.pack()[start : start + field.size], MORE.pack()[start : start + field.size]])
        )
        data[start : start + field.size] = other
    for at, bit in draw(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 7)), max_size=2)):
        data[at] ^= 1 << bit
    return bytes(data)


@given(_changed())
@example(MORE.pack())
@example(RUNG)
def test_the_cache_believes_nothing_that_a_careful_read_would_not(now: bytes) -> None:
    answer, tail, _, _ = _look(KNOWN.pack(), now)
    if answer == UNSURE:
        return
    believed = _believable(KNOWN, now)
    assert believed is not None
    assert believed.tail == tail
    assert (believed.status, believed.next_number) == (KNOWN.status, KNOWN.next_number)


@contextmanager
def _known(data: bytes) -> Iterator[tuple[HeaderCache, Callable[[bytes], None]]]:
    with _file(data) as (fd, path):
        known = HeaderCache(3, str(path), _as_it_is)
        known.begin(fd, identity_of(fd))

        def rewrite(data: bytes) -> None:
            with path.open("r+b") as file:
                file.write(data)

        yield known, rewrite


def test_a_header_cache_follows_appends_and_the_close() -> None:
    with _known(_at(KNOWN, "doorbell", b"\0\0\0\5")) as (known, rewrite):
        assert (known.tail, known.closed, known.has_foreign_writers, known.header.record_count) == (
            1000,
            False,
            False,
            5,
        )
        assert known.refresh() == 1000
        assert known.doorbell_at_previous_read == 5
        rewrite(MORE._replace(flags=MORE.flags | Flag.FOREIGN_WRITERS).pack())
        assert known.refresh() == 2000
        assert (
            known.has_foreign_writers,
            known.doorbell_at_previous_read,
            known.header.record_count,
            known.header.is_consistent,
        ) == (
            True,
            5,
            9,
            True,
        )
        rewrite(MORE._replace(status=1, next_number=4, doorbell=8).pack())
        assert known.refresh() == 2000
        assert (known.closed, known.next_number, known.has_foreign_writers, known.doorbell_at_previous_read) == (
            True,
            4,
            False,
            0,
        )
        assert known.refresh() == 2000
        assert known.doorbell_at_previous_read == 8


def test_a_tail_that_goes_back_is_damage() -> None:
    with _known(KNOWN.pack()) as (known, rewrite):
        rewrite(_appended(NEW, tail=900, record_count=4, boot_id=BOOT).pack())
        with pytest.raises(CorruptError, match="went back"):
            known.refresh()
        assert known.tail == 1000


def test_a_refresh_after_the_descriptor_was_closed_reads_no_other_file() -> None:
    with _known(KNOWN.pack()) as (known, _):
        known.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            known.refresh()
