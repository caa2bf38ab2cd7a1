"""Builds `binlog._native`: system calls, by cffi in API mode, against the limited API of Python 3.11.

What Python may call by cffi is the part of codec.h and binlog.h between their guards, which holds nothing but plain
declarations for this reason.  The library has a second module in it, `binlog._calls` (calls.c).
"""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

from cffi import FFI

NATIVE = Path(__file__).parent
# All of this folder, and what of the codec is called from here, which has no state.
SOURCES = sorted(NATIVE.glob("*.c")) + [NATIVE / "codec" / name for name in ("crc32c.c", "scan.c", "index_ranges.c")]

# Debian's Python links with -Bsymbolic-functions.  The crash harness preloads a binlog_mapped_write of its own, and
# would then see no store to a mapped file.
INTERPOSABLE = ["-Wl,-Bno-symbolic"] if "-Bsymbolic" in (sysconfig.get_config_var("LDSHARED") or "") else []


def _declarations() -> str:
    text = "".join((NATIVE / name).read_text(encoding="utf-8") for name in ("codec/codec.h", "binlog.h"))
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


ffibuilder = FFI()
ffibuilder.cdef(_declarations())
ffibuilder.set_source(
    "binlog._native",
    '#include "binlog.h"',
    # setuptools wants sources relative to the project's root, from where setup.py runs.
    sources=[str(source.relative_to(NATIVE.parent)) for source in SOURCES],
    include_dirs=["native", "native/codec"],
    define_macros=[("Py_LIMITED_API", "0x030B0000"), ("PY_SSIZE_T_CLEAN", None)],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
    extra_link_args=["-pthread", *INTERPOSABLE],
    py_limited_api=True,
)
