"""`binlog completion`: the script with which a shell completes the words of a command."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from binlog.cli.commands import COMPLETE_VARIABLE
from binlog.cli.output import write_line


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands, options, directories (DIR) and numbers of files.

    \b
    bash: add to ~/.bashrc:  eval "$(binlog completion bash)"
    zsh:  add to ~/.zshrc:   eval "$(binlog completion zsh)"
    fish: binlog completion fish > ~/.config/fish/completions/binlog.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None
    write_line(completion(context.find_root().command, {}, "binlog", COMPLETE_VARIABLE).source().strip())
