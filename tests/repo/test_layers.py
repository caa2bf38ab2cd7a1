"""The layers: which modules may import which, as docs/architecture.md shows, and no import cycles anywhere."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# On one worker, because they share what they parse.
pytestmark = pytest.mark.xdist_group("layers")

ENGINES = ("log", "commitlog", "journal", "paging", "pagestore")

BELOW = ("binlog.errors", "binlog.format", "binlog.storage")

# A layer is a package or module of ours; it may import itself and these.
LAYERS: dict[str, frozenset[str]] = {
    "binlog._codec": frozenset(),
    "binlog._native": frozenset(),
    "binlog._calls": frozenset(),
    "binlog.errors": frozenset(),
    "binlog.format": frozenset({"binlog.errors", "binlog._codec"}),
    "binlog.storage": frozenset({"binlog.errors", "binlog.format", "binlog._codec", "binlog._native", "binlog._calls"}),
    **{f"binlog.{engine}": frozenset({*BELOW, "binlog._codec"}) for engine in ENGINES},
    "binlog.consumers": frozenset({*BELOW, "binlog._codec", "binlog.log"}),
    "binlog.queue": frozenset({*BELOW, "binlog._codec", "binlog.paging"}),
    "binlog": frozenset({*BELOW, *(f"binlog.{name}" for name in ENGINES), "binlog.queue", "binlog.consumers"}),
    # The others see only public names: those of binlog, and those of PUBLIC.
    "binlog.logging": frozenset({"binlog", "binlog.errors", "binlog.format"}),
    "binlog.spark": frozenset({"binlog", "binlog.errors", "binlog.moving"}),
    "binlog.seal": frozenset({*BELOW, "binlog", "binlog.log"}),
    "binlog.moving": frozenset({*BELOW, "binlog", "binlog.log"}),
    "binlog.doctor": frozenset({*BELOW, "binlog", "binlog.log"}),
    "binlog.watching": frozenset({*BELOW, "binlog", "binlog.log", "binlog.seal"}),
    "binlog.metrics": frozenset({"binlog", "binlog.errors", "binlog.logging", "binlog.watching"}),
    "binlog.web": frozenset({"binlog", "binlog.errors", "binlog.watching"}),
    "binlog.cli": frozenset(
        {
            "binlog",
            "binlog.doctor",
            "binlog.errors",
            "binlog.metrics",
            "binlog.moving",
            "binlog.seal",
            "binlog.spark",
            "binlog.watching",
            "binlog.web",
        }
    ),
    "binlog.__main__": frozenset({"binlog.cli"}),
    "pyspark_binlog": frozenset({"binlog", "binlog.errors", "binlog.spark"}),
}

# Packages of engines whose own names are public: a layer that may import binlog may import them, but no module in them.
PUBLIC = (
    "binlog.commitlog", "binlog.consumers", "binlog.journal", "binlog.paging", "binlog.pagestore", "binlog.queue",
)  # fmt: skip


def _layer(module: str) -> str:
    """Return the layer of a module: the longest name in the table that is a prefix of it."""
    fitting = [layer for layer in LAYERS if module == layer or module.startswith(layer + ".")]
    layer = max(fitting, key=len)
    # binlog itself has only its top modules; a folder that the table does not name is not a layer.
    tops = ("binlog", "binlog.checking", "binlog.compose", "binlog.retention")
    assert layer != "binlog" or module in tops, f"{module} is in no layer"
    return layer


@functools.cache
def _imports(source: str) -> list[str]:
    """Return every module that a source imports, anywhere in it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found += [_imported(node.module or "", alias.name) for alias in node.names]
    return found


def _imported(module: str, name: str) -> str:
    """Resolve a name: `from binlog import errors` imports binlog.errors, `from binlog import Writer` only binlog."""
    whole = f"{module}.{name}"
    path = ROOT / whole.replace(".", "/")
    is_module = path.is_dir() or path.with_suffix(".py").exists() or path.with_suffix(".pyi").exists()
    return whole if is_module else module


def _wrong(module: str, source: str) -> list[str]:
    """Return the imports that the table forbids."""
    layer = _layer(module)
    ours = [name for name in _imports(source) if name.split(".")[0] in ("binlog", "pyspark_binlog")]
    above = "binlog" in LAYERS[layer]
    return [name for name in ours if not (above and name in PUBLIC) and _layer(name) not in LAYERS[layer] | {layer}]


def _modules() -> Iterator[tuple[str, Path]]:
    for top in ("binlog", "pyspark_binlog"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_import_is_one_that_the_table_allows() -> None:
    wrong = {module: found for module, path in _modules() if (found := _wrong(module, path.read_text()))}
    assert wrong == {}


def _circle(sources: Mapping[str, str]) -> list[str]:
    """Return an import cycle among modules, given their sources; imports in functions and for types count too."""
    graph = {module: {name for name in _imports(source) if name in sources} for module, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert _circle({module: path.read_text() for module, path in _modules()}) == []


def test_a_circle_is_found() -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from binlog.log.writer import Writer\n"
    sources = {
        "binlog.log.writer": "from binlog.log.options import WriterOptions",
        "binlog.log.options": "def f():\n    from binlog.log.batch import Batch",
        "binlog.log.batch": typed,
    }
    assert len(_circle(sources)) == 4
    assert _circle({**sources, "binlog.log.batch": ""}) == []


@pytest.mark.slow
def test_importing_binlog_needs_neither_spark_nor_the_command_lines_libraries() -> None:
    optional = ("pyspark", "pyarrow", "click", "rich", "structlog", "loguru", "cryptography", "textual")
    above = (["spark"], ["cli"], ["moving"], ["seal"], ["__main__"])
    below = [path for module, path in _modules() if module.split(".")[1:2] not in above]
    for path in below:
        if "pyspark_binlog" not in path.parts:
            assert not {name.split(".")[0] for name in _imports(path.read_text())} & set(optional), path


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("binlog.format.record", "from binlog.storage.files import read_at"),
        ("binlog.storage.files", "import binlog.log.writer"),
        ("binlog.journal.journal", "from binlog.log.writer import Writer"),
        ("binlog.log.writer", "def f():\n    from binlog.queue.queue import Queue"),
        ("binlog.cli.main", "from binlog.log.writer import Writer"),
        ("binlog.cli.main", "from binlog.commitlog.store import MessageStore"),
        ("binlog.cli.main", "from binlog.commitlog import store"),
        ("binlog.log.writer", "from binlog.commitlog import StoreReader"),
        ("binlog.spark.source", "from binlog.storage import native"),
        ("binlog.format.checksums", "from binlog._native import lib"),
        ("binlog.log.writer", "from binlog._calls import PageWriter"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert _wrong(module, source) != []


def test_a_folder_that_the_table_does_not_name_is_refused() -> None:
    with pytest.raises(AssertionError, match="in no layer"):
        _layer("binlog.helpers.things")
