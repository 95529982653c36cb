"""Calibrators: data for int8 that a program hands over batch by batch, and the caches it keeps."""

import struct
from pathlib import Path

import camshaft
from camshaft.tensorrt import _cuda
from camshaft.tensorrt._enums import CalibrationAlgoType
from camshaft.tensorrt._log import theirs
from camshaft.tensorrt._values import name_of_dtype, volume


class IInt8Calibrator:
    """Derive from one of these, and write get_batch_size(), get_batch(names), which gives the address of a batch for each
    input, or None after the last one, and read_calibration_cache() and write_calibration_cache(cache)."""

    _algorithm = CalibrationAlgoType.ENTROPY_CALIBRATION_2

    def __init__(self):
        pass

    def get_algorithm(self):
        return self._algorithm

    def get_batch_size(self):
        return 1

    def get_batch(self, names, *arguments):
        raise NotImplementedError("a calibrator needs get_batch(names)")

    def read_calibration_cache(self):
        return None

    def write_calibration_cache(self, cache):
        pass


class IInt8EntropyCalibrator(IInt8Calibrator):
    """Ranges that keep most of the distribution's information."""

    _algorithm = CalibrationAlgoType.ENTROPY_CALIBRATION


class IInt8EntropyCalibrator2(IInt8Calibrator):
    """The same."""


class IInt8MinMaxCalibrator(IInt8Calibrator):
    """The ranges that were seen."""

    _algorithm = CalibrationAlgoType.MINMAX_CALIBRATION


class IInt8LegacyCalibrator(IInt8Calibrator):
    """Ranges of which get_quantile() of the numbers lie inside."""

    _algorithm = CalibrationAlgoType.LEGACY_CALIBRATION

    def get_quantile(self):
        return 0.9999

    def get_regression_cutoff(self):
        return 1.0

    def read_histogram_cache(self, length):
        return None

    def write_histogram_cache(self, ptr, length):
        pass


def calibration_file(folder, calibrator, model, inputs, shapes, device, options):
    """The path of a file with ranges in `folder`: of the calibrator's cache, or of its batches, whose ranges it then gets
    as a cache. `model`: as camshaft.calibrate() takes it; `inputs`: ITensors; `shapes`: {input: shape of a batch}; `device`: where batches are; `options`: of
    camshaft.calibrate()."""
    path = Path(folder) / "calibration"
    with theirs():
        cache = calibrator.read_calibration_cache()
    if cache:
        path.write_bytes(bytes(cache))
        return path
    names = [tensor.name for tensor in inputs]

    def batches():
        while addresses := _batch_of(calibrator, names):
            if len(addresses) != len(names):
                raise ValueError(f"get_batch() gave {len(addresses)} addresses for the inputs {', '.join(names)}")
            yield {
                tensor.name: _memory_at(_address(address), tensor, shapes[tensor.name], device)
                for tensor, address in zip(inputs, addresses)
            }

    camshaft.calibrate(model, batches(), str(path), format="tensorrt", **_method_of(calibrator), **options)
    with theirs():
        calibrator.write_calibration_cache(memoryview(path.read_bytes()))
    return path


def _batch_of(calibrator, names):
    with theirs():
        try:
            return calibrator.get_batch(names)
        except TypeError as error:
            # Of TensorRT 7 and before: get_batch(bindings, names).
            if "positional argument" not in str(error):
                raise
            return calibrator.get_batch([None] * len(names), names)


def _memory_at(address, tensor, shape, device):
    if address < 1:
        raise ValueError(f"get_batch() gave {address} as the address of input '{tensor.name}'")
    _cuda.check_size(tensor.name, address, volume(shape) * tensor.dtype.itemsize)
    return camshaft.Memory(address, name_of_dtype(tensor.dtype), shape, device)


def _address(given):
    return int(given.ptr if hasattr(given, "ptr") else given)


def _method_of(calibrator):
    algorithm = calibrator.get_algorithm()
    if algorithm == CalibrationAlgoType.MINMAX_CALIBRATION:
        return {"method": "minmax"}
    if algorithm == CalibrationAlgoType.LEGACY_CALIBRATION:
        return {"method": "percentile", "percentile": 100 * calibrator.get_quantile()}
    return {"method": "entropy"}


def file_of_ranges(folder, ranges):
    """The path of a file with ranges set by hand, {tensor: (smallest, largest)}, in `folder`."""
    path = Path(folder) / "ranges"
    lines = ["TRT-8601-EntropyCalibration2"]
    for name, (low, high) in ranges.items():
        scale = max(abs(low), abs(high)) / 127
        lines.append(f"{name}: {struct.pack('>f', scale).hex()}")
    path.write_text("\n".join(lines) + "\n")
    return path
