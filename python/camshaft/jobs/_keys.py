"""Keys of jobs, as keywords. Made by scripts/python_types.py from what the library says of itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class JobKeys(TypedDict, total=False):
    """Those of every operation. None is as if it were not given."""

    onnx_path: str | os.PathLike[str] | None
    """The model."""
    engine_path: str | os.PathLike[str] | None
    """The engine to write; by default the model's path with the ending .engine."""
    report_path: str | os.PathLike[str] | None
    """The report to write; by default what the job writes with .report.json behind it."""
    device: str | os.PathLike[str] | None
    """What the engine runs on."""
    fp16: bool | None
    """Allow fp16."""
    bf16: bool | None
    """Allow bf16."""
    tf32: bool | None
    """Allow TF32 products."""
    int8: bool | None
    """Allow int8, by a calibration: calibration_cache, or calibration_data to make it of. A quantised model needs
    none."""
    fp8: bool | None
    """Allow 8-bit floats likewise, on GPUs of compute capability 8.9 or more."""
    best: bool | None
    """Allow all precisions that are faster."""
    max_workspace_gb: float | None
    """GiB that a run may need; a larger engine is kept, and the report says so."""
    min_shape: Sequence[int] | str | Mapping[str, Sequence[int] | str] | None
    """The smallest shapes that the engine takes."""
    opt_shape: Sequence[int] | str | Mapping[str, Sequence[int] | str] | None
    """The shapes that it is tuned for and measured at."""
    max_shape: Sequence[int] | str | Mapping[str, Sequence[int] | str] | None
    """The largest shapes that it takes."""
    profiles: Sequence[Mapping[str, Any]] | None
    """Several profiles, in place of min_shape, opt_shape and max_shape; the first is measured."""
    calibration_cache: str | os.PathLike[str] | None
    """The ranges for int8 and fp8: ours or TensorRT's. Made of calibration_data where it is not there."""
    calibration_data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
    """.npy and .npz files, folders of them, or patterns with *: a file is a batch."""
    calibration_method: Literal["entropy", "minmax", "percentile", "mse"] | None
    """How ranges are chosen."""
    threads: int | None
    """Threads to build and to run with; 0: one for each core."""
    tuning: Literal["measure", "heuristic", "locked"] | None
    """How kernels are chosen."""
    timing_cache: str | os.PathLike[str] | None
    """A file that keeps what was measured."""
    verify: bool | None
    """Compare the engine with the reference evaluation."""
    tolerance: float | None
    """The largest error of an output, as a part of its scale."""
    plugin: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
    """Operators to load: a library, an ONNX model of functions, or 'my::Op(x) = x * tanh(x)'; or a list of these."""
    ort_custom_ops: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
    """A library of operators made for ONNX Runtime (RegisterCustomOps), or a list of these."""
    build_options: Mapping[str, Any] | None
    """Further options of a build, by the names of docs/options.md."""
    inputs: str | os.PathLike[str] | None
    """An .npz file of inputs to measure on; random ones by default."""
    measure_seconds: float | None
    """How long to measure each engine; 0: not at all. By default 1."""
    max_error: float | None
    """optimize: the largest error beside fp32, as a part of an output's scale."""
    engines: Sequence[str | os.PathLike[str]] | None
    """benchmark: engines to measure beside the model's own."""
    runtimes: Sequence[Literal["camshaft", "onnxruntime", "openvino", "pytorch"]] | None
    """benchmark: what to measure; all by default."""
    torch_path: str | os.PathLike[str] | None
    """benchmark: the model for PyTorch, as TorchScript (.pt) or an exported program (.pt2)."""
    batches: Sequence[int] | None
    """benchmark: batch sizes, each built for alone."""
    dynamic_batches: Sequence[int] | None
    """benchmark: batch sizes of one engine that takes them all."""
    streams: Sequence[int] | None
    """benchmark: numbers of requests at a time."""
    stream_batch: int | None
    """benchmark: the batch of each request of streams."""
    plot_path: str | os.PathLike[str] | None
    """benchmark: where to draw the picture."""
