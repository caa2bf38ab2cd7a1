"""The options of reading a commit log, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from binlog import Since, Start
from binlog.spark.commitlog.options import StoreReadOptions, parse_store_options, to_json


def test_all_there_is_unless_told() -> None:
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
        ({"path": "/stores/*"}, "stands for several directories"),
        ({"path": "s3://bucket/store"}, "remote file system"),
        ({"path": "/store", "mode": "PERMISSIVE"}, "no option 'mode'; there are path, topic, queue, tag, starting"),
        ({"path": "/store", "topic": "a,,b"}, "topic must be a topic, or topics separated by commas"),
        ({"path": "/store", "queue": "-1"}, "queue must be the number of a queue"),
        ({"path": "/store", "tag": " "}, "tag is empty"),
        ({"path": "/store", "startingPosition": "soon"}, "startingPosition is 'earliest', 'latest'"),
        ({"path": "/store", "startingPosition": "1:256"}, "startingPosition is 'earliest', 'latest'"),
        ({"path": "/store", "startingPosition": '{"a":7}'}, "startingPosition is 'earliest', 'latest'"),
        ({"path": "/store", "startingPosition": '{"a":{"b":7}}'}, "startingPosition is 'earliest', 'latest'"),
        ({"path": "/store", "endingPosition": '{"a":{"0":-1}}'}, "a/0 cannot have the queue offset -1"),
        ({"path": "/store", "endingPosition": '{"a":{"0":true}}'}, "a/0 cannot have the queue offset True"),
        (
            {"path": "/store", "topic": "b", "startingPosition": '{"a":{"0":1}}'},
            "startingPosition names the topic 'a', but the option topic does not",
        ),
        (
            {"path": "/store", "queue": "1", "endingPosition": '{"a":{"0":1}}'},
            "endingPosition names queue 0, but the option queue is 1",
        ),
    ],
)
def test_what_is_not_known_or_contradicts_itself_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=f"^binlog: .*{text}"):
        parse_store_options(options)


def test_the_keys_of_an_offset_are_in_one_order() -> None:
    places = {("b", 10): 1, ("a", 0): 5, ("b", 9): 2}
    assert str(to_json(places)) == "{'a': {'0': 5}, 'b': {'9': 2, '10': 1}}"
