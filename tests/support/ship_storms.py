"""A storm: processes append and cut over, while `ship` is killed at random moments and started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from binlog import Writer
from binlog.moving import ship
from tests.support.checkout import ROOT

_APPEND = """
import sys, binlog
path, writer, record_count = sys.argv[1], int(sys.argv[2]), 0
with binlog.Writer(path, cutover_bytes="64K") as log:
    print(flush=True)
    while True:
        log.append_many([b"%d %d " % (writer, record_count + at) + b"x" * 100 for at in range(20)], mode="flush")
        record_count += 20
"""
_SHIP = "import sys; from binlog.moving import follow\nfor done in follow(sys.argv[1], sys.argv[2]): pass"


def run_storm(log: Path, target: str, *, writers: int, kills: int, seed: int) -> int:
    """Run a storm; then ship the rest, and return how many files arrived.  The open file is left without records."""
    chance = random.Random(seed)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    appending = [
        subprocess.Popen(
            [sys.executable, "-c", _APPEND, log, str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        )
        for number in range(writers)
    ]  # fmt: skip
    try:
        for process in appending:
            assert process.stdout is not None
            process.stdout.readline()
        for _ in range(kills):
            with subprocess.Popen([sys.executable, "-c", _SHIP, log, target], env=environment) as shipping:
                try:
                    # A random moment is the point: some die while they start, some in the middle of a copy.
                    shipping.wait(chance.uniform(0.15, 0.6))
                except subprocess.TimeoutExpired:
                    shipping.send_signal(signal.SIGKILL)
                assert shipping.wait() == -signal.SIGKILL, f"seed {seed}"
    finally:
        for process in appending:
            process.kill()
            process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()
    with Writer(log) as writer:
        writer.cutover()
    ship(log, target)
    last = ship(log, target).last_number
    assert last is not None
    return last
