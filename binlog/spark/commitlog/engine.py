"""The engine `commitlog` of the data source, and its columns: each row is a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.spark.commitlog.options import parse_store_options
from binlog.spark.commitlog.reading import BatchReader, FilteringReader
from binlog.spark.schema import Column, chosen_among, ddl

COLUMNS = (
    Column("topic", "string", True, "the topic"),
    Column("queue_id", "int", True, "the queue of the topic"),
    Column("queue_offset", "bigint", True, "messages before it in its queue"),
    Column("offset", "bigint", True, "its offset in the commit log"),
    Column("message_id", "string", True, "its id in RocketMQ's form: the store's host and the offset"),
    Column("body", "binary", True, "the body as stored"),
    Column("tag", "string", False, "its tag; null if it has none"),
    Column("keys", "array<string>", True, "its keys"),
    Column("properties", "map<string,string>", True, "all properties, including the tag and the keys"),
    Column("flag", "int", True, "the user's flag"),
    Column("system_flag", "int", True, "bits for compression, transactions and IPv6 hosts; see docs/format.md"),
    Column("born_time", "timestamp", False, "when it was created; null if not between the years 2 and 9998"),
    Column("born_host", "string", True, "the producer's host, as 127.0.0.1:10911 or [::1]:10911"),
    Column("store_time", "timestamp", False, "when it was appended; null as for born_time"),
    Column("store_host", "string", True, "the host that stored it"),
    Column("reconsume_count", "int", True, "how often it was redelivered"),
    Column("prepared_offset", "bigint", True, "the offset of the half message, if it ended a transaction; otherwise 0"),
    Column("message_bytes", "int", True, "its size in the commit log"),
)


class CommitLogEngine:
    """The engine that reads commit logs.  Raises, when it is made: ValueError for wrong options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_store_options(options)

    def schema(self) -> str:
        """Return all columns, for a read without a schema."""
        return ddl(COLUMNS)

    def reader(self, schema: Any, *, filtering: bool) -> BatchReader:
        """Return a reader of the columns in a StructType.  Raises: ValueError for an unknown column."""
        kind = FilteringReader if filtering else BatchReader
        return kind(self._options, chosen_among(schema, COLUMNS))

    def stream_reader(self, schema: Any) -> Any:
        """Return a stream reader.  Raises: ValueError; ImportError if PySpark is too old."""
        from binlog.spark.commitlog.following import StreamReader

        return StreamReader(self._options, chosen_among(schema, COLUMNS))
