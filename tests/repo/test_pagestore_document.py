"""The examples of docs/pagestore.md run, in order."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.repo.test_journal_document import run

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "pagestore.md").read_text()


@pytest.mark.slow
def test_the_examples_of_the_page_store_work(tmp_path: Path) -> None:
    said = [
        run([sys.executable, "-c", example], tmp_path)
        for example in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    ]
    subscriber = "client_id='accounting', name='invoices', topic='orders.paid', selector=None, no_local=False"
    commands = re.findall(r"^\$ (binlog .*)", TEXT, re.MULTILINE)
    stat, printed, check, xa, backup, shrink = [run(["sh", "-c", command], tmp_path) for command in commands]
    assert stat[-2].split() == ["incoming", "1", "0", "1"]
    assert '"text":"17.20"' in printed[0]
    assert (check, xa, backup) == (["no problems found"], [], [])
    assert "left of" in shrink[0]
    assert said == [["b'3.00' 1 1"], [], ["b'17.20'", "b'one'", "b'two'", f"[DurableSubscriber({subscriber})]"]]
