"""Options as keywords. Made by scripts/python_types.py from what the library says of itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypedDict


class BuildOptions(TypedDict, total=False):
    """Of a build, but for those that are arguments of their own. None is as if it were not given."""

    device: str | os.PathLike[str] | None
    """What the engine runs on: cpu, cuda (the first GPU), or a GPU by its number, as cuda:1."""
    fp16: bool | None
    """Allow tensors within the model to be stored in fp16, and products to be taken in it."""
    bf16: bool | None
    """The same in bf16; where both are allowed it is fp16. On CPUs with AVX512_BF16 tensors stay fp32, and operands
    of products may be rounded."""
    tf32: bool | None
    """Allow products of fp32 to be taken of operands rounded to TF32."""
    int8: bool | None
    """Allow layers to be computed on integers of 8 bits, by the ranges of a calibration."""
    fp8: bool | None
    """The same on floats of 8 bits (E4M3), on GPUs of compute capability 8.9 or more; where both are allowed it is
    the faster one."""
    best: bool | None
    """Allow all precisions that are faster here: fp16 or bf16, tf32, and int8 and fp8 with a calibration."""
    strongly_typed: bool | None
    """Allow no types but those of the model's own tensors."""
    layer_precisions: str | Sequence[str] | None
    """What a layer is computed in, as NAME:PRECISION (fp32, fp16, bf16, int8 or fp8; * in the name stands for any
    text)."""
    layer_output_types: str | Sequence[str] | None
    """What the results of a layer are stored in, as NAME:TYPE."""
    precision_constraints: Literal["none", "prefer", "obey"] | None
    """What becomes of the precisions of layers: none (ignored), prefer (a warning where they cannot be had), or obey
    (an error)."""
    threads: int | None
    """Threads to build, measure and verify with; 0: one for each core."""
    tuning: Literal["heuristic", "measure", "locked"] | None
    """How kernels are chosen: measure, heuristic (by the cost model alone), or locked (as the lock file says)."""
    timing_cache: str | os.PathLike[str] | None
    """A file that keeps what was measured; made if there is none."""
    tuning_seconds: float | None
    """Stop measuring after this long; the cost model decides the rest."""
    lock: str | os.PathLike[str] | None
    """The lock file to take every choice from."""
    write_lock: str | os.PathLike[str] | None
    """Where to write the lock file of this build; empty: nowhere."""
    verify: bool | None
    """Compare the engine with the reference evaluation, and fail outside the tolerance."""
    tolerance: float | None
    """Largest error of an output, as a part of its scale; 0: 1e-4, 0.02 with fp16 or tf32, 0.1 with bf16, where the
    device gains from it."""
    verify_seconds: float | None
    """Verify on further seeds and sizes as long as they fit into this time."""
    max_operations: float | None
    """Refuse to fold, measure and verify with more operations than this in all; 0: 5e11, and more for a large model."""
    max_memory: float | None
    """Refuse to hold more bytes than this in the host's memory at once, beside the model's file; 0: a quarter of the
    machine's memory, 6 GiB at least, and more for a large model."""
    seed: int | None
    """Of the inputs used for verification."""
    refit: bool | None
    """Make an engine whose weights can be replaced; the report says which cannot, and what that costs."""
    strip_weights: bool | None
    """The same, and save it without weights: a refit must bring them."""
    lora: str | Sequence[str] | None
    """An adapter of LoRA that runs may choose, as NAME=FILE: a .safetensors file, or the folder that PEFT writes."""
    debug_tensors: str | Sequence[str] | None
    """Tensors to keep through fusion, as further outputs."""
    stop_after_pass: int | None
    """Run only the first N optimiser passes; -1: all."""


class CalibrationOptions(TypedDict, total=False):
    """Of a calibration, but for those that are arguments of their own. None is as if it were not given."""

    method: Literal["entropy", "minmax", "percentile", "mse"] | None
    """How ranges are chosen: entropy, minmax, percentile or mse."""
    percentile: float | None
    """Of the method percentile: the share of magnitudes that are not clipped."""
    results: bool | None
    """Find ranges of convolutions' results, too, which `quantize` puts in steps for ONNX Runtime."""
    format: Literal["json", "tensorrt"] | None
    """Of the file that is written: json, or tensorrt for a calibration cache of TensorRT's."""
    device: str | os.PathLike[str] | None
    """What the engine runs on: cpu, cuda (the first GPU), or a GPU by its number, as cuda:1."""
    threads: int | None
    """Threads to build, measure and verify with; 0: one for each core."""
    tuning: Literal["heuristic", "measure", "locked"] | None
    """How kernels are chosen: measure, heuristic (by the cost model alone), or locked (as the lock file says)."""
    timing_cache: str | os.PathLike[str] | None
    """A file that keeps what was measured; made if there is none."""
    tuning_seconds: float | None
    """Stop measuring after this long; the cost model decides the rest."""
    max_operations: float | None
    """Refuse to fold, measure and verify with more operations than this in all; 0: 5e11, and more for a large model."""
    max_memory: float | None
    """Refuse to hold more bytes than this in the host's memory at once, beside the model's file; 0: a quarter of the
    machine's memory, 6 GiB at least, and more for a large model."""
