"""Records as typed columns: good ones, bad ones, and that no record is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binlog import Writer
from tests.spark.jobs.commands import Run, rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMA = "id BIGINT, name STRING, at TIMESTAMP, list ARRAY<INT>, more STRUCT<x: INT>"

GOOD = [
    b'{"id": 1, "name": "one", "at": "2026-11-30T12:00:00Z", "list": [1, 2], "more": {"x": 1}}',
    b' {"id":2}\n',
    '{"name": "größer", "else": [{}]}'.encode(),
    b'{"id": null, "name": ""}',
]
BAD = [
    b"",
    b" ",
    b"null",
    b"1",
    b"[]",
    b'[{"id": 1}]',
    b'{"id": 1',
    b'{"id": 1} and more',
    b'{"id": 1}{"id": 2}',
    b'{"id": 1},{"id": 2}',
    b'{"id": "x"}',
    b'{"id": 1, "list": ["x"]}',
    b'{"id": 1, "more": {"x": "y"}}',
    b'{"other": 1}',
    b"{}",
    b'{"name": "\xff"}',
    b"\x00\xff",
]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def fill(log: Path, records: list[bytes]) -> None:
    with Writer(log) as writer:
        writer.append_many(records)


def mixed() -> list[bytes]:
    return [record for pair in zip(GOOD * 5, BAD, strict=False) for record in pair]


def test_json_gives_fields_or_the_bad_record(spark: Any, log: Path, out: Path, run: Run) -> None:
    records = [*mixed(), *GOOD]
    fill(log, records)
    done = run("extract", log, "--json", "--schema", SCHEMA, "--out", out)
    assert (done.code, done.err) == (0, "")
    found = rows(spark, out)
    assert [(row["bad"], record) for row, record in zip(found, records, strict=True) if row["bad"] is not None] == [
        (record, record) for record in records if record in BAD
    ]
    assert [row["id"] for row in found if row["bad"] is None][:4] == [1, 2, None, None]
    first = found[0]
    assert (first["name"], first["at"].isoformat(), first["list"], first["more"]) == (
        "one", spark.sql("SELECT timestamp'2026-11-30T12:00:00Z'").first()[0].isoformat(), [1, 2], {"x": 1},
    )  # fmt: skip
    good = sum(record in GOOD for record in records)
    assert (done.table["RECORDS"], done.table["GOOD"], done.table["BAD"]) == (
        str(len(records)), str(good), str(len(records) - good),
    )  # fmt: skip


def test_bad_json_goes_to_a_folder(spark: Any, log: Path, out: Path, tmp_path: Path, run: Run) -> None:
    fill(log, mixed())
    done = run("extract", log, "--json", "--schema", SCHEMA, "--out", out, "--bad", tmp_path / "bad")
    assert done.code == 0
    bad = rows(spark, tmp_path / "bad")
    assert list(bad[0]) == ["number", "offset", "sequence", "time", "data", "error"]
    assert [row["data"] for row in bad] == BAD
    assert {row["error"] for row in bad} == {"not UTF-8", "not one JSON object that fits the schema"}
    good = rows(spark, out)
    assert "bad" not in good[0]
    assert sorted([row["sequence"] for row in good] + [row["sequence"] for row in bad]) == list(range(len(mixed())))
    assert int(done.table["RECORDS"]) == len(mixed())
    assert int(done.table["BAD"]) == len(BAD)


def test_without_bad_records_there_is_no_folder(log: Path, out: Path, tmp_path: Path, run: Run) -> None:
    fill(log, GOOD)
    bad = tmp_path / "bad"
    assert run("extract", log, "--json", "--schema", SCHEMA, "--out", out, "--bad", bad).code == 0
    assert not bad.exists()
    bad.mkdir()
    (bad / "old").touch()
    arguments = ["extract", log, "--json", "--schema", SCHEMA, "--out", out, "--bad", bad]
    assert run(*arguments).code == 3
    assert run(*arguments, "--mode", "overwrite").code == 0
    assert not bad.exists()


@pytest.mark.parametrize("seen", ["2", "all"])
def test_a_schema_is_inferred(spark: Any, log: Path, out: Path, run: Run, seen: str) -> None:
    fill(log, [b'{"id": 1, "a b": {"c": [1.5]}}', b'{"number": true}', b"no", b'{"id": "text"}'])
    done = run("extract", log, "--json", "--infer-from", seen, "--out", out)
    kind = "bigint" if seen == "2" else "string"
    source = "the first 2 records" if seen == "2" else "all records"
    fields = f"`a b`: struct<`c`: array<double>>, `id`: {kind}, `number`: boolean"
    assert f"schema inferred from {source}: {fields}\n" in done.out
    assert done.table["BAD"] == ("2" if seen == "2" else "1")
    found = rows(spark, out)
    assert list(found[0]) == ["log_number", "offset", "sequence", "time", "a b", "id", "number", "bad"]
    assert [row["number"] for row in found] == [None, True, None, None]


def test_a_schema_that_cannot_be_inferred(log: Path, out: Path, run: Run) -> None:
    fill(log, BAD[:3])
    done = run("extract", log, "--json", "--out", out)
    assert (done.code, done.err) == (
        2, "binlog: cannot infer a schema: none of the records is a JSON object with fields\n",
    )  # fmt: skip


@pytest.mark.parametrize("form", ["json", "csv"])
def test_bad_records_in_text_formats(spark: Any, log: Path, out: Path, run: Run, form: str) -> None:
    fill(log, [b'{"id": 1}', b"no", b"\xff"])
    assert run("extract", log, "--json", "--schema", "id INT", "--to", form, "--out", out).code == 0
    found = rows(spark, out, form, **({"header": "true", "inferSchema": "true"} if form == "csv" else {}))
    assert [(row["id"], row["bad"], row["bad_base64"]) for row in found] == [
        (1, None, None), (None, "no", None), (None, None, "/w=="),
    ]  # fmt: skip


WORDS = [b"%d w%d" % (number, number) for number in range(1000)]


def test_a_parser(spark: Any, log: Path, out: Path, run: Run) -> None:
    records = list(WORDS)
    records[500:500] = [b"x ten", b"\xff", b"", b"99999999999999999999 large"]
    fill(log, records)
    done = run("extract", log, "--parser", "tests.spark.jobs.parsers:words", "--bad-column", "raw", "--out", out)
    assert (done.code, done.table["GOOD"], done.table["BAD"]) == (0, "1,000", "4")
    found = rows(spark, out)
    assert list(found[0]) == ["log_number", "offset", "sequence", "time", "number", "word", "raw"]
    assert [
        row["raw"] if row["raw"] is not None else f"{row['number']} {row['word']}".encode() for row in found
    ] == records


def test_records_that_a_parser_rejects_go_to_a_folder(
    spark: Any, log: Path, out: Path, tmp_path: Path, run: Run
) -> None:
    fill(log, [*WORDS, b"x ten", b"one"])
    parser = ["--parser", "tests.spark.jobs.parsers:words", "--schema", "word STRING, number INT"]
    done = run("extract", log, *parser, "--out", out, "--bad", tmp_path / "bad")
    assert (done.code, done.table["RECORDS"], done.table["BAD"]) == (0, "1,002", "2")
    assert len(rows(spark, out)) == 1000
    assert [(row["data"], row["error"].split(":")[0]) for row in rows(spark, tmp_path / "bad")] == [
        (b"x ten", "ArrowInvalid"), (b"one", "ArrowInvalid"),
    ]  # fmt: skip


def test_a_parser_that_returns_too_few_rows(spark: Any, log: Path, out: Path, run: Run) -> None:
    fill(log, [b"a", b"", b"bb"])
    assert run("extract", log, "--parser", "tests.spark.jobs.parsers:too_few", "--out", out).table["BAD"] == "1"
    assert [(row["size"], row["bad"]) for row in rows(spark, out)] == [(1, None), (None, b""), (2, None)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tests.spark.jobs.parsers:wrong", "the parser returned a value of type int"),
        ("tests.spark.jobs.parsers:nothing", "cannot import the parser tests.spark.jobs.parsers:nothing"),
        ("no_such_module:parse", "cannot import the parser no_such_module:parse: No module named 'no_such_module'"),
        ("json:loads", "the parser json:loads has no attribute 'schema'"),
    ],
)
def test_an_invalid_parser(log: Path, out: Path, run: Run, name: str, text: str) -> None:
    fill(log, [b"a"])
    done = run("extract", log, "--parser", name, "--out", out)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert text in done.err
    assert not out.exists()


def test_the_parser_as_an_option_of_the_source(spark: Any, log: Path) -> None:
    fill(log, [b"1 one", b"bad"])
    reader = spark.read.format("binlog").option("parser", "tests.spark.jobs.parsers:words")
    frame = reader.load(str(log))
    assert frame.columns == ["number", "offset", "sequence", "time", "parsed", "bad", "error"]
    assert [(row.parsed and row.parsed.word, row.bad and bytes(row.bad)) for row in frame.collect()] == [
        ("one", None), (None, b"bad"),
    ]  # fmt: skip
    some = reader.schema("parsed struct<word: string>, bad binary, data binary").load(str(log))
    assert [(row.parsed, bytes(row.data)) for row in some.collect()] == [(("one",), b"1 one"), (None, b"bad")]
    for schema, text in (
        ("parsed struct<word: string>", "so that no record is lost"),
        ("parsed string, bad binary", "the type of column 'parsed' is struct<...>, not string"),
        ("parsed struct<word: string NOT NULL>, bad binary", "cannot be NOT NULL"),
    ):
        with pytest.raises(Exception, match=text):
            reader.schema(schema).load(str(log)).collect()
