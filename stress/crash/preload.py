"""Compiling the preloaded libraries, and the environment of a process that they are preloaded into."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import uuid
from dataclasses import dataclass
from pathlib import Path

COMPILED = "BINLOG_CRASH_COMPILED"
_SOURCES = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared", "-pthread")


class CompilerError(Exception):
    """There is no C compiler, or it refused a library."""


@dataclass(frozen=True)
class Preload:
    """The compiled libraries, and what their processes are told.

    library: the recorder; the striker lies beside it.
    memory: what its processes' shared memory is named with, so that it can be removed.
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
        striker = self.library.with_name("striker.so")  # behind the recorder, which sees what it makes of a call
        return {
            **os.environ,
            "LD_PRELOAD": before if str(self.library) in before else f"{self.library} {striker} {before}".strip(),
            "BINLOG_RECORDER_BOOT": str(path),
            "BINLOG_RECORDER_MEMORY": self.memory,
            "BINLOG_RECORDER_MISTAKE": self.mistake,
        }


def compile_recorder(folder: Path) -> Path:
    """Compile the recorder, and the striker beside it, into a folder; the recorder's path.  Raises: CompilerError.

    If COMPILED is in the environment, they are in the folder that it names from the first time on, for the next runs.
    """
    folder = Path(os.environ.get(COMPILED, folder))
    for name in ("recorder", "striker"):
        library = folder / f"{name}.so"
        if not library.exists():
            _compile(_SOURCES / name, library)
    return folder / "recorder.so"


def _compile(sources: Path, library: Path) -> None:
    compiler = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
    command = [compiler, *_FLAGS, "-o", str(library), *map(str, sorted(sources.glob("*.c"))), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CompilerError(f"there is no C compiler {compiler}") from None
    if done.returncode != 0:
        raise CompilerError(done.stderr)
