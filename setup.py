"""Build binlog._native, the compiled part; everything else about the package is in pyproject.toml."""

import sys

from setuptools import setup

if sys.platform != "linux":
    # Open-file-description locks, futexes and fdatasync are what the log stands on.
    sys.exit(f"binlog runs on Linux only, and this is {sys.platform}")

setup(
    cffi_modules=["native/build_native.py:ffibuilder"],
    # One wheel for Python 3.11 and every later one: the C keeps to the limited API.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
