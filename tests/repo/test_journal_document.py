"""The examples of docs/journal.md run, in order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from binlog.journal import RecordState

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "journal.md").read_text()


@pytest.mark.slow
def test_the_examples_of_the_journal_work(tmp_path: Path) -> None:
    said = [
        run([sys.executable, "-c", example], tmp_path)
        for example in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    ]
    assert said == [["[] False"], ["1 1 b'17.20' False", "1 2 b'paid' True"], []]
    stat, by_id, by_transaction, *others = [
        run(["sh", "-c", command], tmp_path) for command in re.findall(r"^\$ (binlog .*)", TEXT, re.MULTILINE)
    ]
    assert stat[1] == "not open; transactions: 1 prepared, 0 open"
    assert stat[3].endswith("takes appends")
    assert [line.split()[1:3] for line in by_id] == [
        ["add", "updated"], ["update", "updated"], ["update_tx", "live"], ["delete_tx", "prepared"],
    ]  # fmt: skip
    assert [json.loads(line)["kind"] for line in by_transaction] == ["delete_tx", "prepare"]
    assert others == [["no problems found"], [], ["4 records, 1 prepared transaction; 0 skipped"]]


def run(command: list[str], folder: Path) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_document_has_each_state_of_a_record() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)[: len(RecordState)] == [
        state.name.lower() for state in RecordState
    ]
