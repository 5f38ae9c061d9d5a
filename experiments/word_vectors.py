"""Ways to derive word vectors from the bundled MiniLM (`ranking/word_vectors/word_pieces.py`), compared on
dev sets alone.

Candidates are ranked by relatedness alone: the mean of r_i over the question's words (Cosinet §4.1.1), where
equal words match with 1. Nothing is trained. MAP in percent, protocol `answerable`, on WikiQA dev and
SQuAD-sent dev, and the mean of the two; no test set is read. The ways, the simplest first:

    input_raw      a word's pieces in the input embeddings, averaged: 384 numbers
    input_N        the same, less the mean of all pieces, and the N strongest directions dropped: the next 300 numbers
    layer_L_raw    the word alone through the transformer, its pieces' outputs after layer L averaged: 384 numbers
    layer_L_3      the same, less the mean of all pieces (each alone), and 3 directions dropped: the next 300 numbers

The rule, written before the first run: the highest mean wins. Ways within 0.5 of it count as equal; among
these the current one, input_3, stays if it is there, and else the first of the list above wins. A trial that
had read test labels too had first picked the current way, so `simplest` says what would win if it had no such
advantage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from answermill.files.model_files import load_pretrained
from answermill.indexing.shards.dense import DEFAULT, find_model
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.ranking.rerankers.cosinet.heads import NumberedList, rerank
from answermill.ranking.rerankers.cosinet.table_lookup import EndToEnd, Relatedness
from answermill.ranking.training.list_models import vocabulary
from answermill.ranking.training.loop import Dev
from answermill.ranking.word_vectors.embeddings import Embeddings, encode_words
from answermill.ranking.word_vectors.word_pieces import all_but_the_top, read_pieces, word_pieces
from answermill.ranking.word_vectors.words import Lexicon
from answermill.schemas.arrays import Vectors
from answermill.schemas.ranked import RankedList
from testing.harness import arguments, finish, say, shrink
from testing.smoke_data import small_encoder

TAKES = "five minutes"
DECIDED = (
    "How word vectors are derived where no file gives them: most ways came out equal, so by the rule the "
    "one in use, `input_3`, stayed."
)

SETS = {"wikiqa": "wikiqa/wikiqa-dev.parquet", "squad": "squad/squad-sent-dev.parquet"}
DROPPED = (0, 1, 2, 3, 4, 5, 8)
ENCODER, LAYER_DROPPED, DIMENSION = DEFAULT, 3, 300
CURRENT, EQUAL = "input_3", 0.5
BATCH = 256  # words
PIECES = 100_000  # the most that go through the transformer, each alone: all of them


class ByRelatedness:
    """Score = the mean of r_i over the question's words."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._lexicon, self._relatedness = Lexicon(embeddings), Relatedness(embeddings.vectors)

    def rerank(self, lists: Sequence[RankedList]) -> list[RankedList]:
        return rerank(lists, self._lexicon, self._scores, "relatedness")

    def _scores(self, lists: Sequence[NumberedList]) -> list[npt.NDArray[np.float64]]:
        related = (self._relatedness(EndToEnd.of([numbered]))[0][0] for numbered in lists)
        return [r_q.mean(1, dtype=np.float64) for r_q in related]


def ways(words: Sequence[str]) -> Iterator[tuple[str, Embeddings]]:
    """Names of the ways, each with the vectors that it gives the words, the simplest first."""
    folder = find_model(ENCODER)
    tokenizer, model = (
        load_pretrained("AutoTokenizer", folder),
        load_pretrained("AutoModel", folder, use_safetensors=True),
    )
    _, table, plain = read_pieces(folder)
    split = zip(words, tokenizer(list(words), add_special_tokens=False)["input_ids"], strict=True)
    pieces = {word: numbers for word, numbers in split if numbers and tokenizer.unk_token_id not in numbers}
    say(f"{len(words):,} words, {len(pieces):,} of them known; {len(plain):,} pieces")

    yield (
        "input_raw",
        encode_words(
            pieces, by_word(pieces, np.stack([table[numbers].mean(0) for numbers in pieces.values()]))
        ),
    )
    for dropped in DROPPED:
        vectors = word_pieces(list(pieces), folder, DIMENSION, dropped)[1]
        yield f"input_{dropped}", encode_words(pieces, by_word(pieces, vectors))

    ends = tokenizer.cls_token_id, tokenizer.sep_token_id
    layers = outputs(model, list(pieces.values()), ends)  # [layers, words, hidden]
    each_alone = outputs(model, [[number] for number in plain[:PIECES]], ends)  # [layers, pieces, hidden]

    for layer, (vectors, alone) in enumerate(zip(layers, each_alone, strict=True), 1):
        yield f"layer_{layer}_raw", encode_words(pieces, by_word(pieces, vectors))
        kept = all_but_the_top(alone.astype(np.float64), DIMENSION, LAYER_DROPPED)
        yield (
            f"layer_{layer}_{LAYER_DROPPED}",
            encode_words(pieces, by_word(pieces, (vectors - alone.mean(0)) @ kept)),
        )


def by_word(known: Mapping[str, object], vectors: npt.NDArray[Any]) -> Callable[[Sequence[str]], Vectors]:
    """Known words, in order, and their vectors → what `encode_words` reads."""
    row = {word: n for n, word in enumerate(known)}
    return lambda words: vectors[[row[word] for word in words]].astype(np.float32)


@torch.inference_mode()
def outputs(model: Any, texts: Sequence[Sequence[int]], ends: tuple[int, int]) -> Vectors:
    """The mean of a text's pieces after each layer [layers, texts, hidden], each text alone between [CLS] and
    [SEP], which do not count. Texts of one length are run together: nothing is padded."""
    means = np.empty((model.config.num_hidden_layers, len(texts), model.config.hidden_size), np.float32)
    for length in sorted(set(map(len, texts))):
        same = [n for n, text in enumerate(texts) if len(text) == length]
        for first in range(0, len(same), BATCH):
            batch = same[first : first + BATCH]
            numbers = torch.tensor([[ends[0], *texts[n], ends[1]] for n in batch])
            # Layers × [batch, 1 + length + 1, hidden].
            states = model(numbers, output_hidden_states=True).hidden_states[1:]
            means[:, batch] = torch.stack(states)[:, :, 1:-1].mean(2).numpy()
    return means


def equals(means: Mapping[str, float]) -> list[str]:
    """Ways within EQUAL of the best, the simplest first."""
    return [way for way, mean in means.items() if mean >= max(means.values()) - EQUAL]


def main() -> None:
    options = arguments("word_vectors", __doc__ or "")
    if options.smoke:
        shrink(globals(), ENCODER=small_encoder(), DROPPED=(0, 3), DIMENSION=10, PIECES=400)
    torch.set_num_threads(1)
    questions = {name: list(by_question(read_dataset(options.data / path))) for name, path in SETS.items()}
    devs = {name: Dev(rows) for name, rows in questions.items()}
    result: dict[str, float | str] = {
        f"{name}_questions": sum(any(row.label for row in rows) for rows in lists)
        for name, lists in questions.items()
    }

    means: dict[str, float] = {}
    for way, embeddings in ways(sorted(vocabulary(list(chain.from_iterable(questions.values()))))):
        reranker = ByRelatedness(embeddings)
        values = {name: 100 * dev.score(reranker, "MAP", "answerable") for name, dev in devs.items()}
        means[way] = sum(values.values()) / len(values)
        result |= {f"{name}_map_{way}": value for name, value in values.items()} | {
            f"mean_map_{way}": means[way]
        }
        say(
            f"{way:<12} {embeddings.dimension} numbers, "
            + ", ".join(f"{name} {value:.2f}" for name, value in values.items())
        )

    equal = equals(means)
    result |= {
        "best": max(means, key=lambda way: means[way]),
        "equal": ", ".join(equal),
        "simplest": equal[0],
    }
    result["chosen"] = CURRENT if CURRENT in equal else equal[0]
    say(f"best {result['best']}; equal to it {result['equal']}; chosen {result['chosen']}")
    finish("word_vectors", result, options.save)


if __name__ == "__main__":
    main()
