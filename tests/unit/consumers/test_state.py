"""The rules of a group's state, each by number: see binlog/consumers/state/group_state.py."""

from __future__ import annotations

import pytest

from binlog.consumers.state.group_state import ItemState
from binlog.consumers.state.settings import OnExpiry, Order, Settings
from binlog.format.consumers.operation import NO_SEAT, Again, Delivery, Extension, Failure, Join, Kind, Reset, Window
from stress.group_model.plain_state import EXPIRED, WORKER_DIED
from tests.support.group_operations import GroupOperations

SECOND = 1_000_000_000


def test_1_an_operation_of_a_dead_member_or_of_another_epoch_changes_nothing() -> None:
    group = GroupOperations()
    group.join(0, 1)
    group.produce(3)
    assert group.take(0) == [0]
    group.kill(0)
    assert not group.apply(0, (Kind.DONE, [Delivery(0, 1)])).counted
    assert not group.apply(1, (Kind.DONE, [Delivery(0, 1)]), epoch=7).counted
    assert not group.apply(0, (Kind.JOIN, Join()), generation=1).counted  # the next generation is 2
    assert group.apply(0, (Kind.JOIN, Join()), generation=2).counted
    assert not group.apply(0, (Kind.JOIN, Join()), generation=3).counted  # the seat is taken
    assert group.state.counters.void == 4
    assert group.state_of(0) is ItemState.READY


def test_2_time_never_goes_back_and_items_become_due() -> None:
    group = GroupOperations()
    group.join(0, lease_ns=0)
    group.produce(1)
    group.now_ns = 10 * SECOND
    assert group.take(0) == [0]
    group.fail(0, 0, after_ns=5 * SECOND)
    group.now_ns = 1 * SECOND
    assert group.take(0) == []
    assert group.state.clock_ns == 10 * SECOND
    assert group.state.next_due_ns == 15 * SECOND
    group.now_ns = 15 * SECOND
    assert group.assign(0)[0].delivery == 2


def test_2_a_lease_that_ended_returns_the_item() -> None:
    group = GroupOperations()
    group.join(0, lease_ns=SECOND)
    group.join(1)
    group.produce(1)
    assert group.take(0) == [0]
    group.now_ns = SECOND - 1
    assert group.take(1) == []
    assert group.apply(0, (Kind.EXTEND, [Extension(0, 1, 3 * SECOND)])).refused == []
    group.now_ns = SECOND
    assert group.take(1) == []
    group.now_ns = 3 * SECOND
    assert group.assign(1)[0].delivery == 2
    assert group.apply(0, (Kind.DONE, [Delivery(0, 1)])).refused == [(0, 1)]


def test_3_a_late_acknowledgement_counts_until_the_item_is_started_again() -> None:
    group = GroupOperations()
    group.join(0, lease_ns=SECOND)
    group.produce(1)
    group.take(0)
    group.now_ns = SECOND
    group.apply(NO_SEAT)
    assert group.state_of(0) is ItemState.READY
    assert group.ack(NO_SEAT, 0) == []
    assert group.state.floor == 1
    assert group.apply(0, (Kind.DONE, [Delivery(0, 1)])).refused == [(0, 1)]


def test_4_only_the_member_that_has_an_item_starts_it() -> None:
    group = GroupOperations()
    group.join(0, 1)
    group.produce(4)
    assert group.take(0, 2) == [0, 1]
    group.start(1, 1)
    assert group.state_of(1) is ItemState.HELD
    assert group.apply(0, (Kind.DONE, [Delivery(1, 0)])).refused == [(1, 0)]  # it was not started
    group.start(0, 1)
    group.start(0, 1)
    assert group.state.items[1].delivery == 1


@pytest.mark.parametrize("how", ["retry", "death"])
def test_5_an_item_dies_after_its_last_delivery(how: str) -> None:
    group = GroupOperations(Settings(deliveries_max=2, first_ns=0))
    group.join(0, 1)
    group.produce(1)
    for generation in (1, 2):
        assert group.assign(0)[0].delivery == generation
        if how == "retry":
            group.fail(0, 0, reason="no")
        group.kill(0)
        group.join(0)
    assert group.state.items[0].reason == ("no" if how == "retry" else WORKER_DIED)
    (assigned,) = group.assign(1)
    assert (assigned.letter, assigned.is_started) == (1, False)
    assert group.ack(0, 0) == [(0, 2)]  # a member that does not have it
    assert group.ack(1, 0) == []
    assert group.state.counters.dead == 1


def test_5_a_rejected_item_dies_at_once() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(1)
    group.take(0)
    group.apply(0, (Kind.REJECT, [Failure(0, 1, 0, "bad")]))
    assert group.state.items[0].reason == "bad"
    assert group.assign(0)[0].letter == 1


def test_6_what_a_dead_member_had_not_started_comes_back_uncounted() -> None:
    group = GroupOperations()
    group.join(0, 1)
    group.produce(20)
    assert group.take(0, 3) == [0, 1, 2]
    group.kill(0)
    assert [group.state.items[each].is_suspect for each in (0, 1, 2)] == [True, False, False]
    assert [group.state.items[each].delivery for each in (0, 1, 2)] == [1, 0, 0]


def test_6_items_that_a_member_had_started_together_come_back_alone() -> None:
    group = GroupOperations()
    group.join(0, 1)
    group.produce(20)
    group.take(0, 3)
    group.start(0, 1, 2)
    group.kill(0)
    assert group.take(1, 5) == [0]
    assert group.take(1, 5) == []
    group.ack(1, 0)
    assert group.take(1, 5) == [1]
    group.fail(1, 1)
    assert not group.state.items[1].is_suspect
    assert group.take(1, 5) == [2]


def test_7_a_suspect_does_not_wait_for_ever() -> None:
    group = GroupOperations()
    group.join(0, 1)
    group.produce(100)
    assert group.take(0) == [0]
    assert group.take(1, 2) == [1, 2]
    group.kill(0)
    assert group.take(1) == []  # it has items, and the suspect must be alone
    group.ack(1, 1)
    group.apply(1, (Kind.BACK, [Delivery(2, 0)]))
    assert group.take(1, 2) == [0]
    assert group.take(1, 2) == []
    group.ack(1, 0)
    assert len(group.take(1, 2)) == 2


def test_6_from_its_second_death_on_an_item_waits() -> None:
    group = GroupOperations(Settings(first_ns=SECOND))
    group.join(0)
    group.produce(1)
    for deaths, wait_ns in ((1, 0), (2, SECOND), (3, 2 * SECOND)):
        assert group.assign(0)[0].delivery == deaths
        group.kill(0)
        group.join(0)
        assert group.state.items[0].due_ns == (group.now_ns + wait_ns if wait_ns else 0)
        group.now_ns += wait_ns


def test_6_a_member_that_leaves_gives_all_back_uncounted() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(5)
    group.take(0, 2)
    group.apply(0, (Kind.LEAVE, None))
    assert [group.state.items[each].uncounted for each in (0, 1)] == [1, 0]
    assert group.state.in_hand == 0
    assert group.apply(NO_SEAT, (Kind.DONE, [Delivery(1, 0)])).refused == [(1, 0)]


def test_3_an_acknowledgement_of_a_delivery_that_was_given_back_does_not_count_for_the_next_one() -> None:
    group = GroupOperations()
    group.join(0, 1)
    group.produce(1)
    group.take(0)
    group.apply(0, (Kind.BACK, [Delivery(0, 1)]))
    assert group.assign(1)[0].delivery == 2
    assert group.apply(0, (Kind.DONE, [Delivery(0, 1)])).refused == [(0, 1)]
    assert group.ack(1, 0) == []


def test_7_a_member_gets_its_share() -> None:
    group = GroupOperations()
    group.join(0, 1, 2)
    group.produce(10)
    assert len(group.take(0, 100)) == 4
    assert len(group.take(1, 100)) == 2
    assert len(group.take(2, 1)) == 1


def test_7_returned_and_new_items_are_taken_in_turn() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(10)
    for sequence in group.take(0, 4):
        group.start(0, sequence)
        group.fail(0, sequence)
    assert [group.take(0)[0] for _ in range(4)] == [4, 0, 5, 1]


def test_7_nothing_is_assigned_while_the_group_is_paused_or_at_its_limit() -> None:
    group = GroupOperations(Settings(in_hand_max=2))
    group.join(0)
    group.produce(10)
    group.apply(NO_SEAT, (Kind.PAUSE, None))
    assert group.take(0, 5) == []
    group.apply(NO_SEAT, (Kind.RESUME, None))
    assert len(group.take(0, 5)) == 2
    assert group.take(0) == []


def test_8_an_item_waits_for_the_earlier_ones_with_its_key() -> None:
    group = GroupOperations(Settings(order=Order.STRICT))
    group.join(0, 1)
    group.produce_keys(7, 7, 8, 7, 0)
    assert group.take(0) == [0]
    assert group.take(1) == [2]
    assert group.take(1) == [4]
    assert group.take(1) == []
    group.fail(0, 0, after_ns=SECOND)
    assert group.take(1) == []
    group.now_ns = SECOND
    assert group.take(1) == [0]
    group.ack(1, 0)
    assert group.take(0) == [1]
    group.ack(0, 1)
    assert group.take(0) == [3]


def test_8_in_relaxed_order_a_waiting_item_lets_later_ones_pass() -> None:
    group = GroupOperations(Settings(order=Order.RELAXED))
    group.join(0, 1)
    group.produce_keys(7, 7, 7)
    assert group.take(0) == [0]
    group.fail(0, 0, after_ns=SECOND)
    assert group.take(1) == [1]
    group.now_ns = SECOND
    assert group.take(0) == []  # never two with one key in hand
    group.ack(1, 1)
    assert group.take(0) == [0]


def test_8_a_dying_item_keeps_its_place() -> None:
    group = GroupOperations(Settings(order=Order.STRICT, deliveries_max=1))
    group.join(0, 1)
    group.produce_keys(7, 7)
    group.take(0)
    group.fail(0, 0)
    (letter,) = group.assign(0)
    assert letter.letter
    assert group.take(1) == []
    group.ack(0, 0)
    assert group.take(1) == [1]


def test_9_new_items_stop_at_the_limit_and_returned_ones_do_not() -> None:
    group = GroupOperations(Settings(outstanding_max=2))
    group.join(0)
    group.produce(10)
    assert group.take(0, 2) == [0, 1]
    assert group.take(0) == []
    group.fail(0, 0)
    assert group.take(0) == [0]
    group.ack(0, 0)
    assert group.take(0) == [2]


def test_9_messages_that_wait_for_their_due_time_are_not_counted_until_it_comes() -> None:
    group = GroupOperations(Settings(outstanding_max=2))
    group.join(0)
    group.produce(5, due_ns=SECOND)
    group.produce(3)
    assert group.take(0, 3) == [5, 6]
    assert (len(group.state.items), group.state.scheduled_count) == (7, 5)
    group.fail(0, 5, after_ns=2 * SECOND)  # it waits for a retry, and counts
    assert group.take(0) == []
    group.again(0)
    assert group.state.scheduled_count == 4
    assert group.take(0) == [0]
    group.start(0, 6)
    group.ack(0, 0, 6)
    assert group.take(0, 3) == [7]
    group.ack(0, 7)
    group.now_ns = SECOND
    group.produce(1)
    assert group.state.scheduled_count == 0
    assert group.take(0, 9) == [1, 2, 3, 4]  # although there are more than two, and so without the new one


def test_10_a_window_counts_from_the_known_end_on() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(3)
    for first, count, end in ((0, 2, 3), (1, 4, 5), (7, 3, 5)):
        group.apply(NO_SEAT, (Kind.WINDOW, Window(first, count, (1, 300), 9)))
        assert group.state.known_end == end
    assert group.state.witness == ((1, 300), 9)


def test_10_a_message_with_a_due_time_waits_for_it() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(1, due_ns=SECOND)
    group.produce(1)
    assert group.take(0) == [1]
    assert group.take(0) == []
    group.now_ns = SECOND
    assert group.take(0) == [0]
    group.ack(0, 0, 1)
    assert group.state.floor == 2


def test_10_a_message_whose_due_time_has_passed_is_new() -> None:
    group = GroupOperations()
    group.join(0)
    group.now_ns = 2 * SECOND
    group.produce(1, due_ns=SECOND)
    assert group.take(0) == [0]


@pytest.mark.parametrize("drops", [False, True])
def test_10_an_expired_message_dies_or_is_dropped(drops: bool) -> None:
    group = GroupOperations(Settings(on_expiry=OnExpiry.DROP if drops else OnExpiry.DEAD_LETTER))
    group.join(0)
    group.produce(1, expiry_ns=SECOND)
    group.produce(1)
    group.now_ns = SECOND
    if drops:
        assert group.take(0) == [1]
    else:
        assert group.take(0) == [1]
        assert group.assign(0)[0].letter == 1
        assert group.state.items[0].reason == EXPIRED
    assert group.state.counters.expired == 1


def test_11_messages_that_are_gone_are_done_and_counted() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(5)
    group.take(0, 2)
    group.apply(NO_SEAT, (Kind.GONE, [(0, 4)]))
    assert group.state.counters.gone == 4
    assert (group.state.floor, group.state.in_hand) == (4, 0)
    assert group.take(0) == [4]


def test_12_dying_items_are_assigned_one_at_a_time_in_their_order() -> None:
    group = GroupOperations(Settings(deliveries_max=1))
    group.join(0, 1)
    group.produce(4)
    assert group.take(0, 2) == [0, 1]
    group.start(0, 1)
    group.fail(0, 1)
    group.fail(0, 0)
    (first,) = group.assign(0)
    assert (first.sequence, first.letter) == (1, 1)
    assert [each.letter for each in group.assign(1, 2)] == [0]
    group.kill(0)
    assert [(each.sequence, each.letter) for each in group.assign(1)] == [(1, 1)]
    group.ack(1, 1)
    assert [(each.sequence, each.letter) for each in group.assign(1)] == [(0, 2)]


@pytest.mark.parametrize("keep", [False, True])
def test_13_a_reset_raises_the_epoch(keep: bool) -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(6)
    assert group.take(0, 4) == [0, 1, 2, 3]
    old = group.last(0)
    group.apply(NO_SEAT, (Kind.RESET, Reset(2, keep)))
    assert group.state.epoch == 1
    assert not group.apply(0, (Kind.DONE, [old]), epoch=0).counted
    group.produce(4)
    assert sorted(each for _ in range(7) for each in group.take(0)) == ([0, 1] if keep else []) + [2, 3, 4, 5]


def test_3_a_process_that_is_no_member_may_acknowledge_but_not_a_dying_item() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(2)
    group.take(0, 2)
    group.start(0, 1)
    assert group.apply(NO_SEAT, (Kind.DONE, [Delivery(0, 2)])).refused == [(0, 2)]
    assert group.apply(NO_SEAT, (Kind.DONE, [Delivery(0, 1)])).refused == []
    group.apply(NO_SEAT, (Kind.REJECT, [Failure(1, 1, 0, "bad")]))
    assert group.apply(NO_SEAT, (Kind.DONE, [Delivery(1, 1)])).refused == [(1, 1)]
    assert (group.state.counters.done, group.state.counters.dead) == (1, 0)
    assert group.assign(0)[0].letter == 1
    assert group.ack(0, 1) == []


def test_14_a_delayed_item_is_delivered_now() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(1)
    group.produce(1, due_ns=5 * SECOND)
    group.take(0)
    group.fail(0, 0, after_ns=5 * SECOND)
    assert group.take(0) == []
    group.again(0, delivery=9)  # which counts for a message that is done only
    assert [(each.sequence, each.delivery) for each in group.assign(0)] == [(0, 2)]
    group.again(1)
    assert [(each.sequence, each.delivery) for each in group.assign(0)] == [(1, 1)]
    group.again(1)  # it is started
    assert group.state_of(1) is ItemState.STARTED
    assert group.state.next_due_ns is None


def test_14_a_dead_letter_is_an_item_again_and_its_deliveries_begin_again() -> None:
    group = GroupOperations(Settings(deliveries_max=2, outstanding_max=1))
    group.join(0)
    group.produce(3)
    for _ in range(2):
        assert group.take(0) == [0]
        group.fail(0, 0)
    group.again(0, delivery=3)  # it is dying
    assert group.assign(0)[0].letter == 1
    group.ack(0, 0)
    assert group.take(0) == [1]
    assert group.state.floor == 1
    group.again(0)
    assert group.state_of(0) is None
    group.again(0, delivery=3)
    assert group.state.floor == 0
    assert group.apply(NO_SEAT, (Kind.DONE, [Delivery(0, 2)])).refused == [(0, 2)]
    assert group.assign(0)[0].delivery == 5  # although there is one outstanding item more than allowed
    assert group.take(0) == []
    group.fail(0, 0)
    assert group.state.items[0].reason == ""  # of its new deliveries this was the first one
    assert group.assign(0)[0].delivery == 6
    group.fail(0, 0)
    assert group.state.items[0].letter == 2


def test_14_a_message_that_is_new_or_held_is_not_delivered_twice() -> None:
    group = GroupOperations()
    group.join(0)
    group.produce(3)
    assert group.take(0, 2) == [0, 1]
    for sequence in (0, 1, 2, 7):
        group.again(sequence, delivery=5)
    assert [group.state_of(each) for each in (0, 1, 2, 7)] == [ItemState.STARTED, ItemState.HELD, None, None]
    assert group.take(0) == [2]


def test_14_two_operators_that_send_back_the_same_dead_letter_repeat_no_delivery_number() -> None:
    group = GroupOperations(Settings(deliveries_max=1))
    group.join(0)
    group.produce(1)
    group.take(0)
    group.fail(0, 0)
    (letter,) = group.assign(0)
    assert letter.letter
    group.ack(0, 0)
    numbers = []
    for _ in range(3):
        group.again(0, delivery=1)  # all of them have read that the last delivery was the first one
        (item,) = group.assign(0)
        numbers.append(item.delivery)
        group.ack(0, 0)
    assert numbers == [3, 4, 5]


@pytest.mark.parametrize("order", [Order.STRICT, Order.RELAXED])
def test_14_an_item_that_is_delivered_again_keeps_the_order_of_its_key(order: Order) -> None:
    group = GroupOperations(Settings(order=order))
    group.join(0, 1)
    group.produce_keys(7, 7, 7)
    group.take(0)
    group.ack(0, 0)
    assert group.take(0) == [1]
    group.apply(NO_SEAT, (Kind.AGAIN, [Again(0, 1, 7)]))
    assert group.state_of(0) is ItemState.BLOCKED  # a member has one with its key
    group.ack(0, 1)
    assert group.take(1) == [0]
    assert group.take(0) == []
    group.ack(1, 0)
    assert group.take(0) == [2]


def test_a_deleted_group_takes_nothing() -> None:
    group = GroupOperations()
    group.apply(NO_SEAT, (Kind.DELETED, None))
    assert not group.apply(0, (Kind.JOIN, Join())).counted
