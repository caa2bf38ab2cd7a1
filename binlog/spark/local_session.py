"""A Spark session on this machine, set up as binlog runs best."""

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
from binlog.spark.worker import CORES, check_worker_python

_NONE: Mapping[str, str] = MappingProxyType({})

_SETTINGS = {
    # Over TCP each task waits some 40 ms for its second packet.  Spark 4.0 does not know the setting, and ignores it.
    "spark.python.unix.domain.socket.enabled": "true",
    # Rows go to Python 10,000 at a time otherwise, megabytes that no processor's cache holds on their way.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    # After a few large values Java's G1 gives memory of its heap back to the kernel, again and again, and takes it page
    # by page for the next query.  The options of a session's own, extraJavaOptions, come behind these.
    "spark.driver.defaultJavaOptions": "-XX:MaxHeapFreeRatio=100",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

LOW_LATENCY: Mapping[str, str] = MappingProxyType(
    {
        **_SETTINGS,
        # The usual one forks a process for each look at a link, nine times a batch.  This one takes a name after it
        # saw that it is free, so two drivers that run one query with one checkpoint are noticed less surely.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.adaptive.enabled": "false",  # a batch without a shuffle gains nothing by planning twice
    }
)
"""Settings of a session whose streams are to be quick, for a checkpoint in a local directory; Spark 4.1 or later.

`session(settings=LOW_LATENCY)`, or one by one for a session of one's own.
"""


def session(
    name: str = "binlog", *, cores: int | None = None, settings: Mapping[str, str] = _NONE, folders: Sequence[str] = ()
) -> Any:
    """Return a SparkSession of this process's own, `local[cores]`; one that is there already is returned as it is.

    cores: how many tasks run at once; as many as this process may use, unless told.
    settings: Spark's own, by their names; they come before those chosen here.
    folders: where tasks look for modules too, on this machine.
    Leaving its `with` block stops it.
    Blocks: some 5 s, for the Java virtual machine.
    Raises: StateError if no Java for Spark is found, or PYSPARK_PYTHON names a Python without binlog; ImportError if
    PySpark is not installed.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    count = cores or len(os.sched_getaffinity(0))
    builder = SparkSession.builder.appName(name).master(f"local[{count}]")
    for key, value in {**_SETTINGS, "spark.sql.shuffle.partitions": str(count), **settings}.items():
        builder = builder.config(key, value)
    environment = {**_spark_environment(folders), CORES: str(count)}
    check_worker_python(settings, environment)
    # Spark looks at the environment once, when it starts Java.
    with _environment(environment):
        spark = builder.getOrCreate()
    # Spark finds the source by itself, but for one case: installed under a path with a space, it looks for none (its
    # own jar's path comes to it with %20, is not there, and it takes Python to be missing; seen on 4.3).
    return _registered(spark)


def session_beside(spark: Any) -> Any:
    """Return another session of the same application and settings, for one of several streams that run at one time.

    All streams of one session share a table of environment variables that Spark changes as it begins one, while it may
    be sending it with a task of another: that one then fails with Java's OptionalDataException (seen on 4.3, now and
    then).  Each session has its own.  It is not to be stopped: that ends the application.
    """
    beside = spark.newSession()
    for key, value in spark.conf.getAll.items():
        if beside.conf.isModifiable(key):
            beside.conf.set(key, value)
    # Also if Spark has found the source by itself, and warns: the table belongs to a registration.
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
        # Spark 4.0 lets nobody replace the one that it has found by itself, which is this one.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    return spark


def _has_source(spark: Any, name: str) -> bool:
    """Whether Spark has found the source by itself: it warns of whoever registers one that it has."""
    from py4j.protocol import Py4JError

    try:
        return bool(spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name))
    except (AttributeError, Py4JError):  # Spark Connect, or another version
        return False


def _spark_environment(folders: Sequence[str] = ()) -> dict[str, str]:
    environment = {"JAVA_HOME": str(find_java_home())}
    # Otherwise Spark looks up the address of this machine's name, which not every machine has.
    if "SPARK_LOCAL_IP" not in os.environ:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Otherwise Spark's workers are the first python3 on the path, which may be another one.
    if "PYSPARK_PYTHON" not in os.environ:
        environment["PYSPARK_PYTHON"] = sys.executable
    root = str(Path(binlog.__file__).resolve().parent.parent)
    if root not in map(os.path.realpath, (*site.getsitepackages(), site.getusersitepackages())):
        # A checkout: the workers see it only where they are told, and Spark looks for sources only in plain folders.
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
