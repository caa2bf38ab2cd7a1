"""Writing a stream into a log: each of its batches is a turn of the query, and so in the log exactly once."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from binlog.spark.worker import settle_worker
from binlog.spark.writing import TaskWriter, in_order, open_writer, remove, take_turn, wait_for


class StreamWriter(TaskWriter, DataSourceStreamArrowWriter):
    """See the module.  What a query is called in the log is `spark/` and its id, which its checkpoint keeps."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Append what the tasks wrote, where this batch is not in the log yet.  Raises: as `take_turn`."""
        settle_worker()
        written = in_order(messages)
        if written:
            wait_for(written)
            with open_writer(self._options) as writer:
                take_turn(writer, written, source=f"spark/{written[0].query}", turn=batchId)
        remove(written)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what the tasks wrote.  What is in the log stays there: Spark calls this also after a commit."""
        remove(in_order(messages))
