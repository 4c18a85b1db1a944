"""What a GGUF file says in llama.cpp: text in, text out, greedily, with a float32 cache and no flash attention.

It is the runtime that people use the file with, from the package xllamacpp, and not transformers.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rote.data.encoding import Continuation, Prompt
from rote.data.outputs import Leads, Outputs
from rote.data.vocabulary import PAD
from rote.errors import CheckpointError, MissingExtra

if TYPE_CHECKING:
    from rote.data.table import Inputs

__all__ = ["GgufOutputs", "LlamaCpp", "runtime"]

_AT_ONCE = 256
_UNLIKELY = -1e30
"""A log-probability below this is none that was computed."""
_END = 256
"""Behind the bytes of a text: it ended there by itself."""


def runtime() -> str:
    """llama.cpp with the version of the package that carries it."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra("xllamacpp", "gguf", "running a GGUF file in llama.cpp")
    return f"llama.cpp (xllamacpp {importlib.metadata.version('xllamacpp')})"


class LlamaCpp:
    """A GGUF file in a process of its own."""

    def __init__(self, path: Path, context: int = 0) -> None:
        import torch

        self.name, self._path = runtime(), path
        self.tokens = 0
        """How many tokens the last prompts had."""
        child = str(Path(__file__).with_name("_llama_child.py"))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed on leaving)
        self._process = subprocess.Popen(
            [sys.executable, "-P", child, str(path.resolve()), str(context), str(torch.get_num_threads())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )

    def complete(self, prompts: Sequence[str], tokens: int, rivals: int = 0) -> list[Mapping[str, Any]]:
        """What llama.cpp answers to each prompt, with at most so many tokens; `rivals` asks for probabilities."""
        request = {"prompt": list(prompts), "max_tokens": tokens, **({"logprobs": rivals} if rivals else {})}
        line = ""
        try:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            record = json.loads(line)
            choices, self.tokens = record["choices"], int(record["usage"]["prompt_tokens"])
            return sorted(choices, key=lambda one: int(one["index"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"llama.cpp cannot run {self._path}{self._reason()}; the file is damaged, or of an architecture that "
                "this version does not have."
            ) from error

    def _reason(self) -> str:
        """The last line that llama.cpp wrote about an error, if it wrote one."""
        self._process.kill()
        self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        told = [line.strip() for line in lines if "rror" in line and "Traceback" not in line]
        return f" ({told[-1][:200]})" if told else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.kill()
        self._process.wait()
        self._log.close()


class GgufOutputs(Outputs):
    """Answers of llama.cpp to facts, typed as one types them, and to prompts.

    `words` are the tokens of the table by id; `marks` stand between two tokens of a text, and before the last one. A
    fact is recalled if the text of one token is its target; its lead is over the runner-up, in nats.
    """

    gives = "text that goes on"
    takes = "text"
    rows_at_once = 4 * _AT_ONCE

    def __init__(self, model: LlamaCpp, words: Sequence[str] | None, marks: tuple[str, str]) -> None:
        self._model, self._words, self._marks = model, tuple(words or ()), marks
        self._ids = {text: i for i, text in enumerate(self._words)}
        self.judged_by = model.name

    def leads(self, inputs: Inputs, targets: Any) -> Leads:
        if len(inputs) != 1 or not self._words or np.asarray(targets).ndim != 1:
            raise self.refusal("anything but facts and prompts")
        prompts = [self._typed(row) for row in np.asarray(inputs[0]).tolist()]
        said, leads = [], []
        for start in range(0, len(prompts), _AT_ONCE):
            for choice in self._model.complete(prompts[start : start + _AT_ONCE], 1, rivals=2):
                said.append(self._ids.get(choice["text"], -1))
                leads.append(_lead(choice))
        right = np.array(said) == np.asarray(targets)
        return np.where(right, np.array(leads), -np.inf), np.array(said)

    def _typed(self, row: Sequence[int]) -> str:
        *first, last = [self._words[i] for i in row if self._words[i] != PAD]
        between, before_last = self._marks
        return between.join(first) + (before_last if first else "") + last

    def continuations(self, prompts: Sequence[Prompt]) -> list[Continuation]:
        """A text counts as its bytes, and the end that the model sets itself as one more."""
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i].answer.encode()))
        found: dict[int, Continuation] = {}
        for start in range(0, len(order), _AT_ONCE):
            part = order[start : start + _AT_ONCE]
            longest = len(prompts[part[-1]].answer.encode()) + 1
            for i, choice in zip(part, self._model.complete([prompts[i].text for i in part], longest), strict=True):
                text, ended = str(choice["text"]), choice["finish_reason"] == "stop"
                ids = (*text.encode(), *((_END,) if ended else ()))
                found[i] = Continuation(ids, text, (*prompts[i].answer.encode(), _END))
            if self.advance is not None:
                self.advance(start + len(part))
        return [found[i] for i in range(len(prompts))]


def _lead(choice: Mapping[str, Any]) -> float:
    """How far the likeliest token is ahead, in nats; without bound where the runner-up has no probability at all."""
    try:
        first, second = (float(one["logprob"]) for one in choice["logprobs"]["content"][0]["top_logprobs"][:2])
    except (KeyError, TypeError, IndexError, ValueError):
        return 0.0
    return float("inf") if second < _UNLIKELY else first - second
