"""One flipped bit anywhere in a header: nothing acknowledged is lost, and whoever refuses changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import binlog
from binlog import Reader, Writer
from binlog.errors import BinlogError
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER

BITS = range(8 * HEADER_BYTES)
UNCHECKED = ("status", "tail", "next_number", "doorbell", "zero")
CASES = [(1, 1), (3, 1), (3, 2), (3, 3)]
"""How many files the log has, and the one whose header has the flipped bit."""


class Flipped:
    """A sound log, and a copy of it with one flipped bit."""

    def __init__(self, folder: Path, files: int, number: int) -> None:
        self.log = folder / "log"
        self.name = f"{number:08d}.dat"
        self.records: list[bytes] = []
        with Writer(self.log, prepare_bytes=4096) as writer:
            for file in range(files):
                for index in range(3):
                    self.records.append(b"%d %d" % (file, index) * (40 * index + 1))
                    writer.append(self.records[-1])
                if file < files - 1:
                    writer.cutover()
        self.sound = self.bytes()

    def bytes(self) -> dict[str, bytes]:
        """Every file of the log, but for the lock that a repair leaves."""
        names = [name for name in os.listdir(self.log) if name != ".repair.lock"]
        return {name: (self.log / name).read_bytes() for name in sorted(names)}

    def flip(self, bit: int) -> None:
        """Put the sound log back, with this bit flipped."""
        for name in set(self.bytes()) - set(self.sound):
            (self.log / name).unlink()
        for name, data in self.sound.items():
            changed = bytearray(data)
            if name == self.name:
                changed[bit // 8] ^= 1 << bit % 8
            (self.log / name).write_bytes(changed)

    def read(self) -> tuple[list[bytes], BinlogError | None]:
        """The records, and the error that ends them."""
        found: list[bytes] = []
        try:
            with Reader(self.log) as reader:
                found.extend(entry.data for entry in reader)
        except BinlogError as error:
            return found, error
        return found, None

    def append(self) -> list[bytes]:
        """Open it and append, twice; what was appended.  Whoever refuses has changed nothing."""
        appended = []
        for record in (b"more", b"and more"):
            before = self.bytes()
            try:
                with Writer(self.log, prepare_bytes=4096) as writer:
                    writer.append(record)
                appended.append(record)
            except BinlogError:
                assert self.bytes() == before
        return appended


def _try(case: Flipped, bit: int) -> None:
    case.flip(bit)
    found, error = case.read()
    assert found == case.records[: len(found)], "a wrong record"
    assert error is not None or found == case.records
    problems = [str(problem) for problem in binlog.check(case.log)]
    assert problems or error is None
    appended = case.append()
    assert len(appended) in (0, 2), "refused once, and not the other time"
    binlog.repair(case.log)
    assert case.read() == (case.records + appended, None)
    assert binlog.check(case.log) == []
    case.flip(bit)
    binlog.repair(case.log)
    assert case.read() == (case.records, None)


def _try_all(case: Flipped, bits: Sequence[int]) -> None:
    for bit in bits:
        try:
            _try(case, bit)
        except BaseException as error:
            error.add_note(f"bit {bit % 8} of byte {bit // 8}")
            raise


def _unchecked() -> Iterator[int]:
    for field in LOG_HEADER.fields:
        if field.name in UNCHECKED:
            start = LOG_HEADER.offset(field.name)
            yield from range(8 * start, 8 * (start + field.size))


@pytest.mark.slow
@pytest.mark.parametrize(("files", "number"), CASES)
def test_a_flipped_bit_that_no_checksum_covers_loses_nothing(tmp_path: Path, files: int, number: int) -> None:
    bits = list(_unchecked())
    _try_all(Flipped(tmp_path, files, number), bits[:: 5 if files > 1 else 3])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(("files", "number"), CASES)
def test_no_flipped_bit_of_a_header_loses_anything(tmp_path: Path, files: int, number: int, part: int) -> None:
    _try_all(Flipped(tmp_path, files, number), BITS[part::4])
