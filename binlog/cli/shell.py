"""`binlog shell`: commands at a prompt or in a script's line.

It is built on the standard library's `cmd`, which gives history, editing and completion with readline and adds no
dependency.
"""

from __future__ import annotations

import cmd
import os
import shlex
import sys
from collections.abc import Iterable

import click

from binlog.cli.commands import load
from binlog.cli.exits import CommandError, ExitCode, print_error, run
from binlog.cli.options import directory_argument
from binlog.cli.output import printable

# Each command of the prompt is one of binlog's with some options, applied to DIR.  As in the shell of jPOS, `monitor`
# prints the records as they arrive.
_COMMANDS = {
    "monitor": ("tail", "-f", "-n", "0"),
    "watch": ("monitor",),
    "cutover": ("cutover",),
    "stat": ("stat",),
    "check": ("check",),
    "tail": ("tail",),
    "cat": ("cat",),
}
_HELP = {"monitor": "Print records as they arrive, until Ctrl-C."}
_WORDS = (*_COMMANDS, "help", "exit")


@click.command("shell", short_help="Run commands on one log, at a prompt or from cron.")
@directory_argument
@click.option(
    "-c",
    "line",
    metavar="COMMANDS",
    help="Run these commands, separated by ';', and exit. The first that fails ends the shell with its exit code.",
)
def command(directory: str, line: str | None) -> ExitCode:
    """Run commands on the log in DIR at a prompt: monitor, watch, cutover, stat, check, tail, cat, help, exit.

    'monitor' prints records as they arrive, until Ctrl-C; 'watch' is the live view of 'binlog monitor'.

    The commands take the same options as outside of the shell ('cutover --expected 3', 'tail -n 5'). Ctrl-C ends a
    command and returns to the prompt; Ctrl-D or 'exit' leaves the shell.

    For cron: binlog shell DIR -c "cutover; exit". Commands from a pipe or a file run in the same way: the first one
    that fails ends the shell with its exit code.
    """
    if not os.path.isdir(directory):
        raise CommandError(f"{directory}: no such directory", ExitCode.CANNOT_OPEN)
    shell = Shell(directory, interactive=line is None and os.isatty(0))
    if line is not None:
        shell.onecmd(line)
    else:
        shell.run()
    return shell.code


class Shell(cmd.Cmd):
    """The prompt.  `code` is that of the last command; always 0 if interactive, because the user saw each failure."""

    def __init__(self, directory: str, *, interactive: bool) -> None:
        super().__init__()
        self.code = ExitCode.OK
        self._directory = directory
        self._interactive = interactive
        self.prompt = "binlog> " if interactive else ""
        if interactive:
            self.intro = f"Log in {printable(directory)}. Type 'help' for the commands, 'exit' to leave."

    def run(self) -> None:
        """Read and run commands until the end of the input or 'exit'."""
        while True:
            try:
                self.cmdloop()
                return
            except RuntimeError:
                if sys.stdin is not None and not sys.stdin.closed:
                    raise
                raise CommandError("standard input is closed", ExitCode.USAGE) from None
            except KeyboardInterrupt:
                if not self._interactive:
                    raise
                click.echo()
                self.intro = None

    def onecmd(self, line: str) -> bool:
        """Run the commands of a line; return True to leave.  Unlike in `cmd`, an empty line repeats nothing."""
        if line == "EOF":  # `cmd` passes this at the end of the input
            if self._interactive:
                click.echo()
            return True
        try:
            commands = list(_split(line))
        except ValueError as error:
            print_error(f"{error} in: {line}")
            return self._failed(ExitCode.USAGE)
        return any(self._run(*words) for words in commands)

    def completenames(self, text: str, *ignored: object) -> list[str]:
        """Return the commands that start with the text."""
        return [word for word in _WORDS if word.startswith(text)]

    def _run(self, name: str, *arguments: str) -> bool:
        if name == "exit":
            return True
        if name == "help":
            self._help(arguments)
            return False
        if name not in _COMMANDS:
            print_error(f"{name}: no such command; use one of {', '.join(_WORDS)}")
            return self._failed(ExitCode.USAGE)
        code = ExitCode(run(lambda: self._invoke(name, arguments)))
        return self._failed(code) if code != ExitCode.OK else False

    def _invoke(self, name: str, arguments: Iterable[str]) -> object:
        command, *options = _COMMANDS[name]
        entry = load(command)
        # The directory comes last and must not be taken for an option.
        given = [*options, *arguments, "--", self._directory]
        with entry.make_context(name, given, help_option_names=["-h", "--help"]) as context:
            return entry.invoke(context)

    def _failed(self, code: ExitCode) -> bool:
        if self._interactive:
            return False
        self.code = code
        return True

    def _help(self, names: Iterable[str]) -> None:
        known = [name for name in names if name in _COMMANDS]
        for name in known:
            run(lambda name=name: self._invoke(name, ["--help"]))  # type: ignore[misc]
        if known:
            return
        for name in _COMMANDS:
            text = _HELP.get(name) or load(_COMMANDS[name][0]).get_short_help_str(80)
            click.echo(f"{name:8}  {text}")
        click.echo("help      Show this list; 'help cutover' explains a command.")
        click.echo("exit      Leave the shell; so does Ctrl-D.")


def _split(line: str) -> Iterable[list[str]]:
    """Split a line into commands and their words.  Quotes hold words together; ';' ends a command."""
    words = shlex.shlex(line, posix=True, punctuation_chars=";")
    words.whitespace_split = True
    words.commenters = ""
    found: list[str] = []
    for word in words:
        if word.strip(";"):
            found.append(word)
        elif found:
            yield found
            found = []
    if found:
        yield found
