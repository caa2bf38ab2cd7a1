"""Reading a journal as columns while its owner, in another process, appends, reuses files and compacts them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from binlog.errors import BusyError, NotFoundError
from binlog.format.journal.file_header import JournalLayout
from binlog.journal import PartReader, RecordState, survey_journal
from tests.support.turns import in_turn

WHOLE_READS = 40
SECONDS_MAX = 120.0

# Each transaction adds two records, with rising ids, and deletes the two oldest ones once there are a hundred.
_OWNS = """
import sys
from binlog.journal import Journal, JournalLayout, JournalOptions, Sync

options = JournalOptions(
    file_bytes=8192, layout=JournalLayout(sys.argv[2]), compact_files_min=6, compact_ratio=0.7, files_min=3
)
with Journal(sys.argv[1], options) as journal:
    journal.load()
    print("ready", flush=True)
    number = 0
    while True:
        for record_id in (number, number + 1):
            journal.append_add_tx(-number, record_id, 1, bytes(number * 7 % 300))
            if number >= 100:
                journal.append_delete_tx(-number, record_id - 100)
        journal.commit(-number, sync=Sync.WAIT if number % 50 == 0 else Sync.LATER)
        number += 2
"""


def live_ids(path: Path) -> list[int] | None:
    """Return the live ids, or None if a file was reused before it was read."""
    try:
        found = survey_journal(path)
    except BusyError:
        return None
    assert found.problems == ()
    live: list[int] = []
    try:
        for file in found.files:
            for columns in PartReader(file.part):
                ids = memoryview(columns.columns["record_id"]).cast("q")
                states = columns.columns["state"]
                assert RecordState.FAILED not in states
                live += [record_id for record_id, state in zip(ids, states, strict=True) if state == RecordState.LIVE]
    except NotFoundError:
        return None
    return sorted(live)


@pytest.mark.slow
@pytest.mark.parametrize("layout", in_turn([JournalLayout.NATIVE, JournalLayout.JBM]))
def test_a_read_beside_an_owner_is_of_one_moment_or_is_refused(tmp_path: Path, layout: JournalLayout) -> None:
    """Both records of a transaction are live or neither, and so are all between the oldest and the newest."""
    path = tmp_path / "journal"
    command = [sys.executable, "-c", _OWNS, str(path), layout.value]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "ready\n"
            deadline = time.monotonic() + SECONDS_MAX
            whole, newest = 0, 0
            while whole < WHOLE_READS:
                assert owner.poll() is None
                assert time.monotonic() < deadline
                live = live_ids(path)
                if not live:
                    continue
                assert live == list(range(live[0], live[-1] + 1))
                assert live[0] % 2 == 0
                assert live[-1] % 2 == 1
                assert live[-1] >= newest
                newest = live[-1]
                whole += newest > 1000
        finally:
            owner.kill()
