"""`binlog shell`: commands at a prompt, or from a script's line.

Built on the standard library's `cmd`: with readline it has history, editing and completion, which is all that a few
commands for one directory need, and adds no dependency.
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

# The commands at a prompt: one of binlog's each, with some options, and given DIR.  `monitor` does what it does in
# the shell of jPOS: it prints the records as they come.
_COMMANDS = {
    "monitor": ("tail", "-f", "-n", "0"),
    "watch": ("monitor",),
    "cutover": ("cutover",),
    "stat": ("stat",),
    "check": ("check",),
    "tail": ("tail",),
    "cat": ("cat",),
}
_HELP = {"monitor": "Print records as they come, until Ctrl-C."}
_WORDS = (*_COMMANDS, "help", "exit")


@click.command("shell", short_help="Work on a log at a prompt, or from cron.")
@directory_argument
@click.option(
    "-c",
    "line",
    metavar="COMMANDS",
    help="Run the commands, separated by ';', and end; the first that fails ends it, with its exit code.",
)
def command(directory: str, line: str | None) -> ExitCode:
    """Work on the log in DIR at a prompt: monitor, watch, cutover, stat, check, tail, cat, help, exit.

    'monitor' prints records as they come, until Ctrl-C; 'watch' is the live view of 'binlog monitor'.

    Commands take the options that they have outside ('cutover --expected 3', 'tail -n 5'). Ctrl-C ends a command and
    comes back to the prompt; Ctrl-D or 'exit' leaves.

    For cron: binlog shell DIR -c "cutover; exit". Lines from a pipe or a file run in the same way: the first command
    that fails ends it, with its exit code.
    """
    if not os.path.isdir(directory):
        raise CommandError(f"{directory}: there is no such directory", ExitCode.CANNOT_OPEN)
    shell = Shell(directory, interactive=line is None and os.isatty(0))
    if line is not None:
        shell.onecmd(line)
    else:
        shell.run()
    return shell.code


class Shell(cmd.Cmd):
    """The prompt.  `code` is that of the last command run; interactively 0, for each failure was seen."""

    def __init__(self, directory: str, *, interactive: bool) -> None:
        super().__init__()
        self.code = ExitCode.OK
        self._directory = directory
        self._interactive = interactive
        self.prompt = "binlog> " if interactive else ""
        if interactive:
            self.intro = f"The log in {printable(directory)}. 'help' lists the commands, 'exit' leaves."

    def run(self) -> None:
        """Read and run commands until the input ends, or 'exit'."""
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
        """Run the commands of a line; whether that was the end.  An empty line repeats nothing, unlike cmd's own."""
        if line == "EOF":  # how cmd spells the end of input
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
        """The commands that begin with the text."""
        return [word for word in _WORDS if word.startswith(text)]

    def _run(self, name: str, *arguments: str) -> bool:
        if name == "exit":
            return True
        if name == "help":
            self._help(arguments)
            return False
        if name not in _COMMANDS:
            print_error(f"{name}: no such command; there are {', '.join(_WORDS)}")
            return self._failed(ExitCode.USAGE)
        code = ExitCode(run(lambda: self._invoke(name, arguments)))
        return self._failed(code) if code != ExitCode.OK else False

    def _invoke(self, name: str, arguments: Iterable[str]) -> object:
        command, *options = _COMMANDS[name]
        entry = load(command)
        # The directory comes last, and is not to be taken for an option.
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
        click.echo("help      This list; 'help cutover' says more about a command.")
        click.echo("exit      Leave; so does Ctrl-D.")


def _split(line: str) -> Iterable[list[str]]:
    """The words of each command of a line; quotes hold words together, ';' ends a command."""
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
