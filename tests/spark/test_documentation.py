"""Run the short examples of docs/spark.md unchanged; the longer ones are run in the tests of their subject."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from binlog.log.reader import Reader
from binlog.log.writer import Writer
from tests.support.checkout import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DOCUMENT = (ROOT / "docs" / "spark.md").read_text()
SHORT = [
    block for block in re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE) if "import" not in block
]


def run(spark: Any, example: str, log: Path, **names: object) -> None:
    code = compile(example.replace('"/var/log/audit"', "DIR"), "docs/spark.md", "exec")
    exec(code, {"spark": spark, "DIR": str(log), **names})


@pytest.fixture
def filled(log: Path) -> Path:
    with Writer(log) as writer:
        writer.append_many([b"one", b"two"])
    return log


def test_reading_examples_work(spark: Any, filled: Path) -> None:
    # Examples with a remote file system need one; those of the other engines have their own tests.
    reading = [block for block in SHORT if "load(DIR)" in block or '"/var/log/audit"' in block]
    assert len(reading) == 3
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    try:
        for example in reading:
            run(spark, example, filled)
    finally:
        spark.conf.set(setting, before)


def test_writing_examples_work(spark: Any, filled: Path, tmp_path: Path) -> None:
    (example,) = [block for block in SHORT if "write.format" in block]
    frame = spark.createDataFrame([("three",)], "data string")
    text = tmp_path / "text"
    text.mkdir()
    (text / "lines.txt").write_text("four\n")
    stream = spark.readStream.text(str(text))
    run(spark, example, filled, frame=frame, stream=stream, CHECKPOINT=str(tmp_path / "checkpoint"))
    (query,) = spark.streams.active
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    with Reader(filled) as reader:
        assert [entry.data for entry in reader] == [b"one", b"two", b"three", b"four"]
