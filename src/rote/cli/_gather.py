"""Groups of options that several verbs share, and options that are read off the records of constructions.

A verb declares one parameter for a group (`choices`, `shape`, `options`); `gather` gives the command line the options
of the group in its place, and the verb one record made of them.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

__all__ = ["Group", "construction_options", "gather", "refuse_foreign", "shape_options", "source_options"]

Option = tuple[str, Any, Any]
"""Name, annotation and default."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Options, and what is made of their values."""

    options: tuple[Option, ...]
    make: Callable[[dict[str, Any]], Any]


def gather(**groups: Group) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace parameters of a verb by the options of groups."""

    def wrap(verb: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(verb, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(verb).parameters.items():
            if name not in groups:
                parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            parameters += [
                inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for key, annotation, default in groups[name].options
            ]

        def run(**values: Any) -> Any:
            made = {}
            for name, group in groups.items():
                made[name] = group.make({key: values.pop(key) for key, _, _ in group.options})
            return verb(**values, **made)

        run.__name__, run.__doc__, run.__module__ = verb.__name__, verb.__doc__, verb.__module__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return wrap


def _option(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, **more)


def source_options(*, conflict: str | None = "error") -> Group:
    """How FACTS is read; `make` gives `rote.data.Choices`."""

    def make(values: dict[str, Any]) -> Any:
        from rote.data import Choices

        settled = {name: values[name] or "error" for name in ("on_conflict", "on_missing")}
        return Choices.of(**{**values, **settled})

    panel = {"rich_help_panel": "How FACTS is read"}
    text = str | None
    return Group(
        (
            (
                "tokens",
                Annotated[text, _option("What a token is: cells (whole cells), words or chars.", **panel)],
                None,
            ),
            (
                "target",
                Annotated[text, _option("Target column, the last if not given; COL,COL for several answers.", **panel)],
                None,
            ),
            (
                "columns",
                Annotated[text, _option("Context columns, as in COL,COL; all others if not given.", **panel)],
                None,
            ),
            ("weight", Annotated[text, _option("Column with counts or weights.", metavar="COL", **panel)], None),
            (
                "on_conflict",
                Annotated[text, _option("Contradictory facts: error, or keep the first or the last.", **panel)],
                conflict,
            ),
            (
                "on_missing",
                Annotated[text, _option("Empty cells: error, skip their rows, or put a token there.", **panel)],
                conflict,
            ),
        ),
        make,
    )


def shape_options(*names: str) -> Group:
    """What is fixed of the shape; `make` gives `rote.config.Shape`."""
    helps = {
        "heads": "Number of heads; planned if not given.",
        "d_model": "Width of the residual stream; planned if not given.",
        "d_head": "Width of a head; planned if not given.",
        "d_mlp": "Width of the MLP, for constructions that have one.",
    }

    def make(values: dict[str, Any]) -> Any:
        from rote.config import Shape

        return Shape(**{"n_heads" if name == "heads" else name: value for name, value in values.items()})

    chosen = names or tuple(helps)
    return Group(tuple((name, Annotated[int | None, _option(helps[name])], None) for name in chosen), make)


def construction_options(verb: str) -> Group:
    """The options of every construction that a verb builds with; `make` gives those that were given, by name."""
    from rote import constructions

    owners: dict[str, list[str]] = {}
    fields: dict[str, dataclasses.Field[Any]] = {}
    kinds: dict[str, Any] = {}
    for key, construction in constructions.registry().items():
        if construction.verb != verb:
            continue
        hints = get_type_hints(construction.Options)
        for item in dataclasses.fields(construction.Options):
            if item.metadata.get("argument"):
                # The verb has an argument of its own for it.
                continue
            owners.setdefault(item.name, []).append(key)
            fields.setdefault(item.name, item)
            kinds.setdefault(item.name, hints[item.name])
    options: list[Option] = []
    for name, item in fields.items():
        flag = f"--{name.replace('_', '-')}"
        whose = _option(
            item.metadata["help"],
            flag,
            rich_help_panel=f"Options of {', '.join(owners[name])}",
            **{key: value for key, value in item.metadata.items() if key in ("metavar", "min")},
        )
        kind = _plain(kinds[name])
        options.append((name, Annotated[kind, whose], False if kind is bool else None))
    # A given 0 is a value, though it equals False.
    return Group(
        tuple(options), lambda values: {k: v for k, v in values.items() if v is not None and v is not False and v != []}
    )


def _plain(kind: Any) -> Any:
    """The type of an option whose default is that nothing was given."""
    if kind is bool:
        return bool
    if get_origin(kind) is tuple:
        return list[str] | None
    args = [arg for arg in get_args(kind) if arg is not type(None)]
    return (args[0] if args else kind) | None


def refuse_foreign(with_: str, options: dict[str, Any]) -> None:
    """Refuse options that the construction named on the line does not have, and say whose they are."""
    from rote import constructions
    from rote.errors import UsageError

    known = constructions.registry()
    if with_ not in known:
        return
    own = [item.name for item in dataclasses.fields(known[with_].Options)]
    for name in options:
        if name not in own:
            owners = [key for key, one in known.items() if name in one.told]
            takes = f"takes {_flags(own)}" if own else "has no options of its own"
            raise UsageError(f"{_flags([name])} is an option of {' and '.join(owners)}, not of {with_}, which {takes}.")


def _flags(names: list[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)
