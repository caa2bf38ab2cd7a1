"""Incremental extracts and streams: each record once, with a stored position."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from binlog import Ref, Writer
from binlog.spark import sibling_session
from binlog.spark.log.options import local_path
from tests.spark.jobs.commands import Run, rows
from tests.support.logs import read_all

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECONDS_MAX = 60.0


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_each_run_extracts_the_records_since_the_last_one(spark: Any, log: Path, out: Path, run: Run) -> None:
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(100)])
        first = run("extract", log, "--incremental", "--out", out)
        assert (first.code, first.err) == (0, "")
        assert (first.table["BATCHES"], first.table["RECORDS"]) == ("1", "100")
        assert run("extract", log, "--incremental", "--out", out).table["RECORDS"] == "0"
        writer.cutover()
        writer.append_many([b"%d" % number for number in range(100, 150)])
        again = run("extract", log, "--incremental", "--out", out)
        assert again.table["RECORDS"] == "50"
        assert f"{log}: up to 2:606\n" in again.out
    assert [row["data"] for row in rows(spark, out)] == read_all(log)
    assert (out.parent / "out.checkpoint").is_dir()


def test_small_batches_since_a_time(spark: Any, log: Path, out: Path, run: Run) -> None:
    with Writer(log) as writer:
        for _ in range(5):
            writer.append_many([b"x" * 1000] * 100)
    arguments = ["--incremental", "--since", "1h", "--batch-bytes", "200k", "--out", out]
    done = run("extract", log, *arguments)
    assert int(done.table["BATCHES"]) >= 2
    assert done.table["RECORDS"] == "500"
    assert len(rows(spark, out)) == 500


def test_a_checkpoint_of_another_output_is_refused(log: Path, out: Path, run: Run) -> None:
    with Writer(log) as writer:
        writer.append(b"one")
    assert run("extract", log, "--incremental", "--out", out).code == 0
    other = run("extract", log, "--incremental", "--out", out, "--checkpoint", out.parent / "other")
    assert other.code == 1
    assert "is not its checkpoint" in other.err
    whole = run("extract", log, "--mode", "append", "--out", out)
    assert (whole.code, "is written by a stream" in whole.err) == (3, True)
    shutil.rmtree(out)
    gone = run("extract", log, "--incremental", "--out", out)
    assert (gone.code, "belongs to another output than" in gone.err) == (1, True)
    assert run("extract", log, "--out", out).code == 0
    mixed = run("extract", log, "--incremental", "--out", out, "--checkpoint", out.parent / "new")
    assert (mixed.code, "has files that no stream wrote" in mixed.err) == (1, True)


def test_an_inferred_schema_is_stored_and_bad_records_have_a_folder(
    spark: Any, log: Path, out: Path, tmp_path: Path, run: Run
) -> None:
    bad = tmp_path / "bad"
    arguments = ["extract", log, "--incremental", "--json", "--out", out, "--bad", bad]
    with Writer(log) as writer:
        writer.append_many([b'{"id": 1}', b"no", b'{"id": 2}'])
        done = run(*arguments)
        assert (done.table["RECORDS"], done.table["GOOD"], done.table["BAD"]) == ("3", "2", "1")
        writer.append_many([b'{"id": "three"}', b'{"id": 4, "name": "four"}'])
        done = run(*arguments)
        assert (done.table["RECORDS"], done.table["GOOD"], done.table["BAD"]) == ("2", "1", "1")
    assert [row["id"] for row in rows(spark, out)] == [1, 2, 4]
    assert [row["data"] for row in rows(spark, bad)] == [b"no", b'{"id": "three"}']


def test_a_stream_to_another_log_appends_each_record_once(log: Path, out: Path, run: Run) -> None:
    with Writer(log) as writer:
        for number in range(3):
            writer.append(b"%d" % number)
            assert run("extract", log, "--incremental", "--to", "binlog", "--out", out).table["RECORDS"] == "1"
    assert read_all(out) == read_all(log)


def test_following_from_the_position_of_an_incremental_run(spark: Any, log: Path, out: Path, run: Run) -> None:
    from binlog.spark.jobs import Output, Selection, StreamOptions, follow

    with Writer(log) as writer:
        writer.append_many([b"0", b"1"])
        assert run("extract", log, "--incremental", "--out", out).table["RECORDS"] == "2"
        stream = StreamOptions(
            checkpoint=str(out.parent / "out.checkpoint" / "records"), continuous=True, interval="0 seconds"
        )
        with follow(spark, Selection(paths=(str(log),)), Output(path=local_path(str(out))), stream) as following:
            for number in range(2, 6):
                last = writer.append(b"%d" % number)
                deadline = time.monotonic() + SECONDS_MAX
                while following.totals().records < number - 1:
                    assert time.monotonic() < deadline
                    assert not following.wait(0.05)
            done = following.stop()
    assert (done.records, done.bad_records) == (4, 0)
    assert done.ends == {str(log): Ref(1, last.offset + 5)}
    assert [row["data"] for row in rows(spark, out)] == read_all(log)
    assert run("extract", log, "--incremental", "--out", out).table["RECORDS"] == "0"


def test_following_a_parser(spark: Any, log: Path, out: Path) -> None:
    from binlog.spark.jobs import Output, Parser, Selection, StreamOptions, follow

    with Writer(log) as writer:
        writer.append_many([b"1 one", b"bad"])
    stream = StreamOptions(checkpoint=str(out.parent / "checkpoint"))
    parser = Parser("tests.spark.jobs.parsers:words")
    with follow(spark, Selection(paths=(str(log),)), Output(path=str(out)), stream, parsing=parser) as following:
        assert following.wait(SECONDS_MAX)
        done = following.totals()
    assert (done.records, done.bad_records) == (2, 1)
    assert [(row["word"], row["bad"]) for row in rows(spark, out)] == [("one", None), (None, b"bad")]


def test_a_sibling_session_has_the_settings_but_its_own_environment(spark: Any, log: Path) -> None:
    """Starting a stream while another's first task was sent broke that, because they shared a table of variables."""
    with Writer(log) as writer:
        writer.append(b"one")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        beside = sibling_session(spark)
        assert beside.conf.get("spark.sql.session.timeZone") == "Asia/Kathmandu"
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert [row.data for row in beside.read.format("binlog").load(str(log)).collect()] == [b"one"]
    assert _environment(beside) != _environment(spark)
    assert _environment(spark.newSession()) == _environment(
        spark.newSession()
    )  # without a sibling session, the table is shared


def _environment(spark: Any) -> int:
    """Return the identity of the table that the source's functions have."""
    source = spark._jsparkSession.sessionState().dataSourceManager().lookupDataSource("binlog")
    return int(spark._jvm.java.lang.System.identityHashCode(source.dataSourceCls().envVars()))
