"""Engines that a user could pick for an exported cross-encoder on a processor: sentence-transformers by
torch, ONNX Runtime and OpenVINO.

The graph is written once, from tokens to score, and both run it. int8 is as their guides have it: ONNX
Runtime's dynamic quantization, a scale for each row of a matrix; OpenVINO's static one by NNCF, calibrated on
texts that are not measured. bf16 is left out on a processor that does not multiply it: emulated, it is
several times as slow as fp32, and nobody would pick it. A peer whose packages are missing is left out, and
said.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import CrossEncoder

from answermill.ranking.transformer.devices import fast
from testing.harness import installed

Pairs = Sequence[tuple[str, str]]
Scores = npt.NDArray[np.float64]
Peer = Callable[[Pairs, int], Scores]
"""Pairs and a batch size → their scores, in the same order."""
NATIVE_BF16 = fast("cpu") == torch.bfloat16


class Graph(torch.nn.Module):
    """A cross-encoder from its tokens to scores [pairs], for export."""

    def __init__(self, encoder: CrossEncoder, names: Sequence[str]) -> None:
        super().__init__()
        self._encoder, self._names = encoder, names

    def forward(self, *tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self._encoder(dict(zip(self._names, tokens, strict=True)))["scores"]
        return scores[:, 0]


def loaded(folder: Path, attention: str | None = None, whole: Sequence[str] = ()) -> CrossEncoder:
    """The folder's cross-encoder. `whole`: modules that stay in fp32 whatever the others are."""
    encoder: CrossEncoder = CrossEncoder(
        str(folder),
        device="cpu",
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs={"attn_implementation": attention} if attention else None,
        keep_in_fp32_modules=list(whole),
    )
    return encoder


def peers(folder: Path, work: Path, calibration: Pairs, threads: int) -> dict[str, Peer]:
    """Name → peer, for the cross-encoder in `folder`; graphs are written into `work`, once."""
    head = [f"{n}.linear" for n in (2, 3, 4)]
    ways: dict[str, Peer] = {"torch_fp32": partial(_predicted, loaded(folder))}
    if NATIVE_BF16:
        ways["torch_bf16"] = partial(_predicted, loaded(folder, whole=head).to(torch.bfloat16))

    libraries, _ = installed(
        {name: partial(__import__, name) for name in ("onnx", "onnxruntime", "openvino", "nncf")}
    )
    if not {"onnx", "onnxruntime"} <= libraries.keys():
        return ways

    encoder = loaded(folder, "eager")
    file = work / "model.onnx"
    names = written(encoder, file)
    ways |= by_onnx(encoder, names, file, threads)
    if "openvino" in libraries:
        ways |= by_openvino(encoder, names, file, threads, calibration if "nncf" in libraries else ())
    return ways


def _predicted(encoder: CrossEncoder, pairs: Pairs, batch: int) -> Scores:
    scores: Scores = encoder.predict(pairs, batch_size=batch, show_progress_bar=False).astype(np.float64)
    return scores


def written(encoder: CrossEncoder, file: Path) -> list[str]:
    """Write the graph, if it is not there; return the names of its inputs."""
    tokens = encoder.tokenizer([("a", "b"), ("c", "d")], return_tensors="pt")
    names = list(tokens)
    if file.is_file():
        return names
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Graph(encoder, names),
            tuple(tokens.values()),
            str(file),
            input_names=names,
            output_names=["scores"],
            dynamic_axes={name: {0: "pairs", 1: "tokens"} for name in names} | {"scores": {0: "pairs"}},
            dynamo=False,
        )
    return names


def batches(encoder: CrossEncoder, pairs: Pairs, batch: int) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """(numbers of pairs, their tokens as arrays [pairs, tokens]) of pairs of about one length, as
    sentence-transformers forms them."""
    order = sorted(range(len(pairs)), key=lambda n: -sum(map(len, pairs[n])))
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        tokens = encoder.tokenizer(
            [pairs[n] for n in rows],
            padding=True,
            truncation="longest_first",
            max_length=encoder.max_length,
            return_tensors="np",
        )
        yield rows, {name: tokens[name].astype(np.int64) for name in tokens}


def _by_graph(
    encoder: CrossEncoder, run: Callable[[Mapping[str, Any]], Any], pairs: Pairs, batch: int
) -> Scores:
    scores = np.empty(len(pairs))
    for rows, tokens in batches(encoder, pairs, batch):
        scores[rows] = run(tokens)
    return scores


def by_onnx(encoder: CrossEncoder, names: Sequence[str], file: Path, threads: int) -> dict[str, Peer]:
    """ONNX Runtime in fp32 and int8."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    small = file.with_name("int8.onnx")
    if not small.is_file():
        quantize_dynamic(file, small, weight_type=QuantType.QInt8, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1

    def peer(path: Path) -> Peer:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return partial(_by_graph, encoder, lambda tokens: session.run(None, dict(tokens))[0])

    return {"onnx_fp32": peer(file), "onnx_int8": peer(small)}


def by_openvino(
    encoder: CrossEncoder, names: Sequence[str], file: Path, threads: int, calibration: Pairs
) -> dict[str, Peer]:
    """OpenVINO in fp32, in bf16 where that is native, and in int8 if there are texts to calibrate it."""
    import openvino

    core = openvino.Core()
    model = core.read_model(str(file))

    def peer(graph: Any, numbers: str) -> Peer:
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": numbers,
            "PERFORMANCE_HINT": "LATENCY",
        }
        compiled = core.compile_model(graph, "CPU", settings)
        return partial(_by_graph, encoder, lambda tokens: next(iter(compiled(dict(tokens)).values())))

    ways = {"openvino_fp32": peer(model, "f32")}
    if NATIVE_BF16:
        ways["openvino_bf16"] = peer(model, "bf16")
    if calibration:
        ways["openvino_int8"] = peer(quantized(encoder, file, calibration), "f32")
    return ways


def quantized(encoder: CrossEncoder, file: Path, calibration: Pairs) -> Any:
    """The graph in int8, with scales of activations that are those of the pairs; kept beside it."""
    import nncf
    import openvino

    small = file.with_name("openvino_int8.xml")
    if not small.is_file():
        data = nncf.Dataset([tokens for _, tokens in batches(encoder, calibration, 1)])
        model = nncf.quantize(
            openvino.Core().read_model(str(file)),
            data,
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(calibration),
        )
        openvino.save_model(model, str(small))
    return openvino.Core().read_model(str(small))
