"""The engine `commitlog` of the data source: each row is a message of a commit log's store.

The columns of a commit log's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binlog.spark.commitlog.options import parse_store_options
from binlog.spark.commitlog.reading import BatchReader, FilteringReader
from binlog.spark.schema import Column, chosen_among, ddl

COLUMNS = (
    Column("topic", "string", True, "the topic"),
    Column("queue_id", "int", True, "which of the topic's queues"),
    Column("queue_offset", "bigint", True, "messages before it in its queue"),
    Column("offset", "bigint", True, "where it lies in the commit log"),
    Column("message_id", "string", True, "its id, as RocketMQ writes it: the store's host and the offset"),
    Column("body", "binary", True, "the body, as it lies there"),
    Column("tag", "string", False, "its tag; null without one"),
    Column("keys", "array<string>", True, "its keys"),
    Column("properties", "map<string,string>", True, "all properties, of which tag and keys are two"),
    Column("flag", "int", True, "the user's flag"),
    Column("system_flag", "int", True, "bits: compressed, transactions, hosts of IPv6; see docs/format.md"),
    Column("born_time", "timestamp", False, "when it was made; null for what is not between the years 2 and 9998"),
    Column("born_host", "string", True, "who made it, as 127.0.0.1:10911 or [::1]:10911"),
    Column("store_time", "timestamp", False, "when it was appended; null as the other"),
    Column("store_host", "string", True, "who stored it"),
    Column("reconsume_count", "int", True, "how often it was given to a consumer again"),
    Column("prepared_offset", "bigint", True, "of what ended a transaction: where its half message lies; otherwise 0"),
    Column("message_bytes", "int", True, "what it takes in the commit log"),
)


class CommitLogEngine:
    """Reads a store, as an Engine of the data source.  Raises, in making one: ValueError for options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_store_options(options)

    def schema(self) -> str:
        """All columns, for a user who asks for none in particular."""
        return ddl(COLUMNS)

    def reader(self, schema: Any, *, filtering: bool) -> BatchReader:
        """A reader of the columns in a StructType.  Raises: ValueError for one that is not there."""
        kind = FilteringReader if filtering else BatchReader
        return kind(self._options, chosen_among(schema, COLUMNS))

    def stream_reader(self, schema: Any) -> Any:
        """The same for a stream.  Raises: ValueError; ImportError where PySpark is too old."""
        from binlog.spark.commitlog.following import StreamReader

        return StreamReader(self._options, chosen_among(schema, COLUMNS))
