"""Local Spark sessions with the settings that suit binlog."""

from __future__ import annotations

import contextlib
import os
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import binlog
from binlog.spark.java import find_java_home
from binlog.spark.worker import CORES, check_session_python, check_worker_python

_NONE: Mapping[str, str] = MappingProxyType({})

_SETTINGS = {
    # Over TCP each task waits about 40 ms for its second packet.  Spark 4.0 ignores this unknown setting.
    "spark.python.unix.domain.socket.enabled": "true",
    # The default sends 10,000 rows at a time to Python: megabytes, which do not fit into the processor's cache.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    # After a few large values Java's G1 keeps returning heap memory to the kernel and faulting it in again for the next
    # query.  A session's own extraJavaOptions are added after these.
    "spark.driver.defaultJavaOptions": "-XX:MaxHeapFreeRatio=100",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

LOW_LATENCY: Mapping[str, str] = MappingProxyType(
    {
        **_SETTINGS,
        # The default forks a process for each check of a link, nine times per batch.  This one checks for a name before
        # it creates it, so it may fail to notice that two drivers run one query with one checkpoint.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.adaptive.enabled": "false",  # planning twice gains nothing for a batch without a shuffle
    }
)
"""Settings for streams with low latency and a checkpoint in a local directory; Spark 4.1 or later.

Pass them as `session(settings=LOW_LATENCY)`, or set them one by one in a session of your own.
"""


def session(
    name: str = "binlog", *, cores: int | None = None, settings: Mapping[str, str] = _NONE, folders: Sequence[str] = ()
) -> Any:
    """Return this process's active SparkSession, or start one as `local[cores]`.

    cores: how many tasks run at once; by default, as many as this process may use.
    settings: Spark settings by name; they override those of this module.
    folders: where tasks on this machine also search for modules.
    Leaving its `with` block stops it.
    Blocks for about 5 s while the Java virtual machine starts.
    Raises: StateError if no Java for Spark is found, or if the workers' Python (PYSPARK_PYTHON) cannot import binlog or
    has another minor version than this one; ImportError if PySpark is not installed.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        check_session_python(active)
        return active
    count = cores or len(os.sched_getaffinity(0))
    builder = SparkSession.builder.appName(name).master(f"local[{count}]")
    for key, value in {**_SETTINGS, "spark.sql.shuffle.partitions": str(count), **settings}.items():
        builder = builder.config(key, value)
    environment = {**_spark_environment(folders), CORES: str(count)}
    check_worker_python(settings, environment)
    # Spark reads the environment once, when it starts Java.
    with _environment(environment):
        spark = builder.getOrCreate()
    # Spark finds the source automatically unless it is installed under a path with a space: Spark then gets the path of
    # its own jar with %20, does not find it, and assumes that Python is missing (seen on 4.3).
    return _registered(spark)


def sibling_session(spark: Any) -> Any:
    """Return another session of the same application and settings, for one of several concurrent streams.

    All streams of a session share a table of environment variables.  When Spark starts a stream, it changes the table,
    possibly while it sends it with a task of another stream, which then sometimes fails with Java's
    OptionalDataException (seen on 4.3).  Each session has its own table.  Do not stop the returned session: that stops
    the application.
    """
    beside = spark.newSession()
    for key, value in spark.conf.getAll.items():
        if beside.conf.isModifiable(key):
            beside.conf.set(key, value)
    # Register even if Spark has found the source already, which makes it warn: the table belongs to a registration.
    return _register(beside)


def _registered(spark: Any) -> Any:
    from binlog.spark.source import BinlogDataSource

    return spark if _has_source(spark, BinlogDataSource.name()) else _register(spark)


def _register(spark: Any) -> Any:
    from pyspark.errors import AnalysisException

    from binlog.spark.source import BinlogDataSource

    try:
        spark.dataSource.register(BinlogDataSource)
    except AnalysisException as error:
        # Spark 4.0 refuses to replace the source that it has found automatically, which is this one.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    return spark


def _has_source(spark: Any, name: str) -> bool:
    """Return whether Spark has found the source automatically: registering it again would make Spark warn."""
    from py4j.protocol import Py4JError

    try:
        return bool(spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name))
    except (AttributeError, Py4JError):  # Spark Connect, or another version
        return False


def _spark_environment(folders: Sequence[str] = ()) -> dict[str, str]:
    environment = {"JAVA_HOME": str(find_java_home())}
    # Otherwise Spark resolves this machine's host name, which may have no address.
    if "SPARK_LOCAL_IP" not in os.environ:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Otherwise Spark's workers run the first python3 on the path, which may be another one.
    if "PYSPARK_PYTHON" not in os.environ:
        environment["PYSPARK_PYTHON"] = sys.executable
    root = str(Path(binlog.__file__).resolve().parent.parent)
    if root not in map(os.path.realpath, (*site.getsitepackages(), site.getusersitepackages())):
        # A checkout: workers need its path, and Spark searches for sources only in plain folders.
        folders = (root, *folders)
    if folders:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (*folders, os.environ.get("PYTHONPATH"))))
    return environment


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
