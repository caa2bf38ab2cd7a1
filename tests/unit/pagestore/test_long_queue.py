"""A queue that is far longer than the cache: neither a put nor a get reads more of it as it grows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stress.pagestore.curve import curve
from tests.support.checkout import ROOT


@pytest.mark.slow
def test_what_a_put_and_a_get_read_does_not_grow_with_the_queue(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """The pages that they read are counted; `python -m stress.pagestore` tells the time, of a million messages."""
    parts = [*curve(tmp_path / "store", 10_000)]
    puts, gets = ([part for part in parts if part.what == what] for what in ("put", "get"))
    assert len(puts) == len(gets) == 10
    assert max(part.reads for part in puts) == 0
    reads = [part.reads for part in gets]
    # A message's own page, and for 61 messages one of the index, or two where a hundred others came between.
    assert 1 <= min(reads) <= max(reads) < 1.2
    assert max(reads) - min(reads) < 0.02
    for what, found in (("put", puts), ("get", gets)):
        figure(f"page store, {what}: {found[0].micros:.0f} us at {found[0].length:,} messages, "
               f"{found[-1].micros:.0f} at {found[-1].length:,}")  # fmt: skip


@pytest.mark.slow
def test_the_command_prints_each_part_and_the_opening_after_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stress.pagestore", "--messages", "2000", "--directory", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    head, *parts, opening, from_disk = done.stdout.splitlines()
    assert head.split()[0] == "messages"
    assert [part.split()[0] for part in parts] == ["put"] * 10 + ["get"] * 10
    assert re.match(r"opening after a kill with a full log of 29,\d{3} messages of 1 KiB: \d", opening)
    assert re.match(r"opening after a kill with a full log of 29,\d{3} messages of 1 KiB, from the disk: \d", from_disk)
    assert list(tmp_path.iterdir()) == []
