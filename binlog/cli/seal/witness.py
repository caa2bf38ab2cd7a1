"""`binlog witness`: sign checkpoints of other logs, but none that contradicts an earlier one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import click

from binlog.cli.commands import OrderedGroup
from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.options import directory_argument
from binlog.cli.output import printable, write, write_line
from binlog.errors import BinlogError

_SUBMISSION_BYTES_MAX = 1 << 17
_SECONDS_MAX = 10.0


def _seal() -> Any:
    """Import binlog.seal, which needs the package `cryptography`."""
    try:
        import binlog.seal
    except ModuleNotFoundError as error:
        if error.name != "cryptography":
            raise
        needs = "'binlog witness' needs the package cryptography"
        text = f"{needs}; install binlog's extra 'seal': pip install '.[seal]' in a checkout"
        raise CommandError(text, ExitCode.USAGE) from error
    return binlog.seal


@click.group("witness", cls=OrderedGroup, no_args_is_help=False, short_help="Sign checkpoints of other sealed logs.")
def command() -> None:
    """Be a witness: sign checkpoints of sealed logs, but none that contradicts one that was signed before.

    DIR has the witness's key, the logs that it knows, and the latest checkpoint of each. A sealer hands checkpoints to
    it over HTTP ('serve'), or over ssh: with 'command="binlog witness accept DIR"' before a key in authorized_keys, the
    sealer's option is --anchor 'witness-exec:ssh HOST'.
    """


@command.command("init", short_help="Make a witness.")
@directory_argument
@click.option("--name", required=True, help="Names the witness in signatures, for example example.org/witness.")
def init(directory: str, name: str) -> None:
    """Make a witness with a new key in DIR, and print its public key."""
    with opening():
        verifier = _seal().make_witness(directory, name)
    write_line(printable(str(verifier)))


@command.command("trust", short_help="Sign for a log from now on.")
@directory_argument
@click.argument("vkey", metavar="KEY")
def trust(directory: str, vkey: str) -> None:
    """Sign the checkpoints of the log with the public key KEY from now on."""
    with opening(), _seal().Witness(directory) as witness:
        witness.trust(vkey)


@command.command("list", short_help="Show the logs, and how far they have come.")
@directory_argument
def list_command(directory: str) -> None:
    """Print a line for each log: its size in the latest checkpoint that was signed, and its public key."""
    with opening(), _seal().Witness(directory) as witness:
        for key in witness.logs():
            note = witness.latest(key.name)
            size = "0" if note is None else note.text.splitlines()[1]
            write_line(printable(f"{size} {key}"))


@command.command("accept", short_help="Answer one submission on standard input.")
@directory_argument
def accept(directory: str) -> None:
    """Answer one submission of a sealer on standard input: print a status as in HTTP, and then the answer.

    It is meant as a forced command of ssh.
    """
    with opening():
        witness = _seal().Witness(directory)
    with witness:
        answer = witness.answer(sys.stdin.buffer.read(_SUBMISSION_BYTES_MAX))
    write(f"{answer.status}\n{answer.body}".encode())


@command.command("serve", short_help="Answer submissions over HTTP, until it is stopped.")
@directory_argument
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8080", show_default=True, help="Where to listen.")
def serve(directory: str, listen: str) -> None:
    """Answer submissions of sealers over HTTP (C2SP tlog-witness), until Ctrl-C.

    Prints the URL for the sealer's option --anchor witness:URL. If other machines use it, put a server with TLS in
    front of it.
    """
    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise click.UsageError(f"--listen: not HOST:PORT: {listen}")
    with opening():
        witness = _seal().Witness(directory)
    try:
        server = ThreadingHTTPServer((host, int(port)), _handler(witness.answer))
    except OSError as error:
        raise CommandError(f"{listen}: {error.strerror}", ExitCode.CANNOT_OPEN) from error
    with witness, server:
        write_line(f"http://{host}:{server.server_port}")
        server.serve_forever()


def _handler(answer: Callable[[bytes], Any]) -> type[BaseHTTPRequestHandler]:
    """Return a request handler.  answer: takes a submission."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS_MAX

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not self.path.endswith("/add-checkpoint"):
                self.send_error(404)
            elif not (length.isascii() and length.isdigit() and int(length) <= _SUBMISSION_BYTES_MAX):
                self.send_error(413)
            else:
                try:
                    found = answer(self.rfile.read(int(length)))
                except BinlogError as error:
                    self.send_error(500, explain=str(error))
                    return
                body = found.body.encode()
                self.send_response(found.status)
                kind = "text/x.tlog.size" if body.strip().isdigit() else "text/plain; charset=utf-8"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server uses
            """Print nothing for each request."""

    return Handler
