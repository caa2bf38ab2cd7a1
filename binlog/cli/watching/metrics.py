"""`binlog metrics`: the metrics of logs, printed, in a file for node_exporter, or served to Prometheus."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import click

from binlog.cli.exits import CommandError, ExitCode, print_error, system_text
from binlog.cli.options import directories_argument, path_type, positions_option
from binlog.cli.output import write
from binlog.errors import BinlogError
from binlog.metrics import Exposition, Family, expose, log_families, write_textfile
from binlog.watching import view_log

_PORT = 9464
_ENDING = (signal.SIGINT, signal.SIGTERM)


def _address_from(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise click.BadParameter(f"{value!r} is not HOST:PORT, such as 127.0.0.1:{_PORT}")
    return host.removeprefix("[").removesuffix("]"), int(port)


@click.command("metrics", short_help="Print the metrics of logs, or serve them to Prometheus.")
@directories_argument
@positions_option
@click.option("--prometheus", is_flag=True, help="Print Prometheus's text format 0.0.4 in place of OpenMetrics.")
@click.option(
    "--textfile",
    type=path_type(),
    metavar="PATH.prom",
    help="Replace this file, in Prometheus's text format, for the textfile collector of node_exporter.",
)
@click.option(
    "--listen",
    "address",
    callback=_address_from,
    metavar="HOST:PORT",
    help=f"Serve the metrics at http://HOST:PORT/metrics, such as 127.0.0.1:{_PORT}, until Ctrl-C or SIGTERM. They are "
    "made when they are asked for. Everyone who can reach HOST may read them. Port 0: a free one, which is printed. "
    "Needs the extra 'metrics'.",
)
def command(
    directories: Sequence[str],
    positions: tuple[str, ...],
    prometheus: bool,
    textfile: str | None,
    address: tuple[str, int] | None,
) -> ExitCode:
    """Print the metrics of the logs in DIR...: files, durability, followers, consumer groups and seals.

    Only headers, positions and the state of groups and seals are read, no records. A log that cannot be read has
    'binlog_up' with the value 0. If there is one, the exit code is 1, and the error is printed too.
    """
    if sum((prometheus, textfile is not None, address is not None)) > 1:
        raise click.UsageError("give one of --prometheus, --textfile and --listen")
    if address is not None:
        return _serve(directories, positions, *address)
    families = log_families(directories, positions)
    if textfile is not None:
        write_textfile(textfile, families)
    else:
        write(expose(families, Exposition.PROMETHEUS if prometheus else Exposition.OPENMETRICS).encode())
    return _report(directories, families)


def _report(directories: Sequence[str], families: Sequence[Family]) -> ExitCode:
    """Print the error of each log that could not be read."""
    up = next(family for family in families if family.name == "binlog_up")
    failed = {sample.labels["log"] for sample in up.samples if not sample.value}
    for directory in directories:
        if directory in failed:
            try:
                view_log(directory)
            except BinlogError as error:
                print_error(str(error))
    return ExitCode.FAILED if failed else ExitCode.OK


def _serve(directories: Sequence[str], positions: tuple[str, ...], host: str, port: int) -> ExitCode:
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from binlog.metrics import Collector
    except ImportError as error:
        needs = "'--listen' needs the package prometheus_client"
        text = f"{needs}; install binlog's extra 'metrics': pip install '.[metrics]' in a checkout"
        raise CommandError(text, ExitCode.FAILED) from error
    registry = CollectorRegistry()
    registry.register(Collector(directories, positions=positions))
    # Blocked before the server's threads start, so that only sigwait gets these signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise CommandError(f"{host}:{port}: {system_text(error)}", ExitCode.CANNOT_OPEN) from error
    print_error(f"metrics at http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics")
    signal.sigwait(_ENDING)
    server.shutdown()
    server.server_close()
    thread.join()
    return ExitCode.OK
