"""Random sequence classifiers of each family, with tokenizers of the family's kind that are trained on a few
texts: no network, no weights of others. They differ from a published model of the family in numbers only."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers


@dataclass(frozen=True, slots=True)
class FamilyModel:
    """Names and settings of a family in transformers."""

    kind: str
    """Name of its classes, before Config and ForSequenceClassification."""
    words: str
    """Kind of its tokenizer: 'pieces', 'bytes' or 'unigram'."""
    first: str = "[CLS]"
    separator: str = "[SEP]"
    between: int = 1
    """Number of separators between two texts."""
    types: bool = True
    """True if its tokenizer distinguishes the second text from the first."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: Sequence[str] = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    """Names of width, layers, heads and inner numbers in its configuration."""
    padding: str = "right"
    """Side on which its tokenizer pads."""


_ROBERTA: Mapping[str, Any] = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
FAMILIES = {
    "bert": FamilyModel("Bert", "pieces"),
    "electra": FamilyModel("Electra", "pieces", settings={"embedding_size": 16}),
    "roberta": FamilyModel("Roberta", "bytes", "<s>", "</s>", 2, False, _ROBERTA),
    "xlm-roberta": FamilyModel("XLMRoberta", "unigram", "<s>", "</s>", 2, False, _ROBERTA),
    "camembert": FamilyModel("Camembert", "unigram", "<s>", "</s>", 2, False, _ROBERTA),
    "deberta-v2": FamilyModel(
        "DebertaV2",
        "unigram",
        settings={
            "relative_attention": True,
            "position_buckets": 32,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "type_vocab_size": 0,
            "pad_token_id": 1,
        },
    ),
    "modernbert": FamilyModel(
        "ModernBert",
        "bytes",
        types=False,
        settings={
            "pad_token_id": 1,
            "cls_token_id": 0,
            "sep_token_id": 2,
            "bos_token_id": 0,
            "eos_token_id": 2,
            "local_attention": 16,
            "global_attn_every_n_layers": 2,
        },
    ),
    "mpnet": FamilyModel("MPNet", "pieces", "<s>", "</s>", 2, False, {"pad_token_id": 1}),
    "distilbert": FamilyModel(
        "DistilBert", "pieces", types=False, sizes=("dim", "n_layers", "n_heads", "hidden_dim")
    ),
    "albert": FamilyModel("Albert", "unigram", settings={"embedding_size": 16, "pad_token_id": 1}),
    "longformer": FamilyModel(
        "Longformer", "bytes", "<s>", "</s>", 2, False, {**_ROBERTA, "attention_window": 8}
    ),
    "bart": FamilyModel(
        "Bart",
        "bytes",
        "<s>",
        "</s>",
        2,
        False,
        {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
        | {"decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 32},
        sizes=("d_model", "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim"),
    ),
    "gpt2": FamilyModel("GPT2", "bytes", types=False, sizes=("n_embd", "n_layer", "n_head", "n_inner")),
    "xlnet": FamilyModel(
        "XLNet", "unigram", sizes=("d_model", "n_layer", "n_head", "d_inner"), padding="left"
    ),
}


def write_classifier(
    folder: Path,
    family: str,
    texts: Sequence[str],
    *,
    classes: int = 1,
    layers: int = 2,
    width: int = 32,
    positions: int = 64,
    words: int = 400,
    seed: int = 0,
) -> Path:
    """Write a model folder as `save_pretrained` does; unlike those of freshly drawn weights, its scores
    spread."""
    model = FAMILIES[family]
    tokenizer = tokenizer_of(model, texts, words)
    offset = 2 if family in ("roberta", "xlm-roberta", "camembert", "mpnet", "longformer") else 0
    sizes = dict(zip(model.sizes, (width, layers, 4, 2 * width), strict=True))
    config = getattr(transformers, f"{model.kind}Config")(
        vocab_size=len(tokenizer),
        num_labels=classes,
        **sizes,
        **({} if family == "xlnet" else {"max_position_embeddings": positions + offset}),
        **model.settings,
    )

    torch.manual_seed(seed)
    classifier = getattr(transformers, f"{model.kind}ForSequenceClassification")(config)

    with torch.no_grad():
        for parameter in classifier.parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 1).add_(0.02 * torch.randn_like(parameter))
        classifier.config.pad_token_id = tokenizer.pad_token_id
        tokens = tokenizer(
            list(texts), padding=True, truncation=True, max_length=positions, return_tensors="pt"
        )
        logits = classifier.eval()(**tokens).logits  # [texts, classes]
        head = [
            module
            for module in classifier.modules()
            if isinstance(module, torch.nn.Linear) and module.out_features == classes
        ][-1]
        head.weight.div_(logits.std(0)[:, None])

        if head.bias is not None:
            head.bias.sub_(logits.mean(0)).div_(logits.std(0))

    classifier.save_pretrained(folder)
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.model_max_length = positions
    tokenizer.save_pretrained(folder)

    return folder


def write_modular(
    folder: Path,
    family: str,
    texts: Sequence[str],
    *,
    pooling: str = "cls",
    classes: int = 1,
    layers: int = 2,
    width: int = 32,
    positions: int = 64,
    words: int = 400,
) -> Path:
    """Write a modular cross-encoder as sentence-transformers does: a transformer, a pooling, a linear layer
    with GELU, a normalisation and the scores."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

    with tempfile.TemporaryDirectory() as name:
        sizes = {"layers": layers, "width": width, "positions": positions, "words": words}
        body = Transformer(str(write_classifier(Path(name), family, texts, **sizes)))

    torch.manual_seed(0)
    modules = [
        body,
        Pooling(width, pooling),
        Dense(width, 2 * width, bias=False, activation_function=torch.nn.GELU()),
        LayerNorm(2 * width),
        Dense(2 * width, classes, activation_function=torch.nn.Identity(), module_output_name="scores"),
    ]
    modules[3].norm.weight.data.normal_(1, 0.2)
    modules[3].norm.bias.data.normal_(0, 0.2)
    modules[4].linear.weight.data *= 10
    model = CrossEncoder(modules=modules, device="cpu", activation_fn=torch.nn.Identity())
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


CHAT = (
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: so{% endif %}"
)
"""Chat template that writes every message, whatever its role."""


def write_causal(
    folder: Path,
    kind: str,
    texts: Sequence[str],
    *,
    chat: str | None = CHAT,
    layers: int = 2,
    width: int = 32,
    positions: int = 96,
    words: int = 400,
) -> Path:
    """Write a language model, such as a Qwen3, as `save_pretrained` does; 'yes' and 'no' are tokens of its
    tokenizer."""
    model = FamilyModel(kind, "bytes", "<s>", "</s>", types=False)
    tokenizer = tokenizer_of(model, texts, words)
    tokenizer.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens(["yes", "no"])
    tokenizer.chat_template, tokenizer.model_max_length = chat, positions

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer) + 8,  # some classes add tokens
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=2 * width,
        max_position_embeddings=positions,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=0,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    language_model = getattr(transformers, f"{kind}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in language_model.parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 1).add_(0.02 * torch.randn_like(parameter))
    language_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_yes_no(folder: Path, kind: str, texts: Sequence[str], no: bool = True, **settings: Any) -> Path:
    """Write a reranker of a language model and a LogitScore, as sentence-transformers does. `no`: False for
    the logit of 'yes' alone."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    with tempfile.TemporaryDirectory() as name:
        body = write_causal(Path(name), kind, texts, **settings)
        transformer = Transformer(
            str(body),
            transformer_task="text-generation",
            processing_kwargs={"chat_template": {"add_generation_prompt": True}},
        )
    numbers = [transformer.tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no")]
    scoring = LogitScore(numbers[0], numbers[1] if no else None)
    model = CrossEncoder(modules=[transformer, scoring], device="cpu", activation_fn=torch.nn.Identity())
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def tokenizer_of(model: FamilyModel, texts: Sequence[str], words: int = 400) -> Any:
    """A tokenizer of the family's kind, with pairs as the family has them."""
    first, separator = model.first, model.separator
    names = ("<pad>", "<unk>", "<mask>") if first == "<s>" else ("[PAD]", "[UNK]", "[MASK]")
    padding, unknown, mask = names
    special = [first, padding, separator, unknown, mask]

    if model.words == "pieces":
        tokenizer = Tokenizer(models.WordPiece(unk_token=unknown))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(
            vocab_size=words, special_tokens=special, show_progress=False
        )
    elif model.words == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=words, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=words, special_tokens=special, unk_token=unknown, show_progress=False
        )

    tokenizer.train_from_iterator(texts, trainer)
    second = 1 if model.types else 0
    between = " ".join([f"{separator}:0"] + [f"{separator}:{second}"] * (model.between - 1))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {separator}",
        pair=f"{first} $A {between} $B:{second} {separator}:{second}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, separator)],
    )
    inputs = ["input_ids", *(["token_type_ids"] if model.types else []), "attention_mask"]

    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=padding,
        unk_token=unknown,
        cls_token=first,
        sep_token=separator,
        padding_side=model.padding,
        model_input_names=inputs,
    )


def change_json(file: Path, **changes: Any) -> None:
    """Set keys of a model's file; a key whose value is None is removed."""
    content = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    content |= changes
    kept = {key: value for key, value in content.items() if value is not None}
    file.write_text(json.dumps(kept), encoding="utf-8")
