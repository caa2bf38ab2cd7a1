"""Builds `binlog._native`: system calls, by cffi in API mode, against the limited API of Python 3.11.

What Python may call by cffi is the part of codec.h and binlog.h between their guards, which holds nothing but plain
declarations for this reason.  The library has a second module in it, `binlog._calls` (calls.c).
"""

from __future__ import annotations

import re
import sysconfig

import sources
from cffi import FFI

# Debian's Python links with -Bsymbolic-functions.  The crash harness preloads a binlog_mapped_write of its own, and
# would then see no store to a mapped file.
INTERPOSABLE = ["-Wl,-Bno-symbolic"] if "-Bsymbolic" in (sysconfig.get_config_var("LDSHARED") or "") else []


def _declarations() -> str:
    text = "".join((sources.NATIVE / name).read_text(encoding="utf-8") for name in ("codec/codec.h", "binlog.h"))
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


ffibuilder = FFI()
ffibuilder.cdef(_declarations())
ffibuilder.set_source(
    "binlog._native",
    '#include "binlog.h"',
    sources=sources.SYSTEM_SOURCES,
    depends=sources.HEADERS,
    include_dirs=sources.HEADER_FOLDERS,
    define_macros=sources.MACROS,
    extra_compile_args=[*sources.OPTIONS, "-pthread"],
    extra_link_args=["-pthread", *INTERPOSABLE],
    py_limited_api=True,
)
