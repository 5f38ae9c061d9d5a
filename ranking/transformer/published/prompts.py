"""Pairs as prompts: a chat template, or a template of the stage, writes question and candidate into one text
that ends as the model was taught, such as with the beginning of an assistant's answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from answermill.files.model_files import read_table, transformer_settings
from answermill.ranking.transformer.padded import Tokenised
from answermill.ranking.transformer.published.published_tokenizer import TYPES

Render = Callable[[str, str], str]
"""(question, candidate) → the prompt."""
_MODALITY = "message"  # sentence-transformers' name for texts that a chat template writes
_TOKEN_OPTIONS = ("restore_suffix", "padding", "truncation", "max_length", "return_tensors")
_FORMS = ("flat", "structured")  # a message's content is a text, or a list of parts
_OF_PARTS = re.compile(r"\btype\b|content\[")
"""What a template that takes a list of parts names: a part's type, or its number."""


class Prompts:
    """Tokens of prompts of at most `limit` tokens. A prompt that is too long loses tokens before its end,
    whose fixed tokens are kept."""

    def __init__(self, tokenizer: Any, render: Render, limit: int) -> None:
        self._tokenizer, self._render, self.limit = tokenizer, render, limit

    def __call__(self, texts: Sequence[tuple[str, ...]]) -> Tokenised:
        """Tokens of (question, candidate) pairs, in their order."""
        encoded = self._encode([self._render(question, candidate) for question, candidate in texts])
        ids, types = encoded["input_ids"], encoded.get(TYPES)
        cut = np.array([max(0, len(row) - self.limit) for row in ids], np.int64)

        kept = slice(-self.limit, None) if self._tokenizer.truncation_side == "left" else slice(self.limit)
        for n in np.flatnonzero(cut):
            ids[n] = ids[n][kept]
            ids[n][len(ids[n]) - len(self._ending) :] = self._ending
            if types is not None:
                types[n] = types[n][kept]
        return Tokenised(ids, types, cut)

    def _encode(self, prompts: list[str]) -> Any:
        if not prompts:
            return {"input_ids": []}
        return self._tokenizer(
            prompts, add_special_tokens=False, truncation=False, return_attention_mask=False
        )

    @cached_property
    def _ending(self) -> list[int]:
        """Tokens at the end of every prompt, whatever the pair."""
        first, second = self._encode([self._render("0", "0"), self._render("1 2 3 4", "1 2 3 4")])[
            "input_ids"
        ]
        same = [
            *takewhile(lambda pair: pair[0] == pair[1], zip(reversed(first), reversed(second), strict=False))
        ]
        # Prompts that do not differ hold no pair; a limit below the ending leaves its last tokens.
        size = len(same) if len(same) < min(len(first), len(second)) else 0
        return list(first[len(first) - size :])[-self.limit :]


def chats(folder: Path) -> bool:
    """True if sentence-transformers writes a folder's pairs by its chat template."""
    settings = transformer_settings(folder)
    if (folder / "modules.json").is_file():
        return _MODALITY in (settings.get("modality_config") or {})
    return (folder / "chat_template.jinja").is_file() or bool(
        read_table(folder / "tokenizer_config.json").get("chat_template")
    )


def chat_render(folder: Path, tokenizer: Any, prompt: str) -> Render:
    """Rendering by the folder's chat template, in which `prompt` is the system's message. Raises ValueError,
    with the folder, if the template does not write question and candidate."""
    settings = transformer_settings(folder)
    stated = ((settings.get("modality_config") or {}).get(_MODALITY) or {}).get("format")
    options: Mapping[str, Any] = {
        key: value
        for key, value in ((settings.get("processing_kwargs") or {}).get("chat_template") or {}).items()
        if key not in _TOKEN_OPTIONS
    }

    def rendered(flat: bool, question: str, candidate: str) -> str:
        roles = {"system": prompt} if prompt else {}
        messages = [
            {"role": role, "content": text if flat else [{"type": "text", "text": text}]}
            for role, text in (roles | {"query": question, "document": candidate}).items()
        ]
        return str(tokenizer.apply_chat_template(messages, tokenize=False, **options))

    renders: dict[str, Render] = {}  # what it writes for a pair → the form of the messages
    for form in [stated] if stated in _FORMS else _FORMS:
        render = partial(rendered, form == "flat")
        try:
            base, *others = [render(*pair) for pair in (("a", "b"), ("charlie", "b"), ("a", "foxtrot"))]
        except Exception:  # whatever a template raises
            continue
        if base not in others:
            renders.setdefault(base, render)

    remedy = "set template = '… {question} … {candidate} …'"
    if not renders:
        raise ValueError(
            f"{folder}: its chat template does not write question and candidate (roles query and document); "
            f"{remedy}"
        )
    if len(renders) > 1 and _OF_PARTS.search(str(tokenizer.chat_template)):
        raise ValueError(
            f"{folder}: its chat template writes a text in another way than a list of parts, and the folder "
            f"does not say which it was taught with (modality_config); {remedy}"
        )
    return next(iter(renders.values()))


def template_render(template: str) -> Render:
    """Rendering by a template with {question} and {candidate}; other braces are text.

    >>> template_render("Q: {question} D: {candidate} {x}")("who", "{question}")
    'Q: who D: {question} {x}'
    """
    parts = re.split(r"(\{question\}|\{candidate\})", template)

    def render(question: str, candidate: str) -> str:
        texts = {"{question}": question, "{candidate}": candidate}
        return "".join(texts.get(part, part) for part in parts)

    return render
