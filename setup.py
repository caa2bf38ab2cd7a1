"""Build binlog._native and binlog._native_records, the compiled part; all else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "native"))
import check_machine

if sys.platform != "linux":
    # Open-file-description locks, futexes and fdatasync are what the log stands on.
    sys.exit(f"binlog runs on Linux only, and this is {sys.platform}")

# The commands that compile; an sdist can be made without a compiler.
if {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"} & set(sys.argv):
    # Here, before setuptools lists each file that it copies: pip prints all of that before the line that tells.
    lacking = check_machine.missing_to_compile()
    if lacking:
        sys.exit(f"binlog: {lacking}")

# What makes Python objects, and what it calls; the rest is built by native/build_native.py.
_RECORDS = (
    "batch_iterator.c", "brief.c", "cached_read.c", "commit_group.c", "guard.c", "many.c", "mapped_store.c",
    "message.c", "pairs.c", "quick_append.c", "quick_session.c", "read.c", "wake.c", "walk.c", "found.c", "pick.c",
    "columns.c", "scan.c", "header.c", "doorbell.c", "crc32.c", "crc32c.c", "index_ranges.c", "journal_pack.c",
    "journal_block.c", "journal_found.c", "journal_columns.c",
    "journal_states.c", "journal_results.c", "id_table.c", "page_acks.c", "page_scan.c", "page_writer.c",
    "transaction_pack.c", "place.c", "covered.c",
)  # fmt: skip
_HEADERS = (
    "big_endian.h", "binlog.h", "brief.h", "commit_group.h", "covered.h", "crc_table.h", "found.h", "guard.h",
    "id_table.h", "index_ranges.h", "journal.h", "journal_states.h", "layout.h", "many.h", "message.h", "page.h",
    "pairs.h", "place.h", "quick_append.h", "quick_session.h", "read.h", "transaction_pack.h",
)  # fmt: skip

setup(
    cffi_modules=["native/build_native.py:ffibuilder"],
    ext_modules=[
        Extension(
            "binlog._native_records",
            [f"native/{name}" for name in _RECORDS],
            depends=[f"native/{name}" for name in _HEADERS],
            extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"],
            py_limited_api=True,
        )
    ],
    # One wheel for Python 3.11 and every later one: the C keeps to the limited API.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
