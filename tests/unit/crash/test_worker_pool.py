"""The worker pool notices, reports and ends a worker that dies or hangs, so that its case is not lost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stress.crash.preloaded.preload import Preload, compile_recorder
from stress.crash.workers import worker_pool
from stress.crash.workers.context import Job
from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow  # it tests the harness, which few changes touch

DIES = "import os; os.kill(os.getpid(), 11)"
LEAVES = "import sys; sys.exit(3)"
ENDS = ""
HANGS = """
import os, sys, time
from pathlib import Path
from stress.crash.workers.context import Current, job_of
Current(Path(job_of(sys.argv[1]).scratch)).set("what never ends")
time.sleep(1000)
"""


def run(tmp_path: Path, code: str) -> tuple[worker_pool.Worker, list[dict[str, object]]]:
    """Run the code as the only worker of a pool; return the worker and its messages."""
    tree = tmp_path / "tree"
    (tree / "stress" / "crash").mkdir(parents=True)
    for name in ("stress/__init__.py", "stress/crash/__init__.py"):
        # Other modules are imported from the checkout.
        (tree / name).write_text(f"__path__.append({str((ROOT / name).parent)!r})\n")
    (tree / "stress" / "crash" / "worker.py").write_text(code)
    job = Job(
        worker=0, seed=1, parts=(), until=time.monotonic() + 600, states=0, scratch=str(tmp_path / "scratch"),
        keep=str(tmp_path / "kept"), library="", memory="", recorder_bug="none", seeded_bug="",
    )  # fmt: skip
    preload = Preload(compile_recorder(tmp_path), tmp_path, "test-pool-")
    with worker_pool.WorkerPool([job], preload, tree) as pool:
        return pool.workers[0], [message for _, message in pool.messages() if message]


@pytest.mark.parametrize(
    ("code", "failure"), [(DIES, "ended with signal 11"), (LEAVES, "ended with exit code 3"), (ENDS, None)]
)
def test_the_end_of_a_worker_is_reported(tmp_path: Path, code: str, failure: str | None) -> None:
    worker, messages = run(tmp_path, code)
    assert messages == [{"ended": failure}]
    worker.keep(tmp_path / "kept")
    assert (tmp_path / "kept" / "current").exists()


def test_a_worker_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "_STATE_SECONDS_MAX", 0.5)
    worker, messages = run(tmp_path, HANGS)
    assert messages == [{"ended": "made no progress for 0 s"}]
    assert worker.current.get()[1] == "what never ends"
    assert worker.process.returncode == -6
