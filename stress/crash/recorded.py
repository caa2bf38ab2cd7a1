"""The process that the recorder is preloaded into: `python -m stress.crash.recorded PART WORKLOAD [SEED ROOT]...`.

It imports everything before the recording begins, so that a trace has only the system's calls.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stress.crash.marks import Recorder
from stress.crash.parts import PARTS
from stress.crash.recording import LOG


def main() -> None:
    """Run the workload in each root with its seed, recording a trace next to the root."""
    part, name, *runs = sys.argv[1:]
    system = PARTS[part].system
    recorder = Recorder()
    for seed, path in zip(runs[::2], runs[1::2], strict=True):
        root = Path(path)
        os.chdir(root)
        recorder.start(str(root.with_suffix(".trace")))
        system.workloads[name](root / LOG, seed)
        recorder.stop()


if __name__ == "__main__":
    main()
