"""Directories of Hugging Face transformers, loaded by the stock classes as any user would, never with their code.

This is the only place where the library loads anything: from local files only, with `trust_remote_code=False`, which
also keeps it from asking on standard input. A directory that names code of its own, or an adapter that the library
would lay over the weights without a word, is refused before anything is loaded.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from rote.errors import CheckpointError, MissingExtra

__all__ = ["empty_model", "first_line", "library", "load_model", "load_tokenizer", "refuse_code", "with_plain_head"]

_CODE = ("auto_map", "custom_pipelines", "custom_generate")
_MOST_BYTES = 1 << 24


def library(purpose: str, extra: str = "hf") -> Any:
    """transformers without its progress bars and warnings."""
    try:
        import transformers
    except ImportError:
        raise MissingExtra("transformers", extra, purpose) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def refuse_code(folder: Path) -> None:
    """Refuse a directory whose files name code to run, or an adapter to lay over the weights."""
    for name in ("adapter_config.json", "custom_generate"):
        if (folder / name).exists():
            raise CheckpointError(
                f"{folder / name} would change what the model does when it is loaded; merge the adapter into the "
                "weights, or remove it."
            )
    for file in sorted(folder.glob("*.json")):
        if not file.is_file() or file.name == "tokenizer.json" or file.stat().st_size > _MOST_BYTES:
            continue
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # whoever needs the file says what is wrong with it
        named = next((key for key in _CODE if isinstance(record, dict) and record.get(key)), None)
        if named is not None:
            raise CheckpointError(
                f"{file} names code of its own ({named}), which rote never runs; use a model of a class that "
                f"transformers has itself, and remove {named} from the file."
            )


def load_model(folder: Path, dtype: Any, *, auto: str = "AutoModelForCausalLM", **more: Any) -> Any:
    """The model of a directory in a torch number format (or "auto"), ready to run and without gradients."""
    return _loaded(folder, auto, dtype=dtype, **more).eval().requires_grad_(False)


def with_plain_head(model: Any) -> Any:
    """The model, whose head is handed states that lie side by side: for a view of the last positions, in 16 bits, torch
    would copy the head once for every row."""
    model.lm_head.register_forward_pre_hook(lambda _, inputs: (inputs[0].contiguous(),))
    return model


def load_tokenizer(folder: Path, **more: Any) -> Any:
    """The tokenizer of a directory, as AutoTokenizer gives it to everybody."""
    names = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")
    if not more and folder.is_dir() and not any((folder / name).is_file() for name in names):
        raise CheckpointError(f"{folder} has no tokenizer.json and no other tokenizer; copy it there from the model.")
    return _loaded(folder, "AutoTokenizer", **more)


def empty_model(folder: Path) -> Any:
    """A model of the class and sizes that a directory names, without its weights or any others."""
    import torch

    config = _loaded(folder, "AutoConfig")
    try:
        with torch.device("meta"):
            return library("a model").AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except Exception as error:
        raise CheckpointError(
            f"transformers cannot make a model of {folder / 'config.json'} ({first_line(error)}); it was edited."
        ) from error


def _loaded(folder: Path, auto: str, **more: Any) -> Any:
    transformers = library("a model of Hugging Face transformers")
    refuse_code(folder)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars that no switch turns off
            return getattr(transformers, auto).from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, **more
            )
    except Exception as error:  # whatever a damaged or foreign file makes the library raise
        what = "the tokenizer of " if auto == "AutoTokenizer" else ""
        raise CheckpointError(
            f"transformers cannot load {what}{folder / str(more.get('gguf_file', ''))}: {first_line(error)}; the files "
            "are incomplete, damaged or of a class that it does not have."
        ) from error


def first_line(error: Exception) -> str:
    """What an error of a library says, shortened for a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")[:300]
