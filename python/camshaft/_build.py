"""From models to engines, and to other models."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from camshaft import _native
from camshaft._arguments import (
    bytes_of_model,
    list_of_inputs,
    list_of_profiles,
    options_with_precision,
    pairs_of_options,
    path_of_model,
)
from camshaft._calibration import Calibration
from camshaft._engine import Engine
from camshaft._keywords import with_keywords_of
from camshaft._network import Network
from camshaft._options import BuildOptions
from camshaft._progress import shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from camshaft._types import Inputs, Model, Precision, Profile, Progress, Record, Shape
    from camshaft._types import Path as AnyPath

_NUMBERS = {"build": 1, "context": 2, "calibration": 3}  # of the C interface


def options(what: Literal["build", "context", "calibration"] = "build") -> list[Record]:
    """The options of a "build", a "context" or a "calibration": [{"name", "kind", "default", "description"}], with
    "choices" where text is one of a few words. As a keyword the name has _ for each -."""
    if what not in _NUMBERS:
        raise ValueError(f"{what!r}: there are options of {', '.join(_NUMBERS)}")
    return json.loads(_native.list_options(_NUMBERS[what]))


@with_keywords_of(BuildOptions)
def build(
    model: Model,
    output: AnyPath | None = None,
    *,
    profiles: Profile | Sequence[Profile] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    precision: Precision | Sequence[Precision] = (),
    calibration: Calibration | AnyPath | None = None,
    inputs: Inputs | Sequence[Inputs] | None = None,
    folder: AnyPath | None = None,
    progress: Progress | None = None,
    **options: Unpack[BuildOptions],
) -> Engine:
    """Compiles a model for this machine and checks it against the reference: an Engine, whose `report` says what was done.

    model: the path of an ONNX file, its bytes, an onnx.ModelProto, or a Network. `folder` has the external data of bytes and
        protos.
    output: where to save the engine as well.
    profiles: {input: (smallest, usual, largest shape)}, or a list of these: what to tune for and to accept. shapes:
        {input: shape}, the same with one size each. Without either the engine takes any shape.
    precision: "fp16", "bf16", "tf32", "int8", "fp8", "best", or several: what may be used beside fp32; fp16=True is the
        same.
    calibration: what calibrate() gave, or the path of a file with ranges, for int8 and fp8.
    inputs: {input: array} to verify the engine on; others are made from the option seed. Or a list of these, whose further
        ones are judged as long as the option verify_seconds is expected to suffice.
    progress: True for a bar on stderr, or a function of the stage ("tuning") and how far it is, from 0 to 1.
    options: the rest, by the names that `camshaft build --help` and options() list: tuning="heuristic", verify=False, …

    Raises Error: FileError, InvalidModelError, UnsupportedError, InvalidArgumentError, VerificationError (whose `report`
    says what differs), OutOfMemoryError; KeyboardInterrupt, and what `progress` raises, stop the build."""
    chosen = options_with_precision(precision, options)
    listed, given = list_of_profiles(profiles, shapes), list_of_inputs(inputs)
    network = model._native if isinstance(model, Network) else None
    data = bytes_of_model(model) if network is None else network
    with _file_of(calibration) as ranges, shown(progress) as tell:
        pairs = pairs_of_options({**chosen, "calibration": ranges})
        source = os.fspath(cast("AnyPath", model)) if data is None else data
        where = "" if folder is None else os.fspath(folder)
        engine, report = _native.build(source, "model.onnx", where, pairs, listed, given, tell)
    made = Engine._of(engine, json.loads(report))
    if output is not None:
        made.save(output)
    return made


@with_keywords_of(BuildOptions)
def simplify(
    model: Model,
    output: AnyPath,
    *,
    profiles: Profile | Sequence[Profile] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    inputs: Inputs | Sequence[Inputs] | None = None,
    external_data: bool = False,
    progress: Progress | None = None,
    **options: Unpack[BuildOptions],
) -> Record:
    """Writes a model in canonical form to the path `output`: constants and shape arithmetic folded, what changes nothing
    removed, in ONNX's own operators, verified against the old one. Arguments are build()'s; `external_data` puts large
    tensors into the file "<output>.data". Returns a report: {"nodes_before", "nodes", "bytes_before", "bytes",
    "opset_before", "opset", "verification", …}."""
    return _write(_native.simplify, model, output, profiles, shapes, inputs, external_data, progress, {**options})


@with_keywords_of(BuildOptions)
def quantize(
    model: Model,
    output: AnyPath,
    calibration: Calibration | AnyPath,
    *,
    profiles: Profile | Sequence[Profile] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    inputs: Inputs | Sequence[Inputs] | None = None,
    external_data: bool = False,
    progress: Progress | None = None,
    **options: Unpack[BuildOptions],
) -> Record:
    """Writes a model with QuantizeLinear and DequantizeLinear to the path `output`, by the ranges of a calibration: what
    other runtimes take for int8, or with fp8=True for 8-bit floats (E4M3). Arguments are build()'s. Returns simplify()'s
    report, with "quantized_layers"."""
    with _file_of(calibration) as ranges:
        chosen = {**options, "calibration": ranges}
        return _write(_native.quantize, model, output, profiles, shapes, inputs, external_data, progress, chosen)


def _write(
    write: Callable[..., str],
    model: Model,
    output: AnyPath,
    profiles: Profile | Sequence[Profile] | None,
    shapes: Mapping[str, Shape] | None,
    inputs: Inputs | Sequence[Inputs] | None,
    external_data: bool,
    progress: Progress | None,
    options: Mapping[str, Any],
) -> Record:
    pairs, listed, given = pairs_of_options(options), list_of_profiles(profiles, shapes), list_of_inputs(inputs)
    with path_of_model(model) as path, shown(progress) as tell:
        report = write(path, os.fspath(output), pairs, listed, given, bool(external_data), tell)
        return json.loads(report)


@contextlib.contextmanager
def _file_of(calibration: Calibration | AnyPath | None) -> Iterator[str | None]:
    """The path of a file with the ranges, for the time of a call; None without a calibration."""
    if not isinstance(calibration, Calibration):
        yield None if calibration is None else os.fspath(calibration)
        return
    with tempfile.TemporaryDirectory(prefix="camshaft-") as folder:
        path = Path(folder) / "calibration"
        calibration.save(path)
        yield str(path)
