"""Rerankers that are causal language models: the score of a prompt is the logit of one token as its next,
such as "yes", minus that of another, such as "no"."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from answermill.ranking.transformer.padded import load_whole
from answermill.ranking.transformer.published.modular_head import Module

_LOGITS = "causal_logits"


class AnswerTokens(NamedTuple):
    """Numbers of the two tokens."""

    yes: int
    no: int | None
    """None: the score is the logit of `yes` alone."""

    @classmethod
    def of_module(cls, module: Module) -> AnswerTokens:
        """Tokens of a LogitScore of sentence-transformers. Raises ValueError, with its folder, if it names
        none."""
        yes, no = (module.settings.get(f"{name}_token_id") for name in ("true", "false"))
        is_flag = isinstance(yes, bool) or isinstance(no, bool)  # which is an int too
        if is_flag or not isinstance(yes, int) or not isinstance(no, int | None) or yes == no:
            raise ValueError(
                f"{module.folder}: its config.json names no two tokens (true_token_id {yes!r}, "
                f"false_token_id {no!r}); copy the model's folder again"
            )
        if module.settings.get("module_input_name", _LOGITS) != _LOGITS:
            raise ValueError(f"{module.folder}: it reads other logits than the language model's")
        return cls(yes, no)

    @classmethod
    def of_texts(cls, folder: Path, tokenizer: Any, yes: str, no: str) -> AnswerTokens:
        """Tokens by their texts; an empty `no` is none. Raises ValueError, with the folder, if a text is not
        one token."""
        numbers: list[int | None] = []
        for key, text in (("yes_token", yes), ("no_token", no)):
            ids = tokenizer.encode(text, add_special_tokens=False)
            if len(ids) > 1:
                raise ValueError(
                    f"{folder}: {key} = {text!r} is {len(ids)} tokens; give the text of one, in its case and "
                    "with its space"
                )
            numbers += ids or [None]
        if numbers[0] is None or numbers[0] == numbers[1]:
            raise ValueError(f"{folder}: yes_token = {yes!r} and no_token = {no!r}; give two that differ")
        return cls(numbers[0], numbers[1])


def load_causal(folder: Path, answers: AnswerTokens) -> Any:
    """The language model in fp32, whose last layer gives the logits of the two tokens alone [rows, length, 1
    or 2]. Raises ValueError, with the folder, if weights are missing or a token has no row."""
    model = load_whole("AutoModelForCausalLM", folder)
    numbers = [number for number in answers if number is not None]
    whole = model.get_output_embeddings()
    rows = 0 if whole is None else len(whole.weight)
    absent = [number for number in numbers if not -rows <= number < rows]  # below 0 from the last row
    if whole is None or absent:
        raise ValueError(
            f"{folder}: its weights have no row for the token {absent[0]}; copy the model's folder again"
        )

    # Two rows in fp32: in bf16 two logits of about 20 differ by no less than 0.125.
    head = nn.Linear(whole.in_features, len(numbers), bias=whole.bias is not None)
    head.weight.data = whole.weight.data[numbers].clone()
    if whole.bias is not None:
        head.bias.data = whole.bias.data[numbers].clone()
    model.set_output_embeddings(head)
    return model


def answer_logit(out: Any, _mask: Tensor) -> Tensor:
    """[rows]: logit of yes at the last place, minus that of no if there is one."""
    logits: Tensor = out.logits[:, -1].float()
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 0] - logits[:, 1]
