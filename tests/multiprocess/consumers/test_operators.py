"""Two operators who send the same dead letters back at the same moment: no delivery number is used twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from binlog import ConsumerGroup, Item, Writer
from binlog.consumers import stat_group
from binlog.consumers.tokens import Token
from tests.support.checkout import ROOT

GROUP = "billing"
_COUNT, _ROUNDS = 100, 10

_OPERATOR = """
import sys
from binlog.consumers import GroupControl

with GroupControl(*sys.argv[1:3]) as control:
    print("ready", flush=True)
    for _ in sys.stdin:
        control.retry_dead(range(int(sys.argv[3])))
        print("sent", flush=True)
"""


def test_operators_who_send_dead_letters_back_together_repeat_no_delivery_number(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    with Writer(tmp_path) as writer:
        writer.append_many([b"1"] * _COUNT)
    seen: list[tuple[int, int]] = []
    with ConsumerGroup(tmp_path, GROUP, mode="flush") as group:
        for item in group.consume(timeout=0):
            item.reject("no")
        while stat_group(tmp_path, GROUP).dead_letters < _COUNT:
            assert group.get(timeout=0) is None  # makes the dead letters
        program = [sys.executable, "-c", _OPERATOR, str(tmp_path), GROUP, str(_COUNT)]
        operators = [
            subprocess.Popen(program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            for _ in range(2)
        ]
        try:
            for operator in operators:
                assert _line(operator) == "ready"
            for _ in range(_ROUNDS):
                for operator in operators:
                    assert operator.stdin is not None
                    operator.stdin.write("\n")
                seen.append(_delivery(group.get(timeout=60)))
                seen += [_delivery(item) for item in group.consume(timeout=0)]
                for operator in operators:
                    assert _line(operator) == "sent"
                seen += [_delivery(item) for item in group.consume(timeout=0)]
        finally:
            for operator in operators:
                operator.kill()
                operator.communicate()
    assert len(seen) >= _ROUNDS * _COUNT
    assert len(set(seen)) == len(seen)
    figure(f"two operators: {len(seen) - _ROUNDS * _COUNT} of {len(seen)} deliveries were those of the second one")


def _delivery(item: Item | None) -> tuple[int, int]:
    """Acknowledge an item, and return its sequence and the number of its delivery, those before `again` included."""
    assert item is not None
    token = Token.parse(item.token)
    item.ack()
    return token.sequence, token.delivery


def _line(operator: subprocess.Popen[str]) -> str:
    assert operator.stdout is not None
    return operator.stdout.readline().strip()
