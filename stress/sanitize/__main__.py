"""Run the compiled part under one of the compiler's sanitizers, and fail if it finds anything.

address, undefined: the package is built again in a temporary folder, and runs the tests that reach the C.
thread: writers in threads instead of processes share one staging area (threads.c); every record must be in the log.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import binlog
from binlog.format.log_header import block_seed
from binlog.storage.staging_area import area_name

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
_COPIED = ("binlog", "native", "stress", "tests", "docs", "setup.py", "pyproject.toml", "README.md", "LICENSE")
_TESTS = (
    "tests/unit/storage",
    "tests/unit/log",
    "tests/unit/format",
    "tests/unit/journal/loading/test_record_states.py",
    "tests/unit/cli/looking/test_filters.py",
    "tests/multiprocess/test_forks.py",
    "tests/multiprocess/test_waking.py",
)
_NOT_WITH_ADDRESS = (
    # It limits the address space, of which the address sanitizer takes terabytes.
    "tests/unit/storage/test_batch_iterator.py::test_a_record_is_returned_later_if_memory_was_short",
    # It forks while another thread allocates; the sanitizer of GCC 12 leaves its allocator's lock taken in such a
    # child.
    "tests/unit/storage/test_staging_area.py::test_a_child_forked_during_a_sweep_does_not_hold_its_locks",
)
_FLAGS = {
    "address": "-fsanitize=address -fno-omit-frame-pointer -g",
    "undefined": "-fsanitize=undefined -fno-sanitize-recover=all -g",
    "thread": "-fsanitize=thread -g -O1",
}
# All of the C except the code that makes Python objects.
_SOURCES = (
    "shared/fork", "shared/lock", "shared/file_status", "shared/doorbell",
    "log/live_block", "log/commit", "log/staging_area", "log/staging_area_file", "log/group", "log/header",
    "log/index", "log/place", "codec/crc32c", "codec/log/scan", "codec/log/index_ranges",
)  # fmt: skip
_WRAPPED = ("lock", "try_lock", "unlock", "byte_lock", "byte_lock_wait", "byte_unlock")
_THREADS = 6


def main() -> int:
    """Run the chosen sanitizer; return 0 if it found nothing."""
    parser = argparse.ArgumentParser(prog="python -m stress.sanitize", description=__doc__)
    parser.add_argument("sanitizer", choices=sorted(_FLAGS))
    parser.add_argument("--appends", type=int, default=2000, help="of each thread (2000)")
    parser.add_argument(
        "--seeded-race", action="store_true", help="seed a race between the threads, which must be found"
    )
    parser.add_argument("tests", nargs="*", default=_TESTS, help="the tests that address and undefined run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="binlog-sanitize-", dir="/var/tmp") as folder:
        if options.sanitizer == "thread":
            return _threads(Path(folder), options.appends, seeded_race=options.seeded_race)
        return _tests(Path(folder), options.sanitizer, options.tests)


def _tests(folder: Path, sanitizer: str, tests: list[str]) -> int:
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(source, folder / name)
    environment = {**os.environ, "CFLAGS": _FLAGS[sanitizer], "LDFLAGS": _FLAGS[sanitizer], "PYTHONPATH": str(folder)}
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(build, cwd=folder, env=environment, check=True)
    found = folder / "found"
    # pytest captures standard error, and loses it if the process ends.
    environment["UBSAN_OPTIONS"] = f"log_path={found}:print_stacktrace=1"
    if sanitizer == "address":
        # Python was not built with the sanitizer, so the library must be loaded first; Python's own leaks at exit do
        # not matter.
        library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        environment |= {"LD_PRELOAD": library.stdout.strip(), "ASAN_OPTIONS": f"detect_leaks=0:log_path={found}"}
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not spark", *tests]
    if sanitizer == "address":
        run.extend(f"--deselect={test}" for test in _NOT_WITH_ADDRESS)
    code = subprocess.run(run, cwd=folder, env=environment, check=False).returncode
    reports = [path.read_text() for path in sorted(folder.glob("found.*"))]
    print(*reports, sep="\n", file=sys.stderr, end="")
    return code or int(bool(reports))


def _threads(folder: Path, appends: int, *, seeded_race: bool) -> int:
    program = folder / "threads"
    wraps = [f"-Wl,--wrap=binlog_{name}" for name in _WRAPPED]
    sources = [str(ROOT / "native" / f"{name}.c") for name in _SOURCES]
    headers = sorted({f"-I{header.parent}" for header in (ROOT / "native").rglob("*.h")})
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", *_FLAGS["thread"].split(), *headers]
    if seeded_race:
        command.append("-DSEEDED_RACE")
    subprocess.run([*command, *wraps, "-o", str(program), str(HERE / "threads.c"), *sources, "-pthread"], check=True)
    log = folder / "log"
    with binlog.Writer(log) as writer:  # it keeps the staging area, and appends too
        writer.append(b"first")
        uuid = bytes.fromhex(binlog.stat(log).files[0].uuid or "")
        area = "/dev/shm" + area_name(log.stat(), uuid)
        seed = block_seed(uuid, 1)
        arguments = [str(log / "00000001.dat"), area, str(seed), str(_THREADS), str(appends)]
        done = subprocess.run([str(program), *arguments], check=False)
    return done.returncode or _missing(log, appends)


def _missing(log: Path, appends: int) -> int:
    with binlog.Reader(log) as reader:
        found = Counter(entry.data for entry in reader)
    wanted = Counter([b"first", *(b"%d:%d" % (thread, i) for thread in range(_THREADS) for i in range(appends))])
    problems = binlog.check(log)
    print(f"{_THREADS} threads, {found.total()} records; {len(problems)} problems", file=sys.stderr)
    return int(found != wanted or bool(problems))


if __name__ == "__main__":
    sys.exit(main())
