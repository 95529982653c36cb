"""The ONNX standard's own test cases through ONNX Runtime's execution provider: as many as through Camshaft's own API.

A case counts where ONNX Runtime itself can load its model and Camshaft's own API passes it (known_failures.txt). Cases run in
processes of their own, as one may end its process.
"""

import ctypes
import json
import multiprocessing
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).parent)]

import camshaft_cli
import numpy as np
import onnx.backend.test
import pytest
from test_onnx_backend import CASES, known_failures

import onnx
from onnx import numpy_helper

DATA = Path(onnx.backend.test.__file__).parent / "data"
MODULE = camshaft_cli.BINARY.parents[1] / "python"
EXOTIC = {
    f"tensor({name})"
    for name in "bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 float4e2m1 uint4 int4 uint2 int2".split()
}
OPTIONS = {"tuning": "heuristic", "verify": "false", "threads": "1"}


def read(path, kind):
    """An array, a list of arrays, or None, of a file with a TensorProto, a SequenceProto or an OptionalProto."""
    data = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def is_of_numpy(array):
    """Not of a type that ml_dtypes adds, such as bf16 and those of 8 bits and fewer."""
    return not isinstance(array, np.ndarray) or array.dtype.isbuiltin == 1


def ort_value(array, onnxruntime):
    if is_of_numpy(array):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    tensor = numpy_helper.from_array(array)
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), tensor.data_type)
    assert value.tensor_size_in_bytes() == len(tensor.raw_data)
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def array_of(value):
    if not value.is_tensor():
        return value.numpy()
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(value.element_type())
    if np.dtype(numpy_type).isbuiltin == 1 or np.dtype(numpy_type).hasobject:
        return value.numpy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if 0 not in value.shape() else b""
    tensor = onnx.TensorProto(dims=value.shape(), data_type=value.element_type(), raw_data=raw)
    return numpy_helper.to_array(tensor)


def run(session, feed, onnxruntime):
    """All outputs. Only through OrtValue there are tensors of types that NumPy lacks, and only as arrays the others."""
    exotic = any(not is_of_numpy(array) for array in feed.values()) or any(
        info.type in EXOTIC for info in [*session.get_outputs(), *session.get_inputs()]
    )
    if not exotic:
        return session.run(None, feed)
    names = [info.name for info in session.get_outputs()]
    values = {name: ort_value(array, onnxruntime) for name, array in feed.items()}
    return [array_of(value) for value in session.run_with_ort_values(names, values)]


def differs(got, want):
    if isinstance(want, list):
        return len(got) != len(want) or any(differs(a, b) for a, b in zip(got, want))
    if want is None or got is None:
        return got is not want
    got = np.asarray(got)
    if got.dtype == object or want.dtype == object or want.dtype.kind in "US":
        texts = [[t.decode() if isinstance(t, bytes) else str(t) for t in a.reshape(-1)] for a in (got, want)]
        return got.shape != want.shape or texts[0] != texts[1]
    if got.dtype != want.dtype or got.shape != want.shape:
        return True
    if got.dtype.kind in "biu" or "int" in got.dtype.name:
        return not np.array_equal(got, want)
    return not np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-3, atol=1e-7, equal_nan=True)


def outcome(folder):
    """(name, what happens: "passed", "not loaded" by ONNX Runtime alone, or what is wrong; nodes in engines, nodes)"""
    sys.path.insert(0, str(MODULE))
    import camshaft.ort
    import onnxruntime

    camshaft.ort.register()
    onnxruntime.set_default_logger_severity(4)
    model = onnx.load(folder / "model.onnx")
    so = onnxruntime.SessionOptions()
    so.intra_op_num_threads = 1
    so.log_severity_level = 4
    so.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    so.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"),
            so,
            providers=[(camshaft.ort.PROVIDER, OPTIONS), "CPUExecutionProvider"],
            enable_fallback=0,
        )
    except Exception as e:
        try:
            onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        except Exception:
            return folder.name, "not loaded", 0, 0
        return folder.name, f"the session: {e}", 0, 0
    taken = [
        len(s.get_nodes()) for s in session.get_provider_graph_assignment_info() if s.ep_name == camshaft.ort.PROVIDER
    ]
    facts = (sum(taken), len(model.graph.node))
    for data in sorted(folder.glob("test_data_set_*")):
        feed = {}
        for i, value in enumerate(model.graph.input):
            file = data / f"input_{i}.pb"
            if file.exists():
                feed[value.name] = read(file, value.type)
        try:
            results = run(session, feed, onnxruntime)
        except Exception as e:
            return folder.name, f"the run: {e}", *facts
        for i, value in enumerate(model.graph.output):
            file = data / f"output_{i}.pb"
            if file.exists() and differs(results[i], read(file, value.type)):
                return folder.name, f"the output {value.name} differs", *facts
    return folder.name, "passed", *facts


def work(folders, results):
    for folder in folders:
        results.put((folder.name, "started", 0, 0))
        results.put(outcome(folder))
    results.put(None)


def outcomes_of(folders):
    """{name: (what happens, nodes in engines, nodes)}; a process that a case ends is replaced by another."""
    context = multiprocessing.get_context("spawn")
    left, found = list(folders), {}
    while left:
        results = context.SimpleQueue()
        worker = context.Process(target=work, args=(left, results))
        worker.start()
        current = None
        while True:
            while results.empty() and worker.is_alive():
                worker.join(0.01)
            if results.empty():
                found[current] = ("it ended the process", 0, 0)
                break
            result = results.get()
            if result is None:
                break
            current = result[0]
            if result[1] != "started":
                found[current] = result[1:]
        worker.join()
        left = [folder for folder in left if folder.name not in found]
    return found


@pytest.fixture(scope="module")
def outcomes():
    pytest.importorskip("onnxruntime")
    if not MODULE.joinpath("camshaft/ort.py").exists():
        pytest.skip("the Python module was not built")
    return outcomes_of(sorted(folder for folder in DATA.joinpath("node").iterdir() if folder.is_dir()))


def test_node_cases_pass_as_through_camshafts_own_interface(outcomes):
    assert len(outcomes) == CASES["node"]
    known = known_failures()
    counted = {
        name: result for name, (result, _, _) in outcomes.items() if result != "not loaded" and name not in known
    }
    wrong = {name: result for name, result in counted.items() if result != "passed"}
    whole = sum(taken >= nodes > 0 for _, taken, nodes in outcomes.values())
    facts = {"passed": len(counted) - len(wrong), "counted": len(counted), "whole_in_engines": whole}
    camshaft_cli.record("conformance", "ort_provider", facts)
    listed = "\n".join(f"{name}: {result}" for name, result in sorted(wrong.items()))
    assert len(wrong) <= 0.02 * len(counted), f"{json.dumps(facts)}\n{listed}"


if __name__ == "__main__":
    chosen = [DATA / "node" / name for name in sys.argv[1:]] or sorted(DATA.joinpath("node").iterdir())
    found = outcomes_of([folder for folder in chosen if folder.is_dir()])
    for name, (result, taken, nodes) in sorted(found.items()):
        print(name, taken, nodes, result.replace("\n", " ")[:300], sep="\t")
    os._exit(0)
