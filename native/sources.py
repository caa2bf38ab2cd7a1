"""The C files of the two libraries, and the compiler options that both use."""

from __future__ import annotations

from pathlib import Path

NATIVE = Path(__file__).parent
CODEC = NATIVE / "codec"

# The functions of the codec that the system's side calls as well.  They share no state, so both libraries have them.
_IN_BOTH = [CODEC / "crc32c.c", CODEC / "typed_tuple.c", CODEC / "log" / "scan.c", CODEC / "log" / "index_ranges.c"]


def _from_root(paths: list[Path]) -> list[str]:
    """Return the paths as setuptools wants them: sorted, relative to the project's root."""
    return sorted(str(path.relative_to(NATIVE.parent)) for path in paths)


HEADERS = _from_root(list(NATIVE.rglob("*.h")))
# A header is included by its name alone, so no two may have the same.
HEADER_FOLDERS = sorted({str(Path(header).parent) for header in HEADERS})
CODEC_SOURCES = _from_root(list(CODEC.rglob("*.c")))
SYSTEM_SOURCES = _from_root([path for path in NATIVE.rglob("*.c") if CODEC not in path.parents] + _IN_BOTH)

# The limited API of Python 3.11: one compiled file serves every later version too.
MACROS: list[tuple[str, str | None]] = [("Py_LIMITED_API", "0x030B0000"), ("PY_SSIZE_T_CLEAN", None)]
OPTIONS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
