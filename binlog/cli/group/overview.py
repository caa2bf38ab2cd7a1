"""`binlog group ls`, `stat` and `peek`: groups, and their items, without taking any."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import click

import binlog
from binlog.cli.amounts import count_text, duration_text, size_text, things_text, time_text
from binlog.cli.exits import ExitCode, opening
from binlog.cli.group.messages import MESSAGE_TEXT, json_line, message_object, short_text
from binlog.cli.group.options import name_argument, time_from
from binlog.cli.options import directory_argument, json_option, need_log
from binlog.cli.output import printable, write, write_line, write_table
from binlog.cli.records import object_line
from binlog.cli.watching.texts import group_object, stat_object
from binlog.consumers import GroupStat, MemberStat, PeekedItem, Status, peek, stat_group
from binlog.watching import GroupView, view_groups

_GROUPS = ("GROUP", "MEMBERS", "LAG", "SINCE", "READY", "DELAYED", "IN HAND", "DEAD", "HELD", "STATE")
_LEAST = ("HELD", "READY", "DELAYED", "SINCE", "STATE")
_MEMBERS = ("SEAT", "GENERATION", "IN HAND", "STATE", "PROCESS")
_ITEMS = ("SEQUENCE", "STATUS", "DELIVERY", "SEAT", "DUE", "MESSAGE")
_COUNT = 10
_IN_HAND_SHOWN = 8


@click.command("ls", short_help="List the groups of a log.")
@directory_argument
@json_option(
    "Print a JSON object for each group, with the keys of 'binlog group stat --json', and problem: null, or why the "
    "group cannot be read."
)
def ls(directory: str, as_json: bool) -> ExitCode:
    """List the consumer groups of the log in DIR.

    LAG counts the messages that a group is not done with; SINCE is how long the first of them has been in the log.
    READY, DELAYED and IN HAND leave out messages that no member has had yet, unless they have a due time. HELD is the
    size of the closed files that retention keeps for the group. '-' means unknown. Exits with 1 if a group cannot be
    read.
    """
    with opening():
        need_log(directory)
        groups = view_groups(binlog.stat(directory))
    if as_json:
        for group in groups:
            write_line(object_line(group_object(group)))
    elif groups:
        write_table(_GROUPS, [_group_row(group) for group in groups], left=("GROUP", "STATE"), droppable=_LEAST)
    else:
        write_line("no groups")
    problems = [group for group in groups if group.problem is not None]
    if not as_json:
        for group in problems:
            write_line(printable(f"{group.name}: {group.problem}"))
    return ExitCode.FAILED if problems else ExitCode.OK


def _group_row(group: GroupView) -> tuple[str, ...]:
    stat = group.stat
    if stat is None:
        return (group.name, *["-"] * (len(_GROUPS) - 2), "unreadable")
    return (
        group.name,
        count_text(len(stat.members)),
        count_text(stat.lag),
        "-" if stat.lag_seconds is None else duration_text(stat.lag_seconds),
        count_text(stat.ready),
        count_text(stat.delayed),
        count_text(stat.in_hand),
        count_text(stat.dead_letters),
        "-" if stat.held_bytes is None else size_text(stat.held_bytes),
        "paused" if stat.is_paused else "",
    )


@click.command("stat", short_help="Show a group: its members, items and settings.")
@directory_argument
@name_argument
@click.option(
    "--at",
    "at_ns",
    metavar="TIME",
    callback=time_from,
    help="As it was at this time: 2025-01-31T12:00:00Z (UTC if it has no offset), or 5m, 2h or 1d for that long ago.",
)
@json_option("Print one JSON object: name, floor, next, lag, the items in each state, members, counters, settings.")
def stat(directory: str, name: str, at_ns: int | None, as_json: bool) -> None:
    """Show the consumer group NAME of the log in DIR.

    The floor is the first message that is not done; 'next' is the first message that no member has had. A member whose
    process is gone is 'dead' until another member notices. With --at, the lag counts the messages that the group knew
    at that time, and values that are known only for the present are left out.
    """
    with opening():
        need_log(directory)
        found = stat_group(directory, name, at_ns=at_ns)
    if as_json:
        write_line(object_line(stat_object(found)))
        return
    for line in _lines(found):
        write_line(printable(line))
    if found.members:
        write_table(_MEMBERS, [_member_row(each) for each in found.members], left=("IN HAND", "STATE", "PROCESS"))


def _lines(found: GroupStat) -> Iterator[str]:
    lag = "lag unknown" if found.lag is None else f"lag {things_text(found.lag, 'message')}"
    since = f" since {duration_text(found.lag_seconds)}" if found.lag and found.lag_seconds is not None else ""
    yield f"{found.name}: floor {found.floor}, next {found.next}, {lag}{since}{'; paused' if found.is_paused else ''}"
    yield (
        f"ready {found.ready}, delayed {found.delayed}, blocked {found.blocked}, in hand {found.in_hand}, "
        f"dying {found.dying}; dead letters {found.dead_letters}"
    )
    if (oldest := found.oldest_in_hand) is not None:
        began = "" if oldest.since_ns is None else f" since {time_text(oldest.since_ns)}"
        yield f"oldest in hand: message {oldest.sequence}, delivery {oldest.delivery}, seat {oldest.seat}{began}"
    if found.next_due_ns is not None:
        wait = (found.next_due_ns - time.time_ns()) / 1e9
        yield f"next due {time_text(found.next_due_ns)}{f', in {duration_text(wait)}' if wait > 0 else ''}"
    if found.held_bytes:
        yield f"retention keeps {size_text(found.held_bytes)} of closed files for it"
    counters = found.counters
    yield (
        f"so far: done {counters.done}, deliveries {counters.started}, failed {counters.failed}, "
        f"members died {counters.died}, expired {counters.expired}, gone {counters.gone}, resets {found.epoch}"
    )
    yield _settings_line(found)


def _settings_line(found: GroupStat) -> str:
    settings, retry = found.settings, found.settings.retry
    holds = "always"
    if settings.holds_ns:
        holds = duration_text(settings.holds_ns / 1e9)
    elif settings.holds_bytes:
        holds = size_text(settings.holds_bytes)
    return (
        f"settings: deliveries-max {retry.deliveries_max or 'none'}, first {retry.first:g} s, factor {retry.factor:g}, "
        f"most {retry.most:g} s, jitter {retry.jitter:g}, order {settings.order.value}, "
        f"on-expiry {settings.on_expiry.value}, outstanding-max {settings.outstanding_max}, "
        f"in-hand-max {settings.in_hand_max or 'none'}, holds {holds}"
    )


def _member_row(member: MemberStat) -> tuple[str, ...]:
    shown = ", ".join(map(str, member.in_hand[:_IN_HAND_SHOWN]))
    more = len(member.in_hand) - _IN_HAND_SHOWN
    state = "-" if member.is_alive is None else "alive" if member.is_alive else "dead"
    return (
        str(member.seat),
        str(member.generation),
        (f"{shown} and {more} more" if more > 0 else shown) or "-",
        state,
        member.hint,
    )


_STATUS_TEXTS = {
    Status.READY: "Messages that came back, and that a member may get.",
    Status.DELAYED: "Messages that wait for a retry or for their due time.",
    Status.BLOCKED: "Messages that wait for another one with their key.",
    Status.IN_HAND: "Messages that a member has.",
    Status.DYING: "Messages that are to become dead letters.",
    Status.NEW: "Messages that no member has had yet.",
}


def _parameter(status: Status) -> str:
    return f"is_{status.name.lower()}"


def status_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each status."""
    for status, text in reversed(_STATUS_TEXTS.items()):
        command = click.option(f"--{status.value}", _parameter(status), is_flag=True, help=text)(command)
    return command


@click.command("peek", short_help="Show messages that a group is not done with.")
@directory_argument
@name_argument
@status_options
@click.option(
    "-n", "count", type=click.IntRange(min=0), default=_COUNT, show_default=True, metavar="N", help="N at most."
)
@json_option(
    f"Print a JSON object for each message: sequence, status, delivery, seat, due, reason, ref, {MESSAGE_TEXT}."
)
def peek_(directory: str, name: str, count: int, as_json: bool, **is_chosen: bool) -> None:
    """Show messages that the consumer group NAME of the log in DIR is not done with; take none.

    First come those that were delivered before, or have a due time, and then new ones. The options for a status select
    messages; with several of them, each message has one of these statuses. A long message is cut; --json prints all of
    it.
    """
    chosen = tuple(each for each in Status if is_chosen[_parameter(each)]) or tuple(Status)
    with opening():
        need_log(directory)
        found = peek(directory, name, statuses=chosen, count=count)
    if as_json:
        for item in found:
            write(json_line(_item_object(item)))
        return
    rows = [_item_row(item) for item in found]
    if rows:
        write_table(_ITEMS, rows, left=("STATUS", "MESSAGE"), droppable=("DUE", "SEAT"))
    else:
        write_line("no messages")


def _item_row(item: PeekedItem) -> tuple[str, ...]:
    text = item.problem or ""
    if item.message is not None:
        text = short_text(bytes(item.message.body))
    if item.reason:
        text = f"[{item.reason}] {text}"
    return (
        str(item.sequence),
        item.status.value,
        count_text(item.delivery),
        "-" if item.seat is None else str(item.seat),
        time_text(item.due_ns),
        text,
    )


def _item_object(item: PeekedItem) -> dict[str, object]:
    message = item.message
    found: dict[str, object] = {
        "sequence": item.sequence,
        "status": item.status.value,
        "delivery": item.delivery,
        "seat": item.seat,
        "due": None if item.due_ns is None else time_text(item.due_ns),
        "reason": item.reason,
        "ref": None if item.ref is None else str(item.ref),
    }
    if message is None:
        return {**found, "problem": item.problem}
    return {**found, **message_object(bytes(message.body), message.key, message.headers)}


COMMANDS = (ls, stat, peek_)
