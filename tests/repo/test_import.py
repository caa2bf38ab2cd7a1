"""`import binlog` loads no module that the program does not use, so a program starts quickly."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import binlog
from tests.support.checkout import ROOT

# Modules of the standard library that take milliseconds to import.
_HEAVY = ("asyncio", "bz2", "hashlib", "inspect", "json", "logging", "lzma", "random", "shutil", "subprocess", "uuid")
_PACKAGES = ("click", "cryptography", "fasteners", "posix_ipc", "pyarrow", "pyspark", "rich", "zstandard")
# By a program that appends or reads.  `dataclasses` imports `inspect`; a writer needs hashes.
_NOT_USED = tuple(name for name in (*_HEAVY, *_PACKAGES) if name not in ("hashlib", "inspect"))
_MAINTENANCE = ("binlog.consumers", "binlog.journal", "binlog.log.archive", "binlog.log.maintain", "binlog.queue")


def loaded(statement: str) -> set[str]:
    """Return the modules that a statement loads in a new process, beyond those that Python itself loads."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def of(modules: set[str], names: tuple[str, ...]) -> set[str]:
    """Return the modules that have one of these names, or are in a package with one of them."""
    return {module for module in modules if any(module == name or module.startswith(f"{name}.") for name in names)}


def test_import_binlog_loads_the_errors_only() -> None:
    modules = loaded("import binlog")
    assert of(modules, ("binlog",)) == {"binlog", "binlog.errors"}
    assert of(modules, (*_HEAVY, *_PACKAGES, "dataclasses", "datetime", "pathlib", "threading")) == set()


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("Reader", ("binlog.log.append", "binlog.log.ingest", "binlog.log.writer", "binlog.storage.commit_file")),
        ("Writer", ("binlog.log.reader", "binlog.log.append.batch_appends")),
    ],
)
@pytest.mark.slow
def test_a_writer_or_a_reader_loads_what_it_needs(name: str, others: tuple[str, ...]) -> None:
    modules = loaded(f"from binlog import {name}")
    assert f"binlog.log.{name.lower()}" in modules
    assert of(modules, (*_NOT_USED, *_MAINTENANCE, *others)) == set()


@pytest.mark.slow
def test_a_worker_loads_what_it_needs(tmp_path: Path) -> None:
    """hashlib loads OpenSSL, which alone takes half of the memory that a worker may have above a reader."""
    log = str(tmp_path)
    with binlog.Writer(log) as writer:
        writer.append(b"work")
    modules = loaded(f"from binlog import ConsumerGroup; ConsumerGroup({log!r}, 'group').get().ack()")
    heavy = tuple(name for name in _HEAVY if name != "inspect")
    assert (
        of(modules, (*heavy, *_PACKAGES, "pathlib", "binlog.consumers.producer", "binlog.consumers.working")) == set()
    )


@pytest.mark.slow
def test_a_module_that_may_not_be_loaded_is_found() -> None:
    assert of(loaded("import binlog; binlog.check"), _MAINTENANCE) != set()
    assert of(loaded("import logging.handlers"), _HEAVY) >= {"logging", "logging.handlers"}


def _typed_imports() -> Iterator[tuple[str, str]]:
    """Yield each name that binlog/__init__.py imports for the type checker, with its module."""
    for node in ast.parse((ROOT / "binlog" / "__init__.py").read_text()).body:
        if isinstance(node, ast.If):
            for each in node.body:
                assert isinstance(each, ast.ImportFrom)
                yield from ((alias.name, each.module or "") for alias in each.names)


def test_the_names_that_are_imported_when_used_are_those_that_the_type_checker_sees() -> None:
    assert dict(_typed_imports()) == binlog._MODULES
    assert set(binlog._MODULES) < set(binlog.__all__) <= set(dir(binlog))
    assert all(getattr(binlog, name) is not None for name in binlog.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'binlog' has no attribute 'Wrter'"):
        binlog.Wrter  # noqa: B018
