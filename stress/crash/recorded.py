"""The process that the recorder is preloaded into: `python -m stress.crash.recorded PART WORKLOAD [SEED ROOT]...`.

Everything is imported before the recording begins, so that a trace holds the log's calls alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stress.crash.journal.subject import JOURNALS
from stress.crash.log_subject import LOGS
from stress.crash.marks import Recorder
from stress.crash.pagestore.subject import PAGE_STORES
from stress.crash.paging.subject import DEPAGES, QUEUES
from stress.crash.recording import LOG
from stress.crash.store.subject import STORES


def main() -> None:
    """Run the workload in each root with its seed, with a trace of its own beside the root."""
    part, name, *runs = sys.argv[1:]
    (workload,) = (
        subject.workloads[name]
        for subject in (LOGS, STORES, JOURNALS, QUEUES, DEPAGES, PAGE_STORES)
        if subject.part == part
    )
    recorder = Recorder()
    for seed, path in zip(runs[::2], runs[1::2], strict=True):
        root = Path(path)
        os.chdir(root)
        recorder.start(str(root.with_suffix(".trace")))
        workload(root / LOG, seed)
        recorder.stop()


if __name__ == "__main__":
    main()
