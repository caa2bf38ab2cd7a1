"""The floors: C functions that do only the indispensable part of the work.  They are compiled on first use."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cffi import FFI

from stress.bench.contestant import FRAMED_BYTES, IDLE_MS
from stress.bench.measuring import Prepare, Prepared
from stress.bench.processes import Loop, Opener, Work
from stress.bench.sample import MeasureError

FLOORS = Path(__file__).resolve().parent.parent / "floors"

_HEADER_BYTES = 256
_REGION_BYTES = 4 << 20
_PAGE_BYTES = 4096
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread")

_ffi = FFI()


@functools.cache
def library() -> Any:
    """Compile and load all floors.  Raises: MeasureError, if there is no compiler."""
    _ffi.cdef(re.sub(r"^#.*$", "", (FLOORS / "floor.h").read_text(), flags=re.MULTILINE))
    with tempfile.TemporaryDirectory(prefix="binlog-floors-") as directory:
        target = str(Path(directory) / "floors.so")
        command = [os.environ.get("CC", "cc"), *_FLAGS, "-o", target, *map(str, sorted(FLOORS.glob("*.c")))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise MeasureError(f"there is no C compiler named {command[0]} (Debian package: gcc)") from None
        if done.returncode:
            raise MeasureError(f"the floors do not compile: {done.stderr.strip()}")
        return _ffi.dlopen(target)  # a loaded library does not need its file any more


def on_growing_file(function: str, *, stored: bool = False) -> Prepare:
    """Return a floor on a file with only a header.  stored: whether its header's tail says how much it wrote."""
    header = bytes(8) + _HEADER_BYTES.to_bytes(8, sys.byteorder) + bytes(_HEADER_BYTES - 16)
    return _on_file([function], lambda path, processes: path.write_bytes(header), stored=_stored if stored else None)


def on_prepared_file(function: str, *, bytes_: int = FRAMED_BYTES, region_bytes: int = _REGION_BYTES) -> Prepare:
    """Return a floor on an allocated and written file, in which each process cycles through its own region."""

    def make(path: Path, processes: int) -> None:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, processes * region_bytes)
            for _ in range(processes):
                file.write(bytes(region_bytes))
            file.flush()
            os.fsync(file.fileno())

    return _on_file([function], make, bytes_=bytes_, region_bytes=region_bytes)


def on_log(function: str, fill: Callable[[Path], Path]) -> Prepare:
    """Return a floor that reads a log, which `fill` makes; `fill` returns its file."""
    return _on_file([function], lambda path, processes: path.symlink_to(fill(path.parent)))


def with_roles(*functions: str) -> Prepare:
    """Return floors on one shared page, the first in the first process, the next one in the next."""
    return _on_file(functions, lambda path, processes: path.write_bytes(bytes(_PAGE_BYTES)))


def _on_file(
    functions: Sequence[str],
    make: Callable[[Path, int], object],
    *,
    bytes_: int = FRAMED_BYTES,
    region_bytes: int = _REGION_BYTES,
    stored: Callable[[Path], int] | None = None,
) -> Prepare:
    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "floor"
        make(path, processes)
        yield Prepared(_opener(functions, path, bytes_, region_bytes), (lambda: stored(path)) if stored else None)

    return prepare


def _opener(functions: Sequence[str], path: Path, bytes_: int, region_bytes: int) -> Opener:
    calls = [getattr(library(), function) for function in functions]

    @contextmanager
    def opener(index: int) -> Iterator[Loop]:
        call = calls[index % len(calls)]
        name = _ffi.new("char[]", os.fsencode(path))

        def loop(work: Work) -> int:
            stop = _ffi.from_buffer("int32_t[]", work.stop)
            waits = _ffi.NULL if work.waits is None else _ffi.from_buffer("uint64_t[]", work.waits)
            given = _ffi.new(
                "struct floor_work *",
                {
                    "path": name,
                    "region_bytes": region_bytes,
                    "index": index,
                    "bytes": bytes_,
                    "idle_ms": IDLE_MS,
                    "stop": stop,
                    "waits": waits,
                    "waits_count": 0 if work.waits is None else len(work.waits),
                },
            )
            count: int = call(given)
            if count < 0:
                raise OSError(-count, os.strerror(-count))
            return count

        yield loop

    return opener


def _stored(path: Path) -> int:
    with path.open("rb") as file:
        tail = int.from_bytes(file.read(16)[8:], sys.byteorder)
    return (tail - _HEADER_BYTES) // FRAMED_BYTES
