"""The options and columns of reading a journal, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from binlog.journal import JournalLayout
from binlog.spark.journal.options import JournalReadOptions, parse_journal_options


def test_defaults() -> None:
    assert parse_journal_options({"path": "/var/journal"}) == JournalReadOptions("/var/journal")


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("prefix", "jbm-msg", "prefix", "jbm-msg"),
        ("EXTENSION", " msg ", "extension", "msg"),
        ("layout", "JBM-2008-07", "layout", JournalLayout.JBM_2008_07),
        ("layout", "native", "layout", JournalLayout.NATIVE),
        ("mode", "permissive", "permissive", True),
        ("minPartitions", "7", "partitions_min", 7),
        ("maxPartitionBytes", "64m", "partition_bytes", 64 << 20),
        ("maxRecordBytes", "1m", "record_bytes_max", 1 << 20),
    ],
)
def test_each_option(name: str, text: str, field: str, value: Any) -> None:
    assert getattr(parse_journal_options({"path": "/journal", name: text}), field) == value


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "need the path"),
        ({"path": "", "paths": '["/a", "/b"]'}, "a journal is read from one folder"),
        ({"path": "/journals/*"}, "names several directories; a journal is read from one folder"),
        ({"path": "s3://bucket/journal"}, "remote file system"),
        (
            {"path": "/j", "startingPosition": "earliest"},
            "unknown option 'startingposition'; the options are path, prefix, exten",
        ),
        ({"path": "/j", "layout": "jbm-2009"}, "layout must be native or jbm or jbm-2008-07, not 'jbm-2009'"),
        ({"path": "/j", "mode": "DROPMALFORMED"}, "mode must be FAILFAST or PERMISSIVE"),
        ({"path": "/j", "prefix": "../x"}, "prefix must be a part of file names"),
        ({"path": "/j", "extension": " "}, "extension must not be empty"),
    ],
)
def test_unknown_options_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=f"^binlog: .*{text}"):
        parse_journal_options(options)
