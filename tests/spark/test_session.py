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


if __name__ == "__main__":
    with session(cores=1, settings={"spark.driver.extraJavaOptions": f"-XX:{OPTION}=80"}) as own:
        print(_java_option(own))
        print(own.read.format("binlog").load(sys.argv[1]).count())
