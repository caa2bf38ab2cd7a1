"""Writers that are dropped without `close`, and collected as garbage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_writer_in_a_cycle_that_was_dropped_with_a_prepared_file_crashed_the_process(tmp_path: Path) -> None:
    """The collector freed the descriptors of the directory before it called the prepared file's `__del__`."""
    program = """
import gc, sys
from types import SimpleNamespace
from binlog import Mode, Writer
writer = Writer(sys.argv[1], cutover_bytes=1 << 20)
writer.append_many([bytes(1000)] * 900, mode=Mode.FLUSH)
while writer._session._cutover._prepared is None:
    pass
cycle = SimpleNamespace(writer=writer)
cycle.itself = cycle
del writer, cycle
gc.collect()
"""
    log = tmp_path / "log"
    done = subprocess.run([sys.executable, "-c", program, str(log)], check=False)
    assert done.returncode == 0
    assert list(log.glob(".*.new")) == []
