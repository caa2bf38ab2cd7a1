"""The examples and the commands of docs/append-and-follow.md run, in the order of the document."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import binlog
from tests.repo.test_journal_document import run

TEXT = (Path(__file__).parents[2] / "docs" / "append-and-follow.md").read_text()


@pytest.mark.slow
def test_the_examples_and_commands_of_the_append_and_follow_document_work(tmp_path: Path) -> None:
    printed: list[list[str]] = []
    for language, block in re.findall(r"^```(python|console)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE):
        if language == "python":
            # A file, because a spawned process imports it.
            (tmp_path / "example.py").write_text(block)
            printed.append(run([sys.executable, "example.py"], tmp_path))
        else:
            printed += [run(["sh", "-c", line.removeprefix("$ ")], tmp_path) for line in block.splitlines()]
    appended, followed, started, resumed, _, tail, first, again, stat = printed
    assert appended == ["400"]
    assert followed == ["0"]
    assert started == ["[]", "400"]
    assert [line.split()[1] for line in resumed] == ["200", "0"]
    assert tail == ["first", "second"]
    assert (first, again) == (["402"], ["0"])
    assert any("402" in line for line in stat)
    assert binlog.check(tmp_path / "orders") == []
