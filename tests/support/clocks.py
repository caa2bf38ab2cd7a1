"""Clocks of a process that a test moves while it runs: the wall clock, and the time since the boot.

A library that is preloaded into the process replaces clock_gettime(3), and adds what the test has written to a file
that both have mapped.  No clock of the machine is moved.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sysconfig
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shifts_ns; /* of the wall clock, and of the time since the boot */

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHIFTED_CLOCKS");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *found = mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0);
        if (found != MAP_FAILED)
            shifts_ns = found;
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && shifts_ns && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME)) {
        int64_t ns = time->tv_sec * 1000000000 + time->tv_nsec + shifts_ns[clock == CLOCK_BOOTTIME];
        time->tv_sec = ns / 1000000000;
        time->tv_nsec = ns % 1000000000;
    }
    return result;
}
"""


class ShiftedClocks:
    """The clocks of processes that are started with `environment`.  folder: for the library and the file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        source, library = folder / "clocks.c", folder / "clocks.so"
        source.write_text(_SOURCE)
        compiler = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        self._file = folder / "shifts"
        self._file.write_bytes(bytes(16))
        preloaded = f"{os.environ.get('LD_PRELOAD', '')} {library}".strip()
        self.environment = {"LD_PRELOAD": preloaded, "SHIFTED_CLOCKS": str(self._file)}

    def move_wall_clock(self, seconds: float) -> None:
        """Let the processes see a wall clock that is ahead by this many seconds."""
        self._move(0, seconds)

    def move_boot_clock(self, seconds: float) -> None:
        """Let the processes see that this many seconds more passed since the boot."""
        self._move(1, seconds)

    def _move(self, index: int, seconds: float) -> None:
        with open(self._file, "r+b") as file:
            os.pwrite(file.fileno(), struct.pack("=q", int(seconds * 1e9)), 8 * index)
