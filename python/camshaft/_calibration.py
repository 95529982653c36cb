"""The ranges of tensors that int8 needs, from data."""

import json
import os
import tempfile
from pathlib import Path

from camshaft import _native
from camshaft._arguments import list_of_profiles, pairs_of_options, path_of_model
from camshaft._arrays import capsule_of
from camshaft._engine import infos_of
from camshaft._errors import InvalidArgumentError
from camshaft._progress import shown


class Calibration:
    """Ranges of a model's tensors, as calibrate() and `camshaft calibrate` make them, or a calibration cache of
    TensorRT's."""

    def __init__(self, path):
        """Reads a file."""
        self._hold(Path(path).read_bytes(), json.loads(_native.read_calibration(os.fspath(path))), None)

    def _hold(self, data, described, report):
        self._data = data
        self.method = described["method"]
        #: {tensor: (smallest, largest)}: numbers outside are clipped.
        self.ranges = {
            tensor["name"]: (tensor["min"], tensor["max"])
            for tensor in described["tensors"]
            if tensor["min"] is not None
        }
        #: What calibrate() saw: {"samples", "batches", "tensors", "warnings", "seconds_run", …}; None for a file.
        self.report = report

    def save(self, path):
        """Writes the file: it is either complete or untouched."""
        path = Path(path)
        part = path.with_name(f".{path.name}-{os.getpid()}")
        try:
            part.write_bytes(self._data)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def __repr__(self):
        return f"<camshaft.Calibration of {len(self.ranges)} tensors, {self.method}>"


def calibrate(model, data, output=None, *, profiles=None, shapes=None, progress=None, **options):
    """Runs a model in fp32 on data like what it will see, and chooses a range for each tensor that int8 needs one of.

    model: as in build(). data: batches, any iterable: each a dict {input: array}, a tuple in the order of the inputs, or
    an array for a model of one input. output: where to save the ranges as well. profiles, shapes and progress are
    build()'s. options: method="entropy", … by the names that `camshaft calibrate --help` and options("calibration") list.

    Raises what build() raises, InvalidArgumentError for no data and batches that do not fit, and what `data` raises."""
    batches = iter(data)

    def next_batch(infos):
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


def _named(batch, inputs):
    if isinstance(batch, dict):
        return batch
    arrays = batch if isinstance(batch, (list, tuple)) else [batch]
    if len(arrays) != len(inputs):
        names = ", ".join(info.name for info in inputs)
        raise InvalidArgumentError(f"a batch has {len(arrays)} arrays, the model {len(inputs)} inputs: {names}")
    return {info.name: array for info, array in zip(inputs, arrays)}
