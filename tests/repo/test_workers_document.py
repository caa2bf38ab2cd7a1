"""The examples and the commands of docs/workers.md run, in the order of the document."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from tests.repo.test_journal_document import run

TEXT = (Path(__file__).parents[2] / "docs" / "workers.md").read_text()
_ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

_EXPECTED_OF_PYTHON = [
    [],  # the program that appends
    ["charging 17.20", "charging 3.00"],
    [],
    [],
    ["0"],
    ["3.00 2"],
    ["0 b'customer 1' b'17.20' no such address 1"],
    ["b'pay' None", "b'pack'"],
    ["2"],
]


def _blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(python|console)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def _run_until_stopped(example: str, folder: Path, line_count: int) -> list[str]:
    """Run an example that works until SIGTERM, and send it after that many lines."""
    command = [sys.executable, "-c", example]
    with subprocess.Popen(command, cwd=folder, env=_ENVIRONMENT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        lines = [worker.stdout.readline().rstrip("\n") for _ in range(line_count)]
        worker.terminate()
        assert worker.wait() == 0
        return lines + worker.stdout.read().splitlines()


def _run_all(folder: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Run all blocks in order; return what the examples print, and what the commands print."""
    of_examples: list[list[str]] = []
    of_commands: list[list[str]] = []
    for language, block in _blocks():
        if language == "console":
            of_commands += [run(["sh", "-c", line.removeprefix("$ ")], folder) for line in block.splitlines()]
        elif "group.work(" in block:
            of_examples.append(_run_until_stopped(block, folder, 2))
        else:
            of_examples.append(run([sys.executable, "-c", block], folder))
    return of_examples, of_commands


@pytest.mark.slow
def test_the_examples_and_commands_of_the_workers_document_work(tmp_path: Path) -> None:
    of_examples, of_commands = _run_all(tmp_path)
    assert of_examples == _EXPECTED_OF_PYTHON
    created, received, listed, printed, again, handled, dropped = of_commands
    assert created == ["created receipts, which begins with message 0"]
    assert sorted(received) == ["17.20", "3.00"]
    assert "no such address" in listed[1]
    assert printed == ["17.20"]
    assert again == ["delivering 1 message again"]
    assert handled == ["1"]
    assert dropped[0].startswith("removed 1 dead letter")
    with sqlite3.connect(tmp_path / "ledger.db") as ledger:
        assert sorted(ledger.execute("SELECT amount FROM charges")) == [("17.20",), ("3.00",)]
    ledger.close()
    assert binlog.check(tmp_path / "orders") == []


@pytest.mark.slow
def test_the_commands_in_the_table_of_the_workers_document_work(tmp_path: Path) -> None:
    commands = re.findall(
        r"`(binlog group [^`]+)`", TEXT.partition("## Operating a group")[2].partition("\nA program")[0]
    )
    assert len(commands) >= 15
    assert commands[-1].startswith("binlog group delete")
    log = tmp_path / "orders"
    with binlog.Producer(log) as orders:
        orders.append(b"17.20")
        orders.append(b"3.00")
    with binlog.ConsumerGroup(log, "billing") as group, binlog.ConsumerGroup(log, "billing") as other:
        delivered, taken = group.get(timeout=1), other.get(timeout=1)
        assert delivered is not None
        assert taken is not None
        (seat,) = [each.seat for each in group.stat().members if taken.sequence in each.in_hand]
        for command in commands[:-1]:
            filled = command.replace("SEAT", str(seat)).replace("TOKEN", delivered.token)
            said = run(["sh", "-c", filled], tmp_path)
            if command.startswith("binlog group release"):
                assert said == [f"released 1 message: {taken.sequence}"]
            if command.startswith("binlog group peek"):
                assert len(said) == 3
    run(["sh", "-c", commands[-1]], tmp_path)
    assert not (log / "groups" / "billing").exists()
