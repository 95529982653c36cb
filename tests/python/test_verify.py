"""camshaft.verify, Engine.inspect and camshaft.export."""

import json
import re

import numpy as np
import pytest
from camshaft_cli import ROOT
from camshaft_cli import camshaft as command
from test_build import feed, make_network
from test_module import make_model
from test_module import module as camshaft


@pytest.fixture
def model(tmp_path):
    return make_model(tmp_path / "model.onnx")


def test_against_the_reference(model):
    verdict = camshaft.verify(model, tuning="heuristic")
    assert verdict["passed"] and verdict["failure"] is None and verdict["against"] == "reference"
    assert verdict["tolerance"] == pytest.approx(1e-4)
    assert [output["output"] for output in verdict["outputs"]] == [info.name for info in camshaft.build(model).outputs]


def test_tolerances_of_precisions(model):
    assert camshaft.verify(model, precision="fp16", tuning="heuristic")["tolerance"] == pytest.approx(0.02)
    assert camshaft.verify(model, bf16=True, tuning="heuristic")["tolerance"] == pytest.approx(0.1)
    assert camshaft.verify(model, tolerance=0.5, tuning="heuristic")["tolerance"] == 0.5


def test_against_onnx_runtime(tmp_path):
    pytest.importorskip("onnxruntime")
    path = make_network(tmp_path / "network.onnx", width=8)
    for given in (None, {"x": np.random.default_rng(3).standard_normal((2, 3, 16, 16), np.float32)}):
        verdict = camshaft.verify(path, against="onnxruntime", inputs=given, tuning="heuristic")
        assert verdict["passed"], verdict
        assert verdict["outputs"][0]["compared"] == (2 if given else 1) * 8 * 16 * 16
    assert camshaft.verify(path.read_bytes(), against="onnxruntime", tuning="heuristic")["passed"]


def test_against_a_function(model):
    engine = camshaft.build(model, tuning="heuristic")
    assert camshaft.verify(model, against=engine.run, tuning="heuristic")["passed"]

    def wrong(inputs):
        return {name: array + array.dtype.type(1) for name, array in engine.run(inputs).items()}

    verdict = camshaft.verify(model, against=wrong, tuning="heuristic")
    assert not verdict["passed"] and verdict["against"] == "wrong" and verdict["failure"] is None
    with pytest.raises(camshaft.InvalidArgumentError, match="the judge gave no output"):
        camshaft.verify(model, against=lambda inputs: {}, tuning="heuristic")


def test_what_differs_is_not_raised(tmp_path):
    """Six convolutions cannot round as the reference does in every element."""
    path = make_network(tmp_path / "n.onnx", width=64, layers=6)
    for against in ("reference", camshaft.build(path).run):
        verdict = camshaft.verify(path, against=against, tolerance=1e-30)
        assert not verdict["passed"] and "differ from the reference evaluation" in verdict["failure"]
        assert verdict["outputs"]
    with pytest.raises(camshaft.VerificationError):
        camshaft.build(path, tolerance=1e-30)


def test_errors(model):
    with pytest.raises(camshaft.InvalidArgumentError, match="against is"):
        camshaft.verify(model, against="tensorrt")
    with pytest.raises(camshaft.FileError):
        camshaft.verify("missing.onnx")


def test_inspect_is_what_the_command_prints(model, tmp_path):
    camshaft.build(model, tmp_path / "model.engine", tuning="heuristic")
    engine = camshaft.Engine(tmp_path / "model.engine")
    known, printed = engine.inspect(), json.loads(command("inspect", tmp_path / "model.engine", "--json").stdout)
    assert known["memory"] == printed["memory"] and known["metadata"] == printed["metadata"]
    assert known["profiles"] == printed["profiles"] == []
    assert [layer["tactic"] for layer in known["layers"]] == [layer["tactic"] for layer in printed["layers"]]
    assert [info["name"] for info in known["inputs"]] == [info["name"] for info in printed["inputs"]]
    assert engine.run(feed(1))


def test_export_without_pytorch(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(camshaft.UnsupportedError, match="needs PyTorch: pip install torch"):
        camshaft.export(object())


class TestExport:
    @pytest.fixture
    def torch(self):
        pytest.importorskip("onnxscript", reason="PyTorch's exporter needs it")
        return pytest.importorskip("torch", reason="PyTorch is not installed")

    @pytest.fixture
    def network(self, torch):
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.5)
        )

    def test_to_an_engine(self, torch, network, tmp_path):
        x = torch.randn(2, 3, 16, 16)
        expected = network.eval()(x).detach()
        network.train()
        engine = camshaft.build(camshaft.export(network, x), tuning="heuristic")
        assert network.training
        np.testing.assert_allclose(engine(x), expected, rtol=1e-4, atol=1e-5)
        path = camshaft.export(network, x, tmp_path / "network.onnx")
        np.testing.assert_allclose(camshaft.build(path, tuning="heuristic")(x), expected, rtol=1e-4, atol=1e-5)

    def test_dynamic_sizes(self, torch, network):
        batch = torch.export.Dim("batch")
        data = camshaft.export(network, torch.randn(2, 3, 16, 16), dynamic_shapes=({0: batch},), input_names=["pixels"])
        engine = camshaft.build(data, tuning="heuristic")
        x = torch.randn(5, 3, 16, 16)
        assert engine.inputs[0].name == "pixels"
        np.testing.assert_allclose(engine(x), network.eval()(x).detach(), rtol=1e-4, atol=1e-5)

    def test_what_cannot_be_exported(self, torch):
        class Branches(torch.nn.Module):
            def forward(self, x):
                return x + 1 if x.sum() > 0 else x - 1

        with pytest.raises(camshaft.UnsupportedError, match="cannot export Branches") as raised:
            camshaft.export(Branches(), torch.randn(3))
        assert raised.value.__cause__ is not None


def test_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    examples = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        exec(example, names)  # noqa: S102
    assert names["verdict"]["passed"] and names["y"].shape == (4, 8, 30, 30)
