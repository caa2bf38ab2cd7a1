"""The memory that it takes to seal a log, and to verify it: python -m stress.seal_memory [--megabytes N].

Makes a log, seals it with `binlog seal once`, and verifies it with `binlog seal verify`, each in a process of its own.
Prints the most memory that each one had (VmHWM, proc(5)).
Exit codes: 0 both had less than 64 MiB, 1 one had more, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import binlog
from binlog.seal import SigningKey, begin_seal

MEMORY_BYTES_MAX = 64 << 20

_BYTES_A_CALL = 1 << 20
_PROGRAM = """
import sys
from pathlib import Path
from binlog.cli.main import main
code = main(sys.argv[1:])
print(Path("/proc/self/status").read_text(), file=sys.stderr)
sys.exit(code)
"""


def main() -> int:
    """Measure, and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stress.seal_memory", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=10_000, help="size of the log (10000)")
    parser.add_argument("--record-bytes", type=int, default=4096, help="size of a record (4096)")
    parser.add_argument("--directory", default="/var/tmp", help="where the log is made (/var/tmp)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="binlog-seal-memory-", dir=options.directory) as folder:
        log = SealedLog(Path(folder))
        log.append(options.megabytes * 1_000_000, options.record_bytes)
        peaks = {"seal once": log.seal(), "seal verify": log.verify()}
    for name, peak in peaks.items():
        print(f"{name:12} {peak / (1 << 20):6.1f} MiB")
    return 0 if max(peaks.values()) < MEMORY_BYTES_MAX else 1


class SealedLog:
    """A log in a folder, sealed from its first record on.

    path: of the log.  key_path: the file of the secret key.  vkey: the public key.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.key_path = folder / "log", folder / "key"
        binlog.Writer(self.path).close()
        key = SigningKey.generate("example.org/large")
        key.save(self.key_path)
        begin_seal(self.path, key)
        self.vkey = str(key.verifier)

    def append(self, size: int, record_bytes: int) -> None:
        """Append records of this size that have `size` bytes; durable when it returns."""
        record = os.urandom(record_bytes)
        records = [record] * max(_BYTES_A_CALL // record_bytes, 1)
        with binlog.Writer(self.path, mode=binlog.Mode.FLUSH) as writer:
            for _ in range(size // (record_bytes * len(records)) + 1):
                writer.append_many(records)
            writer.sync()

    def seal(self) -> int:
        """Seal all records in a process of its own; return the most memory that it had, in bytes."""
        return _peak("seal", "once", self.path, "--key", self.key_path)

    def verify(self) -> int:
        """Verify all records in a process of its own; return the most memory that it had, in bytes."""
        return _peak("seal", "verify", self.path, "--vkey", self.vkey)


def _peak(*arguments: str | Path) -> int:
    """Run a command of binlog, which must succeed; return the most memory that its process had, in bytes."""
    command = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr.strip()}")
    return next(int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("VmHWM:")) << 10


if __name__ == "__main__":
    sys.exit(main())
