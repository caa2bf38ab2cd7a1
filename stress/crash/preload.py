"""Compiling the recorder, and the environment of a process that it is preloaded into."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import uuid
from dataclasses import dataclass
from pathlib import Path

RECORDER = Path(__file__).parent / "recorder"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared", "-pthread")


class CompilerError(Exception):
    """There is no C compiler, or it refused the recorder."""


@dataclass(frozen=True)
class Preload:
    """The compiled recorder, and what its processes are told.

    library: the shared object.  memory: what its processes' shared memory is named with, so that it can be removed.
    mistake: the planted mistake, see mistakes.c.  folder: where files with boot ids may be put.
    """

    library: Path
    folder: Path
    memory: str
    mistake: str = "none"

    def environment(self, boot: str) -> dict[str, str]:
        """The environment of a process that runs in a boot of the machine with a name of the caller's."""
        path = self.folder / f"boot-{boot}"
        if not path.exists():
            path.write_text(f"{uuid.uuid5(uuid.NAMESPACE_OID, boot)}\n", encoding="ascii")
        before = os.environ.get("LD_PRELOAD", "")
        return {
            **os.environ,
            "LD_PRELOAD": before if str(self.library) in before else f"{self.library} {before}".strip(),
            "BINLOG_RECORDER_BOOT": str(path),
            "BINLOG_RECORDER_MEMORY": self.memory,
            "BINLOG_RECORDER_MISTAKE": self.mistake,
        }


def compile_recorder(folder: Path) -> Path:
    """Compile the recorder into a folder.  Raises: CompilerError."""
    library = folder / "recorder.so"
    compiler = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
    command = [compiler, *_FLAGS, "-o", str(library), *map(str, sorted(RECORDER.glob("*.c"))), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CompilerError(f"there is no C compiler {compiler}") from None
    if done.returncode != 0:
        raise CompilerError(done.stderr)
    return library
