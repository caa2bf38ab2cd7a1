"""What a worker of Spark is told once."""

from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = """
import gc, json, resource
from binlog.spark.worker import settle_worker

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        held = [bytearray(1 << 20) for _ in range(4)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before, frozen = faults(), gc.get_freeze_count()
settle_worker()
faults()
print(json.dumps({"before": before, "after": faults(), "frozen": gc.get_freeze_count() - frozen}))
"""


def test_free_memory_is_kept_and_what_was_imported_is_left_alone() -> None:
    """Each page that comes from the kernel is a fault; a process of its own, for it stays as it is."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    seen = json.loads(done.stdout)
    assert seen["frozen"] > 1000
    assert seen["after"] < seen["before"] / 10, seen
