"""Tokenizer of a published model, as transformers and sentence-transformers load it.

tokenizer.json is only a part of it: tokenizer_config.json may name a class that makes the normaliser and the
special tokens anew (lower case, accents, Chinese characters, a space before the first word), and sets what
the model is given. transformers takes seconds to load, so where the files show that it would change nothing,
tokenizer.json is read without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase, Sequence

from answermill.files.model_files import (
    load_pretrained,
    read_table,
    tokenizer_options,
    transformer_settings,
)
from answermill.ranking.transformer.packing import Tokeniser

TYPES = "token_type_ids"
_AS_SAVED = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that take tokenizer.json as it is."""
_BERTS = ("bert", "distilbert", "electra")
"""Families whose class is BertTokenizer if the folder names none."""
_RARE = "\U00013000"
"""A hieroglyph, which hardly any vocabulary has."""
_BERT_TOKENS = ("unk", "sep", "pad", "cls", "mask")
"""Special tokens that BertTokenizer has, whether a folder names them or not."""


def load_tokenizer(folder: Path) -> Any:
    """transformers' tokenizer of a folder, as sentence-transformers changes it. Raises ValueError if there is
    none."""
    try:
        tokenizer = load_pretrained("AutoTokenizer", folder, **tokenizer_options(folder))
    except Exception as e:  # each family raises its own
        raise ValueError(
            f"{folder}: transformers loads no tokenizer of it ({' '.join(str(e).split())}); copy the model's "
            "folder again"
        ) from e

    if transformer_settings(folder).get("do_lower_case"):
        backend = tokenizer.backend_tokenizer
        backend.normalizer = _lower(backend.normalizer)
    _check_unknown(folder, tokenizer)
    return tokenizer


def published_tokeniser(folder: Path, limit: int) -> Tokeniser:
    """Tokenizer of packed texts with the ids and types that transformers would give. Raises ValueError if it
    has none."""
    if (saved := _as_saved(folder)) is not None:
        _check_unknown(folder, saved[0])
        return _framed(folder, limit, *saved)

    tokenizer = load_tokenizer(folder)
    if not tokenizer.is_fast:
        raise ValueError(f"{folder}: its tokenizer is Python code of transformers (no fast one)")
    if tokenizer.truncation_side != "right":
        raise ValueError(f"{folder}: its tokenizer cuts texts at their beginning (truncation_side)")
    return _framed(folder, limit, tokenizer.backend_tokenizer, TYPES in tokenizer.model_input_names)


def _framed(folder: Path, limit: int, tokenizer: Tokenizer, typed: bool) -> Tokeniser:
    """Tokenizer of packed texts, which reads the special tokens off a pair and gives each the type of the
    text before it. Raises ValueError, with the folder, if those of a text alone, or their types, differ."""
    tokeniser = Tokeniser(folder, limit, tokenizer, typed)
    for texts in (("a",), ("a", "b")):
        whole, packed = tokenizer.encode(*texts), tokeniser.pairs([texts]).pack()
        types = whole.type_ids if typed else [0] * len(whole.ids)
        if (packed.ids.tolist(), packed.types.tolist()) != (whole.ids, types):
            raise ValueError(
                f"{folder}: its special tokens around one text, or their types, are not those of a pair"
            )
    return tokeniser


def _check_unknown(folder: Path, tokenizer: Any) -> None:
    """Raise ValueError, with the folder, if the tokenizer fails on a character that it does not know, as one
    without a token for these does."""
    try:
        tokenizer.encode(_RARE)
    except Exception as e:  # tokenizers raises nothing narrower
        raise ValueError(
            f"{folder}: its tokenizer fails on the character U+{ord(_RARE):X} ({' '.join(str(e).split())}); "
            "copy the model's folder again"
        ) from e


def _as_saved(folder: Path) -> tuple[Tokenizer, bool] | None:
    """The tokenizer of tokenizer.json, and True if the model is given types; None if the files do not show
    that transformers takes it unchanged."""
    file = folder / "tokenizer.json"
    stated = read_table(folder / "tokenizer_config.json")
    if "added_tokens_decoder" not in stated:  # a file of former versions, which is read then
        stated |= read_table(folder / "special_tokens_map.json")
    config = read_table(folder / "config.json")
    if not file.is_file() or tokenizer_options(folder) or transformer_settings(folder).get("do_lower_case"):
        return None
    if stated.get("truncation_side", "right") != "right" or {
        "auto_map",
        "add_bos_token",
        "add_eos_token",
        "split_special_tokens",
    } & set(stated):
        return None

    saved = read_table(file)
    if (saved.get("truncation") or {}).get("direction", "Right") != "Right":
        return None
    kind = str(stated.get("tokenizer_class") or config.get("tokenizer_class") or "")
    is_bert = kind.removesuffix("Fast") == "BertTokenizer" or (
        not kind and config.get("model_type") in _BERTS
    )
    if not is_bert and kind not in _AS_SAVED:
        return None

    tokenizer = _read(file)
    usual = {f"{name}_token": f"[{name.upper()}]" for name in _BERT_TOKENS} if is_bert else {}
    if not _adds_nothing(folder, tokenizer, saved, usual | stated):
        return None
    if is_bert and not _is_berts(tokenizer, saved, stated):
        return None

    inputs = stated.get("model_input_names") or ([TYPES] if is_bert else [])
    return tokenizer, TYPES in inputs


def _adds_nothing(
    folder: Path, tokenizer: Tokenizer, saved: Mapping[str, Any], stated: Mapping[str, Any]
) -> bool:
    """True if tokenizer.json has the tokens that other files add to it, and as they add them."""
    added = {str(token["id"]): token for token in saved.get("added_tokens") or []}
    for number, token in (stated.get("added_tokens_decoder") or {}).items():
        if token != {key: value for key, value in added.get(number, {}).items() if key != "id"}:
            return False
    older = read_table(folder / "added_tokens.json")
    if any(tokenizer.token_to_id(token) != number for token, number in older.items()):
        return False
    return _special_tokens(saved, stated) <= {token["content"] for token in added.values()}


def _special_tokens(saved: Mapping[str, Any], stated: Mapping[str, Any]) -> set[str]:
    """Texts that transformers makes tokens, which are never parts of words, unless they are already."""
    named = {"pad_token": (saved.get("padding") or {}).get("pad_token")} | dict(stated)
    more = stated.get("extra_special_tokens") or stated.get("additional_special_tokens") or ()
    tokens = [value for key, value in named.items() if key.endswith("_token")]
    tokens += more.values() if isinstance(more, Mapping) else more
    return {_content(token) for token in tokens if isinstance(token, str | Mapping)}


def _read(file: Path) -> Tokenizer:
    """Tokenizer of a tokenizer.json, without the padding and the cut that it may name."""
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as e:  # tokenizers raises nothing narrower
        raise ValueError(f"{file}: no tokenizer ({e}); copy the model's folder again") from e
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _is_berts(tokenizer: Tokenizer, saved: Mapping[str, Any], stated: Mapping[str, Any]) -> bool:
    """True if the class BertTokenizer, which makes all but the words anew, makes what tokenizer.json has."""
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": stated.get("tokenize_chinese_chars", True),
        "strip_accents": stated.get("strip_accents"),
        "lowercase": stated.get("do_lower_case", True),
    }
    words = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    words["unk_token"] = _content(stated.get("unk_token") or "[UNK]")
    model = saved.get("model") or {}

    # It has no added tokens but those that tokenizer_config.json lists, if it lists some.
    added = {str(token["id"]) for token in saved.get("added_tokens") or []}
    listed = stated.get("added_tokens_decoder", added)
    frame = tokenizer.encode("a", "a")
    first, separator = (
        _content(stated.get(f"{name}_token") or f"[{name.upper()}]") for name in ("cls", "sep")
    )
    return (
        added <= set(listed)
        and saved.get("normalizer") == normalizer
        and saved.get("pre_tokenizer") == {"type": "BertPreTokenizer"}
        and model.get("type", "WordPiece") == "WordPiece"
        and {key: model.get(key, value) for key, value in words.items()} == words
        and frame.tokens[::2] == [first, separator, separator]
        and frame.type_ids == [0, 0, 0, 1, 1]
    )


def _content(token: Any) -> str:
    """Text of a special token, which may be written with its options."""
    return str(token["content"] if isinstance(token, Mapping) else token)


def _lower(normalizer: Any) -> Any:
    """The normaliser after lower-casing, unless it is a part of it already."""
    is_sequence = isinstance(normalizer, Sequence)
    parts = [*normalizer] if is_sequence else [normalizer] if normalizer is not None else []
    lowers = any(isinstance(part, Lowercase) for part in parts)
    return normalizer if lowers else Sequence([Lowercase(), *parts])
