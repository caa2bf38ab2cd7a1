"""Builds `binlog._native`: cffi in API mode, against the limited API, so one build serves Python 3.11 and later.

What Python may call is the part of binlog.h between its guards, which holds
nothing but plain declarations for this reason.
"""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

from cffi import FFI

NATIVE = Path(__file__).parent
SOURCES = (
    "fork.c", "descriptors.c", "lock.c", "file_status.c", "place.c", "live_block.c", "commit.c", "segment.c",
    "segment_file.c", "group.c", "doorbell.c", "header.c", "scan.c", "crc32.c", "crc32c.c", "index.c",
    "index_ranges.c", "covered.c", "key_index.c", "mapping.c",
)  # fmt: skip

# Debian's Python links with -Bsymbolic-functions.  The crash harness preloads a binlog_mapped_write of its own, and
# would then see no store to a mapped file.
INTERPOSABLE = ["-Wl,-Bno-symbolic"] if "-Bsymbolic" in (sysconfig.get_config_var("LDSHARED") or "") else []


def _declarations() -> str:
    text = (NATIVE / "binlog.h").read_text(encoding="utf-8")
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


ffibuilder = FFI()
ffibuilder.cdef(_declarations())
ffibuilder.set_source(
    "binlog._native",
    '#include "binlog.h"',
    # setuptools wants sources relative to the project's root, from where setup.py runs.
    sources=[f"native/{name}" for name in SOURCES],
    include_dirs=["native"],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
    extra_link_args=["-pthread", *INTERPOSABLE],
    py_limited_api=True,
)
