"""Engines beside what is right."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from camshaft import _native
from camshaft._arguments import options_with_precision, pairs_of_options, path_of_model
from camshaft._arrays import Exported
from camshaft._build import build
from camshaft._engine import Engine
from camshaft._errors import Error, InvalidArgumentError, VerificationError
from camshaft._objects import OBJECTS, native_value, python_value
from camshaft._plugin import ORT_LIBRARIES

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from camshaft._types import BuildArguments, Inputs, Model, Record, Shape

    Judge = Literal["reference", "onnxruntime"] | Callable[[dict[str, NDArray[Any]]], Mapping[str, Any]]


def verify(
    model: Model,
    *,
    against: Judge = "reference",
    inputs: Inputs | None = None,
    **arguments: Unpack[BuildArguments],
) -> Record:
    """Compiles a model in memory and compares its results with a judge's, as `camshaft verify` does: {"passed", "against",
    "tolerance", "outputs": [{"output", "relative_error", "passed", …}], "failure": what went wrong, or None}. Nothing is
    raised where they differ.

    against: "reference", the plain evaluation that builds are verified by; "onnxruntime", where that is installed; or a
        function of {input: NumPy array} that gives {output: array}, such as a call of the network in its own framework.
    inputs: {input: array}; others are made from the option seed.
    arguments: build()'s."""
    if against not in ("reference", "onnxruntime") and not callable(against):
        raise InvalidArgumentError(f'against is "reference", "onnxruntime" or a function, not {against!r}')
    if against == "onnxruntime" and arguments.get("lora"):
        raise InvalidArgumentError("ONNX Runtime does not have the adapters (lora): give a function that judges")
    engine: Engine | None = None
    failure: str | None = None
    try:
        engine = build(model, inputs=inputs, **arguments)
        report = engine.report
    except VerificationError as error:
        report, failure = error.report, str(error)
    verdict: Record = {"against": against if isinstance(against, str) else getattr(against, "__name__", repr(against))}
    verdict["tolerance"] = _tolerance(**arguments)
    if against == "reference":
        verdict["outputs"] = report["verification"] if report else []
    else:
        if engine is None:  # it is judged all the same: which of the two is wrong?
            unverified: BuildArguments = {**arguments, "verify": False}
            engine = build(model, inputs=inputs, **unverified)
        verdict["outputs"] = _compared(model, engine, against, inputs or {}, arguments, verdict["tolerance"])
    verdict["passed"] = failure is None and all(output["passed"] for output in verdict["outputs"])
    verdict["failure"] = failure
    return verdict


def _tolerance(*, precision: Any = (), **arguments: Any) -> float:
    """What the option comes to with the precisions that are allowed."""
    options = options_with_precision(precision, arguments)
    known: dict[str, Any] = {
        name: options[name] for name in ("tolerance", "fp16", "bf16", "tf32", "best") if name in options
    }
    return json.loads(_native.get_option(pairs_of_options(known), "tolerance"))


def _compared(
    model: Model,
    engine: Engine,
    against: Judge,
    given: Mapping[str, Any],
    arguments: Mapping[str, Any],
    tolerance: float,
) -> list[Record]:
    shapes = [(name, tuple(array.shape)) for name, array in given.items() if hasattr(array, "shape")]
    shapes = shapes or _shapes_of(arguments.get("shapes"))
    types = {info.name: info.type for info in (*engine.inputs, *engine.outputs) if info.dtype in OBJECTS}
    inputs: dict[str, Any] = {}
    for name, tensor in _native.sample_inputs(engine._engine, shapes, arguments.get("seed") or 0):
        if name in given:
            inputs[name] = given[name]
        elif name in types:
            inputs[name] = python_value(_native.tensor_value(tensor))
        else:
            inputs[name] = Exported(functools.partial(_native.tensor_dlpack, tensor))
    outputs = engine.create_context(arguments.get("threads") or 0).run(inputs)
    expected = _judged(model, engine, against, inputs, types)
    if missing := sorted(outputs.keys() - expected.keys()):
        raise InvalidArgumentError(f"the judge gave no output '{missing[0]}', but {', '.join(sorted(expected))}")
    return [
        json.loads(
            _native.compare(
                name,
                native_value(expected[name], types.get(name, ""), f"what should be output '{name}'"),
                native_value(output, types.get(name, ""), f"output '{name}'"),
                tolerance,
            )
        )
        for name, output in outputs.items()
    ]


def _shapes_of(shapes: Mapping[str, Shape] | None) -> list[tuple[str, tuple[Any, ...]]]:
    return [(name, tuple(shape)) for name, shape in (shapes or {}).items()]


def _judged(
    model: Model, engine: Engine, against: Judge, inputs: Mapping[str, Any], objects: Mapping[str, str]
) -> Mapping[str, Any]:
    """`objects`: of the inputs and outputs that are no arrays of numbers, their types."""
    import numpy

    arrays = {name: value if name in objects else numpy.from_dlpack(value) for name, value in inputs.items()}
    if callable(against):
        return {
            name: value if name in objects else numpy.ascontiguousarray(value)
            for name, value in against(arrays).items()
        }
    try:
        import onnxruntime  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise Error("onnxruntime is not installed: pip install onnxruntime, or verify against the reference") from error
    names = [info.name for info in engine.outputs]
    with path_of_model(model) as path:
        if ORT_LIBRARIES and objects:
            raise InvalidArgumentError(
                f"beside libraries of operators ONNX Runtime does not judge texts, sequences, optionals and maps "
                f"({', '.join(sorted(objects))}): give a function that judges"
            )
        if ORT_LIBRARIES:
            return _judged_elsewhere(path, names, arrays)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return dict(zip(names, session.run(names, arrays)))


def _judged_elsewhere(path: str, names: list[str], arrays: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own: a library of operators keeps one table of functions, which is ours in this one."""
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        numpy.savez(f"{folder}/in.npz", **{str(index): array for index, array in enumerate(arrays.values())})
        given = json.dumps([path, ORT_LIBRARIES, list(arrays), names])
        done = subprocess.run([sys.executable, "-c", _JUDGE, folder, given], capture_output=True, text=True)
        if done.returncode != 0:
            raise Error(f"ONNX Runtime cannot run the model: {(done.stderr.strip().splitlines() or ['it ended'])[-1]}")
        with numpy.load(f"{folder}/out.npz") as results:
            return {name: results[str(index)] for index, name in enumerate(names)}


_JUDGE = """
import json, sys
import numpy, onnxruntime
folder, (path, libraries, given, wanted) = sys.argv[1], json.loads(sys.argv[2])
options = onnxruntime.SessionOptions()
for library in libraries:
    options.register_custom_ops_library(library)
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
with numpy.load(folder + "/in.npz") as arrays:
    results = session.run(wanted, {name: arrays[str(index)] for index, name in enumerate(given)})
numpy.savez(folder + "/out.npz", **{str(index): array for index, array in enumerate(results)})
"""
