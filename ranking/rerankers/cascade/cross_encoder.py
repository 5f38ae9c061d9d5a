"""Export of a checkpoint of `pointwise`, or of `cascade` up to one of its exits, as a folder that
sentence-transformers loads as a cross-encoder, without code of ours.

The encoder gets Hugging Face's names again; the mean over all tokens, the layers of the head and the one that
gives the score are modules of sentence-transformers. `CrossEncoder(folder).predict(pairs)` gives our scores,
logits, except for the last digits: it pads, and works in fp32. It cuts a pair that is too long where we do,
without counting, and it drops no candidate.

If the checkpoint reads more than the sentence, a candidate is one text of its parts with the tokenizer's
separator between (`Exported.candidate`). Pairs of them that fit have our scores; longer ones are cut
elsewhere. None of those modules computes a mean of the candidate's own tokens, so that pooling is refused.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from huggingface_hub import ModelCardData, RepoCard
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling
from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedTokenizerFast

from answermill.files.atomic_files import replace_folder, write_text
from answermill.files.model_files import check_ended, write_sums
from answermill.ranking.checkpoint import config_of
from answermill.ranking.rerankers.cascade.cascade_model import CascadeModel, load
from answermill.ranking.transformer.classifier import Classifier, ClassifierHead
from answermill.ranking.transformer.huggingface.families import Activation
from answermill.ranking.transformer.packing import Tokeniser

CARD = "README.md"
EXPORTED = ("cascade", "pointwise")
_NO_CODE = {"trust_remote_code": False}
_KEPT = ("license", "license_name", "base_model", "datasets", "language")
"""Keys of the checkpoint's card that hold for the exported model too."""
_PADDING = ("[PAD]", "<pad>")
_FUNCTIONS: Mapping[Activation, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "gelu": nn.GELU, "relu": nn.ReLU}


class Exported(NamedTuple):
    """Form of the exported model."""

    layers: int
    tokens: int
    """Most tokens of a pair."""
    candidate: str
    """Template of a candidate's text, with the names of its parts: '{sentence}', or
    '{sentence}[SEP]{title}'."""


def export(
    checkpoint: Path, out: Path, exit: int | None = None, source: Callable[[str], Path] = Path
) -> Exported:
    """Write the folder. `exit`: exit at which a cascade ends, counted from 1; None = its last.

    Raises ValueError if there is no such checkpoint, or it has no such exit or a pooling that cannot be
    exported; FileExistsError if `out` has files; ModelMissing if the transformer that has the checkpoint's
    words is not available.
    """
    model, tokeniser = load(checkpoint, _model_of(checkpoint), source)
    exit = len(model.exits) if exit is None else exit
    if not 1 <= exit <= len(model.exits):
        raise ValueError(
            f"exit {exit}: {checkpoint} has {len(model.exits)}, after layers "
            f"{', '.join(map(str, model.exits))}; "
            f"give 1 to {len(model.exits)}"
        )

    if model.reading.pooling == "candidate":
        raise ValueError(
            f"{checkpoint} reads the mean of the candidate's own tokens (pooling = 'candidate'), which "
            "sentence-transformers' "
            "modules do not compute; train it with 'first' or 'mean'"
        )
    if out.exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} has files; give another folder, or remove it")

    # The exported folder appears complete or not at all.
    layers = model.exits[exit - 1]
    # Loaded weights are a map of their file, which must not be written over.
    with tempfile.TemporaryDirectory() as folder:
        model.encoder.save(Path(folder), layers)
        _tokenizer(tokeniser, model).save_pretrained(folder)
        modules = [
            Transformer(folder, config_kwargs=_NO_CODE, model_kwargs=_NO_CODE, processor_kwargs=_NO_CODE),
            *_head(
                cast(ClassifierHead, model.classifiers[exit - 1]),
                "cls" if model.reading.pooling == "first" else "mean",
            ),
        ]
        exported = CrossEncoder(
            modules=modules, device="cpu", activation_fn=nn.Identity(), trust_remote_code=False
        )

        unfinished = out.with_name(f".{out.name}.tmp")
        shutil.rmtree(unfinished, ignore_errors=True)
        exported.save_pretrained(str(unfinished), create_model_card=False)
        files = [str(path.relative_to(unfinished)) for path in unfinished.rglob("*") if path.is_file()]
        write_sums(unfinished, files)
        parts = (f"{{{part}}}" for part in model.reading.context)
        form = Exported(layers, tokeniser.limit, tokeniser.separator.join(parts))
        # The card is for its publisher to edit, so no digest of it is kept.
        write_text(unfinished / CARD, "\n".join(_card(checkpoint, form)) + "\n")
        replace_folder(unfinished, out)

    return form


def _card(checkpoint: Path, form: Exported) -> Iterator[str]:
    """Model card: the form, its use, and the checkpoint's own card, which has the licence."""
    head, training = _training_card(checkpoint)
    licence = next((line for line in training.splitlines() if "Licence of the data:" in line), None)

    yield f"---\n{head.to_yaml()}\n---\n"
    yield f"# Cross-encoder of {checkpoint.name}\n"
    yield f"Written by AnswerMill's `answermill export`: {form.layers} layers, at most {form.tokens} tokens."
    yield f"A candidate is `{form.candidate}`, and a score is a logit.\n"
    yield licence or "- Licence: not stated, since the checkpoint has no card; add one before you pass it on."
    yield "\n```python\nfrom sentence_transformers import CrossEncoder\n"
    yield 'CrossEncoder("<this folder>").predict([("question", "candidate")])\n```'
    if training:
        yield "\n" + training.replace("# ", "## Training: ", 1)


def _training_card(checkpoint: Path) -> tuple[ModelCardData, str]:
    """The head of the exported model's card, with what that of the checkpoint's says of licence, body and
    data; and the checkpoint's card without its head, or ''."""
    try:
        text = (checkpoint / CARD).read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    known: Mapping[str, Any] = {}
    if text.startswith("---\n"):
        card = RepoCard(text, ignore_metadata_errors=True)
        known, text = vars(card.data), card.text

    head = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="text-ranking",
        tags=["sentence-transformers", "cross-encoder", "reranker"],
        **{key: known[key] for key in _KEPT if key in known},
    )
    return head, text.strip()


def _head(classifier: ClassifierHead, pooling: Literal["cls", "mean"]) -> list[nn.Module]:
    """The pooling, then the classifier; a cross-encoder reads its score under the name 'scores'."""
    width = classifier.score.in_features
    if isinstance(classifier, Classifier):
        hidden = [_dense(linear, nn.Tanh()) for linear in (classifier.first, classifier.second)]
        return [Pooling(width, pooling), *hidden, _dense(classifier.score, nn.Identity(), "scores")]

    modules: list[nn.Module] = [_dense(classifier.first, _FUNCTIONS[classifier.activation]())]
    if classifier.norm is not None:
        normalised = LayerNorm(width)
        normalised.norm.load_state_dict(classifier.norm.state_dict())
        modules.append(normalised)
    return [Pooling(width, pooling), *modules, _dense(classifier.score, nn.Identity(), "scores")]


def _dense(linear: nn.Linear, function: nn.Module, name: str | None = None) -> Dense:
    """A linear layer and the function after it. `name`: name of its output, if it is no encoding."""
    dense = Dense(
        linear.in_features, linear.out_features, activation_function=function, module_output_name=name
    )
    dense.linear.load_state_dict(linear.state_dict())
    return dense


def _tokenizer(tokeniser: Tokeniser, model: CascadeModel) -> PreTrainedTokenizerFast:
    """Tokenizer of the same tokenizer.json, in the form that writes Hugging Face's other files too."""
    tokenizer = Tokenizer.from_file(str(tokeniser.path))
    padding = next((token for token in _PADDING if tokenizer.token_to_id(token) is not None), None)
    if padding is None:
        raise ValueError(
            f"{tokeniser.path}: no token to pad with, {' or '.join(_PADDING)}; its texts cannot be put in a "
            "batch"
        )

    tokenizer.no_truncation()
    tokenizer.no_padding()
    inputs = ["input_ids", "attention_mask"] + (["token_type_ids"] if model.encoder.shape.types > 1 else [])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=padding,
        model_max_length=tokeniser.limit,
        model_input_names=inputs,
    )


def _model_of(checkpoint: Path) -> str:
    check_ended(checkpoint)
    with config_of(checkpoint, *EXPORTED) as config:
        return str(config["model"])
