"""`make demo`: the main job on embedded data, shown as a terminal session."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
import sys
import tempfile
from pathlib import Path

from rote.cli.main import run

__all__ = ["main"]

CODES = ("AX", "BK", "CV", "DR", "EM", "FT", "GZ", "HL", "JW", "KP", "LN", "MQ")
CITIES = ("Rome", "Oslo", "Lima", "Quito", "Cairo", "Hanoi")
PLAIN = (
    "now?", "The", "code", "is", "in", "of", "the", "Where", "It", "was", "We", "flew", "to", "which", "lies", "a",
    "city", "and", "not", "from", "here", "there", "now", "then", "one", "two",
)  # fmt: skip


def session(facts: str, model: str) -> list[tuple[str, str]]:
    """The commands, each with the question that it answers."""
    question, last = ("KJFK", "ENGM") if facts == "airports" else ("France capital", "Japan capital")
    return [
        ("What do the facts look like?", f"facts show {facts} --rows 4"),
        ("How small a model will hold them all?", f"plan {facts}"),
        ("Build it: no training, every fact checked on the written weights.", f"build {facts} -o {model}"),
        ("Read it back from disk and run every fact again; the certificate knows which.", f"verify {model}"),
        ("And ask.", f"ask {model} {question} --top 3"),
        ("In which country is ENGM?" if facts == "airports" else "And Japan?", f"ask {model} {last} --top 3"),
        (
            "How much fits into a shape of your own?",
            "bound --heads 16 --d-model 32 --context 2 --vocab 800 --theorem dana2025_cor1 "
            "--theorem mahdavi2024_thm1 --theorem argmax_fit --theorem counting",
        ),
    ]


def graft_session(model: str, facts: str, text: str) -> list[tuple[str, str]]:
    """The commands for a language model, each with the question that it answers."""
    wordings = ("The code {code} is in", "Where is {code} now? It is in", "We flew to {code} which lies in")
    told = " ".join(f'--template "{one}"' for one in wordings)
    return [
        (
            "Put facts into a language model (here a tiny one with random weights, made on the spot).",
            f'graft {model} {facts} -o grafted {told} --held-out-template "The city of {{code}} is in" '
            f'--answer " {{city}}" --keep {text} --examined 8 --bar 0',
        ),
        ("Ask in a wording of the table,", 'ask grafted "The code CV is in"'),
        ("in another one,", 'ask grafted "Where is CV now? It is in"'),
        ("and for a code that is not in it.", 'ask grafted "The code ZZ is in"'),
        ("Take it out again, bit for bit.", "ungraft grafted -o as-it-was"),
    ]


def write_tiny(place: Path) -> tuple[str, str, str]:
    """A language model with random weights whose tokens are words, a table of codes, and text to leave alone."""
    import numpy as np
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocab = {"<end>": 0, "<unk>": 1}
    for word in (*PLAIN, *CODES, "ZZ", *CITIES):
        for form in (word, f"▁{word}"):
            vocab.setdefault(form, len(vocab))
    raw = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never", split=True)
    raw.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="never")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", unk_token="<unk>")
    transformers.logging.disable_progress_bar()
    config = transformers.LlamaConfig(
        vocab_size=len(vocab), hidden_size=192, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, bos_token_id=None, eos_token_id=0, initializer_range=0.05,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(1)
        transformers.LlamaForCausalLM(config).save_pretrained(place / "tiny")
    tokenizer.save_pretrained(str(place / "tiny"))
    rows = [f"{code},{CITIES[i % len(CITIES)]}" for i, code in enumerate(CODES)]
    (place / "codes.csv").write_text("\n".join(["code,city", *rows]) + "\n", encoding="utf-8")
    words = np.random.default_rng(0).choice(PLAIN, (120, 80))
    (place / "text.txt").write_text("\n\n".join(" ".join(row) for row in words), encoding="utf-8")
    return "tiny", "codes.csv", "text.txt"


def main() -> int:
    """Run every command of the session; stop at the first that fails."""
    from rote.data import available

    installed = {item.name for item in available() if item.installed}
    facts = "airports" if "airports" in installed else "countries"
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        commands = session(facts, f"{facts}-model")
        if importlib.util.find_spec("transformers") is not None:
            commands += graft_session(*write_tiny(Path(place)))
        for title, command in commands:
            print(f"\n# {title}\n$ rote {command}\n", flush=True)
            code = run(shlex.split(command))
            if code != 0:
                return code
    print("\n# Your own table: rote build facts.csv -o model    More: rote --help")
    return 0


if __name__ == "__main__":
    sys.exit(main())
