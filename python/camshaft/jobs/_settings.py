"""What a job's keys mean to the library."""

import difflib
import glob
import os
from pathlib import Path

from camshaft._build import options as list_options
from camshaft._errors import FileError, InvalidArgumentError
from camshaft._plugin import load_ort_custom_ops, load_plugin

PRECISIONS = ("tf32", "bf16", "fp16", "int8", "fp8")
OF_RANGES = ("int8", "fp8")  # which a calibration places


def sizes(shape):
    """(1, 3, 8) of [1, 3, 8] or "1x3x8"."""
    return tuple(int(size) for size in (shape.split("x") if isinstance(shape, str) else shape))


def shapes_of(given, inputs):
    """{input: shape} of a map or, for a model of one input, of a bare list. `inputs`: the names, or None where they are
    not known yet: then the one input is None."""
    if not isinstance(given, dict):
        if inputs is not None and len(inputs) != 1:
            raise InvalidArgumentError(
                f"the shape {given} is of one input, and the model has {len(inputs)}: {', '.join(inputs)}; "
                "give a map {input: sizes}"
            )
        return {inputs[0] if inputs else None: sizes(given)}
    for name in given:
        if inputs is not None and name not in inputs:
            near = difflib.get_close_matches(name, inputs, 1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; it has {', '.join(inputs)}"
            raise InvalidArgumentError(f"the model has no input '{name}'{hint}")
    return {name: sizes(shape) for name, shape in given.items()}


def profiles_of(job, inputs):
    """[{input: (smallest, usual, largest)}]; None without shapes."""
    keys = ("min_shape", "opt_shape", "max_shape")
    listed = job.get("profiles") or ([job] if "opt_shape" in job else None)
    if listed is None:
        return None
    made = []
    for profile in listed:
        low, usual, high = (shapes_of(profile.get(key, profile["opt_shape"]), inputs) for key in keys)
        if not low.keys() == usual.keys() == high.keys():
            raise InvalidArgumentError(f"{', '.join(keys)} must name the same inputs")
        for name in usual:
            if not len(low[name]) == len(usual[name]) == len(high[name]) or not all(
                a <= b <= c for a, b, c in zip(low[name], usual[name], high[name])
            ):
                raise InvalidArgumentError(
                    f"the shapes of input '{name}' must grow from min over opt to max: {list(low[name])}, "
                    f"{list(usual[name])}, {list(high[name])}"
                )
        made.append({name: (low[name], usual[name], high[name]) for name in usual})
    return made


def build_options(job):
    """The options of a build but precisions and calibration; those of build_options are checked by their names."""
    options = {
        key: job[key] for key in ("device", "threads", "tuning", "timing_cache", "verify", "tolerance") if key in job
    }
    known = [option["name"] for option in list_options("build")]
    for name, value in job.get("build_options", {}).items():
        spelled = name.replace("_", "-")
        if spelled not in known:
            near = difflib.get_close_matches(spelled, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
            raise InvalidArgumentError(f"build_options: there is no option '{name}' of a build; {hint}")
        if name.replace("-", "_") in options:
            raise InvalidArgumentError(f"build_options: '{name}' is a key of the job, which is given, too")
        options[spelled.replace("-", "_")] = value
    return options


_READ = ("onnx_path", "torch_path", "inputs")
_WRITTEN = ("engine_path", "report_path", "plot_path", "timing_cache", "calibration_cache")


def is_read(job, path, file=None):
    """Whether a path is one of the files that a job, which may be wrong yet, reads; `file`: the job's own."""
    engines = job.get("engines")
    read = [job.get(key) for key in _READ] + (engines if isinstance(engines, list) else []) + [file]
    return os.path.realpath(path) in {os.path.realpath(name) for name in read if isinstance(name, str)}


def check_overwritten(job, file=None):
    """Raises InvalidArgumentError where a job would write to a file that it reads, or twice to one."""
    seen = {}
    for key in _WRITTEN:
        if key not in job:
            continue
        if is_read(job, job[key], file):
            raise InvalidArgumentError(f"{key} would overwrite '{job[key]}', which is read; name another file")
        other = seen.setdefault(os.path.realpath(job[key]), key)
        if other != key:
            raise InvalidArgumentError(f"{other} and {key} are the same file, '{job[key]}'; name another one")


def load_operators(job):
    """What the job's plugins bring; one that is loaded already stays as it is."""
    for key, load in ("plugin", load_plugin), ("ort_custom_ops", load_ort_custom_ops):
        for source in _listed(job.get(key, [])):
            load(source)


def _listed(given):
    return [given] if isinstance(given, str) else given


def data_files(given):
    """The .npy and .npz files of calibration_data, in the order of their names."""
    files = []
    for item in _listed(given):
        if os.path.isdir(item):
            found = sorted(str(path) for path in Path(item).iterdir() if path.suffix in (".npy", ".npz"))
        else:
            found = sorted(glob.glob(item)) if glob.has_magic(item) else [item]
        if not found:
            raise FileError(f"calibration_data: {item}: no .npy or .npz files are there")
        files += found
    return files


def batches(files):
    """A batch a file, read when it is needed."""
    import numpy

    for path in files:
        try:
            held = numpy.load(path, allow_pickle=False)
        except OSError as error:
            raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (ValueError, EOFError) as error:
            raise InvalidArgumentError(
                f"{path}: not a file of arrays as numpy.save and numpy.savez write them: {error}"
            ) from None
        if isinstance(held, numpy.ndarray):
            yield held
        else:
            with held:
                yield {name: held[name] for name in held.files}
