"""The engine `commitlog` of the data source, and its columns; a row is a message of a commit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.spark.commitlog.options import parse_store_options
from binlog.spark.commitlog.reading import BatchReader, FilteringReader
from binlog.spark.schema import Column, chosen_among, ddl

COLUMNS = (
    Column("topic", "string", True, "the topic"),
    Column("queue_id", "int", True, "which of the topic's queues"),
    Column("queue_offset", "bigint", True, "number of the message in its queue, from 0"),
    Column("offset", "bigint", True, "offset in the commit log"),
    Column("message_id", "string", True, "the id as RocketMQ writes it: the store's host and the offset"),
    Column("body", "binary", True, "the body, as stored"),
    Column("tag", "string", False, "the tag; null without one"),
    Column("keys", "array<string>", True, "the keys"),
    Column("properties", "map<string,string>", True, "all properties, including tag and keys"),
    Column("flag", "int", True, "the user's flag"),
    Column("system_flag", "int", True, "bits: compressed, transactions, hosts of IPv6; see docs/format.md"),
    Column("born_time", "timestamp", False, "when it was created; null if not between the years 2 and 9998"),
    Column("born_host", "string", True, "the host that created it, as 127.0.0.1:10911 or [::1]:10911"),
    Column("store_time", "timestamp", False, "when it was appended; null as for born_time"),
    Column("store_host", "string", True, "the host that stored it"),
    Column("reconsume_count", "int", True, "number of redeliveries to a consumer"),
    Column("prepared_offset", "bigint", True, "in the end of a transaction: offset of the half message; otherwise 0"),
    Column("message_bytes", "int", True, "size in the commit log"),
)


class CommitLogEngine:
    """The commit log as an Engine of the data source.  The constructor raises ValueError for invalid options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_store_options(options)

    def schema(self) -> str:
        """Return the schema with all columns, for a query that names none."""
        return ddl(COLUMNS)

    def reader(self, schema: Any, *, filtering: bool) -> BatchReader:
        """Return a reader of the columns in a StructType.  Raises: ValueError for an unknown column."""
        kind = FilteringReader if filtering else BatchReader
        return kind(self._options, chosen_among(schema, COLUMNS))

    def stream_reader(self, schema: Any) -> Any:
        """Return a reader for a stream.  Raises: ValueError; ImportError if PySpark is too old."""
        from binlog.spark.commitlog.following import StreamReader

        return StreamReader(self._options, chosen_among(schema, COLUMNS))
