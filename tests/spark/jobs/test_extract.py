"""`binlog spark extract` of whole records, in each format: everything that was selected, or nothing."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from binlog import Reader, Writer
from tests.spark.jobs.commands import Run, rows
from tests.support.logs import jpos_file, read_all

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

RECORDS = [b"", b"hello", bytes(range(256)), b'two\nlines, "quoted"', "größer".encode(), b"\xff" * 1000]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def fill(log: Path, *files: list[bytes]) -> list[dict[str, Any]]:
    """Write a log with these files, the last one open, and return its rows without times."""
    with Writer(log) as writer:
        for index, records in enumerate(files):
            if index:
                writer.cutover()
            writer.append_many(records)
    with Reader(log) as reader:
        return [
            {"number": entry.ref.number, "offset": entry.ref.offset, "sequence": sequence, "data": entry.data}
            for sequence, entry in enumerate(reader)
        ]


def without_time(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert all(row["time"] is not None for row in found)
    return [{name: value for name, value in row.items() if name != "time"} for row in found]


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_binary_formats(spark: Any, log: Path, out: Path, run: Run, form: str) -> None:
    expected = fill(log, RECORDS, [], [b"last"])
    begun = datetime.now(UTC)
    done = run("extract", log, "--to", form, "--out", out)
    assert (done.code, done.err) == (0, "")
    assert without_time(rows(spark, out, form)) == expected
    assert done.out.startswith(f"{log}: 1:256 up to 3:264, ")
    assert {name: done.table[name] for name in ("RECORDS", "GOOD", "BAD", "TIME UNKNOWN", "FILES")} == {
        "RECORDS": "7", "GOOD": "7", "BAD": "0", "TIME UNKNOWN": "0", "FILES": "1",
    }  # fmt: skip
    assert [path.name for path in out.glob("*.zstd.*" if form == "parquet" else "*.zst*.*")] != []
    assert (out / "_SUCCESS").exists()
    assert datetime.now(UTC) > begun
    assert [path.name for path in out.parent.iterdir() if "unfinished" in path.name] == []


@pytest.mark.parametrize("form", ["json", "csv"])
def test_text_formats_have_text_or_base64(spark: Any, log: Path, out: Path, run: Run, form: str) -> None:
    expected = fill(log, RECORDS)
    assert run("extract", log, "--to", form, "--out", out).code == 0
    options = {"header": "true", "multiLine": "true", "inferSchema": "true", "escape": "\\"} if form == "csv" else {}
    found = rows(spark, out, form, **options)
    assert [
        base64.b64decode(row["base64"]) if row["base64"] else (row["text"] or "").encode() for row in found
    ] == RECORDS
    assert [(row["number"], row["offset"], row["sequence"]) for row in found] == [
        (row["number"], row["offset"], row["sequence"]) for row in expected
    ]
    assert all(row["base64"] is None or row["text"] is None for row in found)


def test_an_extract_to_another_log(log: Path, out: Path, run: Run) -> None:
    fill(log, RECORDS, RECORDS)
    done = run("extract", log, "--to", "binlog", "--out", out)
    assert (done.code, done.table["RECORDS"], done.table["TIME UNKNOWN"]) == (0, "12", "-")
    assert read_all(out) == RECORDS * 2


def test_one_closed_file_and_some_columns(spark: Any, log: Path, out: Path, run: Run) -> None:
    fill(log, [b"a", b"b"], [b"c"], [b"d"])
    assert run("extract", log, "--file", 2, "--columns", "data,number", "--out", out).code == 0
    assert rows(spark, out) == [{"data": b"c", "number": 2}]
    assert run("extract", log, "--file", 3, "--out", out).code == 3
    assert run("extract", log, "--file", 9, "--out", out).code == 3


def test_a_day_and_the_time_before_and_after(spark: Any, log: Path, tmp_path: Path, run: Run) -> None:
    fill(log, [b"%d" % number for number in range(100)])
    day = datetime.now(UTC).date().isoformat()
    counts = {}
    for name, bounds in (("before", ["--until", day]), ("day", ["--day", day]), ("ago", ["--since", "1h"])):
        done = run("extract", log, *bounds, "--out", tmp_path / name)
        counts[name] = done.table["RECORDS"]
        assert len(rows(spark, tmp_path / name)) == int(done.table["RECORDS"])
    assert counts == {"before": "0", "day": "100", "ago": "100"}


def test_several_logs(spark: Any, tmp_path: Path, out: Path, run: Run) -> None:
    for name in ("a", "b"):
        fill(tmp_path / name, [name.encode()])
    (tmp_path / "empty").mkdir()
    done = run("extract", tmp_path / "a", tmp_path / "b", tmp_path / "empty", "--out", out)
    assert (done.code, done.table["RECORDS"]) == (0, "2")
    assert f"{tmp_path / 'empty'}: no files yet" in done.out
    assert [(row["source"], row["data"]) for row in rows(spark, out)] == [
        (str(tmp_path / "a"), b"a"), (str(tmp_path / "b"), b"b"),
    ]  # fmt: skip


def test_an_empty_log_gives_an_empty_output(spark: Any, log: Path, out: Path, run: Run) -> None:
    fill(log, [])
    assert run("extract", log, "--out", out).table["RECORDS"] == "0"
    assert spark.read.parquet(str(out)).columns == ["number", "offset", "sequence", "time", "data"]


def test_modes(spark: Any, log: Path, out: Path, run: Run) -> None:
    fill(log, [b"one"])
    assert run("extract", log, "--out", out).code == 0
    done = run("extract", log, "--out", out)
    assert (done.code, done.out) == (3, "")
    assert done.err == f"binlog: {out} already exists\n"
    assert run("extract", log, "--out", out, "--mode", "append").code == 0
    assert len(rows(spark, out)) == 2
    assert run("extract", log, "--out", out, "--mode", "overwrite").code == 0
    assert len(rows(spark, out)) == 1


def test_damage_leaves_no_output(log: Path, out: Path, run: Run) -> None:
    fill(log, [b"record"] * 100, [b"more"])
    data = bytearray((log / "00000001.dat").read_bytes())
    data[600] ^= 1
    (log / "00000001.dat").write_bytes(data)
    done = run("extract", log, "--out", out)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "00000001.dat at offset 256: the bytes from here to" in done.err
    assert [path.name for path in out.parent.iterdir()] == ["log"]
    (log / "00000001.dat").write_bytes(bytes(data[:600]) + bytes([data[600] ^ 1]) + bytes(data[601:]))


def test_a_spark_error_is_one_line(log: Path, out: Path, run: Run) -> None:
    fill(log, [b"one"])
    done = run("extract", log, "--out", out, "--compression", "nothing")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "nothing" in done.err
    assert not out.exists()


def test_records_without_a_time_are_extracted_and_counted(spark: Any, log: Path, out: Path, run: Run) -> None:
    log.mkdir()
    jpos_file(log, [b"theirs", b"too"])
    done = run("extract", log, "--since", "1h", "--out", out)
    assert (done.table["RECORDS"], done.table["TIME UNKNOWN"]) == ("2", "2")
    assert [(row["time"], row["data"]) for row in rows(spark, out)] == [(None, b"theirs"), (None, b"too")]


def test_many_tasks_write_many_files(spark: Any, log: Path, out: Path, run: Run) -> None:
    fill(log, [b"%d" % number * 100 for number in range(5000)])
    from binlog.spark.jobs import Output, Progress, Selection, choose, extract

    seen: list[Progress] = []
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 1000)
    try:
        done = extract(spark, choose(Selection(paths=(str(log),))), Output(path=str(out)), report=seen.append)
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    assert (done.records, done.bad_records, done.files) == (5000, 0, 5)
    assert seen[-1].tasks_done == seen[-1].tasks >= 1
    assert [row["data"] for row in rows(spark, out)] == read_all(log)
