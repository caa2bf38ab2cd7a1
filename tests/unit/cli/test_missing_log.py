"""A command on a missing log reports that and fails; it never reports that a missing log is sound."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from binlog.commitlog import StoreReader, check_store, stat_store
from binlog.errors import AccessError, NotFoundError
from binlog.journal import check_journal, read_records, stat_journal
from binlog.pagestore import check_page_store, read_queue, stat_page_store
from binlog.paging import check_paging, stat_paging
from binlog.seal import SigningKey
from tests.unit.cli.all_commands import commands, leaf_commands

OUT = ("--out", "out")
VKEY = str(SigningKey.generate("example.org/x").verifier)
# The arguments besides the directory; None for a command that creates the log or waits for it.
CASES: dict[str, tuple[str, ...] | None] = {
    "append": None,
    "cat": (),
    "tail": (),
    "cutover": (),
    "prune": ("--keep-bytes", "0"),
    "archive": (),
    "backup": ("copy",),
    "stat": (),
    "check": (),
    "repair": (),
    "monitor": ("--once",),
    "top": (),
    "web": (),
    "metrics": None,
    "import": None,
    "export": ("out", "--to", "jsonl"),
    "ship": ("copies",),
    "group ls": (),
    "group stat": ("billing",),
    "group peek": ("billing",),
    "group log": ("billing",),
    "group check": (),
    "group create": ("billing",),
    "group set": ("billing", "--factor", "3"),
    "group pause": ("billing",),
    "group resume": ("billing",),
    "group reset": ("billing", "--to", "0"),
    "group release": ("billing", "0"),
    "group delete": ("billing",),
    "group work": ("billing", "--", "true"),
    "group take": ("billing",),
    "group ack": ("billing", "0123456789abcdef-0-0-1"),
    "group nack": ("billing", "0123456789abcdef-0-0-1"),
    "group reject": ("billing", "0123456789abcdef-0-0-1"),
    "group retry": ("billing", "--all"),
    "group dead ls": ("billing",),
    "group dead cat": ("billing",),
    "group dead retry": ("billing", "--all"),
    "group dead drop": ("billing", "--all"),
    "seal init": ("--name", "example.org/x", "--key", "key"),
    "seal run": ("--key", "key"),
    "seal once": ("--key", "key"),
    "seal status": (),
    "seal verify": ("--vkey", VKEY),
    "seal prove": ("1:256",),
    "seal check-proof": None,
    "seal export": ("out",),
    "seal statements": ("--vkey", VKEY),
    "seal prune": ("--key", "key", "--keep-bytes", "0"),
    "seal hold": ("name", "--key", "key"),
    "seal release": ("name", "--key", "key"),
    "seal accept-loss": ("--key", "key", "--why", "text"),
    "seal end": ("--key", "key"),
    "seal branch": ("--key", "key", "--name", "example.org/y", "--new-key", "new"),
    "witness init": None,
    "witness trust": None,  # DIR is not that of a log
    "witness list": None,
    "witness accept": None,
    "witness serve": None,
    "shell": ("-c", "check"),
    "doctor": None,  # examines any directory
    "commitlog stat": (),
    "commitlog cat": (),
    "commitlog tail": ("--topic", "t"),
    "commitlog find": ("--offset", "0"),
    "commitlog check": (),
    "journal stat": (),
    "journal print": (),
    "journal check": (),
    "journal export": (),
    "journal import": None,
    "paging stat": (),
    "paging print": (),
    "paging check": (),
    "pagestore stat": (),
    "pagestore print": ("orders",),
    "pagestore check": (),
    "pagestore backup": ("copy",),
    "pagestore shrink": (),
    "pagestore xa": (),
    "spark extract": None,  # a log without files gives an extract without records
    "spark follow": None,
    "spark verify": (),
    "spark stats": (),
    "completion": None,
}
FUNCTIONS: list[Callable[[Path], object]] = [
    binlog.check,
    binlog.file_sizes,
    binlog.repair,
    binlog.archive,
    lambda path: binlog.prune(path, keep_bytes=0),
    check_store,
    stat_store,
    StoreReader,
    check_journal,
    stat_journal,
    read_records,
    check_paging,
    stat_paging,
    check_page_store,
    stat_page_store,
    lambda path: read_queue(path, "orders"),
]


@pytest.fixture(params=["missing", "empty", "other", "file"])
def nothing(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A path without a log or a store."""
    path = tmp_path / "nothing"
    if request.param in ("empty", "other"):
        path.mkdir()
    if request.param == "other":
        (path / "readme.txt").write_text("nothing of yours\n")
        (path / "00000001.idx").write_bytes(b"an index, whose file somebody removed")
        (path / "folder").mkdir()
    if request.param == "file":
        path.write_text("a file\n")
    return path


def _content(path: Path) -> dict[str, bytes | None]:
    return {str(each): each.read_bytes() if each.is_file() else None for each in (path, *path.rglob("*"))}


def test_every_command_has_a_case() -> None:
    assert list(CASES) == leaf_commands()


@pytest.mark.parametrize("command", commands(name for name, options in CASES.items() if options is not None))
def test_a_command_reports_a_missing_log(
    nothing: Path, command: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(nothing.parent)
    before = _content(nothing) if nothing.exists() else None
    options = CASES[command]
    assert options is not None
    words = command.split()
    # The directory is the first argument.
    code = main([*words, str(nothing), *options])
    message = capfd.readouterr()
    assert (code, message.out) == (3, "")
    assert message.err.startswith("binlog: ")
    assert message.err.count("\n") == 1
    assert nothing.name in message.err
    assert (_content(nothing) if nothing.exists() else None) == before
    assert not (nothing.parent / "copy").exists()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_raises_with_the_path_of_a_missing_log(nothing: Path, function: Callable[[Path], object]) -> None:
    before = _content(nothing) if nothing.exists() else None
    with pytest.raises(AccessError if nothing.is_file() else NotFoundError, match=nothing.name):
        function(nothing)
    assert (_content(nothing) if nothing.exists() else None) == before


def test_a_log_without_files_is_missing(tmp_path: Path) -> None:
    with binlog.Writer(tmp_path / "log") as writer:
        writer.append(b"one")
    assert binlog.check(tmp_path / "log") == []
    os.unlink(tmp_path / "log" / "00000001.dat")
    with pytest.raises(NotFoundError, match=r"log is not a log: it has no file such as 00000001\.dat"):
        binlog.check(tmp_path / "log")
