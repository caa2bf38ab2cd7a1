"""The build script of `binlog._native`, for cffi in API mode.

Python can call the functions that codec.h and binlog.h declare.  For cffi these headers have only plain declarations
between their include guards.  The library contains a second module, `binlog._calls` (calls.c).
"""

from __future__ import annotations

import re
import sysconfig

import sources
from cffi import FFI

# Debian's Python links with -Bsymbolic-functions.  With that the crash harness, which preloads its own
# binlog_mapped_write, would see no store to a mapped file.
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
