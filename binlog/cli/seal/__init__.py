"""`binlog seal`: seal a log, so that each later change shows, and verify it.

`sealing` begins a seal, runs the sealer and shows its state; `verifying` compares a log with its seal, and makes and
checks proofs of single records; `operating` has the decisions of an operator.  `witness` is a command of its own,
`binlog witness`.
"""

from __future__ import annotations

import importlib

import click

from binlog.cli.commands import SuggestingGroup
from binlog.cli.exits import CommandError, ExitCode

# The module of each command; imported on first use, because it imports `cryptography`.
_MODULES = {
    "init": "sealing",
    "run": "sealing",
    "once": "sealing",
    "status": "sealing",
    "verify": "verifying",
    "prove": "verifying",
    "check-proof": "verifying",
    "export": "verifying",
    "statements": "operating",
    "prune": "operating",
    "hold": "operating",
    "release": "operating",
    "accept-loss": "operating",
    "end": "operating",
    "branch": "operating",
}


class SealCommands(SuggestingGroup):
    """The subcommands, which are in the modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        try:
            module = importlib.import_module(f"{__name__}.{_MODULES[cmd_name]}")
        except ModuleNotFoundError as error:
            if error.name != "cryptography":
                raise
            needs = "'binlog seal' needs the package cryptography"
            text = f"{needs}; install binlog's extra 'seal': pip install '.[seal]' in a checkout"
            raise CommandError(text, ExitCode.USAGE) from error
        found = next(each for each in module.COMMANDS if each.name == cmd_name)
        assert isinstance(found, click.Command)
        return found


@click.group("seal", cls=SealCommands, no_args_is_help=False, short_help="Show each later change of a log's records.")
def command() -> None:
    """Seal the log in DIR, so that it shows if a record is changed or removed later.

    One process, the sealer, adds each durable record to a hash tree, and signs the root of the tree every second. The
    signed root is a checkpoint. Writers do no work for this. A checkpoint that is kept elsewhere also shows if the end
    of the log was cut off. Checkpoints and proofs have the formats of C2SP, so other programs can verify them too.

    Keep the secret key outside DIR. To verify, take the public key from elsewhere too.
    """
