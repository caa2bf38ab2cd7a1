"""The data pipeline over the log, on Apache Spark: a data source named `binlog` on PySpark's Python data source API.

    from binlog.spark import session

    with session("extract") as spark:
        spark.read.format("binlog").load("/var/log/audit").show()

Any other Spark session knows the source, if binlog is installed with its extra: `pip install '.[spark]'` in a checkout.
The columns are in `binlog.spark.schema`.  Importing this package imports neither PySpark nor PyArrow.
"""

from binlog.spark.local_session import LOW_LATENCY, session, session_beside

__all__ = ["LOW_LATENCY", "session", "session_beside"]
