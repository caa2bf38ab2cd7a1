"""The kernel, the clock, and the limits of this process.

Facts relied on:
- proc(5), status: NSpid has a process id for each nested namespace.
- Docker makes the file /.dockerenv, and Podman /run/.containerenv.
- With these clock sources the kernel answers clock_gettime(2) without a system call (vdso(7)).
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress

from binlog.doctor.findings import Finding, Verdict

_AREA = "machine"
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_FAST_CLOCKS = frozenset(("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen"))
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_OPEN_FILES_MIN = 256


def examine_machine() -> Iterator[Finding]:
    """Yield findings about the kernel, the clock, the limits, and containers."""
    system = os.uname()
    yield Finding(_AREA, "kernel", Verdict.OK, f"{system.sysname} {system.release}, {system.machine}")
    yield _clock()
    yield _open_files()
    yield _file_size()
    yield _container()


def _clock() -> Finding:
    name = _read(_CLOCK).strip()
    if name in _FAST_CLOCKS or not name:
        return Finding(_AREA, "clock source", Verdict.OK, name or "not known")
    reason = "each reading of this clock is a system call, or reads a device"
    remedy = f"if the machine has another one, write its name to {_CLOCK}"
    return Finding(_AREA, "clock source", Verdict.SLOW, name, reason, remedy)


def _open_files() -> Finding:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    value = f"{_limit_text(limit)}, at most {_limit_text(most)}"
    if limit == resource.RLIM_INFINITY or limit >= _OPEN_FILES_MIN:
        return Finding(_AREA, "open files", Verdict.OK, value)
    reason = "each open log takes up to ten descriptors"
    return Finding(_AREA, "open files", Verdict.DOUBTFUL, value, reason, "ulimit -n 1024, or LimitNOFILE= of systemd")


def _file_size() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY:
        return Finding(_AREA, "file size", Verdict.OK, "unlimited")
    reason = "an append that would make a file larger raises FullError"
    remedy = "ulimit -f unlimited, or cutover_bytes below the limit"
    return Finding(_AREA, "file size", Verdict.DOUBTFUL, f"at most {limit} bytes", reason, remedy)


def _limit_text(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def _container() -> Finding:
    ids = [line.split()[1:] for line in _read("/proc/self/status").splitlines() if line.startswith("NSpid:")]
    nested = bool(ids) and len(ids[0]) > 1
    if not nested and os.getpid() != 1 and not any(map(os.path.exists, _CONTAINER_FILES)):
        return Finding(_AREA, "container", Verdict.OK, "none was detected")
    reason = "programs of other containers are as fast only if they share /dev/shm with this one"
    return Finding(_AREA, "container", Verdict.OK, "yes, or a process namespace", reason)


def _read(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""
