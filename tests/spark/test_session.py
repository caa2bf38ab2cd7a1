"""What `session` has Java told, and what a session of one's own may change of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from binlog.spark import session

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

OPTION = "MaxHeapFreeRatio"


def _java_option(spark: Any) -> str:
    java = spark._jvm.java.lang
    kind = java.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    return str(java.management.ManagementFactory.getPlatformMXBean(kind).getVMOption(OPTION).getValue())


def test_java_keeps_the_memory_of_its_heap(spark: Any) -> None:
    assert _java_option(spark) == "100"


@pytest.mark.slow
def test_options_of_a_sessions_own_come_behind() -> None:
    told = subprocess.run([sys.executable, "-m", __name__], check=True, capture_output=True, text=True).stdout
    assert told.split() == ["80"]


if __name__ == "__main__":
    with session(cores=1, settings={"spark.driver.extraJavaOptions": f"-XX:{OPTION}=80"}) as own:
        print(_java_option(own))
