"""docs/troubleshooting.md has a heading for each error, and its commands run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import binlog
from binlog import errors
from tests.repo.test_journal_document import run

TEXT = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()


def test_each_error_has_a_heading_and_no_other_error_has_one() -> None:
    classes = {
        name for name, each in vars(errors).items() if isinstance(each, type) and each.__module__ == errors.__name__
    }
    assert set(errors.__all__) == classes
    assert re.findall(r"^### (\w+Error)$", TEXT, re.MULTILINE) == sorted(classes)


@pytest.mark.slow
def test_the_first_commands_of_the_troubleshooting_document_work(tmp_path: Path) -> None:
    with binlog.Producer(tmp_path / "orders") as orders:
        position = orders.append(b"17.20")
    (tmp_path / "seen.position").write_text(f"{position}\n")
    binlog.ConsumerGroup(tmp_path / "orders", "billing").close()
    (block,) = re.findall(r"^```console\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    check, stat, lag, groups, group = [
        run(["sh", "-c", line.removeprefix("$ ")], tmp_path) for line in block.splitlines()
    ]
    assert check == ["no problems found"]
    assert "records 1" in stat[0]
    assert any("1 record" in line for line in lag)
    assert any("billing" in line for line in groups)
    assert any("billing" in line for line in group)
