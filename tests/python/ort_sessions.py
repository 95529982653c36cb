"""What the tests of ONNX Runtime's execution provider share: sessions with it and without, and where their nodes run."""

import sys
import warnings

import numpy as np
import pytest
from camshaft_cli import BINARY

from onnx import TensorProto, helper

MODULE = BINARY.parent.parent / "python"
sys.path.insert(0, str(MODULE))
module = pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
onnxruntime = pytest.importorskip("onnxruntime")
ort = pytest.importorskip("camshaft.ort")

# Builds that take as little time as can be: what is tested is not the engines.
QUICK = {"tuning": "heuristic", "verify": "false", "threads": "1"}


def session_options(**attributes):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for name, value in attributes.items():
        setattr(options, name, value)
    return options


def session(model, options=None, *, so=None, **more):
    """With the provider, by the name that it has for InferenceSession. A warning is an error."""
    given = model if isinstance(model, (str, bytes)) else model.SerializeToString()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return onnxruntime.InferenceSession(
            given,
            so if so is not None else session_options(),
            providers=[(ort.PROVIDER, QUICK if options is None else options), "CPUExecutionProvider"],
            enable_fallback=0,
            **more,
        )


def plain_session(model):
    """ONNX Runtime's own, without optimisations of its own."""
    options = session_options(graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    given = model if isinstance(model, (str, bytes)) else model.SerializeToString()
    return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


def taken(made):
    """The operators of the nodes that engines run, sorted; and how many engines there are."""
    subgraphs = [s for s in made.get_provider_graph_assignment_info() if s.ep_name == ort.PROVIDER]
    return sorted(node.op_type for s in subgraphs for node in s.get_nodes()), len(subgraphs)


def model_of(nodes, inputs, outputs, initializers=(), opset=21, domains=(), name="main"):
    """inputs and outputs: {name: (dtype, sizes)}; initializers: {name: array}."""

    def infos(values):
        return [helper.make_tensor_value_info(n, dtype, sizes) for n, (dtype, sizes) in values.items()]

    import onnx

    graph = helper.make_graph(
        nodes,
        name,
        infos(inputs),
        infos(outputs),
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in dict(initializers).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


F32, I64, F16, TEXT, BOOL = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.FLOAT16,
    TensorProto.STRING,
    TensorProto.BOOL,
)


def assert_same(got, want, tolerance=1e-5):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape
        if np.issubdtype(b.dtype, np.floating):
            scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)
        else:
            assert np.array_equal(a, b)
