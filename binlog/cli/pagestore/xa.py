"""`binlog pagestore xa`: show prepared transactions, or end one by hand."""

from __future__ import annotations

import datetime as dt

import click

from binlog.cli.exits import opening
from binlog.cli.options import directory_argument
from binlog.cli.output import printable, write_line
from binlog.pagestore import PageStore, PreparedTransaction, Xid, parse_xid, stat_page_store


@click.command("xa", short_help="Show prepared transactions, or end one.")
@directory_argument
@click.option("--commit", "to_commit", metavar="XID", help="Commit this one.")
@click.option("--rollback", "to_roll_back", metavar="XID", help="Roll this one back.")
def command(directory: str, to_commit: str | None, to_roll_back: str | None) -> None:
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
