"""The options of reading a commit log, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from binlog import Since, Start
from binlog.spark.commitlog.options import StoreReadOptions, parse_store_options, to_json


def test_defaults() -> None:
    assert parse_store_options({"path": "/var/store"}) == StoreReadOptions("/var/store")


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("topic", "orders", "topics", {"orders"}),
        ("TOPIC", "orders, SCHEDULE_TOPIC_XXXX", "topics", {"orders", "SCHEDULE_TOPIC_XXXX"}),
        ("queue", "3", "queue_id", 3),
        ("tag", " paid ", "tag", "paid"),
        ("startingPosition", "earliest", "start", Start.BEGINNING),
        ("startingPosition", "latest", "start", Start.END),
        ("startingPosition", '{"orders":{"0":17,"1":4}}', "start", {("orders", 0): 17, ("orders", 1): 4}),
        ("endingPosition", "2026-11-30T12:00:00Z", "end", Since(datetime(2026, 11, 30, 12, tzinfo=UTC))),
        ("minPartitions", "7", "partitions_min", 7),
        ("maxPartitionBytes", "64m", "partition_bytes", 64 << 20),
        ("maxRecordBytes", "1m", "record_bytes_max", 1 << 20),
        ("failOnDataLoss", "false", "fail_on_data_loss", False),
        ("maxRecordsPerTrigger", "10", "records_per_trigger", 10),
        ("maxBytesPerTrigger", "10k", "bytes_per_trigger", 10240),
    ],
)
def test_each_option(name: str, text: str, field: str, value: Any) -> None:
    assert getattr(parse_store_options({"path": "/store", name: text}), field) == value


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "need the path"),
        ({"path": "", "paths": '["/a", "/b"]'}, "a commit log is read from one store"),
        ({"path": "/stores/*"}, "names several directories"),
        ({"path": "s3://bucket/store"}, "remote file system"),
        (
            {"path": "/store", "mode": "PERMISSIVE"},
            "unknown option 'mode'; the options are path, topic, queue, tag, starting",
        ),
        ({"path": "/store", "topic": "a,,b"}, "topic must be a topic, or several separated by commas"),
        ({"path": "/store", "queue": "-1"}, "queue must be the number of a queue"),
        ({"path": "/store", "tag": " "}, "tag must not be empty"),
        ({"path": "/store", "startingPosition": "soon"}, "startingPosition must be 'earliest', 'latest'"),
        ({"path": "/store", "startingPosition": "1:256"}, "startingPosition must be 'earliest', 'latest'"),
        ({"path": "/store", "startingPosition": '{"a":7}'}, "startingPosition must be 'earliest', 'latest'"),
        ({"path": "/store", "startingPosition": '{"a":{"b":7}}'}, "startingPosition must be 'earliest', 'latest'"),
        ({"path": "/store", "endingPosition": '{"a":{"0":-1}}'}, "-1 is not a queue offset of a/0"),
        ({"path": "/store", "endingPosition": '{"a":{"0":true}}'}, "True is not a queue offset of a/0"),
        (
            {"path": "/store", "topic": "b", "startingPosition": '{"a":{"0":1}}'},
            "startingPosition has the topic 'a', which the option topic does not include",
        ),
        (
            {"path": "/store", "queue": "1", "endingPosition": '{"a":{"0":1}}'},
            "endingPosition has queue 0, but the option queue is 1",
        ),
    ],
)
def test_unknown_or_contradictory_options_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=f"^binlog: .*{text}"):
        parse_store_options(options)


def test_the_keys_of_an_offset_have_a_fixed_order() -> None:
    places = {("b", 10): 1, ("a", 0): 5, ("b", 9): 2}
    assert str(to_json(places)) == "{'a': {'0': 5}, 'b': {'9': 2, '10': 1}}"
