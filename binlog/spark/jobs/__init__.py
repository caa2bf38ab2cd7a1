"""Jobs over logs, as functions that take a Spark session; `binlog spark` runs the same functions.

    from binlog.spark import session
    from binlog.spark.jobs import Output, Selection, choose, extract

    with session("extract") as spark:
        extract(spark, choose(Selection(paths=("/var/log/audit",), number=3)), Output(path="/data/audit-3"))

Importing this package imports PySpark and PyArrow.
"""

from binlog.spark.jobs.extract import BAD_COLUMN, ExtractResult, check_outputs, extract
from binlog.spark.jobs.follow import RunningStream, StreamOptions, StreamTotals, follow, follow_bad
from binlog.spark.jobs.json_schema import infer_schema
from binlog.spark.jobs.output import Format, Output, SaveMode
from binlog.spark.jobs.parsing import Json, Parser, Parsing
from binlog.spark.jobs.progress import Progress, Report
from binlog.spark.jobs.selection import Chosen, LogRange, Selection, choose
from binlog.spark.jobs.stats import Amount, FileAmount, HourAmount, Stats, stats
from binlog.spark.jobs.verify import FileProblem, VerifyResult, verify

__all__ = [
    "BAD_COLUMN",
    "Amount",
    "Chosen",
    "ExtractResult",
    "FileAmount",
    "FileProblem",
    "Format",
    "HourAmount",
    "Json",
    "LogRange",
    "Output",
    "Parser",
    "Parsing",
    "Progress",
    "Report",
    "RunningStream",
    "SaveMode",
    "Selection",
    "Stats",
    "StreamOptions",
    "StreamTotals",
    "VerifyResult",
    "check_outputs",
    "choose",
    "extract",
    "follow",
    "follow_bad",
    "infer_schema",
    "stats",
    "verify",
]
