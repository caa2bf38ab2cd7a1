"""The configuration of every test run: the rule about skips, counts at its end, slow tests first, and tests in turn."""

from __future__ import annotations

import gc
import itertools
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from stress.memory import folder_in_memory
from tests.support.logs import silent
from tests.support.turns import TURNS

pytest_plugins = ["tests.support.figures", "tests.support.skips"]

# A shell that runs this in the background makes every later process ignore Ctrl-C; tests send it to some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The duration of an example depends on the machine's load.
settings.register_profile("untimed", deadline=None)
# `make quick` uses this one; tests that want another number take it from tests/support/examples.py.
settings.register_profile("quick", deadline=None, max_examples=15)
settings.register_profile("stress", deadline=None, max_examples=1_000)
settings.load_profile("untimed")


# Java otherwise spends half of a short Spark session's processor time on optimizing code that soon ends.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--in-memory", action="store_true", help="put what tests write into memory, if that has room")


def pytest_configure(config: pytest.Config) -> None:
    """Give the workers of pytest-xdist folders in that of the process that starts them, and the run's turn."""
    if config.option.testrunuid is None:
        config.option.testrunuid = str(random.SystemRandom().randrange(TURNS))
    memory = folder_in_memory() if config.option.in_memory else None
    if memory and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="binlog-tests-", dir=memory)
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp))


# pytest caches its rewritten test modules, because rewriting takes longer than anything else before the first test;
# processes that tests start write nothing.
sys.dont_write_bytecode = False
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


# These start processes by the dozen, or search a model: they run only in `make test`.
_SLOW_FOLDERS = tuple(f"{Path(__file__).parent / name}{os.sep}" for name in ("crash", "interop", "multiprocess"))


def pytest_report_header(config: pytest.Config) -> str:
    return f"of the tests in turn, this run has those of turn {_turn(config)} (--testrunuid)"


def _turn(config: pytest.Config) -> int:
    """Return the run's turn, which pytest-xdist tells its workers."""
    workerinput = getattr(config, "workerinput", {})
    return int(workerinput.get("testrunuid", config.option.testrunuid), 16) % TURNS


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let every second worker of pytest-xdist collect each folder from its end.

    So the workers of a new checkout do not all rewrite every module: each finds what another one has cached.
    """
    report = yield
    workerinput = getattr(collector.config, "workerinput", {"workerid": "gw0"})
    if isinstance(collector, pytest.Directory) and int(workerinput["workerid"].removeprefix("gw")) % 2:
        report.result.reverse()
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Every worker must have the same order.
    items.sort(key=lambda item: str(item.path))
    for item in items:
        turn = item.get_closest_marker("turn")
        if turn is not None and _turn(config) not in turn.args:
            item.add_marker("install")
        if str(item.path).startswith(_SLOW_FOLDERS):
            item.add_marker("slow")
    # If they began last, the other workers would be idle at the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Exclude modules and tests, which stay, from garbage collections, of which some tests need hundreds."""
    gc.collect()
    gc.freeze()


_numbers = itertools.count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Create an empty folder; pytest's own fixture lists the folders of all tests in order to find a new name."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_numbers)}"
    path.mkdir(0o700)
    return path


@pytest.fixture
def on_disk(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Path]:
    """Create an empty folder outside of the memory that some tests use up."""
    if not pytestconfig.option.in_memory:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="binlog-test-") as folder:
        yield Path(folder)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Return a path for a log, which is checked when the test ends."""
    yield from silent(tmp_path / "log")


@pytest.fixture
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create an empty folder in memory, for processes that are killed by the thousand; on disk if memory has no room.

    A killed process takes nothing from the page cache, so the disk's content does not matter, only its speed.  The same
    holds for tests that break off a call, or damage a byte, at hundreds of places: such a module uses this as its
    `tmp_path`.
    """
    memory = folder_in_memory()
    if memory is None:
        yield tmp_path_factory.mktemp("test")
        return
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=memory))
    yield folder
    shutil.rmtree(folder)
