"""Valid files with random changes, and random bytes: no crash, no hang, only our own errors, and no wrong record."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import binlog
from binlog import Reader, Ref, Writer
from binlog.errors import BinlogError
from tests.support.examples import examples

RECORDS = [b"first", b"", b"A" * 700, b"record", b"\0" * 20, b"last of one", b"in the second file", b"", b"the end"]

Change = Callable[[bytearray], None]


@functools.cache
def _sound() -> tuple[Path, dict[Ref, bytes]]:
    """A log of two files, and its records by offset."""
    log = Path(tempfile.mkdtemp()) / "log"
    with Writer(log, prepare_bytes=4096) as writer:
        first = writer.append_many(RECORDS[:6])
        writer.cutover()
        refs = [*first, *writer.append_many(RECORDS[6:])]
    return log, dict(zip(refs, RECORDS, strict=True))


def _flip(at: int, bit: int) -> Change:
    def change(data: bytearray) -> None:
        if data:
            data[at % len(data)] ^= 1 << bit

    return change


def _cut(at: int, count: int) -> Change:
    def change(data: bytearray) -> None:
        if data:
            del data[at % len(data) : at % len(data) + count]

    return change


def _truncate(at: int) -> Change:
    def change(data: bytearray) -> None:
        del data[at % (len(data) + 1) :]

    return change


def _splice(at: int, piece: bytes) -> Change:
    def change(data: bytearray) -> None:
        place = at % (len(data) + 1)
        data[place:place] = piece

    return change


def _overwrite(at: int, piece: bytes) -> Change:
    def change(data: bytearray) -> None:
        place = at % (len(data) + 1)
        data[place : place + len(piece)] = piece[: len(data) - place]

    return change


def _repeat(source: int, count: int, target: int) -> Change:
    def change(data: bytearray) -> None:
        start = source % (len(data) + 1)
        place = target % (len(data) + 1)
        data[place:place] = data[start : start + count]

    return change


# Everything that matters is in the first two kilobytes; the rest is prepared space.
_PLACES = st.integers(0, 2000)
_PIECES = st.binary(min_size=1, max_size=16)
_COUNTS = st.integers(1, 300)
CHANGES = st.one_of(
    st.builds(_flip, _PLACES, st.integers(0, 7)),
    st.builds(_cut, _PLACES, _COUNTS),
    st.builds(_truncate, _PLACES),
    st.builds(_splice, _PLACES, _PIECES),
    st.builds(_overwrite, _PLACES, _PIECES),
    st.builds(_repeat, _PLACES, _COUNTS, _PLACES),
)


def _read(log: Path, *, verify: bool = True) -> tuple[dict[Ref, bytes], BinlogError | None]:
    found: dict[Ref, bytes] = {}
    try:
        for entry in Reader(log, record_bytes_max=1 << 20, verify=verify):
            assert entry.ref not in found
            found[entry.ref] = entry.data
    except BinlogError as error:
        return found, error
    return found, None


def _use_every_way(log: Path) -> None:
    """Check that only our own errors are raised, and that reading ends."""
    binlog.check(log)
    for use in (lambda: binlog.stat(log), lambda: Reader(log, Ref(1, 265)), lambda: Reader(log, Ref(2, 256))):
        try:
            use()
        except (BinlogError, ValueError):
            continue
    try:
        with Writer(log, prepare_bytes=4096, lock_timeout=10) as writer:
            writer.append(b"appended")
            writer.cutover()
    except BinlogError:
        return
    # If a writer accepted it, a reader must accept the log as far as that record.
    assert b"appended" in _read(log)[0].values() or binlog.check(log) != []


def _first_difference(one: bytes, other: bytes) -> int:
    both = min(len(one), len(other))
    return next((at for at in range(both) if one[at] != other[at]), both)


@pytest.mark.slow
@settings(max_examples=examples(400), print_blob=True)
@given(number=st.integers(1, 2), changes=st.lists(CHANGES, min_size=1, max_size=3))
@example(number=2, changes=[_flip(14, 4)])
@example(number=1, changes=[_flip(7, 0)])
@example(number=1, changes=[_truncate(0)])
def test_a_changed_file_never_shows_a_wrong_record_before_the_change(number: int, changes: list[Change]) -> None:
    sound, records = _sound()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        shutil.copytree(sound, log)
        path = log / f"{number:08d}.dat"
        before = path.read_bytes()
        data = bytearray(before)
        for change in changes:
            change(data)
        path.write_bytes(data)
        changed_at = _first_difference(before, bytes(data))
        if bytes(data) == before:
            return
        verified, _ = _read(log)
        if changed_at >= 256:
            assert verified.items() <= records.items(), "a wrong record"
        found, error = _read(log, verify=False)
        if changed_at >= 256:
            for ref, record in records.items():
                if ref.number < number or (ref.number == number and ref.offset + 4 + len(record) <= changed_at):
                    assert found.get(ref) == record
        elif len(changes) == 1 and data[256:] == before[256:]:
            # Only the header differs: records are right, though reading may end early, and then with an error.
            assert found.items() <= records.items()
            assert error is not None or found == records
        _use_every_way(log)


@pytest.mark.slow
@settings(max_examples=examples(150), print_blob=True)
@given(st.lists(st.binary(max_size=600), min_size=1, max_size=3))
def test_random_bytes_in_place_of_files(contents: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder)
        for number, content in enumerate(contents, 1):
            (log / f"{number:08d}.dat").write_bytes(content)
        found, error = _read(log)
        assert (found, error is not None) == ({}, True)
        _use_every_way(log)


@pytest.mark.slow
@settings(max_examples=examples(150), print_blob=True)
@given(st.binary(max_size=800), st.integers(0, 900))
def test_random_bytes_as_the_body_of_a_jpos_file(body: bytes, tail: int) -> None:
    """A valid header, with arbitrary bytes after it."""
    with tempfile.TemporaryDirectory() as folder:
        header = b"\0\0\0\xfc\0\1\0\0" + tail.to_bytes(8, "big") + b"\0\0\0\1\0\0\0\0" + bytes(224)
        (Path(folder) / "00000001.dat").write_bytes(header + body)
        found, error = _read(Path(folder))
        reached = max((ref.offset + 4 + len(record) for ref, record in found.items()), default=248)
        assert error is not None or reached == tail
        _use_every_way(Path(folder))
