"""Spark over logs: a data source named `binlog`, built on PySpark's Python data source API.

    from binlog.spark import session

    with session("extract") as spark:
        spark.read.format("binlog").load("/var/log/audit").show()

If binlog is installed with its extra (`pip install '.[spark]'` in a checkout), every other Spark session knows the
source too.  binlog.spark.schema lists the columns.  Importing this package imports neither PySpark nor PyArrow.
"""

from binlog.spark.local_session import LOW_LATENCY, session, sibling_session

__all__ = ["LOW_LATENCY", "session", "sibling_session"]
