"""Measure ways to append to a page: python -m stress.bench.locking [--messages N] [--rounds R] [--directory DIR].

Threads of one process bring messages of 1 KiB, as those of a queue do; what they call is C (schemas.c).  In each round
everybody is measured once, with 1, 4 and 16 threads; pages of 10 MiB, not synced.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from stress.bench.machine import machine
from stress.bench.sample import MeasureError, Sample, Spread

_MESSAGE_BYTES = 1024
_PAGE_BYTES = 10 << 20
_THREADS = (1, 4, 16)
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread")
_SCHEMAS = {
    "one after the other": ("one_after_the_other", False),
    "places first, then all at once": ("places_first", False),
    "one after the other, the interpreter's lock kept": ("one_after_the_other", True),
    "combined: who is first writes for all": ("combined", False),
}
"""By their names: the function, and whether the interpreter's lock is kept while it runs."""

Append = Callable[[object, bytes, int], int]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m stress.bench.locking", description="Ways to append to a page.")
    parser.add_argument("--messages", type=int, default=60_000, metavar="N", help="of a measurement")
    parser.add_argument("--rounds", type=int, default=10, metavar="R")
    parser.add_argument(
        "--directory", type=Path, default=Path("/var/tmp"), metavar="DIR", help="on the disk to measure"
    )
    return parser.parse_args()


def _compiled(folder: Path) -> Path:
    target = folder / "schemas.so"
    source = Path(__file__).with_name("schemas.c")
    done = subprocess.run([os.environ.get("CC", "cc"), *_FLAGS, "-o", target, source], check=False)
    if done.returncode:
        raise MeasureError("schemas.c does not compile")
    return target


def _append_of(library: Path, function: str, lock_kept: bool) -> tuple[ctypes.CDLL, Append]:
    # A PyDLL calls with the interpreter's lock, a CDLL without it.
    loaded = (ctypes.PyDLL if lock_kept else ctypes.CDLL)(str(library))
    loaded.pages_open.restype = ctypes.c_void_p
    loaded.pages_open.argtypes = [ctypes.c_int, ctypes.c_uint64]
    loaded.pages_close.argtypes = [ctypes.c_void_p]
    append = getattr(loaded, function)
    append.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64]
    return loaded, append


def _measure(library: Path, schema: str, threads: int, messages: int, directory: Path) -> tuple[Sample, Sample]:
    """Messages a second, and microseconds of processor time for each."""
    loaded, append = _append_of(library, *_SCHEMAS[schema])
    message = os.urandom(_MESSAGE_BYTES)
    each = messages // threads
    failures = []
    with tempfile.TemporaryDirectory(prefix="binlog-locking-", dir=directory) as folder:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        pages = loaded.pages_open(fd, _PAGE_BYTES)

        def work() -> None:
            for _ in range(each):
                if failure := append(pages, message, _MESSAGE_BYTES):
                    failures.append(os.strerror(failure))
                    return

        workers = [threading.Thread(target=work) for _ in range(threads)]
        begun, used = time.perf_counter(), time.process_time()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds, used = time.perf_counter() - begun, time.process_time() - used
        loaded.pages_close(pages)
        os.close(fd)
        there = sum(path.stat().st_size for path in Path(folder).iterdir()) // (_MESSAGE_BYTES + 24)
    if failures or there != each * threads:
        raise MeasureError(f"{schema}: {failures[:1] or f'{there} messages are there'}")
    return Sample(each * threads / seconds), Sample(used / (each * threads) * 1e6)


def main() -> int:
    """Measure, and print a table."""
    given = _arguments()
    print("; ".join(f"{name}: {value}" for name, value in machine(given.directory).lines()[:-1]), flush=True)
    found: defaultdict[tuple[str, int], list[tuple[Sample, Sample]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="binlog-locking-") as scratch:
        library = _compiled(Path(scratch))
        for _ in range(given.rounds):
            turns = [(schema, threads) for schema in _SCHEMAS for threads in _THREADS]
            random.shuffle(turns)
            for schema, threads in turns:
                found[schema, threads].append(_measure(library, schema, threads, given.messages, given.directory))
    print(f"thousand messages a second; µs of processor time for each ({given.rounds} rounds of {given.messages:,})")
    for (schema, threads), samples in sorted(
        found.items(), key=lambda item: ([*_SCHEMAS].index(item[0][0]), item[0][1])
    ):
        rate = Spread.of([rate.value / 1000 for rate, _ in samples])
        used = Spread.of([used.value for _, used in samples])
        figures = f"{rate.median:6.0f} ({rate.low:.0f} to {rate.high:.0f}); {used.median:.2f}"
        print(f"{schema:50} {threads:2} threads  {figures}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MeasureError as error:
        print(f"locking: {error}", file=sys.stderr)
        sys.exit(1)
