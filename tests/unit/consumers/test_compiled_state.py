"""The compiled state of a group does what the plain one does, whatever the members do."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.consumers.state.group_state import AppliedOperation, Assigned, GroupState, Outcome
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import Delivery, Join, Kind, Operation, pack_operation
from stress.group_model.plain_checkpoint import pack_state
from tests.support.group_operations import SEED, GroupOperations
from tests.unit.consumers.test_checkpoint import _settings, _step, _steps


class _Both(GroupOperations):
    """Applies each operation to both states, and compares what it did."""

    def __init__(self, settings: Settings) -> None:
        self.compiled = GroupState(SEED)
        super().__init__(settings)

    def applied(self, operation: Operation) -> Any:
        plain = super().applied(operation)
        found = self.compiled.apply(pack_operation(operation, SEED))
        assert found is not None
        assert found == AppliedOperation(
            operation.seat, operation.generation, self.state.epoch, operation.flags, plain, None
        )
        kinds = [type(found), type(found.outcome), *map(type, (*found.outcome.assigned, *found.outcome.started))]
        assert set(kinds) <= {AppliedOperation, Outcome, Assigned, Delivery}
        return plain


@given(_settings, _steps)
@pytest.mark.slow
def test_both_states_do_the_same(settings: Settings, steps: list[tuple[str, int, int, int]]) -> None:
    group = _Both(settings)
    for step in steps:
        _step(group, *step)
        data = group.compiled.pack()
        assert data == pack_state(group.state)
        assert group.compiled.floor == group.state.floor
        assert group.compiled.available == group.state.assignable
        assert group.compiled.outstanding_count == len(group.state.items)
        assert group.compiled.scheduled_count == group.state.scheduled_count
        assert group.compiled.next_due_ns == group.state.next_due_ns
        again = GroupState(SEED)
        again.load(data)
        assert again.pack() == data
        assert again.scheduled_count == group.state.scheduled_count
        group.compiled = again if step[3] == 1 else group.compiled


@given(st.binary(max_size=300))
def test_other_bytes_are_no_operation_and_no_checkpoint(data: bytes) -> None:
    state = GroupState(SEED)
    before = state.pack()
    assert state.apply(data) is None
    try:
        state.load(data)
    except ValueError:
        assert state.pack() == before


def test_no_finalizer_runs_while_an_operation_is_applied() -> None:
    """The garbage collector could run one at each allocation, and it could apply another operation."""
    is_applying, ran_within = False, 0

    class Meddler:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            nonlocal ran_within
            ran_within += is_applying

    state = GroupState(SEED)
    joins = [
        pack_operation(Operation(0, number + 1, number, number, 0, 1, 0, [(kind, entries)]), SEED)
        for number in range(50)
        for kind, entries in ((Kind.JOIN, Join(0, "")), (Kind.LEAVE, []))
    ]
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1)
    try:
        for record in joins:
            Meddler()
            is_applying = True
            state.apply(record)
            is_applying = False
    finally:
        gc.set_threshold(*before)
    assert ran_within == 0
    assert gc.isenabled()
