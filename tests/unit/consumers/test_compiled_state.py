"""The compiled state of a group does what the plain one does, whatever the members do."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from binlog._codec import GroupState as CompiledState
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import Operation, pack_operation
from stress.group_model.plain_checkpoint import pack_state
from tests.support.group_operations import SEED, GroupOperations
from tests.unit.consumers.test_checkpoint import _settings, _step, _steps


class _Both(GroupOperations):
    """Applies each operation to both states, and compares what it did."""

    def __init__(self, settings: Settings) -> None:
        self.compiled = CompiledState(SEED)
        super().__init__(settings)

    def applied(self, operation: Operation) -> Any:
        plain = super().applied(operation)
        found = self.compiled.apply(pack_operation(operation, SEED))
        assert found is not None
        seat, generation, number, flags, counted, assigned, started, refused, checkpoint = found
        assert (seat, generation, number, flags) == (
            operation.seat, operation.generation, operation.number, operation.flags
        )  # fmt: skip
        assert checkpoint is None
        assert (counted, assigned, started, refused) == (
            plain.counted, [tuple(each) for each in plain.assigned], plain.started, plain.refused
        )  # fmt: skip
        return plain


@given(_settings, _steps)
def test_both_states_do_the_same(settings: Settings, steps: list[tuple[str, int, int, int]]) -> None:
    group = _Both(settings)
    for step in steps:
        _step(group, *step)
        data = group.compiled.pack()
        assert data == pack_state(group.state)
        assert group.compiled.floor() == group.state.floor
        assert group.compiled.available() == group.state.assignable
        assert group.compiled.next_due_ns() == group.state.next_due_ns
        again = CompiledState(SEED)
        again.load(data)
        assert again.pack() == data
        group.compiled = again if step[3] == 1 else group.compiled


@given(st.binary(max_size=300))
def test_other_bytes_are_no_operation_and_no_checkpoint(data: bytes) -> None:
    state = CompiledState(SEED)
    before = state.pack()
    assert state.apply(data) is None
    try:
        state.load(data)
    except ValueError:
        assert state.pack() == before
