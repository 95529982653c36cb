"""The ranges of tensors that int8 needs, from data."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft import _native
from camshaft._arguments import list_of_profiles, pairs_of_options, path_of_model
from camshaft._arrays import capsule_of
from camshaft._engine import infos_of
from camshaft._errors import InvalidArgumentError
from camshaft._keywords import with_keywords_of
from camshaft._options import CalibrationOptions
from camshaft._progress import shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from camshaft._engine import TensorInfo
    from camshaft._types import Capsule, Inputs, Model, Profile, Progress, Record, Shape, SupportsDLPack
    from camshaft._types import Path as AnyPath


class Calibration:
    """Ranges of a model's tensors, as calibrate() and `camshaft calibrate` make them, or a calibration cache of
    TensorRT's."""

    def __init__(self, path: AnyPath) -> None:
        """Reads a file."""
        self._hold(Path(path).read_bytes(), json.loads(_native.read_calibration(os.fspath(path))), None)

    def _hold(self, data: bytes, described: Record, report: Record | None) -> None:
        self._data = data
        self.method: str = described["method"]
        #: {tensor: (smallest, largest)}: numbers outside are clipped.
        self.ranges: dict[str, tuple[float, float]] = {
            tensor["name"]: (tensor["min"], tensor["max"])
            for tensor in described["tensors"]
            if tensor["min"] is not None
        }
        #: What calibrate() saw: {"samples", "batches", "tensors", "warnings", "seconds_run", …}; None for a file.
        self.report: Record | None = report

    def save(self, path: AnyPath) -> None:
        """Writes the file: it is either complete or untouched."""
        file = Path(path)
        part = file.with_name(f".{file.name}-{os.getpid()}")
        try:
            part.write_bytes(self._data)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"<camshaft.Calibration of {len(self.ranges)} tensors, {self.method}>"


@with_keywords_of(CalibrationOptions)
def calibrate(
    model: Model,
    data: Iterable[Inputs | Sequence[SupportsDLPack] | SupportsDLPack],
    output: AnyPath | None = None,
    *,
    profiles: Profile | Sequence[Profile] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    progress: Progress | None = None,
    **options: Unpack[CalibrationOptions],
) -> Calibration:
    """Runs a model in fp32 on data like what it will see, and chooses a range for each tensor that int8 needs one of.

    model: as in build(). data: batches, any iterable: each a dict {input: array}, a tuple in the order of the inputs, or
    an array for a model of one input. output: where to save the ranges as well. profiles, shapes and progress are
    build()'s. options: method="entropy", … by the names that `camshaft calibrate --help` and options("calibration") list.

    Raises what build() raises, InvalidArgumentError for no data and batches that do not fit, and what `data` raises."""
    batches = iter(data)

    def next_batch(infos: list[Any]) -> list[tuple[str, Capsule]] | None:
        inputs = infos_of(infos)
        try:
            batch = next(batches)
        except StopIteration:
            return None
        return [(name, capsule_of(array)) for name, array in _named(batch, inputs).items()]

    listed = list_of_profiles(profiles, shapes)
    with tempfile.TemporaryDirectory(prefix="camshaft-") as folder, path_of_model(model) as path:
        file = Path(folder) / "calibration"
        with shown(progress) as tell:
            report = _native.calibrate(path, str(file), pairs_of_options(options), listed, next_batch, tell)
        made = Calibration.__new__(Calibration)
        described = json.loads(report)
        made._hold(file.read_bytes(), described, described)
    if output is not None:
        made.save(output)
    return made


def _named(batch: Inputs | Sequence[SupportsDLPack] | SupportsDLPack, inputs: Sequence[TensorInfo]) -> Inputs:
    if isinstance(batch, Mapping):
        return batch
    arrays: Sequence[Any] = batch if isinstance(batch, (list, tuple)) else [batch]
    if len(arrays) != len(inputs):
        names = ", ".join(info.name for info in inputs)
        raise InvalidArgumentError(f"a batch has {len(arrays)} arrays, the model {len(inputs)} inputs: {names}")
    return {info.name: array for info, array in zip(inputs, arrays)}
