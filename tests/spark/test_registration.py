"""Spark finds the source by its name, in a process that has not imported binlog, on the Java that we found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binlog import Writer
from binlog.spark.java import find_java_home
from tests.support.checkout import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("records:", spark.read.format("binlog").load(sys.argv[1]).count())
print("imported:", "binlog" in sys.modules)
spark.stop()
"""


def _path_without_spaces(executable: str, folder: Path) -> str:
    """Return another path of a virtual environment's Python.

    Spark finds no Python sources if the path has a space: it runs `sh -c "command -v PATH"`, without quotes.
    """
    if " " not in executable:
        return executable
    (folder / "environment").symlink_to(Path(executable).parents[1])
    return str(folder / "environment" / "bin" / Path(executable).name)


@pytest.mark.turn(1)
def test_without_a_register_call(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"one", b"two", b"three"])
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java_home()),
        "PYSPARK_PYTHON": _path_without_spaces(sys.executable, log.parent),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-c", PROGRAM, str(log)]
    done = subprocess.run(command, cwd=log, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["records: 3", "imported: False"]
