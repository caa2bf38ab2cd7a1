"""`binlog pagestore`: inspect and maintain a page store."""

from __future__ import annotations

import datetime as dt

import click

from binlog.cli.amounts import count_text, size_text, things_text
from binlog.cli.commands import OrderedGroup
from binlog.cli.exits import ExitCode, opening, print_problems
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write, write_line, write_table
from binlog.cli.records import content_json, lines, object_line
from binlog.pagestore import (
    Message,
    PageStore,
    PageStoreStat,
    PreparedTransaction,
    Xid,
    check_page_store,
    parse_xid,
    read_queue,
    stat_page_store,
)

_NAMES = ("QUEUE", "MESSAGES", "DELIVERED", "INDEX PAGES")


@click.group("pagestore", cls=OrderedGroup, no_args_is_help=False, short_help="Inspect or maintain a page store.")
def command() -> None:
    """Inspect or maintain the page store in DIR.

    stat, print, check, and xa without an option may run while another process has the store open, and change nothing.
    The other commands need the store to themselves.
    """


@command.command("stat", short_help="Show pages and queues.")
@directory_argument
@json_option("Print a JSON object: page_bytes, page_count, free_count, generation, record_count, queues, prepared, ...")
def stat(directory: str, as_json: bool) -> None:
    """Show the pages and queues of the store in DIR.

    MESSAGES includes those of prepared transactions, which 'binlog pagestore xa' shows. DELIVERED counts the messages
    that were delivered at least once.
    """
    with opening():
        found = stat_page_store(directory)
    if as_json:
        write_line(object_line(_as_object(found)))
        return
    has = f"open in {found.holder or 'a process'}" if found.is_owned else "not open"
    size = size_text(found.page_bytes * found.page_count)
    write_line(
        f"{things_text(found.page_count, 'page')} of {size_text(found.page_bytes)}, {size}, "
        f"{count_text(found.free_count)} free; {has}"
    )
    write_line(
        f"generation {found.generation}, {things_text(found.record_count, 'record')} in the log; "
        f"{things_text(len(found.prepared), 'prepared transaction')}"
    )
    rows = [
        (each.name, count_text(each.message_count), count_text(each.delivered_count), count_text(each.index_pages))
        for each in found.queues
    ]
    write_table(_NAMES, rows, left=_NAMES[:1])


def _as_object(found: PageStoreStat) -> dict[str, object]:
    queues = [queue._asdict() for queue in found.queues]
    return {**found._asdict(), "queues": queues, "prepared": [str(each.xid) for each in found.prepared]}


@command.command("print", short_help="Print the messages of a queue.")
@directory_argument
@click.argument("queue")
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Print at most N messages.")
@json_option(
    'Print a JSON object for each message: key, priority, delivery_count, expiration, and the message as "text", or as '
    '"base64" if it is not UTF-8.'
)
def print_(directory: str, queue: str, count: int | None, as_json: bool) -> None:
    """Print the messages of a queue of the store in DIR, one per line, in the order of their keys.

    Prints all of them, including those that a prepared transaction puts or gets, and removes none. A message that
    contains a newline takes several lines; --json keeps it in one.
    """
    with opening():
        messages = read_queue(directory, queue, count)
    write("".join(map(_json_line, messages)).encode() if as_json else lines(each.body for each in messages))


def _json_line(message: Message) -> str:
    _, key, body, priority, delivery_count, expiration = message
    values = f'"key":{key},"priority":{priority},"delivery_count":{delivery_count},"expiration":{expiration}'
    return f"{{{values},{content_json(body)}}}\n"


@command.command("check", short_help="Report every problem.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing if there is none.")
def check(directory: str, as_json: bool) -> ExitCode:
    """Check the page store in DIR, and report every problem; repair nothing.

    Reads every page, and prints a line for each problem: the file, the offset, a description, and the rule that is
    violated. Exits with 1 if there is any. The remains of a crash that the next process cleans up are not a problem.
    """
    with opening():
        problems = check_page_store(directory)
    return print_problems(problems, as_json=as_json)


@command.command("backup", short_help="Copy a store to a new folder.")
@directory_argument
@click.argument("to", type=click.Path())
def backup(directory: str, to: str) -> None:
    """Copy the page store in DIR to the folder TO, which must be new or empty. The copy can be opened as a store.

    If a process has the store open, this exits with 4; that process can make a backup itself (PageStore.backup).
    """
    with opening():
        stat_page_store(directory)  # so that opening does not create a store
        store = PageStore(directory)
    with store:
        store.backup(to)


@command.command("shrink", short_help="Truncate free pages.")
@directory_argument
def shrink(directory: str) -> None:
    """Truncate the file of pages of the store in DIR after the last page in use.

    If a process has the store open, this exits with 4; that process can do it itself (PageStore.shrink).
    """
    with opening():
        before = stat_page_store(directory).page_count
        store = PageStore(directory)
    with store:
        count = store.shrink()
    write_line(f"{things_text(count, 'page')} left of {before}")


@command.command("xa", short_help="Show prepared transactions, or end one.")
@directory_argument
@click.option("--commit", "to_commit", metavar="XID", help="Commit this one.")
@click.option("--rollback", "to_roll_back", metavar="XID", help="Roll this one back.")
def xa(directory: str, to_commit: str | None, to_roll_back: str | None) -> None:
    """Show the prepared transactions of the store in DIR, one per line; or end one of them.

    An XID is its format, global id and branch, the latter two in hexadecimal digits: 1:0a0b:0c. The transaction's
    coordinator decides how it ends. If you end it by hand, its other participants may end it differently.
    """
    if to_commit and to_roll_back:
        raise click.UsageError("--commit and --rollback exclude each other")
    text = to_commit or to_roll_back
    with opening():
        xid = parse_xid(text) if text else None
        found = stat_page_store(directory)
        if xid is None:
            for each in found.prepared:
                write_line(printable(_line(each)))
            return
        store = PageStore(directory)
    _end(store, xid, commits=to_commit is not None)


def _end(store: PageStore, xid: Xid, *, commits: bool) -> None:
    with store:
        (store.commit_prepared if commits else store.rollback_prepared)(xid)


def _line(prepared: PreparedTransaction) -> str:
    when = dt.datetime.fromtimestamp(prepared.prepared_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    puts = " ".join(f"+{queue}:{key}" for queue, key in prepared.puts)
    gets = " ".join(f"-{queue}:{key}" for queue, key in prepared.gets)
    return " ".join(filter(None, (str(prepared.xid), when, puts, gets)))
