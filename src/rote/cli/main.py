"""`rote`: the table of contents, and one place where errors become sentences and exit codes.

Exit codes: 0 fine; 1 the answer is no; 2 bad usage or bad data; 3 a fault in rote itself; 130 interrupted.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import re
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# Threads that wait should sleep, not spin: spinning makes small machines with other work crawl.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from rote._version import __version__
from rote.data._atomic import disk_is_full
from rote.errors import RoteError, UsageError
from rote.memory_budget import out_of_memory

__all__ = ["app", "main", "run"]

THEORY = "How much fits"
MODELS = "Models"
DATA = "Facts"
MEASURED = "Measurements"
LOOK = "In the browser"

VERBS: dict[str, tuple[str, str]] = {
    "bound": (THEORY, "How many facts does this shape hold, according to every theorem?"),
    "plan": (THEORY, "How small a model will do? For every construction the smallest shape."),
    "check": (THEORY, "Hold data against the assumptions of the theorems."),
    "theorems": (THEORY, "List every theorem that rote knows, or show one in full."),
    "build": (MODELS, "Build a transformer that recalls every fact; no training."),
    "verify": (MODELS, "Reload a model directory and run every fact through the referee."),
    "ask": (MODELS, "Ask a model for what follows a context."),
    "locate": (MODELS, "Which weights carry a fact? Which facts depend on a weight?"),
    "edit": (MODELS, "Change, forget or add single facts of a model, and certify it again."),
    "compare": (MODELS, "Two models side by side: facts, weights, logits, membership."),
    "export": (MODELS, "Write a model as GGUF or ONNX, checked by what runs it."),
    "card": (MODELS, "Write the README.md of a model directory anew: a model card."),
    "zoo": (MODELS, "Build a dozen models of known content, with cards."),
    "graft": (MODELS, "Write facts into a pretrained language model."),
    "ungraft": (MODELS, "Take the added layers off again."),
    "audit": (MODELS, "Hold the hidden states of a model against the assumptions."),
    "measure": (MEASURED, "Measure how many facts a shape holds, by training or building."),
    "sweep": (MEASURED, "Measure a grid of shapes; resumable."),
    "results": (MEASURED, "List or export the results of sweeps."),
    "fit": (MEASURED, "Fit a law to results, and compare it with the theorems."),
    "reproduce": (MEASURED, "Reproduce the figures of the papers."),
    "report": (MEASURED, "One page of results."),
    "ui": (LOOK, "Explore in the browser: bounds, builds, questions, results."),
    "facts": (DATA, "Facts: list the shipped ones, look into a file, export, generate."),
}
"""The table of contents. A verb is imported when it is used, so that this page appears at once."""

_HOMES = {"ungraft": "graft"}
_GRAFT_VERBS = ("add", "remove", "update", "pack", "apply")
"""What may stand after `rote graft` in the place of a model."""
_PAIRS = {"edit": ("--set", "--insert")}
"""Options that take two values and may be repeated, which typer has no notion of."""


class Contents(TyperGroup):
    """The verbs by name; what each of them needs is loaded with it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The entry of a verb, for lists."""
        if cmd_name not in VERBS:
            return None
        panel, help = VERBS[cmd_name]
        return TyperCommand(cmd_name, help=help, rich_help_panel=panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb itself."""
        name, entry, rest = super().resolve_command(ctx, args)
        if name == "graft" and rest and rest[0] in _GRAFT_VERBS:
            return _graft_verb(rest)
        return name, None if entry is None else _load(str(name)), rest


def _load(name: str) -> Any:
    module = importlib.import_module(f"rote.cli.{_HOMES.get(name, name)}")
    group = getattr(module, "app", None)
    if group is not None:
        return typer.main.get_group(group)
    return _single(name, getattr(module, name))


def _single(name: str, function: Any) -> Any:
    single = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    single.command(name, context_settings=_SETTINGS, help=_flowing(function))(function)
    return typer.main.get_command(single)


def _flowing(function: Any) -> str:
    """A docstring whose paragraphs are lines, for terminals of any width; indented ones are kept as they are."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(text if text.startswith(" ") else " ".join(text.split("\n")) for text in paragraphs)


def _graft_verb(args: list[str]) -> tuple[str, Any, list[str]]:
    """A verb after `graft`, in the place of a model; a model of that name has to be written otherwise."""
    verb = args[0]
    if os.path.isdir(verb):
        raise UsageError(
            f"{verb} is a verb of rote graft, and there is a directory of that name; write ./{verb} for the directory, "
            "or call the verb from elsewhere."
        )
    name = f"graft {verb}"
    return name, _single(name, getattr(importlib.import_module("rote.cli.graft_life"), verb)), args[1:]


_SETTINGS = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="rote",
    cls=Contents,
    help="How much a transformer can memorise, and the weights that do it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)

# Typer carries its own copy of click in some releases and depends on click in others; both have this base class.
_UsageTrouble: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


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
    # Of all that libraries have made, nothing is looked through for garbage once more, which takes up to a second.
    gc.freeze()
    sys.exit(code)


def _interrupt(number: int, frame: object) -> None:
    """Being told to stop is ctrl-C: temporary files are removed on the way out."""
    raise KeyboardInterrupt


def run(args: list[str], *, debug: bool = False) -> int:
    """Run one command line and return its exit code."""
    try:
        result = app(args=_paired(args), prog_name="rote", standalone_mode=False)
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
        _say(_as_typed(str(error)))
        return error.exit_code
    except BrokenPipeError:
        # The reader went away (`rote ... | head`); stay quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        if disk_is_full(error):
            _say(f"the disk is full{where}; free some space and run it again.")
        else:
            _say(f"{error.strerror or error}{where}; check the path and its permissions.")
        return 2
    except MemoryError:
        if debug:
            raise
        _say("not enough memory for this; try a smaller shape or fewer facts.")
        return 2
    except Exception as error:
        if debug:
            raise
        if disk_is_full(error):
            _say(f"the disk is full ({error}); free some space and run it again.")
            return 2
        if out_of_memory(error):
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


def _paired(args: list[str]) -> list[str]:
    """The arguments with the two values of a pair as one, a NUL between them, which no argument holds."""
    pairs = _PAIRS.get(args[0] if args else "", ())
    joined, left = [], list(args)
    while left:
        word = left.pop(0)
        joined.append(word)
        if word in pairs:
            if len(left) < 2:
                raise UsageError(f"{word} takes a context and an answer; quote a context that has several words.")
            joined.append(f"{left.pop(0)}\0{left.pop(0)}")
    return joined


def _interrupted() -> int:
    _say("interrupted; nothing was left half-written.")
    return 130


def _as_typed(sentence: str) -> str:
    """A sentence of the library with choices as they are typed: on_missing 'skip' is --on-missing skip."""
    sentence = re.sub(r"\bon_(missing|conflict) '(\w+)'", r"--on-\1 \2", sentence)
    return re.sub(r"\bdrop_unfit\b", "--drop-unfit", sentence)


def _say(sentence: str) -> None:
    sys.stderr.write(f"rote: {sentence}\n")
