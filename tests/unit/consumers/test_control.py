"""An operator changes a group without being a member, and its members learn of it at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog import Background, Mode, Ref, Sequence, Writer, prune, stat
from binlog.consumers.control import GroupControl
from binlog.consumers.group import ConsumerGroup
from binlog.consumers.state.group_state import ItemState
from binlog.consumers.state.settings import OnExpiry, Order, Retry
from binlog.consumers.tokens import Token
from binlog.errors import AccessError, ClosedError, GoneError, LeaseLostError, NotFoundError, StateError
from binlog.format.consumers.message import Message
from tests.support.children import Child
from tests.support.group_workers import idle_count
from tests.support.waiting import until

GROUP = "billing"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with Writer(tmp_path) as writer:
        writer.append_many([b"%d" % number for number in range(5)])
    return tmp_path


@pytest.fixture
def group(log: Path) -> Iterator[ConsumerGroup]:
    with ConsumerGroup(log, GROUP, retry=Retry(deliveries_max=2, first=0)) as group:
        yield group


@pytest.fixture
def control(log: Path, group: ConsumerGroup) -> Iterator[GroupControl]:
    with GroupControl(log, GROUP) as control:
        yield control


def _drain(group: ConsumerGroup) -> list[tuple[int, int]]:
    found = []
    for item in group.consume(timeout=0.05):
        item.ack()
        found.append((item.sequence, item.delivery))
    return found


def _token(control: GroupControl, sequence: int) -> Token:
    state = control.state()
    item = state.find(sequence)
    assert item is not None
    return Token.of(control.uuid, state.epoch, sequence, item.delivery)


def test_only_a_group_that_exists_is_opened(log: Path) -> None:
    with pytest.raises(NotFoundError, match="no consumer group 'other'"):
        GroupControl(log, "other")
    assert not (log / "groups").exists()
    (log / "groups" / "other").mkdir(parents=True)
    with pytest.raises(NotFoundError):
        GroupControl(log, "other")
    assert list((log / "groups" / "other").iterdir()) == []


def test_a_paused_group_hands_out_nothing(log: Path, group: ConsumerGroup, control: GroupControl) -> None:
    control.pause()
    assert group.get(timeout=0.01) is None
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(group.get)
        until(lambda: idle_count(log, GROUP) == 1)
        control.resume()
        item = waiting.result(timeout=60)
    assert item is not None
    assert item.sequence == 0


def test_settings_change_for_all_members(log: Path, group: ConsumerGroup, control: GroupControl) -> None:
    before = control.state().settings
    retry = Retry(deliveries_max=None, first=0.5, factor=1.25, most=60, jitter=0.5)
    found = control.set(retry=retry, on_expiry="drop", order="none", outstanding_max=7, in_hand_max=1, holds="12h")
    with GroupControl(log, GROUP) as other:
        assert other.state().settings == found
    assert found.retry == retry
    assert (found.on_expiry, found.order) == (OnExpiry.DROP, Order.NONE)
    assert (found.outstanding_max, found.in_hand_max) == (7, 1)
    assert (found.holds_ns, found.holds_bytes) == (12 * 3600 * 10**9, 0)
    assert group.get() is not None
    assert group.get(timeout=0.01) is None  # one is in hand
    assert control.set(holds="10G").holds_bytes == 10 << 30
    assert control.set(in_hand_max=0, holds="always", retry=before.retry, on_expiry="dead-letter") != before
    assert control.set(outstanding_max=before.outstanding_max) == before


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [("order", "strict", "cannot be changed"), ("outstanding_max", 0, "outstanding_max"), ("holds", "soon", "holds"),
     ("in_hand_max", -1, "in_hand_max"), ("on_expiry", "keep", "on_expiry"), ("holds", 0, "holds")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(control: GroupControl, option: str, value: object, text: str) -> None:
    before = control.state().pack()
    with pytest.raises(ValueError, match=text):
        control.set(**{option: value})  # type: ignore[arg-type]
    assert control.state().pack() == before


@pytest.mark.slow
def test_a_reset_delivers_messages_again(log: Path, group: ConsumerGroup, control: GroupControl) -> None:
    assert len(_drain(group)) == 5
    assert control.reset(3) == 3
    assert _drain(group) == [(3, 1), (4, 1)]
    assert control.reset("beginning") == 0
    assert control.reset("end") == 5
    assert _drain(group) == []
    assert control.reset(Sequence(4)) == 4
    assert control.reset(str(Ref(1, 256))) == 0
    assert len(_drain(group)) == 5
    with pytest.raises(ValueError, match="sequence 6"):
        control.reset(6)


@pytest.mark.parametrize("keeps", [False, True])
def test_after_a_reset_earlier_acknowledgements_are_refused(
    group: ConsumerGroup, control: GroupControl, keeps: bool
) -> None:
    item = group.get()
    assert item is not None
    token = _token(control, 0)
    control.reset(2, keep_outstanding=keeps)
    with pytest.raises(LeaseLostError):
        control.ack(token)
    with pytest.raises(LeaseLostError):
        item.ack()
    assert sorted(_drain(group)) == [(0, 1)] * keeps + [(2, 1), (3, 1), (4, 1)]


@pytest.mark.slow
def test_the_messages_before_the_place_of_a_reset_are_durable(tmp_path: Path) -> None:
    """Others could get their sequence numbers after a power cut, and the group would take them for done."""
    background = Background(sync_seconds=3600)
    with Writer(tmp_path, mode=Mode.FLUSH, background=background) as writer, ConsumerGroup(tmp_path, GROUP):
        writer.append_many([b"%d" % number for number in range(5)])
        tail = writer.append(b"last")
        assert (stat(tmp_path).files[0].durable_end or 0) < tail.offset
        with GroupControl(tmp_path, GROUP) as control:
            assert control.reset(5) == 5
        assert (stat(tmp_path).files[0].durable_end or 0) >= tail.offset


def test_a_reset_wakes_an_idle_member(log: Path, group: ConsumerGroup, control: GroupControl) -> None:
    _drain(group)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(group.get)
        until(lambda: idle_count(log, GROUP) == 1)
        control.reset(4)
        item = waiting.result(timeout=60)
    assert item is not None
    assert item.sequence == 4


_STOPPED = """
import sys
from binlog.consumers.group import ConsumerGroup
from binlog.errors import LeaseLostError
with ConsumerGroup(sys.argv[1], sys.argv[2]) as group:
    item = group.get()
    print("got", item.sequence, flush=True)
    sys.stdin.readline()
    try:
        item.ack()
        print("acked", flush=True)
    except LeaseLostError:
        print("lost", flush=True)
    item = group.get()
    print("got", item.sequence, flush=True)
    item.ack()
"""


@pytest.mark.slow
def test_an_operator_gives_the_items_of_a_stopped_member_to_others(log: Path) -> None:
    command = [sys.executable, "-c", _STOPPED, str(log), GROUP]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stopped:
        assert stopped.stdin is not None
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "got 0\n"
        os.kill(stopped.pid, signal.SIGSTOP)
        with GroupControl(log, GROUP) as control, ConsumerGroup(log, GROUP) as group:
            (seat,) = (number for number, each in control.state().seats.items() if each.held == [0])
            with pytest.raises(NotFoundError):
                control.release(256)
            assert control.release(seat) == [0]
            item = group.get()
            assert item is not None
            assert (item.sequence, item.delivery) == (0, 2)
            os.kill(stopped.pid, signal.SIGCONT)
            stopped.stdin.write("continue\n")
            stopped.stdin.flush()
            assert stopped.stdout.readline() == "lost\n"
            assert stopped.stdout.readline() == "got 1\n"
            item.ack()
        assert stopped.wait() == 0
    with ConsumerGroup(log, GROUP) as group:
        assert _drain(group) == [(2, 1), (3, 1), (4, 1)]


@pytest.mark.slow
def test_what_is_delayed_is_delivered_now(log: Path, group: ConsumerGroup, control: GroupControl) -> None:
    with Writer(log) as writer:
        writer.append(Message(body=b"with a key", key=b"key").pack())
    for item in group.consume(timeout=0.05):
        item.nack(delay=3600)
    assert {each.state for each in control.state().items()} == {ItemState.DELAYED}
    assert control.retry_now(sequences=[1, 2, 99]) == 2
    assert _drain(group) == [(1, 2), (2, 2)]
    assert control.retry_now(key=b"another") == 0
    assert control.retry_now(key=b"key") == 1
    assert _drain(group) == [(5, 2)]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(group.get)
        until(lambda: idle_count(log, GROUP) == 1)
        assert control.retry_now() == 3
        assert waiting.result(timeout=60) is not None
    assert control.retry_now() == 0


@pytest.mark.slow
@pytest.mark.slow
def test_a_dead_letter_is_sent_back_to_its_group_alone(log: Path, group: ConsumerGroup, control: GroupControl) -> None:
    with ConsumerGroup(log, "other") as other:
        assert len(_drain(other)) == 5
        for item in group.consume(timeout=0.05):
            item.reject("bad") if item.sequence in (1, 3) else item.ack()
        until(lambda: control.state().counters.dead == 2)
        assert control.retry_dead([3, 2, 77]) == [2, 77]  # one was acknowledged, one is no message
        assert control.retry_dead([3]) == [3]  # it is outstanding
        assert control.state().floor == 3
        assert _drain(group) == [(3, 1)]
        assert _drain(other) == []
    old = Token.of(control.uuid, 0, 1, 1)
    assert control.retry_dead([1]) == []
    with pytest.raises(LeaseLostError):
        control.ack(old)
    assert _drain(group) == [(1, 1)]
    assert control.state().floor == 5


def test_a_dead_letter_whose_message_is_gone_cannot_be_sent_back(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        for body in (b"0", b"1"):
            writer.append(body)
            writer.cutover()
        with ConsumerGroup(tmp_path, GROUP) as group, GroupControl(tmp_path, GROUP) as control:
            for item in group.consume(timeout=0.05):
                item.reject("bad")
            until(lambda: control.state().counters.dead == 2)
            assert [each.number for each in prune(tmp_path, before="2:256")] == [1]
            assert control.retry_dead([0, 1]) == [0]
            assert _drain(group) == [(1, 1)]


def test_a_group_without_dead_letters_has_none_to_send_back(control: GroupControl) -> None:
    assert control.retry_dead([0]) == [0]
    assert control.retry_dead([]) == []


@pytest.mark.slow
def test_any_process_may_end_a_delivery_with_its_token(log: Path, group: ConsumerGroup, control: GroupControl) -> None:
    assert [item.sequence for _ in range(3) if (item := group.get()) is not None] == [0, 1, 2]
    tokens = [str(_token(control, sequence)) for sequence in range(3)]

    def end_all() -> None:
        with GroupControl(log, GROUP) as mine:
            mine.ack(tokens[0])
            mine.nack(tokens[1], error="no")
            mine.reject(Token.parse(tokens[2]), error="never")

    Child(end_all).join()
    state = control.state()
    assert (state.counters.done, state.counters.failed) == (1, 2)
    found = state.find(2)
    assert found is not None
    assert (found.letter, found.reason) == (1, "never")
    for token in (tokens[0], tokens[2]):
        with pytest.raises(LeaseLostError, match=token):
            control.ack(token)
    assert sorted(_drain(group)) == [(1, 2), (3, 1), (4, 1)]
    with pytest.raises(LeaseLostError):
        control.nack(tokens[1], delay="1h")


def test_a_failure_by_token_waits_as_the_groups_policy_says(group: ConsumerGroup, control: GroupControl) -> None:
    control.set(retry=Retry(first=100, jitter=0, factor=3))
    assert group.get() is not None
    before_ns = control.state().clock_ns
    control.nack(_token(control, 0))
    found = control.state().find(0)
    assert found is not None
    assert 0 <= found.due_ns - before_ns - 100 * 10**9 < 60 * 10**9


@pytest.mark.slow
def test_a_token_of_another_group_is_refused(log: Path, group: ConsumerGroup, control: GroupControl) -> None:
    with ConsumerGroup(log, "other"), GroupControl(log, "other") as other:
        assert group.get() is not None
        with pytest.raises(ValueError, match="another group"):
            other.ack(_token(control, 0))
    with pytest.raises(ValueError, match="GROUP-EPOCH-SEQUENCE-DELIVERY"):
        control.ack("17")


@pytest.mark.slow
def test_members_of_a_deleted_group_get_an_error_and_its_name_is_free(log: Path) -> None:
    gone = ConsumerGroup(log, GROUP)
    item = gone.get()
    assert item is not None
    idle = ConsumerGroup(log, GROUP, start="end")
    while idle.get(timeout=0.01) is not None:
        pass
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(idle.get)
        until(lambda: idle_count(log, GROUP) == 1)
        control = GroupControl(log, GROUP)
        uuid = control.uuid
        control.delete()
        assert [path.name for path in (log / "groups").iterdir()] == [".lock"]
        with pytest.raises(GoneError):
            waiting.result(timeout=60)
    with pytest.raises(ClosedError):
        control.pause()
    with pytest.raises(NotFoundError):
        GroupControl(log, GROUP)
    with ConsumerGroup(log, GROUP) as again, GroupControl(log, GROUP) as other:
        assert other.uuid != uuid
        with pytest.raises(GoneError):
            item.ack()
        with pytest.raises(GoneError):
            gone.get(timeout=0)
        assert [sequence for sequence, _ in _drain(again)] == [0, 1, 2, 3, 4]
    gone.close()
    idle.close()


def test_a_member_of_a_deleted_group_opens_no_dead_letters_of_the_next_one(log: Path, group: ConsumerGroup) -> None:
    assert group.get() is not None
    GroupControl(log, GROUP).delete()
    with pytest.raises(AccessError):
        group._opened._open_dead_letters()  # its folder does not exist
    with ConsumerGroup(log, GROUP), pytest.raises(GoneError):
        group._opened._open_dead_letters()


def test_an_open_control_learns_that_its_group_was_deleted(log: Path, group: ConsumerGroup) -> None:
    with GroupControl(log, GROUP) as one, GroupControl(log, GROUP) as other:
        one.delete()
        with pytest.raises(GoneError):
            other.pause()
        with pytest.raises(GoneError):
            other.delete()


def test_a_control_belongs_to_its_process(control: GroupControl) -> None:
    def use() -> None:
        with pytest.raises(StateError):
            control.pause()
        control.close()

    Child(use).join()
    control.pause()
    control.close()
    with pytest.raises(ClosedError):
        control.resume()


def test_a_call_that_does_not_wait_goes_on_after_any_number_of_dead_letters(
    log: Path, group: ConsumerGroup, control: GroupControl
) -> None:
    """A member that asks for one item gets one dying item after the other first."""
    assert [item.sequence for _ in range(4) if (item := group.get()) is not None] == [0, 1, 2, 3]
    for sequence in range(4):
        control.reject(_token(control, sequence), error="no")
    with ConsumerGroup(log, GROUP) as another:
        item = another.get(timeout=0)
        assert item is not None
        assert item.sequence == 4
        item.ack()
    assert control.state().counters.dead == 4
