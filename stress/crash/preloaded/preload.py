"""Compiling the preloaded libraries, and the environment of processes that load them."""

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
    """The compiled libraries and their settings.

    library: the recorder; the injector is in the same folder.
    memory: the prefix of the names of its processes' shared memory, so that it can be removed.
    recorder_bug: the recorder's seeded bug, see bugs.c.  folder: for files with boot ids.
    """

    library: Path
    folder: Path
    memory: str
    recorder_bug: str = "none"

    def environment(self, boot: str) -> dict[str, str]:
        """Return the environment of a process; equal names of `boot` are the same boot of the machine."""
        path = self.folder / f"boot-{boot}"
        if not path.exists():
            path.write_text(f"{uuid.uuid5(uuid.NAMESPACE_OID, boot)}\n", encoding="ascii")
        before = os.environ.get("LD_PRELOAD", "")
        injector = self.library.with_name("injector.so")  # after the recorder, which then sees the result
        return {
            **os.environ,
            "LD_PRELOAD": before if str(self.library) in before else f"{self.library} {injector} {before}".strip(),
            "BINLOG_RECORDER_BOOT": str(path),
            "BINLOG_RECORDER_MEMORY": self.memory,
            "BINLOG_RECORDER_BUG": self.recorder_bug,
        }


def compile_recorder(folder: Path) -> Path:
    """Compile the recorder and the injector into a folder; return the recorder's path.  Raises: CompilerError.

    If COMPILED is in the environment, they are compiled once into the folder that it names, and reused.
    """
    folder = Path(os.environ.get(COMPILED, folder))
    for name in ("recorder", "injector"):
        library = folder / f"{name}.so"
        if not library.exists():
            _compile(_SOURCES / f"{name}_library", library)
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
