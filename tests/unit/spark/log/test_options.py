"""The options of the data source, without Spark."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from binlog import Ref, Since, Start
from binlog.spark.log.options import ReadOptions, parse_options


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/var/log/audit", "/var/log/audit"),
        ("/var/log/../audit/", "/var/audit"),
        ("audit", os.path.abspath("audit")),
        ("/a:b", "/a:b"),
        ("/logs/[ab]*", "/logs/[ab]*"),
        ("file:///var/log/an%20audit", "/var/log/an audit"),
        ("file:/var/log", "/var/log"),
        ("file://localhost/var/log", "/var/log"),
        ("s3://bucket/log/?region=eu-west-1", "s3://bucket/log/?region=eu-west-1"),
        ("hdfs://host/log/", "hdfs://host/log"),
        ("simplecache::s3://bucket/log", "simplecache::s3://bucket/log"),
        ("a::b", os.path.abspath("a::b")),
    ],
)
def test_a_path_becomes_absolute(given: str, path: str) -> None:
    assert parse_options({"path": given}) == ReadOptions((path,))


def test_names_are_case_insensitive() -> None:
    assert parse_options({"PATH": "/log", "FAILONDATALOSS": "False"}) == ReadOptions(("/log",), fail_on_data_loss=False)


@pytest.mark.parametrize(
    ("options", "several"),
    [
        ({"path": "/a"}, False),
        ({"paths": '["/a"]'}, False),
        ({"paths": '["/a", "/b"]'}, True),
        ({"path": "/a/*"}, True),
        ({"path": "s3://bucket/a?region=b"}, False),
    ],
)
def test_more_than_one_log(options: dict[str, str], several: bool) -> None:
    assert parse_options(options).several is several


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("startingPosition", "earliest", "start", Start.BEGINNING),
        ("startingPosition", "LATEST", "start", Start.END),
        ("startingPosition", "3:256", "start", Ref(3, 256)),
        ("startingPosition", '{"number":1,"offset":256}', "start", Ref(1, 256)),
        ("endingPosition", '{"/log":{"number":1,"offset":256}}', "end", {"/log": Ref(1, 256)}),
        ("endingPosition", "2026-11-30T12:00:00Z", "end", Since(datetime(2026, 11, 30, 12, tzinfo=UTC))),
        ("minPartitions", "7", "partitions_min", 7),
        ("maxPartitionBytes", "64m", "partition_bytes", 64 << 20),
        ("maxPartitionBytes", "1000", "partition_bytes", 1000),
        ("maxRecordBytes", "1 GiB", "record_bytes_max", 1 << 30),
        ("maxRecordBytes", "4g", "record_bytes_max", 2**31 - 1),
        ("failOnDataLoss", "false", "fail_on_data_loss", False),
        ("includeOpenFile", "false", "include_open_file", False),
        ("mode", "permissive", "permissive", True),
        ("mode", "FAILFAST", "permissive", False),
        ("maxRecordsPerTrigger", "10", "records_per_trigger", 10),
        ("maxBytesPerTrigger", "10kb", "bytes_per_trigger", 10240),
        ("messages", "TRUE", "messages", True),
        ("messages", "false", "messages", False),
    ],
)
def test_each_option(name: str, text: str, field: str, value: Any) -> None:
    assert getattr(parse_options({"path": "/log", name: text}), field) == value


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "need the path"),
        ({"path": ""}, "need the path"),
        (
            {"path": "/log", "zeta": "1", "Alpha": "2"},
            "unknown option 'alpha', 'zeta'; the options are path, startingPosition",
        ),
        ({"path": "file://host/log"}, "'file://host/log' is on another machine"),
        ({"path": "/log", "startingPosition": "soon"}, "startingPosition must be 'earliest', 'latest'"),
        ({"path": "/log", "startingPosition": "0:1"}, "startingPosition must be"),
        ({"path": "/log", "startingPosition": '{"number":1}'}, "startingPosition must be"),
        ({"path": "/log", "endingPosition": "2026-11-30T12:00:00"}, "a time without a zone"),
        ({"path": "/log", "minPartitions": "0"}, "minPartitions must be an integer of at least 1"),
        ({"path": "/log", "maxPartitionBytes": "much"}, "maxPartitionBytes must be a size"),
        ({"path": "/log", "maxPartitionBytes": "0"}, "maxPartitionBytes must be a size"),
        ({"path": "/log", "failOnDataLoss": "yes"}, "failOnDataLoss must be true or false"),
        ({"path": "/log", "mode": "DROPMALFORMED"}, "mode must be FAILFAST or PERMISSIVE"),
        ({"path": "/log", "messages": "1"}, "messages must be true or false, not '1'"),
    ],
)
def test_unknown_options_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=f"^binlog: .*{text}"):
        parse_options(options)
