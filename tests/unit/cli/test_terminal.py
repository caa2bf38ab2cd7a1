"""Terminals never get control characters from records, names or messages; pipes get unchanged bytes."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog import Mode, open_queue
from binlog.cli.main import main
from binlog.cli.output import printable, terminal_bytes
from binlog.commitlog import Message, MessageStore
from binlog.consumers import ConsumerGroup
from binlog.journal import Journal, export_lines, read_records
from binlog.pagestore import PageStore, Xid
from binlog.paging import PagingOptions
from tests.support.checked_stores import OPTIONS
from tests.support.journals import SMALL
from tests.support.pagestores import put
from tests.unit.cli.all_commands import commands, leaf_commands
from tests.unit.cli.run_command import Terminal, fill, run

MARK = "PWNED"
# C0 except newline and tab, DEL, C1, direction overrides, hidden characters and separators.
_CONTROLS = [chr(code) for code in (*range(9), *range(11, 32), *range(0x7F, 0xA0))]
_CONTROLS += list("\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\U000e0001")
HOSTILE = "".join(f"{char}{MARK}" for char in _CONTROLS)
# Also an 8-bit CSI, which is not UTF-8.
RECORD = HOSTILE.encode() + b"\x9b" + MARK.encode()
OBEYED = [*(f"{char}{MARK}".encode() for char in _CONTROLS), b"\x9b" + MARK.encode()]
# The part that is valid in a file name or a topic.
NAME = "a\x1bPWNED\x07PWNED\x9bPWNED\u202ePWNED"
XID = Xid(7, b"global", b"b")
GROUP = "billing"
TOKEN = "0123456789abcdef-0-0-1"


@contextmanager
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bytes]]:
    """Connect standard output and error to a terminal, and return a function that collects the output."""
    own, other = pty.openpty()
    tty.setraw(own)
    parts: list[bytes] = []

    def collect() -> None:
        while data := _read(own):
            parts.append(data)

    reader = threading.Thread(target=collect)
    reader.start()
    kept = [os.dup(fd) for fd in (1, 2)]
    with (
        open(os.dup(other), "w", encoding="utf-8", errors="backslashreplace") as stream,
        monkeypatch.context() as patch,
    ):
        for fd in (1, 2):
            os.dup2(other, fd)
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, stream)
        try:
            yield lambda: b"".join(parts)
            stream.flush()
        finally:
            for fd, before in zip((1, 2), kept, strict=True):
                os.dup2(before, fd)
                os.close(before)
    os.close(other)
    reader.join()
    os.close(own)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except OSError:  # the last descriptor has been closed
        return b""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One log or store of each engine, with a hostile name and hostile contents."""
    folder = tmp_path_factory.mktemp("hostile") / NAME
    folder.mkdir()
    log = folder / "log"
    fill(log, [RECORD], [RECORD, b'{"a": 1}'])
    (log / f"{NAME}.position").write_text("1:256\n")
    damaged = folder / "damaged"
    fill(damaged, [RECORD])
    with open(damaged / "00000001.dat", "r+b") as file:
        file.seek(260)
        file.write(b"?")
    with MessageStore(folder / "store", OPTIONS) as store:
        store.append(Message.of("topic", RECORD, keys=["key"]))
    with Journal(folder / "journal", SMALL) as journal:
        journal.load()
        for start in range(0, len(RECORD), 50):
            journal.append_add(start + 1, 1, RECORD[start : start + 50])
    (folder / "journal" / "quarantine").mkdir()
    (folder / "journal" / "quarantine" / NAME).write_bytes(b"aside")
    with open_queue(folder / "queue", mode=Mode.FLUSH, options=PagingOptions(page_bytes=4096)) as queue:
        queue.put(RECORD)
    with PageStore(folder / "pages") as pages:
        pages.create_queue(NAME)
        put(pages, RECORD, queue=NAME)
        transaction = pages.transaction()
        transaction.put(NAME, b"prepared")
        transaction.prepare(XID)
    fill(folder / "consumed", [RECORD] * 3)
    with ConsumerGroup(folder / "consumed", GROUP) as group:
        for item in group.consume(timeout=0.1, prefetch=0):
            item.reject(HOSTILE)
            break
        assert group.get(timeout=0) is not None  # makes the dead letter, and goes back
    return folder


OUT = ("--out", "x")
# The arguments of each command in the folder above; commands that would otherwise show nothing hostile fail.
CASES = {
    "append": ["FOLDER/none/log", "/dev/null"],
    "cat": ["FOLDER/log"],
    "tail": ["FOLDER/log"],
    "cutover": ["FOLDER/none"],
    "prune": ["--keep-bytes", "0", "FOLDER/none"],
    "archive": ["FOLDER/none"],
    "backup": ["FOLDER/none", "FOLDER/copy"],
    "stat": ["FOLDER/log"],
    "check": ["FOLDER/damaged"],
    "repair": ["--dry-run", "FOLDER/damaged"],
    "monitor": ["--once", "FOLDER/log"],
    "top": ["FOLDER/none"],
    "web": ["FOLDER/none"],
    "metrics": ["FOLDER/none"],
    "import": ["FOLDER/none/log", "/dev/null", "--from", "jsonl"],
    "export": ["FOLDER/none", "FOLDER/out", "--to", "csv"],
    "ship": ["FOLDER/none", "FOLDER/copies"],
    "group ls": ["FOLDER/none"],
    "group stat": ["FOLDER/none", GROUP],
    "group peek": ["FOLDER/consumed", GROUP],
    "group log": ["FOLDER/consumed", GROUP],
    "group check": ["FOLDER/none"],
    "group create": ["FOLDER/none", GROUP],
    "group set": ["FOLDER/none", GROUP, "--factor", "3"],
    "group pause": ["FOLDER/none", GROUP],
    "group resume": ["FOLDER/none", GROUP],
    "group reset": ["FOLDER/none", GROUP, "--to", "0"],
    "group release": ["FOLDER/none", GROUP, "0"],
    "group delete": ["FOLDER/none", GROUP],
    "group work": ["FOLDER/none", GROUP, "--", "true"],
    "group take": ["FOLDER/consumed", GROUP, "--timeout", "0"],
    "group ack": ["FOLDER/none", GROUP, TOKEN],
    "group nack": ["FOLDER/none", GROUP, TOKEN],
    "group reject": ["FOLDER/none", GROUP, TOKEN],
    "group retry": ["FOLDER/none", GROUP, "--all"],
    "group dead ls": ["FOLDER/consumed", GROUP],
    "group dead cat": ["FOLDER/consumed", GROUP],
    "group dead retry": ["FOLDER/none", GROUP, "--all"],
    "group dead drop": ["FOLDER/none", GROUP, "--all"],
    "seal init": ["FOLDER/none", "--name", "example.org/x", "--key", "FOLDER/key"],
    "seal run": ["FOLDER/none", "--key", "FOLDER/missing"],
    "seal once": ["FOLDER/none", "--key", "FOLDER/missing"],
    "seal status": ["FOLDER/none"],
    "seal verify": ["FOLDER/none", "--vkey", "FOLDER/missing"],
    "seal prove": ["FOLDER/none", "1:256"],
    "seal check-proof": ["FOLDER/missing", "--record", "-", "--vkey", "FOLDER/missing"],
    "seal export": ["FOLDER/none", "FOLDER/out"],
    "seal statements": ["FOLDER/none", "--vkey", "FOLDER/missing"],
    "seal prune": ["FOLDER/none", "--key", "FOLDER/missing", "--keep-bytes", "0"],
    "seal hold": ["FOLDER/none", "name", "--key", "FOLDER/missing"],
    "seal release": ["FOLDER/none", "name", "--key", "FOLDER/missing"],
    "seal accept-loss": ["FOLDER/none", "--key", "FOLDER/missing", "--why", "text"],
    "seal end": ["FOLDER/none", "--key", "FOLDER/missing"],
    "seal branch": ["FOLDER/none", "--key", "FOLDER/missing", "--name", "example.org/y", "--new-key", "FOLDER/new"],
    "witness init": ["FOLDER/missing/witness", "--name", "example.org/w"],
    "witness trust": ["FOLDER/missing", "key"],
    "witness list": ["FOLDER/missing"],
    "witness accept": ["FOLDER/missing"],
    "witness serve": ["FOLDER/missing"],
    "shell": ["FOLDER/log", "-c", "tail; stat; cat"],
    "doctor": ["FOLDER/none"],
    "commitlog stat": ["FOLDER/store"],
    "commitlog cat": ["FOLDER/store"],
    "commitlog tail": ["--topic", "topic", "FOLDER/store"],
    "commitlog find": ["--topic", "topic", "--key", "key", "FOLDER/store"],
    "commitlog check": ["FOLDER/none"],
    "journal stat": ["FOLDER/journal"],
    "journal print": ["FOLDER/journal"],
    "journal check": ["FOLDER/journal"],
    "journal export": ["FOLDER/none"],
    "journal import": ["FOLDER/none/journal"],
    "paging stat": ["FOLDER/none"],
    "paging print": ["FOLDER/queue"],
    "paging check": ["FOLDER/none"],
    "pagestore stat": ["FOLDER/pages"],
    "pagestore print": ["FOLDER/pages", NAME],
    "pagestore check": ["FOLDER/none"],
    "pagestore backup": ["FOLDER/none", "FOLDER/copy"],
    "pagestore shrink": ["FOLDER/none"],
    "pagestore xa": ["FOLDER/pages"],
    "spark extract": ["FOLDER/none", *OUT],
    "spark follow": ["FOLDER/none", *OUT],
    "spark verify": ["FOLDER/none"],
    "spark stats": ["FOLDER/none"],
    "completion": [NAME],
}
JSON_CASES = [
    "cat", "tail", "commitlog cat", "commitlog find", "journal print", "paging print", "pagestore print", "group peek",
    "group log", "group dead ls", "group dead cat",
]  # fmt: skip


def _run(folder: Path, command: str, *options: str) -> list[str]:
    return [*command.split(), *options, *(word.replace("FOLDER", str(folder)) for word in CASES[command])]


def _check_shown(shown: bytes) -> None:
    """Check that everything is shown and nothing is a control character."""
    assert [obeyed for obeyed in OBEYED if obeyed in shown] == []
    assert MARK.encode() in shown


def test_every_command_has_a_case() -> None:
    assert list(CASES) == leaf_commands()


@pytest.mark.parametrize("command", commands(CASES))
def test_a_terminal_gets_no_control_characters(folder: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = "".join(export_lines(read_records(folder / "journal")))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(exported.encode())))  # for `import`
    with on_terminal(monkeypatch) as message:
        main(_run(folder, command))
    _check_shown(message())


@pytest.mark.parametrize("command", JSON_CASES)
def test_json_stays_json_on_a_terminal(folder: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_terminal(monkeypatch) as message:
        main(_run(folder, command, "--json"))
    shown = message()
    assert [obeyed for obeyed in OBEYED if obeyed in shown] == []
    assert [json.loads(line) for line in shown.splitlines()]


def test_json_has_the_same_values_on_a_terminal(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, [HOSTILE.encode()])
    with on_terminal(monkeypatch) as message:
        main(["cat", "--json", str(log)])
    _check_shown(message())
    assert json.loads(message())["text"] == HOSTILE


@pytest.mark.slow
def test_tail_and_the_prompt_escape_too(folder: Path) -> None:
    with Terminal("tail", "-f", "--from", "beginning", folder / "log") as terminal:
        _check_shown(terminal.read_until(b'{"a": 1}'))
    with Terminal("shell", folder / "log") as terminal:
        message = terminal.read_until(b"to leave.")
        terminal.type(b"cat\n")
        _check_shown(message + terminal.read_until(b'{"a": 1}'))


@pytest.mark.slow
def test_a_pipe_gets_unchanged_bytes(folder: Path) -> None:
    lines = RECORD + b"\n"
    for command, out in (
        ("cat", lines * 2 + b'{"a": 1}\n'),
        ("tail", lines * 2 + b'{"a": 1}\n'),
        ("commitlog cat", lines),
        ("commitlog find", lines),
        ("paging print", lines),
        ("pagestore print", lines),
        ("group dead cat", lines),
    ):
        done = run(*_run(folder, command))
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.startswith(out), command


@given(st.binary(max_size=60))
def test_terminal_output_is_utf_8_without_control_characters(data: bytes) -> None:
    text = terminal_bytes(data).decode()
    assert [char for char in _CONTROLS if char in text] == []
    assert text.count("\n") == data.count(b"\n")
    assert printable(data.decode("utf-8", "surrogateescape")).count("\n") == 0


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_not_escaped(text: str) -> None:
    assert terminal_bytes(text.encode()) == text.encode()


def test_letters_of_any_script_are_not_escaped() -> None:
    text = "Grüße, 日本語\u3000和字, می\u200cخواهم, 👨\u200d👩\u200d👧, 10\u00a0€\n\tline"
    assert terminal_bytes(text.encode()).decode() == text
