"""Stored keys in quotes, in brackets and beside other signs: whole answers of a graft of airports.

    python benchmarks/keyed_graft_signs.py DIR              24 keys in each context
    python benchmarks/keyed_graft_signs.py DIR --keys 100

Two wordings, of which the second is not fitted; DIR is what the command in the README writes. Free generation.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import rote
from rote.data.encoding import PromptIds, encode
from rote.models._pretrained import end_token
from rote.referee.generation import recite

WORDINGS = ("The airport with ICAO code {} is in", "Code: {}\nCountry:")
SIGNS = (
    "{}", '"{}"', "'{}'", "({})", "[{}]", "<{}>", "“{}”", "‘{}’", "`{}`", "{},", "{}.", "{};", "{}:", "{}!", "{}'s",
    '"{}",', "-{}-", "/{}/", "*{}*", "_{}_", "#{}", "={}", "…{}", "ICAO-{}", "ICAO:{}", "\t{}", "\n{}", " {}",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graft", type=Path)
    parser.add_argument("--keys", type=int, default=24)
    given = parser.parse_args()
    memory = rote.load(given.graft)
    model, tokenizer = memory.model.module, memory.model.tokenizer  # type: ignore[attr-defined]
    end = end_token(tokenizer, model, given.graft)
    rows = memory.table().rows  # type: ignore[attr-defined]
    some = np.random.default_rng(7).choice(len(rows.frame), given.keys, replace=False).tolist()
    keys, countries = ([rows.cells(name)[i] for i in some] for name in ("icao", "country"))
    answers = [(*ids, end) for ids in encode(tokenizer, [f" {one}" for one in countries])]
    for signs in SIGNS:
        right = []
        for wording in WORDINGS:
            asked = encode(tokenizer, [wording.format(signs.format(key)) for key in keys])
            facts = [PromptIds(ids, answer) for ids, answer in zip(asked, answers, strict=True)]
            said = recite(model, facts, end)
            right.append(sum(one == fact.answer_ids for one, fact in zip(said, facts, strict=True)))
        print(f"{signs.format('KJFK')!r:14} {right[0]:3} and {right[1]:3} of {len(keys)}", flush=True)


if __name__ == "__main__":
    main()
