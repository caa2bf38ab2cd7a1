"""The extract of the demo, a process of its own: a Spark job that writes the log to Parquet and shows tables.

The Parquet files hold each record unchanged, in the column `data`, next to the fields of its JSON.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from binlog.spark import session
from stress.demo.messages import end_with_director, send

_EVENT = """
    writer INT, writer_sequence BIGINT, path STRING,
    turn INT, size BIGINT, mtime DOUBLE, sha256 STRING, error STRING,
    line BIGINT, text STRING, base64 STRING
"""

_PER_WRITER = """
    SELECT writer, records, bytes, concat_ws(':', first.*) AS first, concat_ws(':', last.*) AS last
    FROM (SELECT writer, count(*) AS records, sum(length(data)) AS bytes,
                 min(struct(number, offset)) AS first, max(struct(number, offset)) AS last
          FROM extract GROUP BY writer)
    ORDER BY writer
"""

_LARGEST_FILES = """
    SELECT DISTINCT size, path FROM extract WHERE size IS NOT NULL ORDER BY size DESC, path LIMIT 5
"""

_LINES = "SELECT path, count(*) AS lines FROM extract GROUP BY path ORDER BY path"


def write_parquet(spark: Any, log: Path, target: Path) -> None:
    """Write the log to a new directory of Parquet files."""
    from pyspark.sql.functions import col, from_json

    records = spark.read.format("binlog").load(str(log))
    events = records.withColumn("event", from_json(col("data").cast("string"), _EVENT))
    events.select("number", "offset", "sequence", "event.*", "data").write.parquet(str(target))


def show_tables(spark: Any, target: Path) -> None:
    """Show the contents of the Parquet files."""
    extract = spark.read.parquet(str(target))
    extract.createOrReplaceTempView("extract")
    lines = extract.first().line is not None  # the events are lines of the user's files
    tables = {
        "Per writer:": _PER_WRITER,
        **({"Lines per file:": _LINES} if lines else {"Largest files:": _LARGEST_FILES}),
    }
    for title, query in tables.items():
        print(title)
        spark.sql(query).show(100, truncate=False)
    sys.stdout.flush()


def main() -> None:
    """Run the role."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--log", type=Path, required=True, help="the log's directory")
    arguments.add_argument("--parquet", type=Path, required=True, help="the directory to create")
    given = arguments.parse_args()
    end_with_director()
    send("step", "starting Spark")
    spark = session("binlog demo", settings={"spark.ui.showConsoleProgress": "false"})
    try:
        send("step", "writing the log to Parquet")
        write_parquet(spark, given.log, given.parquet)
        send("step", "reading the Parquet files")
        show_tables(spark, given.parquet)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
