"""Servers that fork their workers: no record is lost or doubled, and nothing hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import binlog
from tests.support.checkout import ROOT
from tests.support.events import bodies, events
from tests.support.waiting import until

_TASKS = 200


def test_celerys_prefork_workers_log_each_task_once(tmp_path: Path) -> None:
    """Each worker process is replaced after 20 tasks."""
    environment = {**os.environ, "FOLDER": str(tmp_path), "PYTHONPATH": str(ROOT)}
    send = f"from tests.support.celery_application import work\nfor number in range({_TASKS}): work.delay(number)\n"
    subprocess.run([sys.executable, "-c", send], env=environment, cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "celery", "-A", "tests.support.celery_application", "worker", "-P", "prefork"]
    with (
        (tmp_path / "output").open("w") as output,
        subprocess.Popen(
            [*command, "-c", "4", "--loglevel", "WARNING"],
            env=environment, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT,
        ) as worker,
    ):  # fmt: skip
        log = tmp_path / "log"
        try:
            until(lambda: worker.poll() is not None or (log.exists() and len(bodies(log)) == 3 * _TASKS))
        finally:
            worker.send_signal(signal.SIGTERM)
    printed = (tmp_path / "output").read_text()
    assert worker.returncode == 0, printed
    assert sorted(bodies(log)) == sorted(f"{number} {level}" for number in range(_TASKS) for level in (20, 30, 50))
    assert len({event["resource"]["process.pid"] for event in events(log)}) >= 4
    assert binlog.check(log) == []
