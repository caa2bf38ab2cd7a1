"""The compiled functions that make system calls: `ffi` and `lib` of cffi, and the names of `binlog._calls`.

`binlog._calls` has the functions and types that take or return Python objects.  It shares a library with cffi's module,
so that both use one table of descriptors and one count of forks.  Python cannot find a second module in a library by
itself, so this module passes it the path ("Multiple modules in one library" in Python's documentation of extension
modules).
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from binlog import _native

if "binlog._calls" not in sys.modules:
    _spec = spec_from_file_location("binlog._calls", _native.__file__)
    assert _spec is not None
    assert _spec.loader is not None
    _calls = module_from_spec(_spec)
    _spec.loader.exec_module(_calls)
    sys.modules["binlog._calls"] = _calls

from binlog._calls import *  # noqa: F403

ffi, lib = _native.ffi, _native.lib


def address(value: Any) -> int:
    """Return the address in a pointer of `ffi`."""
    return int(ffi.cast("uintptr_t", value))
