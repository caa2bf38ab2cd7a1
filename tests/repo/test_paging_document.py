"""The examples of docs/paging.md run, in order."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.repo.test_journal_document import run

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "paging.md").read_text()


@pytest.mark.slow
def test_the_examples_of_the_queue_work(tmp_path: Path) -> None:
    said = [
        run([sys.executable, "-c", example], tmp_path)
        for example in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    ]
    assert said == [
        ["b'17.20' 1"],
        ["b'3.00' True"],
        ["b'3.00' 1"],
        ["2"],
        ["0", "b'17.20' None", "[b'3.00', b'5.40']"],
    ]
    stat, all_, one, check = [
        run(["sh", "-c", command], tmp_path) for command in re.findall(r"^\$ (binlog .*)", TEXT, re.MULTILINE)
    ]
    assert stat[0].startswith("queue: ")
    assert all_[-2:] == ["invoice 3.00", "parcel 3.00"]
    assert json.loads(one[0])["text"] == all_[0]
    assert check == ["no problems found"]
