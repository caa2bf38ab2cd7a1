"""The driver's errors contain ours, with the file and the offset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog import Ref, Writer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def count(spark: Any, log: Path) -> Callable[..., int]:
    """Count the records of the log, read with options or a schema."""

    def count(schema: str | None = None, path: str | None = str(log), **options: str) -> int:
        reader = spark.read.format("binlog").options(**options)
        return (reader.schema(schema) if schema else reader).load(path).count()

    return count


@pytest.fixture
def refs(log: Path) -> list[Ref]:
    with Writer(log) as writer:
        refs = writer.append_many([b"%d" % number for number in range(100)])
        writer.cutover()
        writer.append(b"in the second file")
    return refs


def error_of(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's, with ours in its text
        action()
    return str(caught.value)


def test_a_damaged_record(log: Path, refs: list[Ref], count: Callable[..., int]) -> None:
    path = log / "00000001.dat"
    data = bytearray(path.read_bytes())
    offset = refs[40].offset
    data[offset : offset + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    # With an index, the whole commit is damaged; without one, everything from the record on.
    assert f"binlog.errors.CorruptError: {path} at offset 256: the bytes from here to" in error_of(count)
    (log / "00000001.idx").unlink()
    text = error_of(count)
    assert f"binlog.errors.CorruptError: {path} at offset {offset}" in text
    assert "[length]" in text


def test_damage_as_rows(spark: Any, log: Path, refs: list[Ref]) -> None:
    path = log / "00000001.dat"
    data = bytearray(path.read_bytes())
    data[refs[40].offset : refs[40].offset + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)

    def damaged() -> tuple[int, list[Any]]:
        frame = spark.read.format("binlog").option("mode", "PERMISSIVE").load(str(log))
        good = frame.where("damage IS NULL").count()
        return good, frame.where("damage IS NOT NULL").select("number", "offset", "data", "damage.*").collect()

    good, [row] = damaged()
    assert (good, *row[:4]) == (1, 1, 256, None, refs[-1].offset + 6)
    assert "do not match the index" in row.reason
    (log / "00000001.idx").unlink()
    good, [row] = damaged()
    assert (good, *row[:4]) == (41, 1, refs[40].offset, None, refs[-1].offset + 6)
    assert "[length]" in row.reason


def test_a_damaged_header(log: Path, refs: list[Ref], count: Callable[..., int]) -> None:
    path = log / "00000001.dat"
    path.write_bytes(b"\0" * 256 + path.read_bytes()[256:])
    assert f"binlog.errors.CorruptError: {path} at offset 0" in error_of(count)


def test_a_truncated_file(log: Path, refs: list[Ref], count: Callable[..., int]) -> None:
    path = log / "00000001.dat"
    path.write_bytes(path.read_bytes()[: refs[50].offset])
    assert f"binlog.errors.CorruptError: {path} at offset {refs[50].offset}" in error_of(count)


def test_a_missing_file_in_the_middle_or_at_the_end(log: Path, refs: list[Ref], count: Callable[..., int]) -> None:
    (log / "00000002.dat").unlink()
    text = error_of(count)
    assert "binlog.errors.CorruptError" in text
    assert "its next file, 2, is missing" in text


def test_a_missing_directory(count: Callable[..., int], log: Path) -> None:
    assert f"binlog.errors.NotFoundError: {log}: there is no such directory" in error_of(count)


def test_a_file_for_a_directory(count: Callable[..., int], log: Path, refs: list[Ref]) -> None:
    assert "binlog.errors.AccessError" in error_of(lambda: count(path=str(log / "00000001.dat")))


def test_an_unknown_option(count: Callable[..., int], refs: list[Ref]) -> None:
    assert "binlog: unknown option 'start'; the options are path, startingPosition" in error_of(
        lambda: count(start="1")
    )


def test_no_path(count: Callable[..., int]) -> None:
    assert "binlog: load() and save() need the path" in error_of(lambda: count(path=None))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("payload binary", "binlog: unknown column 'payload'"),
        ("data string", "binlog: the type of column 'data' is binary, not string"),
        ("sequence long NOT NULL", "binlog: the column 'sequence' cannot be NOT NULL"),
    ],
)
def test_an_unknown_schema(count: Callable[..., int], refs: list[Ref], schema: str, text: str) -> None:
    assert text in error_of(lambda: count(schema))


def test_the_session_works_after_errors(count: Callable[..., int], refs: list[Ref]) -> None:
    error_of(lambda: count("payload binary"))
    assert count() == 101
