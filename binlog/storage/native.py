"""The compiled part that makes system calls: by cffi (`ffi`, `lib`), and what takes or gives Python objects.

One library has both modules, so that both know the same descriptors and forks.  Python imports the second one when it
is told where it is ("Multiple modules in one library" in Python's documentation of extension modules).
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
    """The address that a pointer of `ffi` holds."""
    return int(ffi.cast("uintptr_t", value))
