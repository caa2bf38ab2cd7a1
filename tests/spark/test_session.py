"""The Java options and warnings of `session`, and how a user's session can change them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from binlog import Writer
from binlog.spark import session
from tests.support.checkout import ROOT
from tests.support.pythons import make_other_version

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

OPTION = "MaxHeapFreeRatio"


def _java_option(spark: Any) -> str:
    java = spark._jvm.java.lang
    kind = java.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    return str(java.management.ManagementFactory.getPlatformMXBean(kind).getVMOption(OPTION).getValue())


def test_java_keeps_the_memory_of_its_heap(spark: Any) -> None:
    assert _java_option(spark) == "100"


@pytest.mark.slow
@pytest.mark.turn(2)
def test_the_options_of_a_session_are_added_without_warnings(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"one")
    command = [sys.executable, "-m", __name__, str(log)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=log, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "80\n1\n"), done.stderr
    assert "data source" not in done.stderr


_OWN_SESSION = """
import os, sys
from pyspark.sql import SparkSession
from binlog.spark.java import set_java_home
set_java_home()
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from binlog.spark import session
from binlog.spark.source import BinlogDataSource
spark.dataSource.register(BinlogDataSource)
try:
    spark.read.format("binlog").load(sys.argv[1]).count()
except Exception as error:
    print("PYTHON_VERSION_MISMATCH" in str(error))
session()
"""


@pytest.mark.slow
@pytest.mark.turn(1)
def test_a_session_whose_workers_run_another_version_is_refused(log: Path, tmp_path: Path) -> None:
    """Spark itself reports the versions, but not the Pythons."""
    with Writer(log) as writer:
        writer.append(b"one")
    other, version = make_other_version(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _OWN_SESSION, str(log)],
        cwd=log, env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(other)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr
    last = done.stderr.strip().splitlines()[-1]
    ours = f"{sys.executable} (Python {sys.version_info.major}.{sys.version_info.minor})"
    assert last.startswith(f"binlog.errors.StateError: Spark's workers would run {other} (Python {version}), but this")
    assert ours in last
    assert "set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to the same Python" in last


if __name__ == "__main__":
    with session(cores=1, settings={"spark.driver.extraJavaOptions": f"-XX:{OPTION}=80"}) as own:
        print(_java_option(own))
        print(own.read.format("binlog").load(sys.argv[1]).count())
