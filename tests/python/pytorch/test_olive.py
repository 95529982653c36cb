"""A workflow of Olive with the provider's name and nothing else changed: skipped where Olive is not installed
(pip install olive-ai)."""

import logging

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
olive = pytest.importorskip("olive", reason="Olive is not installed")
pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
import camshaft.ort  # noqa: E402

import onnx  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402


def network():
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((3, 8)), "b": rng.standard_normal(8), "v": rng.standard_normal((8, 4))}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "network",
        [info("x", TensorProto.FLOAT, [1, 3])],
        [info("y", TensorProto.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def workflow(folder, provider, passes):
    data = {
        "name": "data",
        "type": "DummyDataContainer",
        "load_dataset_config": {"input_names": ["x"], "input_shapes": [[1, 3]], "input_types": ["float32"]},
    }
    settings = {"execution_provider": [provider], "session_options": {"intra_op_num_threads": 1}}
    latency = {
        "name": "latency",
        "type": "latency",
        "sub_types": [{"name": "avg", "priority": 1}],
        "data_config": "data",
    }
    return {
        "input_model": {
            "type": "OnnxModel",
            "model_path": str(folder / "model.onnx"),
            "inference_settings": settings,
        },
        "systems": {
            "here": {
                "type": "LocalSystem",
                "accelerators": [{"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}],
            }
        },
        "data_configs": [data],
        "evaluators": {"speed": {"type": "OnnxEvaluator", "metrics": [latency]}},
        "passes": passes,
        "host": "here",
        "target": "here",
        "evaluator": "speed",
        "evaluate_input_model": True,
        "cache_dir": str(folder / f"cache-{provider}"),
        "output_dir": str(folder / f"out-{provider}"),
        "log_severity_level": 2,
    }


@pytest.mark.parametrize(
    "passes", [{"small": {"type": "OnnxPeepholeOptimizer"}}, {"half": {"type": "OnnxDynamicQuantization"}}]
)
def test_a_workflow_of_olive(tmp_path, monkeypatch, passes):
    import onnxruntime
    from olive.workflows import run

    camshaft.ort.register()
    made = []
    create = onnxruntime.InferenceSession.__init__

    def noted(self, *args, **more):
        create(self, *args, **more)
        made.append(self.get_providers()[0])

    monkeypatch.setattr(onnxruntime.InferenceSession, "__init__", noted)
    onnx.save(network(), tmp_path / "model.onnx")
    results = {}
    for provider in ("CPUExecutionProvider", camshaft.ort.PROVIDER):
        made.clear()
        found = run(workflow(tmp_path, provider, passes))
        assert provider in made, made
        results[provider] = found.get_best_candidate()
    x = np.ones((1, 3), np.float32)
    outputs = []
    for provider, best in results.items():
        assert best.metrics_value["latency-avg"]["value"] >= 0
        session = onnxruntime.InferenceSession(best.model_path, providers=[provider])
        outputs.append(session.run(None, {"x": x})[0])
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-4, atol=1e-4)
    logging.getLogger("olive").handlers.clear()
