"""A journal against the plainest account of what it should hold, stress/journal/machine.py; more by `make stress`."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from stress.journal.machine import JournalMachine

TestJournal = pytest.mark.slow(JournalMachine.TestCase)
TestJournal.settings = settings(
    max_examples=int(os.environ.get("PROGRAMS", "60")),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
