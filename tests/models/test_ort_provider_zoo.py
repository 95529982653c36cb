"""Models through ONNX Runtime's execution provider: all outputs as ONNX Runtime's own, whole in one engine."""

import numpy as np
import pytest
from camshaft_cli import worst_error
from catalog import MODELS
from ort_sessions import onnxruntime, ort, session, session_options, taken


@pytest.fixture(autouse=True, scope="module")
def registered():
    ort.register()
    yield
    ort.unregister()


@pytest.mark.parametrize("name", sorted(name for name, model in MODELS.items() if model.quick))
def test_outputs_are_those_of_onnx_runtime(name):
    model = MODELS[name]
    path = str(model.path())
    made = session(path, {"tuning": "heuristic", "verify": "false"})
    plain = onnxruntime.InferenceSession(path, session_options(), providers=["CPUExecutionProvider"])
    _, engines = taken(made)
    everything = sum(len(s.get_nodes()) for s in made.get_provider_graph_assignment_info())
    assert engines == 1 and len(taken(made)[0]) == everything
    for label in model.feeds:
        feed = model.feed(label)
        for info, got, want in zip(made.get_outputs(), made.run(None, feed), plain.run(None, feed)):
            error = worst_error(np.asarray(got), np.asarray(want))
            assert error < (2e-2 if got.dtype == np.float16 else 1e-3), (name, label, info.name, error)
