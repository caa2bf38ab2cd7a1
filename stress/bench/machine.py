"""The machine of a run, as far as its figures depend on it, without paths and host names."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import binlog
from stress.bench.peers import redis_stream, sqlite
from stress.bench.peers.packages import package_version

# Their content is lost with the power: a sync costs nothing and means nothing.
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


@dataclass(frozen=True, kw_only=True)
class Disk:
    """The file system that is measured."""

    file_system: str
    options: str
    device: str

    @property
    def in_memory(self) -> bool:
        """Whether it is in memory."""
        return self.file_system in _IN_MEMORY


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The printed facts."""

    cpu: str
    cpu_count: int
    memory_gib: int
    kernel: str
    disk: Disk
    versions: tuple[str, ...]

    def lines(self) -> list[tuple[str, str]]:
        """Return name and value of each fact."""
        return [
            ("CPU", f"{self.cpu}, {self.cpu_count} core{'s' if self.cpu_count > 1 else ''} to run on"),
            ("memory", f"{self.memory_gib} GiB"),
            ("kernel", self.kernel),
            ("file system", f"{self.disk.file_system} ({self.disk.options})"),
            ("disk", self.disk.device),
            ("versions", ", ".join(self.versions)),
        ]


def machine(directory: Path) -> Machine:
    """Return this machine, with the disk of `directory`."""
    found = (
        sqlite.version(),
        *map(package_version, ("lmdb", "persist-queue", "redis", "pyspark", "pyarrow")),
        redis_stream.version(),
    )
    return Machine(
        cpu=_cpu(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        disk=disk(directory),
        versions=(f"binlog {binlog.__version__}", f"Python {platform.python_version()}", *filter(None, found)),
    )


def load() -> float:
    """Return the number of runnable processes, averaged over the last minute."""
    return os.getloadavg()[0]


def disk(directory: Path) -> Disk:
    """Return the file system of a directory."""
    device = os.stat(directory).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # proc(5): id, parent, device, root, mount point, options, optional fields, "-", type, source, more options
        before, after = line.split(" - ", 1)
        if before.split()[2] == number:
            file_system, _, more = after.split(" ", 2)
            options = f"{before.split()[5]},{more}".split(",")
            return Disk(file_system=file_system, options=_shown(options), device=_device(number))
    return Disk(file_system="unknown", options="", device="unknown")


def _shown(options: list[str]) -> str:
    """Return each option once, without those that have paths."""
    return ",".join(dict.fromkeys(option for option in options if "/" not in option))


def _device(number: str) -> str:
    place = Path("/sys/dev/block") / number
    if not (place / "queue").is_dir():
        place = place.resolve().parent  # a partition; its queue is the whole disk's
    try:
        cache = (place / "queue" / "write_cache").read_text().strip()
        scheduler = re.findall(r"\[(.*?)\]", (place / "queue" / "scheduler").read_text())
        rotates = (place / "queue" / "rotational").read_text().strip() == "1"
    except OSError:
        return "unknown"
    kind = "reports that it rotates" if rotates else "does not rotate"
    return f"{kind}, write cache: {cache}, scheduler: {scheduler[0] if scheduler else 'none'}"


def _cpu() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()
