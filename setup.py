"""Build the compiled libraries binlog._codec and binlog._native; pyproject.toml has the rest."""

import sys
from pathlib import Path

from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "native"))
import check_machine
import sources

if sys.platform != "linux":
    # The log needs open-file-description locks, futexes and fdatasync.
    sys.exit(f"binlog runs on Linux only, and this is {sys.platform}")

# The commands that compile.  A source archive can be made without a compiler.
if {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"} & set(sys.argv):
    # Check before setuptools lists each file that it copies, because pip prints all of that above the error.
    lacking = check_machine.missing_to_compile()
    if lacking:
        sys.exit(f"binlog: {lacking}")

setup(
    cffi_modules=["native/build_native.py:ffibuilder"],
    ext_modules=[
        Extension(
            "binlog._codec",
            sources.CODEC_SOURCES,
            depends=sources.HEADERS,
            include_dirs=sources.HEADER_FOLDERS,
            define_macros=sources.MACROS,
            extra_compile_args=sources.OPTIONS,
            py_limited_api=True,
        )
    ],
    # One wheel for Python 3.11 and every later version, because the C uses the limited API only.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
