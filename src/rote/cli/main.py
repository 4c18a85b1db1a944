"""`rote`: the table of contents, and one place where errors become sentences and exit codes.

Exit codes: 0 fine; 1 the answer is no; 2 bad usage or bad data; 3 a fault in rote itself; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import Annotated

import typer

# Threads that wait should sleep, not spin: spinning makes small machines with other work crawl.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from rote._version import __version__
from rote.cli import (
    ask,
    audit,
    bound,
    build,
    check,
    export,
    facts,
    fit,
    graft,
    measure,
    plan,
    report,
    reproduce,
    results,
    sweep,
    theorems,
    ui,
    verify,
)
from rote.errors import RoteError

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="rote",
    help="How much a transformer can memorise, and the weights that do it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Typer carries its own copy of click in some releases and depends on click in others; both have this base class.
_UsageTrouble: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

THEORY = "How much fits"
MODELS = "Models"
DATA = "Facts"
MEASURED = "Measurements"
LOOK = "In the browser"

app.command("bound", rich_help_panel=THEORY)(bound.bound)
app.command("plan", rich_help_panel=THEORY)(plan.plan)
app.command("check", rich_help_panel=THEORY)(check.check)
app.command("theorems", rich_help_panel=THEORY)(theorems.theorems)
app.command("build", rich_help_panel=MODELS)(build.build)
app.command("verify", rich_help_panel=MODELS)(verify.verify)
app.command("ask", rich_help_panel=MODELS)(ask.ask)
app.command("export", rich_help_panel=MODELS)(export.export)
app.command("graft", rich_help_panel=MODELS)(graft.graft)
app.command("ungraft", rich_help_panel=MODELS)(graft.ungraft)
app.command("audit", rich_help_panel=MODELS)(audit.audit)
app.command("measure", rich_help_panel=MEASURED)(measure.measure)
app.command("sweep", rich_help_panel=MEASURED)(sweep.sweep)
app.command("results", rich_help_panel=MEASURED)(results.results)
app.command("fit", rich_help_panel=MEASURED)(fit.fit)
app.command("reproduce", rich_help_panel=MEASURED)(reproduce.reproduce)
app.command("report", rich_help_panel=MEASURED)(report.report)
app.command("ui", rich_help_panel=LOOK)(ui.ui)
app.add_typer(facts.app, name="facts", rich_help_panel=DATA)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"rote {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere on the line.")] = False,
) -> None:
    pass


def main(argv: list[str] | None = None) -> None:
    """Run the command line; never returns."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [word for word in args if word != "--debug"]
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    code = run(args, debug=debug)
    # What was asked for is done: an interrupt from here on must not change the exit code.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _interrupt(number: int, frame: object) -> None:
    """Being told to stop is ctrl-C: temporary files are removed on the way out."""
    raise KeyboardInterrupt


def run(args: list[str], *, debug: bool = False) -> int:
    """Run one command line and return its exit code."""
    try:
        result = app(args=args, prog_name="rote", standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except _UsageTrouble as error:
        message = str(error.format_message()) if hasattr(error, "format_message") else str(error)
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(message)
        else:
            end = "" if message.endswith((".", "?")) else "."
            _say(f"{message}{end} See `rote --help`, or the help of the verb.")
        return 2
    except RoteError as error:
        if debug:
            raise
        _say(str(error))
        return error.exit_code
    except BrokenPipeError:
        # The reader went away (`rote ... | head`); stay quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        hint = (
            "free some space and run it again" if error.errno == errno.ENOSPC else "check the path and its permissions"
        )
        _say(f"{error.strerror or error}{where}; {hint}.")
        return 2
    except MemoryError:
        if debug:
            raise
        _say("not enough memory for this; try a smaller shape or fewer facts.")
        return 2
    except Exception as error:
        if debug:
            raise
        if isinstance(error, RuntimeError) and "allocate memory" in str(error):
            _say("not enough memory for this; try a smaller shape or fewer facts.")
            return 2
        _say(
            f"a fault in rote itself, {type(error).__name__}: {error}. Run again with --debug and report the traceback."
        )
        return 3
    if result == 130:
        # Typer turns ctrl-C into a result of its own.
        return _interrupted()
    return result if isinstance(result, int) else 0


def _interrupted() -> int:
    _say("interrupted; nothing was left half-written.")
    return 130


def _say(sentence: str) -> None:
    sys.stderr.write(f"rote: {sentence}\n")
