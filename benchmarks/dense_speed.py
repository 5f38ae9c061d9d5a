"""The dense index's encoders: the packed encoder of the default model beside others' ways of running the same
weights, and a static encoder learnt from it, with what its lists and answers lose.

Speed: passages of `corpus-wiki`, of at most 100 words, and questions, one a call. Each way runs on one
thread, and its CPU seconds are counted; rounds are interleaved, and ratios are taken round by round.
`…_default` is the packed encoder as the job runs it, in bf16 where the processor multiplies that, and
`…_fp32` the same in fp32; `…_padded` Hugging Face's own forward, as the job runs models that are not packed;
`…_sentence_transformers` the library's `encode`, and `…_sentence_transformers_bf16` that of its model in
bf16. `…_onnx` is onnxruntime on batches of texts of about one length, `…_onnx_int8` the same with its dynamic
quantization, `…_openvino` openvino on the same graph, in the precision that it chooses itself: each is absent
where its packages are (`onnx`, which writes the graph, and `openvino`). `over_sentence_transformers_best` is
against the fastest of all but int8; `difference_…` is the largest difference of a number from the packed
encoder's in fp32, which for int8 is no rounding error: `over_onnx_int8` is apart.

Lists: `answermill static-encoder` learns from a run over corpus-wiki. `recall_static` is the percentage of
the default's exact first 100 passages that are among the first 100 by the static encoder, for questions of
WikiQA's test set, over `compared` passages that it has not learnt from; the default encodes the questions.
`recall_static_alone`: the static encoder encodes them too.

Answers: the sample's default plan over what its job retrieves, `p1_default`, and over what it retrieves with
the static encoder as `index.encoder`, `p1_static` (the default encodes the questions) and `p1_static_alone`;
`right…` of `answerable` questions. `similarity` stays with the default, whose scores the plan's weights know.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
import transformers
from sentence_transformers import SentenceTransformer

from answermill.indexing.shards.dense import DEFAULT, Encoder, Vectors, find_model, joined, load_encoder
from answermill.pipelines.config.job_file import Job, load
from answermill.pipelines.data import sample
from answermill.pipelines.engine.runner import configure_logging
from answermill.pipelines.learn.train.static_encoder_of_run import StaticOptions, learn, lesson
from answermill.pipelines.steps import chain
from answermill.pipelines.steps.models import dense_encoder, load_transformer, use_threads
from answermill.ranking.transformer.padded import PaddedTransformer
from answermill.ranking.transformer.text_vectors import PackedTransformer
from benchmarks.sample import answers, gold, right, rows_by, write_small_job
from testing.harness import arguments, finish, say, shrink
from testing.smoke_data import small_encoder

TAKES = "half an hour, on a quiet machine"
MEASURED_MODELS = ("cascade", "cosinet")
PASSAGES, WORDS, QUESTIONS = 160, 100, 30
MANY = 4_000
"""Passages that the static encoder encodes in a round: those of the others would be too few to be timed."""
TEACHER, LEARNT, PROCESSES = DEFAULT, 20_000, 2
BATCH = 32
"""Texts of a batch of onnxruntime and openvino, and sentence-transformers' default."""
Texts = Sequence[tuple[str, str]]
Work = Callable[[Texts], Vectors]


def passages(data: Path, count: int) -> list[tuple[str, str]]:
    """(title, text) of the first passages of the corpus, of at most WORDS words."""
    cut: list[tuple[str, str]] = []
    with gzip.open(data / "corpus-wiki/documents.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            document = json.loads(line)
            words = document["text"].split()
            cut += [
                (document.get("title") or "", " ".join(words[start : start + WORDS]))
                for start in range(0, len(words), WORDS)
            ]
            if len(cut) >= count:
                break
    return cut[:count]


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


class Graph(torch.nn.Module):
    """The model from tokens to the encodings of the last layer, for export."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._model = transformers.AutoModel.from_pretrained(
            folder, attn_implementation="eager", trust_remote_code=False
        ).eval()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self._model(
            input_ids=ids, attention_mask=mask, token_type_ids=types
        ).last_hidden_state
        return hidden


class GraphEncoder:
    """Vectors by an exported graph, which another library runs: mean over the tokens, length 1."""

    def __init__(self, folder: Path, run: Callable[[Mapping[str, Any]], Any]) -> None:
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self._run = run

    def encode(self, texts: Texts) -> Vectors:
        lines = [joined(*text) for text in texts]
        order = sorted(range(len(lines)), key=lambda n: -len(lines[n]))
        vectors: list[Any] = [None] * len(lines)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            tokens = self._tokenizer(
                [lines[n] for n in rows], padding=True, truncation=True, max_length=256, return_tensors="np"
            )
            mask = tokens["attention_mask"]
            hidden = self._run({"ids": tokens["input_ids"], "mask": mask, "types": tokens["token_type_ids"]})
            sums = (hidden * mask[..., None]).sum(axis=1)
            for n, row in zip(rows, sums / np.linalg.norm(sums, axis=1, keepdims=True), strict=True):
                vectors[n] = row
        return np.stack(vectors).astype(np.float32)


def _encoded(library: SentenceTransformer, texts: Texts) -> Vectors:
    lines = [joined(*text) for text in texts]
    vectors: Vectors = library.encode(lines, batch_size=BATCH, show_progress_bar=False)
    return vectors


def others(model: Path, folder: Path) -> dict[str, Work]:
    """Ways of running the default's weights by other libraries; says which are absent."""
    ways: dict[str, Work] = {}
    for name, numbers in (("sentence_transformers", "float32"), ("sentence_transformers_bf16", "bfloat16")):
        library = SentenceTransformer(
            str(model), device="cpu", trust_remote_code=False, model_kwargs={"dtype": numbers}
        )
        ways[name] = partial(_encoded, library)
    if importlib.util.find_spec("onnx") is None:
        say("onnx is not installed, so no graph can be written: onnxruntime and openvino are not measured")
        return ways

    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names, file, small = ["ids", "mask", "types"], folder / "model.onnx", folder / "int8.onnx"
    token = torch.ones(2, 8, dtype=torch.long)
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Graph(model),
            (token, token, token * 0),
            str(file),
            input_names=names,
            output_names=["hidden"],
            dynamic_axes={name: {0: "texts", 1: "tokens"} for name in (*names, "hidden")},
            dynamo=False,
        )
    quantize_dynamic(file, small, weight_type=QuantType.QInt8)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for name, path in (("onnx", file), ("onnx_int8", small)):
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        encoder = GraphEncoder(model, lambda inputs, session=session: session.run(None, dict(inputs))[0])  # type: ignore[misc]
        ways[name] = encoder.encode

    if importlib.util.find_spec("openvino") is None:
        say("openvino is not installed, so it is not measured")
        return ways
    import openvino

    compiled = openvino.compile_model(str(file), "CPU", {"INFERENCE_NUM_THREADS": 1})
    ways["openvino"] = GraphEncoder(model, lambda inputs: next(iter(compiled(dict(inputs)).values()))).encode
    return ways


def speeds(texts: Texts, many: Texts, static: Path, rounds: int) -> dict[str, float]:
    """Passages a second by each way, questions by those of the job, and the ratios."""
    encoders: dict[str, Encoder] = {
        "default": dense_encoder(TEACHER, device="cpu"),
        "fp32": load_encoder(PackedTransformer, TEACHER),
        "padded": load_encoder(PaddedTransformer, TEACHER),
    }
    fast = load_encoder(load_transformer, str(static))
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Work] = {name: encoder.encode_passages for name, encoder in encoders.items()}
        ways |= others(find_model(TEACHER), Path(folder))

        # Also warms them up.
        vectors = {name: encode(texts) for name, encode in ways.items()}
        fast.encode_passages(texts)
        result = {
            f"difference_{name}": float(np.abs(vectors["fp32"] - vectors[name]).max())
            for name in ways
            if name != "fp32"
        }

        taken: dict[str, list[float]] = {name: [] for name in (*ways, "static")}
        for number in range(rounds):
            for name in sorted(taken, reverse=bool(number % 2)):
                encode, part = (fast.encode_passages, many) if name == "static" else (ways[name], texts)
                taken[name].append(seconds(lambda encode=encode, part=part: encode(part)) / len(part))  # type: ignore[misc]
            say(f"round {number + 1}: " + ", ".join(f"{name} {1 / taken[name][-1]:.1f}/s" for name in taken))

    result |= {f"passages_per_s_{name}": 1 / statistics.median(each) for name, each in taken.items()}
    exact = [name for name in ways if name not in (*encoders, "onnx_int8")]
    best = min(exact, key=lambda name: statistics.median(taken[name]))
    pairs = {
        "default_over_padded": ("padded", "default"),
        "default_over_fp32": ("fp32", "default"),
        "over_sentence_transformers_best": (best, "default"),
        "over_onnx_int8": ("onnx_int8", "default"),
        "static_over_default": ("default", "static"),
    }
    for key, (slow, quick) in pairs.items():
        if slow not in taken:
            continue
        result[key] = statistics.median(a / b for a, b in zip(taken[slow], taken[quick], strict=True))

    questions = [text.split(".")[0] for _, text in texts[:QUESTIONS]]
    for name, encoder in {**encoders, "static": fast}.items():
        each = [
            seconds(lambda encoder=encoder: [encoder.encode_questions([text]) for text in questions])  # type: ignore[misc]
            for _ in range(rounds)
        ]
        result[f"questions_per_s_{name}"] = len(questions) / max(statistics.median(each), 1e-6)
    return result


def learnt(data: Path, folder: Path) -> dict[str, float]:
    """Learn `folder`/static from a run over corpus-wiki; returns the recall."""
    questions = list(
        dict.fromkeys(pq.read_table(data / "wikiqa/wikiqa-test.parquet")["question"].to_pylist())
    )
    (folder / "questions.tsv").write_text(
        "question_id\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(questions)),
        encoding="utf-8",
    )
    job = Job.model_validate(
        {
            "ingest": {"input": [str(data / "corpus-wiki/documents.jsonl.gz")], "min_words": 1},
            "index": {"shards": PROCESSES, "encoder": TEACHER},
            "workers": {"processes": PROCESSES},
        }
    )
    for line in chain.run_steps(job, folder / "run", ["ingest", "index"], ()):
        say(line)

    options = StaticOptions(teacher=TEACHER, passages=LEARNT, questions=folder / "questions.tsv")
    for line in learn(folder / "run", folder / "static", options):
        say(line)
    task = lesson(folder / "run", options)
    shares = task.comparison.shares(load_encoder(load_transformer, str(folder / "static")))
    return {
        "learnt_from": len(task.passages),
        "compared": len(task.comparison.passages),
        "recall_depth": task.comparison.best.shape[1],
        "recall_static": shares[0],
        "recall_static_alone": shares[1],
    }


def answered(static: Path, folder: Path, smoke: bool) -> dict[str, float]:
    """Right answers of the sample's job by each encoder."""
    result: dict[str, float] = {"answerable": len(gold())}
    settings = {
        "default": [],
        "static": [f"index.encoder={static}", f"index.question_encoder={TEACHER}"],
        "static_alone": [f"index.encoder={static}"],
    }
    for name, replaced in settings.items():
        place = folder / name
        if smoke:
            write_small_job(place)
        else:
            sample.copy_to(place)
        job = load(place / sample.PLANS["default"], replaced)
        for line in chain.run_steps(job, place / "run", ["ingest", "index", "retrieve"], ()):
            say(line)
        count = right(answers(rows_by(place / "run", "default")))
        say(f"{name}: {count} right")
        result |= {f"right_{name}": count, f"p1_{name}": count / len(gold())}
    return result


def main() -> None:
    options = arguments("dense_speed", __doc__ or "")
    if options.smoke:
        shrink(
            globals(),
            PASSAGES=6,
            QUESTIONS=2,
            WORDS=20,
            MANY=20,
            LEARNT=100,
            TEACHER=small_encoder(),
            PROCESSES=1,
        )
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # theirs and ours
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    configure_logging()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recall = learnt(options.data, folder)
        use_threads()
        texts, many = (passages(options.data, count) for count in (PASSAGES, MANY))
        result: dict[str, float | int | str] = {
            "passages": len(texts),
            "rounds": options.rounds,
            "torch": torch.__version__,
        }
        result |= speeds(texts, many, folder / "static", options.rounds) | recall
        result |= answered(folder / "static", folder, options.smoke)

    finish("dense_speed", result, options.save, MEASURED_MODELS)


if __name__ == "__main__":
    main()
