"""The installation: Python, the compiled modules, and the packages of the extras.

Facts relied on:
- elf(5): the header of an ELF file has the processor at offset 18, as e_machine.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from binlog.doctor.findings import Finding, Verdict

_AREA = "installation"
_DISTRIBUTION = "binlog-shared"
_PYTHON_MIN = (3, 11)
_ELF_MACHINES: Mapping[int, str] = MappingProxyType({62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le"})

# The extras for users of binlog, and what needs them.
_EXTRAS: Mapping[str, str] = MappingProxyType(
    {
        "spark": "reading and writing logs with Spark",
        "java": "Spark on a machine without Java",
        "moving": "Parquet files, and shipping to a URL",
        "seal": "sealed logs",
        "metrics": "binlog.metrics.Collector",
        "opentelemetry": "binlog.logging.Exporter",
    }
)


def examine_python() -> Finding:
    """Return the finding about the interpreter."""
    value = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if sys.version_info >= _PYTHON_MIN and sys.implementation.name == "cpython":
        return Finding(_AREA, "Python", Verdict.OK, value)
    reason = "the compiled modules use the limited API of CPython 3.11"
    return Finding(_AREA, "Python", Verdict.REFUSED, value, reason, "install binlog with CPython 3.11 or later")


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
        return Finding(_AREA, "compiled modules", Verdict.REFUSED, value, f"they do not load: {error}", remedy)
    return Finding(_AREA, "compiled modules", Verdict.OK, f"loaded, for {value}")


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
        yield Finding(_AREA, "extras", Verdict.OK, f"not known, because {path} was not installed by pip")
        return
    for extra, purpose in _EXTRAS.items():
        names = _packages(requirements, extra)
        missing = [name for name in names if _version(name) is None]
        if missing:
            value = f"not installed: {', '.join(missing)}; needed for {purpose}"
        else:
            value = ", ".join(f"{name} {_version(name)}" for name in names)
        yield Finding(_AREA, f"extra {extra}", Verdict.OK, value)


def _packages(requirements: list[str], extra: str) -> list[str]:
    """Return the names of the packages that an extra requires."""
    chosen = [line for line in requirements if re.search(rf"""extra == ["']{extra}["']""", line)]
    return [match[0] for line in chosen if (match := re.match(r"[\w.-]+", line))]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
