"""One worker: `python -m stress.crash.worker JOB`, with the recorder preloaded.  Sends JSON lines (see Context)."""

from __future__ import annotations

import faulthandler
import gc
import shutil
import sys
import time

from stress.crash.parts import PARTS
from stress.crash.workers.context import Context, job_of


def main() -> None:
    """Run the parts in slices until it is time to stop."""
    # print the stack after a crash of the compiled part, or the SIGABRT that ends a hanging worker
    faulthandler.enable()
    context = Context(job_of(sys.argv[1]))
    parts = {name: PARTS[name].begin(context) for name in context.job.parts}
    spent = dict.fromkeys(parts, 0.0)
    gc.freeze()  # imported modules stay: the collector need not traverse them
    while not context.done:
        name = min(parts, key=lambda name: spent[name] / PARTS[name].share)
        begun = time.monotonic()
        parts[name].run_slice()
        spent[name] += time.monotonic() - begun
        context.report_tally()
    context.report_tally(at_once=True)
    shutil.rmtree(context.scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
