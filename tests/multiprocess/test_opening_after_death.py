"""Opening a large log after its writer was killed reads no more than opening a small one."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.format.index_file import ENTRY_BYTES, RANGE_BYTES_MAX
from binlog.format.log_header import PUBLISHED
from binlog.log.directory import LogDirectory
from binlog.storage.files import write_at

_MIB = 1 << 20
_WRITER = """
import os, signal, sys
from pathlib import Path
from binlog import Background, Mode, Writer

writer = Writer(Path(sys.argv[1]), mode=Mode.FLUSH, background=Background(sync_seconds=600))
records = [bytes(range(256)) * 256] * 16
for _ in range(int(sys.argv[2])):
    writer.append_many(records)
writer.sync()
writer.append_many([b"not synced"] * 1000)
os.kill(os.getpid(), signal.SIGKILL)
"""
_OPENER = """
import re, sys, time
from pathlib import Path
from binlog import Reader, Writer

def read_bytes():
    return int(re.search(r"rchar: (\\d+)", Path("/proc/self/io").read_text())[1])

Writer, Reader  # whatever their import reads
before, begun = read_bytes(), time.perf_counter()
with Writer(Path(sys.argv[1])) as writer:
    writer.append(b"after")
print(read_bytes() - before, time.perf_counter() - begun)
"""


def _killed_writer(log: Path, mebibytes: int) -> None:
    done = subprocess.run([sys.executable, "-c", _WRITER, log, str(mebibytes)], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL


def _as_after_a_power_cut(log: Path) -> None:
    """Make the header say that another boot wrote last."""
    directory = LogDirectory(log)
    try:
        header = directory.read_header(1)
        with (log / "00000001.dat").open("r+b") as file:
            write_at(file.fileno(), header._replace(boot_id=bytes(16)).published(), PUBLISHED.start, str(log))
    finally:
        directory.close()


def _bytes_read_to_open(log: Path) -> int:
    done = subprocess.run([sys.executable, "-c", _OPENER, log], check=True, capture_output=True, text=True, timeout=60)
    found = re.fullmatch(r"(\d+) [\d.e-]+\n", done.stdout)
    assert found is not None
    return int(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("power_cut", [False, True])
def test_the_bytes_read_do_not_grow_with_the_log(log: Path, tmp_path: Path, *, power_cut: bool) -> None:
    read = []
    for place, mebibytes in ((tmp_path / "small", 1), (log, 128)):
        _killed_writer(place, mebibytes)
        assert binlog.stat(place).files[0].tail > mebibytes * _MIB
        if power_cut:
            _as_after_a_power_cut(place)
        read.append(_bytes_read_to_open(place))
        with Writer(place):
            pass
    small, large = read
    assert small > 1000
    # After a power cut the index is read, which has an entry for each range; of the log, only the records after the
    # last one.
    assert abs(large - small) <= 128 * _MIB // RANGE_BYTES_MAX * ENTRY_BYTES
