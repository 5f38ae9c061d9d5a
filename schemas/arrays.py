"""Types of arrays, by name, and precisions of a model's arithmetic."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Singles: TypeAlias = npt.NDArray[np.float32]
Vectors: TypeAlias = npt.NDArray[np.float32]
"""Rows of d numbers each, [n, d]."""
Ints: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = Ints
"""Numbers of rows, from 0."""
NO_ROWS: Rows = np.empty(0, np.int64)
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]

Precision = Literal["fp32", "bf16"]
"""Precision of a model that serves."""
PrecisionSetting = Literal["auto", "fp32", "bf16"]
"""Precision in settings; 'auto' is chosen by the device."""
StagePrecision = Literal["auto", "fp32", "bf16", "int8"]
"""Precision in the settings of a stage whose products may be of whole numbers."""
TrainingPrecision = Literal["fp32", "bf16", "fp16"]
"""Precision of the matrix products of a training."""
