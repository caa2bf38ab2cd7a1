"""A journal's records in Spark, in batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog.journal.options import Sync
from tests.support.checkout import ROOT
from tests.support.journals import files, flip, journal
from tests.support.plain_journal import plain_rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A journal with a record of each kind."""
    path = tmp_path / "journal"
    with journal(path) as (opened, _):
        for number in range(60):
            opened.append_add(number, 1, b"%d" % number * 30, sync=Sync.LATER)
        opened.append_update(7, 2, b"updated", sync=Sync.LATER)
        opened.append_delete(8, sync=Sync.LATER)
        for tx_id in range(1000, 1004):
            opened.append_add_tx(tx_id, tx_id, 3, b"joined")
            opened.append_update_tx(tx_id, 9, 4, b"more")
            opened.append_delete_tx(tx_id, 10, b"why")
        opened.commit(1000)
        opened.rollback(1001)
        opened.prepare(1002, b"XID")
    return path


def source(reader: Any, **options: str) -> Any:
    return reader.format("binlog").option("engine", "journal").options(**options)


def test_each_record_is_a_row_with_its_state(spark: Any, filled: Path) -> None:
    frame = source(spark.read, minPartitions="3").load(str(filled))
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert kinds == {
        "file": "string", "file_id": "bigint", "offset": "bigint", "kind": "string", "id": "bigint",
        "transaction": "bigint", "transaction_state": "string", "user_type": "int", "data": "binary",
        "state": "string", "record_bytes": "bigint",
    }  # fmt: skip
    rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: (row["file_id"], row["offset"]))
    found = [{**row, "data": None if row["data"] is None else bytes(row["data"])} for row in rows]
    assert found == plain_rows(filled)
    assert len({row["file"] for row in rows}) > 1


def test_a_schema_and_filters(spark: Any, filled: Path) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = source(spark.read).schema("ID long, data binary, state string").load(str(filled))
        rows = frame.where("state = 'live' AND ID BETWEEN 6 AND 9").collect()
        assert sorted((row.ID, bytes(row.data)) for row in rows) == [
            (6, b"6" * 30), (7, b"updated"), (9, b"more"),
        ]  # fmt: skip
        assert source(spark.read).load(str(filled)).where("transaction_state = 'open'").count() == 3
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def error_of(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's, with ours in its text
        action()
    return str(caught.value)


def test_errors_name_the_cause(spark: Any, filled: Path, tmp_path: Path) -> None:
    def load(path: Path = filled, **options: str) -> Callable[[], object]:
        return lambda: source(spark.read, **options).load(str(path)).count()

    assert "binlog: unknown option 'startingposition'; the options are path, prefix" in error_of(
        load(startingPosition="x")
    )
    assert "is no journal" in error_of(load(tmp_path))
    write = spark.createDataFrame([("a",)], "data string").write.format("binlog").option("engine", "journal")
    assert "binlog: only the process that has a journal open" in error_of(
        lambda: write.mode("append").save(str(filled))
    )
    stream = source(spark.readStream).load(str(filled)).writeStream.format("noop")
    assert "binlog: a journal cannot be followed" in error_of(lambda: stream.start().processAllAvailable())


def test_damage_is_an_error_or_a_row(spark: Any, filled: Path) -> None:
    flip(files(filled)[0], 100)
    assert "mode=PERMISSIVE returns a row" in error_of(source(spark.read).load(str(filled)).count)
    frame = source(spark.read, mode="PERMISSIVE").load(str(filled))
    [row] = frame.where("damage IS NOT NULL").collect()
    assert (row.file, row.offset, row.kind) == (files(filled)[0].name, 88, None)
    assert frame.where("damage IS NULL").count() == len(plain_rows(filled))


def test_the_documented_example_works(spark: Any, filled: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    [example] = [block for block in blocks if '"journal"' in block]
    capfd.readouterr()
    assert '"/var/lib/broker/journal"' in example
    exec(compile(example.replace("/var/lib/broker/journal", str(filled)), "docs/spark.md", "exec"), {"spark": spark})
    assert "|prepared" in capfd.readouterr().out.replace(" ", "")
