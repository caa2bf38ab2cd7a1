"""Tuning of Spark's Python workers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_AS_SPARK = """
import importlib.machinery, sys
sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec("pyspark.daemon", None)
"""

_PROGRAM = """
import gc, json, resource
from binlog.spark.worker import tune_worker

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        held = [bytearray(1 << 20) for _ in range(4)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before, frozen = faults(), gc.get_freeze_count()
tune_worker()
faults()
print(json.dumps({"before": before, "after": faults(), "frozen": gc.get_freeze_count() - frozen}))
"""


def _seen(program: str) -> dict[str, int]:
    """Run the program in its own process, because tuning is permanent.  Each page from the kernel is a fault."""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    seen: dict[str, int] = json.loads(done.stdout)
    return seen


@pytest.mark.slow
def test_a_worker_keeps_free_memory_and_freezes_imported_objects() -> None:
    seen = _seen(_AS_SPARK + _PROGRAM)
    assert seen["frozen"] > 1000
    assert seen["after"] < seen["before"] / 10, seen


@pytest.mark.slow
def test_other_processes_are_not_tuned() -> None:
    seen = _seen(_PROGRAM)
    assert seen["frozen"] == 0
    assert seen["after"] > seen["before"] / 2, seen
