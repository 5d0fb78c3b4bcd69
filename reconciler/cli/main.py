"""The `reconcile` command: its commands, and the three ways in which the process ends."""

from __future__ import annotations

import gc
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from reconciler import __version__
from reconciler.cli.options import cluster_option, flags, output_option, ref_option, repo_option
from reconciler.cli.process import end, interruptible
from reconciler.errors import ExitCode, ReconcilerError

COMMANDS = {
    "plan": "Show what a pass would do, and who would have to make room.",
    "validate": "Check task files and PriorityClasses without a cluster.",
    "queue": "List the jobs: state, durations and recoveries.",
    "show": "Show one job, its runs and its history.",
    "logs": "Print a job's output.",
    "render": "Print the manifests of a job as they would be sent.",
    "schema": "Print the JSON Schema of a kind of file, for editors.",
    "demo": "Play preemption and recovery on this machine in half a minute.",
}


class LazyGroup(click.Group):
    """A group that imports a command only when it is called, so that --help answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order in which people meet them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"reconciler.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from their one-line texts, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command where the first word is none."""
        if args[0] not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(COMMANDS)}."
            ctx.fail(f"there is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 fine, 1 failed, 2 usage, 3 something needs a person, 4 status not pushed, 5 a guard refused.",
)
@click.option("--once", is_flag=True, help="Make one pass and end; without it, go on as a loop.")
@click.option("--dry-run", is_flag=True, help="Decide and print, write nothing.")
@click.option("--wait", type=click.Choice(["started", "finished"]), help="Stay until every job with a file has.")
@click.option("--timeout", metavar="DURATION", help="How long --wait stays: 30s, 5m, 2h.")
@click.option("--interval", metavar="DURATION", help="Loop: pass at least this often (default: reconciler.yaml, 60s).")
@repo_option
@ref_option
@cluster_option
@flags
@output_option("json")
@click.version_option(__version__, prog_name="reconcile")
@click.pass_context
def cli(ctx: click.Context, /, **arguments: Any) -> None:
    """Make a cluster match the jobs in a git repository, and write their status back to it.

    \b
    reconcile --once                      apply the current commit (in CI: on each push)
    reconcile --once --wait finished      ... and stay until the jobs have ended
    reconcile                             keep the cluster in step until told to stop
    reconcile plan                        what would happen, and who would be preempted
    reconcile --once --cluster local      try it without a cluster: jobs run on this machine
    """  # noqa: D301 - \b keeps click from folding the examples
    if ctx.invoked_subcommand is None:
        from reconciler.cli.run import run

        try:
            run(**arguments)
        except KeyboardInterrupt:
            click.echo("reconcile: interrupted; nothing is lost, the next pass goes on from here", err=True)
            sys.exit(ExitCode.INTERRUPTED)
    for option in ctx.command.params:
        if ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE:
            words = f"{ctx.invoked_subcommand} {option.opts[0]}"
            ctx.fail(f"{option.opts[0]} stands before the command; options come after it: reconcile {words} ...")


def main() -> NoReturn:
    """Run the command line and end the process with its exit code.

    Expected errors are one line on stderr; an interrupt is 130; anything else is a bug of ours and comes with a report.
    """
    sys.setswitchinterval(0.0002)  # a thread would wait 5 ms for each piece of an answer while another parses
    gc.disable()  # a pass makes many objects and few cycles: looking for these took a tenth of it
    try:
        interruptible()
        code = _run()
    except (KeyboardInterrupt, click.Abort):
        click.echo("reconcile: interrupted", err=True)
        code = ExitCode.INTERRUPTED
    end(code)


def _run() -> int:
    try:
        cli.main(prog_name="reconcile", standalone_mode=False)
    except SystemExit as done:
        return int(done.code or ExitCode.FINE)
    except click.Abort:
        raise
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except ReconcilerError as error:
        click.echo(f"reconcile: {error}", err=True)
        return error.exit_code
    except OSError as error:  # a full disk, a folder without rights: the machine's owner must act, not we
        click.echo(f"reconcile: {error}", err=True)
        return ExitCode.FAILED
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is, it is reported as ours
        _report_bug(error)
        return ExitCode.BUG
    return ExitCode.FINE


def _report_bug(error: BaseException) -> None:
    """Print where it happened, and no message of an exception: these quote values, and a value may be a secret."""
    cause: BaseException | None = error
    while cause:
        click.echo("".join(traceback.format_tb(cause.__traceback__)) + type(cause).__qualname__, err=True)
        cause = cause.__cause__ or cause.__context__
    python = ".".join(str(part) for part in sys.version_info[:3])
    click.echo(
        f"reconcile: this is a bug in reconcile {__version__} (Python {python}, {sys.platform}). The cluster and the "
        "status branch are safe. Please report the lines above.",
        err=True,
    )
