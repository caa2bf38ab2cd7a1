"""The Spark job: python -m stress.pipeline.driver FOLDER [--last] [--files].

Two queries follow the log in the folder, one to Parquet and one to another log.  With --last they read up to the
current end, and the records in Parquet are printed as JSON.  With --files the output of each task becomes a file of the
other log, however small it is; otherwise it is copied.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from binlog.spark import session, sibling_session

SOURCE, TARGET, PARQUET = "log", "copy", "parquet"

_RECORDS_A_BATCH = 2000
_RECORDS_A_BATCH_LAST = 100_000

_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # The job lives for seconds, so a fast compiler matters more than fast code.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def _query(
    spark: Any, folder: Path, name: str, columns: tuple[str, ...], form: str, *, last: bool, **options: str
) -> Any:
    most = _RECORDS_A_BATCH_LAST if last else _RECORDS_A_BATCH
    records = sibling_session(spark).readStream.format("binlog").option("maxRecordsPerTrigger", most)
    writing = (
        records.load(str(folder / SOURCE))
        .select(*columns)
        .writeStream.format(form)
        .option("checkpointLocation", str(folder / f"{name}.checkpoint"))
        .options(**options)
        .queryName(name)
    )
    writing = writing.trigger(availableNow=True) if last else writing.trigger(processingTime="0 seconds")
    return writing.start(str(folder / name))


def main() -> None:
    """Run the queries; without --last, until this process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--last", action="store_true")
    parser.add_argument("--files", action="store_true")
    given = parser.parse_args()
    options = {"minFileBytes": "1"} if given.files else {}
    with session("binlog pipeline", settings=_SETTINGS) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        queries = [
            _query(spark, given.folder, PARQUET, ("number", "offset", "data"), "parquet", last=given.last),
            _query(spark, given.folder, TARGET, ("data",), "binlog", last=given.last, **options),
        ]
        print("running", flush=True)
        for query in queries:
            query.awaitTermination()
        rows = spark.read.parquet(str(given.folder / PARQUET)).orderBy("number", "offset").select("data").collect()
        print(json.dumps([bytes(row.data).decode() for row in rows]))


if __name__ == "__main__":
    main()
