"""A journal against the model in stress/journal/machine.py; `make stress` runs more examples."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from stress.journal.machine import JournalMachine
from tests.support.examples import examples

TestJournal = pytest.mark.slow(JournalMachine.TestCase)
TestJournal.settings = settings(
    max_examples=examples(60), stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
