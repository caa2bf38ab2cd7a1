"""A sealed log in use, with all that may happen to it, is verified again and again: there is no finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from binlog.seal import SigningKey
from stress.sealing.__main__ import run

KEY = SigningKey.generate("example.org/audit")


@pytest.mark.turn(1)
def test_a_log_in_use_has_no_finding(tmp_path: Path, figure: Callable[[str], None]) -> None:
    outcome = run(tmp_path, 20)
    assert outcome.findings == []
    assert min(outcome.runs, outcome.prunes) > 0
    assert outcome.sealed > 100
    figure(f"a sealed log in use for 20 s: {outcome}")
