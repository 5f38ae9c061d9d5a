"""What a processor or a graphics card computes natively, which decides the arithmetic of models that are served.

A card is known by the major number of its compute capability: Volta and Turing have 7, Ampere has 8.
"""

from __future__ import annotations

import torch

_VOLTA, _AMPERE = 7, 8


def fast(device: torch.device | str) -> torch.dtype:
    """bf16 on cards from Ampere on and on processors that multiply it, fp16 on cards from Volta on, else fp32."""
    if torch.device(device).type == "cuda":
        major = _capability(device)
        return torch.bfloat16 if major >= _AMPERE else torch.float16 if major >= _VOLTA else torch.float32
    can = torch.cpu.get_capabilities()
    return torch.bfloat16 if can.get("amx_bf16") or can.get("avx512_bf16") else torch.float32


def reads_all_lengths(card: torch.device) -> bool:
    """Whether PyTorch's attention over texts of different lengths runs on a card, in half precision."""
    return _capability(card) >= _AMPERE


def _capability(card: torch.device | str) -> int:
    return torch.cuda.get_device_capability(card)[0]
