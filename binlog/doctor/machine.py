"""The machine and the installation: kernel, clock, limits, Python, the compiled modules, and the extras.

Facts relied on:
- proc(5), status: NSpid has a process id for each nested namespace.
- Docker makes the file /.dockerenv, and Podman /run/.containerenv.
- elf(5): the header of an ELF file has the processor at offset 18, as e_machine.
- With these clock sources the kernel answers clock_gettime(2) without a system call (vdso(7)).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from binlog.doctor.findings import Finding, Verdict

_AREA = "machine"
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_FAST_CLOCKS = frozenset(("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen"))
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_OPEN_FILES_MIN = 256
_INSTALLATION = "installation"
_DISTRIBUTION = "binlog-shared"
_PYTHON_MIN = (3, 11)
_ELF_MACHINES: Mapping[int, str] = MappingProxyType({62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le"})

# The extras for users of binlog, and the features that need them.
_EXTRAS: Mapping[str, str] = MappingProxyType(
    {
        "spark": "reading and writing logs with Spark",
        "java": "Spark on a machine without Java",
        "moving": "Parquet files, and shipping to a URL",
        "seal": "sealed logs",
        "metrics": "'binlog metrics --listen', binlog.metrics.Collector",
        "tui": "'binlog top'",
        "web": "'binlog web'",
        "opentelemetry": "binlog.logging.Exporter",
    }
)


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


def examine_python() -> Finding:
    """Return the finding about the interpreter."""
    value = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if sys.version_info >= _PYTHON_MIN and sys.implementation.name == "cpython":
        return Finding(_INSTALLATION, "Python", Verdict.OK, value)
    reason = "the compiled modules use the limited API of CPython 3.11"
    return Finding(_INSTALLATION, "Python", Verdict.REFUSED, value, reason, "install binlog with CPython 3.11 or later")


def examine_compiled_modules() -> Finding:
    """Return the finding about the compiled modules: whether they load, and for which processor they are."""
    files = [_file_of(name) for name in ("binlog._codec", "binlog._native")]
    machines = sorted({_machine_of(file) for file in files if file is not None})
    value = ", ".join(machines) or "missing"
    try:
        importlib.import_module("binlog._codec")
        importlib.import_module("binlog.storage.native")
    except ImportError as error:
        if None in files:
            remedy = "in a checkout: python setup.py build_ext --inplace; or install the wheel"
        else:
            remedy = f"install the wheel for {platform.machine()}"
        return Finding(_INSTALLATION, "compiled modules", Verdict.REFUSED, value, f"they do not load: {error}", remedy)
    return Finding(_INSTALLATION, "compiled modules", Verdict.OK, f"loaded, for {value}")


def _file_of(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec is not None and spec.origin else None


def _machine_of(file: Path) -> str:
    with file.open("rb") as content:
        head = content.read(20)
    number = int.from_bytes(head[18:20], sys.byteorder)
    return _ELF_MACHINES.get(number, f"ELF machine {number}") if head[:4] == b"\x7fELF" else "no ELF file"


def examine_extras() -> Iterator[Finding]:
    """Yield a finding for each extra: whether its packages are installed."""
    try:
        requirements = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        path = os.path.dirname(os.path.dirname(__file__))
        yield Finding(_INSTALLATION, "extras", Verdict.OK, f"not known, because {path} was not installed by pip")
        return
    for extra, purpose in _EXTRAS.items():
        names = _packages(requirements, extra)
        missing = [name for name in names if _version(name) is None]
        if missing:
            value = f"not installed: {', '.join(missing)}; needed for {purpose}"
        else:
            value = ", ".join(f"{name} {_version(name)}" for name in names)
        yield Finding(_INSTALLATION, f"extra {extra}", Verdict.OK, value)


def _packages(requirements: list[str], extra: str) -> list[str]:
    """Return the names of the packages that an extra requires."""
    chosen = [line for line in requirements if re.search(rf"""extra == ["']{extra}["']""", line)]
    return [match[0] for line in chosen if (match := re.match(r"[\w.-]+", line))]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
