"""The examples of docs/queue.md and docs/paging.md run, in the order of the documents."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.repo.test_journal_document import run

DOCS = Path(__file__).parents[2] / "docs"
QUEUE = (DOCS / "queue.md").read_text()
PAGING = (DOCS / "paging.md").read_text()


def _run_examples(text: str, folder: Path) -> list[list[str]]:
    examples = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [run([sys.executable, "-c", example], folder) for example in examples]


@pytest.mark.slow
def test_the_examples_of_the_queue_work(tmp_path: Path) -> None:
    assert _run_examples(QUEUE, tmp_path) == [["b'17.20' 1"], ["b'3.00' True"], ["b'3.00' 1"], ["2"]]
    stat, all_, one, check = [
        run(["sh", "-c", command], tmp_path) for command in re.findall(r"^\$ (binlog .*)", QUEUE, re.MULTILINE)
    ]
    assert stat[0].startswith("queue: ")
    assert all_[-2:] == ["invoice 3.00", "parcel 3.00"]
    assert json.loads(one[0])["text"] == all_[0]
    assert check == ["no problems found"]


@pytest.mark.slow
def test_the_example_of_paging_works(tmp_path: Path) -> None:
    assert _run_examples(PAGING, tmp_path) == [["0", "b'17.20' None", "[b'3.00', b'5.40']"]]
