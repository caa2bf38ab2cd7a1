"""Run the compiled part under one of the compiler's sanitizers, and fail where that finds anything.

address, undefined: the package is built anew in a folder of its own, and the tests that reach the C run with it.
thread: writers in threads in place of processes, over one staging area (threads.c), and then every record is looked
for.
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
_COPIED = ("binlog", "native", "stress", "tests", "setup.py", "pyproject.toml", "README.md", "LICENSE")
_TESTS = (
    "tests/unit/storage",
    "tests/unit/log",
    "tests/unit/journal/loading/test_record_states.py",
    "tests/multiprocess/test_forks.py",
    "tests/multiprocess/test_waking.py",
)
_NOT_WITH_ADDRESS = (
    # It limits the address space, of which the address sanitizer takes terabytes.
    "tests/unit/storage/test_batch_iterator.py::test_a_record_that_there_was_no_memory_for_is_given_later",
    # It forks beside a thread that allocates; that of GCC 12 leaves its allocator's lock to such a child, taken.
    "tests/unit/storage/test_staging_area.py::test_a_child_forked_while_another_thread_sweeps_has_no_part_in_its_locks",
)
_FLAGS = {
    "address": "-fsanitize=address -fno-omit-frame-pointer -g",
    "undefined": "-fsanitize=undefined -fno-sanitize-recover=all -g",
    "thread": "-fsanitize=thread -g -O1",
}
# All of the C but what makes Python objects.
_SOURCES = (
    "fork", "lock", "file_status", "live_block", "commit", "area", "area_file", "group", "doorbell", "header",
    "codec/scan", "codec/crc32c", "index", "codec/index_ranges", "place",
)  # fmt: skip
_WRAPPED = ("lock", "try_lock", "unlock", "byte_lock", "byte_lock_wait", "byte_unlock")
_THREADS = 6


def main() -> int:
    """Run the one that is asked for; the exit code is 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m stress.sanitize", description=__doc__)
    parser.add_argument("sanitizer", choices=sorted(_FLAGS))
    parser.add_argument("--appends", type=int, default=2000, help="of each thread (2000)")
    parser.add_argument("--planted", action="store_true", help="with a race among the threads, which must be found")
    parser.add_argument("tests", nargs="*", default=_TESTS, help="what address and undefined run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="binlog-sanitize-", dir="/var/tmp") as folder:
        if options.sanitizer == "thread":
            return _threads(Path(folder), options.appends, planted=options.planted)
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
    # pytest keeps what a process writes to standard error, and loses it where that ends the process.
    environment["UBSAN_OPTIONS"] = f"log_path={found}:print_stacktrace=1"
    if sanitizer == "address":
        # Python itself was not built with it, so it must be there before anything else; and Python's own leaks at exit
        # are none of ours.
        library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        environment |= {"LD_PRELOAD": library.stdout.strip(), "ASAN_OPTIONS": f"detect_leaks=0:log_path={found}"}
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not spark", *tests]
    if sanitizer == "address":
        run.extend(f"--deselect={test}" for test in _NOT_WITH_ADDRESS)
    code = subprocess.run(run, cwd=folder, env=environment, check=False).returncode
    told = [path.read_text() for path in sorted(folder.glob("found.*"))]
    print(*told, sep="\n", file=sys.stderr, end="")
    return code or int(bool(told))


def _threads(folder: Path, appends: int, *, planted: bool) -> int:
    program = folder / "threads"
    wraps = [f"-Wl,--wrap=binlog_{name}" for name in _WRAPPED]
    sources = [str(ROOT / "native" / f"{name}.c") for name in _SOURCES]
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", *_FLAGS["thread"].split(), f"-I{ROOT / 'native'}"]
    command.append(f"-I{ROOT / 'native' / 'codec'}")
    if planted:
        command.append("-DPLANTED_RACE")
    subprocess.run([*command, *wraps, "-o", str(program), str(HERE / "threads.c"), *sources, "-pthread"], check=True)
    log = folder / "log"
    with binlog.Writer(log) as writer:  # it keeps the staging area, and is one of those that take part
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
