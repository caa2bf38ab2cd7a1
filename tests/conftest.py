"""What every test run has: the rule about skips, the counts at its end, and the slow tests first."""

from __future__ import annotations

import gc
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from stress.memory import folder_in_memory
from tests.support.logs import silent

pytest_plugins = ["tests.support.figures", "tests.support.skips"]

# A shell that runs this in the background has Ctrl-C ignored, by every process from here on; tests send it to some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says what else runs on the machine.
settings.register_profile("untimed", deadline=None)
# `make quick` asks for this one; tests that want another number take it from tests/support/examples.py.
settings.register_profile("quick", deadline=None, max_examples=15)
settings.register_profile("stress", deadline=None, max_examples=1_000)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--in-memory", action="store_true", help="put what tests write into memory, if that has room")


def pytest_configure(config: pytest.Config) -> None:
    """Give the workers of pytest-xdist folders in that of the process that starts them."""
    memory = folder_in_memory() if config.option.in_memory else None
    if memory and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="binlog-tests-", dir=memory)
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp))


# pytest keeps test modules as it rewrites them, which takes longer than anything else before the first test; the
# processes that tests start go by the environment, and write nothing.
sys.dont_write_bytecode = False


# These start processes by the dozen, or search a model: all of them are for `make test`.
_SLOW_FOLDERS = [Path(__file__).parent / name for name in ("crash", "interop", "multiprocess")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in _SLOW_FOLDERS):
            item.add_marker("slow")
    # Begun last, they would leave the other workers idle at the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Have garbage collections, of which some tests need hundreds, not look at what stays: modules, and the tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def on_disk(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Path]:
    """An empty folder that does not share the memory of which a test takes all."""
    if not pytestconfig.option.in_memory:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="binlog-test-") as folder:
        yield Path(folder)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A place for a log, in which nothing may be wrong when the test ends."""
    yield from silent(tmp_path / "log")


@pytest.fixture
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder in memory, for processes that are killed by the thousand; on disk if memory has no room for it.

    A killed process takes nothing from the page cache, so what a disk would keep does not matter, only its time.  The
    same is so where one call is broken off, or one byte damaged, at hundreds of places: such a module has its
    `tmp_path` be this.
    """
    memory = folder_in_memory()
    if memory is None:
        yield tmp_path_factory.mktemp("test")
        return
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=memory))
    yield folder
    shutil.rmtree(folder)
