"""Questions as turns of a conversation: what a chat template puts before and behind what a user types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rote.errors import UsageError

__all__ = ["Chat", "ChatTokenizer", "speaker"]

_ASKED, _SAID = "the question that is asked", "the answer that is given"
"""What stands for a user's turn and an assistant's while the template is looked at; no template has it."""


@dataclass(frozen=True)
class Chat:
    """What stands before a user's turn, and behind it up to where the assistant begins."""

    before: str
    after: str

    @classmethod
    def of(cls, tokenizer: Any, name: object, end_id: int | None = None) -> Chat:
        """The frame of a tokenizer's chat template; one that cannot be used is refused, `name` says whose it is.

        With an `end_id`, the template must end an assistant's turn with that token, at which generation stops.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError(f"{name} has no chat template, so it cannot be asked as in a chat; leave chat out.")
        asked = {"role": "user", "content": _ASKED}
        try:
            whole = tokenizer.apply_chat_template([asked], tokenize=False, add_generation_prompt=True)
            both = tokenizer.apply_chat_template([asked, {"role": "assistant", "content": _SAID}], tokenize=False)
        except Exception as error:  # whatever a template makes the library raise
            raise UsageError(f"the chat template of {name} fails ({error}); mend it, or leave chat out.") from None
        parts = str(whole).split(_ASKED)
        if len(parts) != 2 or _SAID not in str(both):
            raise UsageError(f"the chat template of {name} does not show a user's turn as it is; leave chat out.")
        if end_id is not None:
            end = str(tokenizer.convert_ids_to_tokens(end_id))
            if not str(both).split(_SAID)[1].lstrip().startswith(end):
                raise UsageError(
                    f"the chat template of {name} does not end a turn with {end!r}, at which generation stops; set "
                    "eos_token in its tokenizer_config.json to the token that ends turns."
                )
        before, begin = parts[0], tokenizer.bos_token
        adds = begin is not None and tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
        # The tokenizer puts the beginning there by itself.
        return cls(before.removeprefix(begin) if adds else before, parts[1])

    def turn(self, text: str) -> str:
        """What the model reads when a user has typed a text; one that is a turn already stays as it is."""
        return text if _inner(text, self.before, self.after) else f"{self.before}{text}{self.after}"

    def typed(self, text: str) -> str:
        """What the user typed."""
        return _inner(text, self.before, self.after) or text

    def template(self, text: str) -> str:
        """A template of a turn, in which braces of the chat's own stand for themselves."""
        return f"{_doubled(self.before)}{text}{_doubled(self.after)}"

    def bare(self, text: str) -> str:
        """A template without its frame; one that has none stays as it is."""
        return _inner(text, _doubled(self.before), _doubled(self.after)) or text


def _inner(text: str, before: str, after: str) -> str:
    """What stands between; nothing if that is not how the text begins and ends."""
    framed = text.startswith(before) and text.endswith(after)
    return text[len(before) : len(text) - len(after)] if framed else ""


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


class ChatTokenizer:
    """A tokenizer that reads texts as turns of a user."""

    def __init__(self, raw: Any, chat: Chat) -> None:
        self.raw, self.chat = raw, chat

    def __call__(self, texts: str | Sequence[str], **more: Any) -> Any:
        if isinstance(texts, str):
            return self.raw(self.chat.turn(texts), **more)
        return self.raw([self.chat.turn(text) for text in texts], **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def speaker(tokenizer: Any, chat: Chat | None) -> Any:
    """The tokenizer for what users type."""
    return tokenizer if chat is None else ChatTokenizer(tokenizer, chat)
