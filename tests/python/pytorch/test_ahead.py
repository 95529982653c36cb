"""Modules compiled before they are called: shapes, files, pickles, and the names of torch_tensorrt."""

import pickle
import re
import subprocess
import sys

import pytest
from camshaft_cli import BINARY, ROOT
from conftest import HERE

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
import camshaft.torch  # noqa: E402
from camshaft import FileError, InvalidArgumentError, UnsupportedError  # noqa: E402
from camshaft.torch import Input, exported  # noqa: E402
from test_compile import Net, same  # noqa: E402


@pytest.fixture
def net():
    return Net().eval()


IMAGES = {"min_shape": (1, 3, 8, 8), "opt_shape": (2, 3, 16, 16), "max_shape": (4, 3, 32, 32)}


def test_ranges_of_shapes(net):
    module = camshaft.torch.compile(net, inputs=[Input(**IMAGES)], optimization_level=0)
    with torch.no_grad():
        for shape in [(1, 3, 8, 8), (2, 3, 16, 16), (4, 3, 32, 20)]:
            x = torch.randn(shape)
            same(module(x), net(x))
            same(module(x.to(memory_format=torch.channels_last)), net(x))
    assert module.run.engine.profiles[0]
    for wrong, words in [
        (torch.randn(5, 3, 8, 8), "axis 0 of argument 0 is 5; the module was compiled for 1 to 4"),
        (torch.randn(1, 4, 8, 8), "axis 1 of argument 0 is 4; the module was compiled for 3"),
        (torch.randn(1, 3, 8), "3 axes|takes torch.float32, 4 axes"),
        (torch.ones(1, 3, 8, 8, dtype=torch.int64), "takes torch.float32"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            module(wrong)


def test_files_and_pickles(net, tmp_path):
    for options in ({}, {"torch_executed_ops": {"aten.convolution"}, "min_block_size": 1}):
        module = camshaft.torch.compile(net, inputs=[torch.randn(2, 3, 16, 16)], optimization_level=0, **options)
        x = torch.randn(2, 3, 16, 16)
        torch.save(x, tmp_path / "x")
        camshaft.torch.save(module, tmp_path / "module.pt2")
        expected = net(x).detach()
        same(camshaft.torch.load(tmp_path / "module.pt2")(x), expected)
        same(torch.export.load(tmp_path / "module.pt2").module()(x), expected)
        same(pickle.loads(pickle.dumps(module))(x), expected)
        code = f"""import sys; sys.path.insert(0, {HERE!r})
import torch, camshaft.torch
module = camshaft.torch.load({str(tmp_path / "module.pt2")!r})
print(module(torch.load({str(tmp_path / "x")!r})).sum().item())"""
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert float(said) == pytest.approx(expected.sum().item(), rel=1e-4)
    assert str(ROOT).encode() not in (tmp_path / "module.pt2").read_bytes()
    with pytest.raises(InvalidArgumentError, match="what camshaft.torch.compile"):
        camshaft.torch.save(net, tmp_path / "other")
    with pytest.raises(FileError, match="nowhere"):
        camshaft.torch.save(module, tmp_path / "nowhere" / "module.pt2")
    with pytest.raises(FileError, match="nowhere"):
        camshaft.torch.load(tmp_path / "nowhere.pt2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["module.pt2", "x"]


def test_files_keep_ranges_of_shapes(net, tmp_path):
    module = camshaft.torch.compile(net, inputs=[Input(**IMAGES)], optimization_level=0)
    camshaft.torch.save(module, tmp_path / "module.pt2")
    loaded = camshaft.torch.load(tmp_path / "module.pt2")
    with torch.no_grad():
        for shape in [(1, 3, 8, 8), (2, 3, 16, 16), (4, 3, 32, 20)]:
            x = torch.randn(shape)
            same(loaded(x), net(x))
            same(loaded(x.to(memory_format=torch.channels_last)), net(x))
        with pytest.raises(Exception, match="<= 4"):
            loaded(torch.randn(5, 3, 8, 8))


def test_files_of_structures_and_sizes(tmp_path):
    class Structured(torch.nn.Module):
        def forward(self, x, pair, *, scale, negate=False):
            y = x * scale + pair["a"] - pair["b"][0]
            return {"y": -y if negate else y, "sum": [y.sum()], "rows": torch.arange(x.shape[0] * 2 + 1)}

    ranged = Input(min_shape=(1, 3), opt_shape=(2, 3), max_shape=(8, 3))
    inputs = [ranged, {"a": torch.randn(3), "b": (torch.randn(1, 1),)}]
    named = {"scale": ranged, "negate": True}
    module = camshaft.torch.compile(Structured().eval(), inputs=inputs, kwarg_inputs=named, optimization_level=0)
    camshaft.torch.save(module, tmp_path / "module.pt2")
    loaded = camshaft.torch.load(tmp_path / "module.pt2")
    for rows in (2, 5):
        given = (torch.randn(rows, 3), {"a": torch.randn(3), "b": (torch.randn(1, 1),)})
        scale = torch.randn(rows, 3)
        expected = Structured()(*given, scale=scale, negate=True)
        actual = loaded(*given, scale=scale, negate=True)
        same(actual["y"], expected["y"])
        same(actual["sum"][0], expected["sum"][0])
        assert torch.equal(actual["rows"], expected["rows"])
        same(module(*given, scale=scale, negate=True)["y"], expected["y"])
    with pytest.raises(InvalidArgumentError, match="compiled for True alone"):
        module(*given, scale=scale, negate=False)


def test_the_operator_believes_nothing():
    """What a file brings beside the engine's bytes."""
    net = torch.nn.Linear(4, 4).eval()
    module = camshaft.torch.compile(net, inputs=[torch.randn(2, 4)], optimization_level=0)
    program = exported(module)
    call = next(node for node in program.graph.nodes if node.op == "call_function" and "camshaft" in str(node.target))
    engine, signature = program.state_dict["run.engine"], call.args[3]
    x = torch.randn(2, 4)
    run = torch.ops.camshaft.run
    same(run([x], [], engine, signature)[0], net(x))
    for wrong, words in [
        ("{}", "damaged signature"),
        ("no JSON", "damaged signature"),
        (signature.replace('"sizes": [2', '"sizes": ["().__class__"'), "no arithmetic"),
        (signature.replace('"sizes": [2', '"sizes": ["9**9**9"'), "no arithmetic"),
        (signature.replace('"ours": "f32"', '"ours": "f64"'), "is not torch.float32"),
        (signature.replace("torch.float32", "torch.float64").replace('"f32"', '"f64"'), "float64|f64"),
        (signature.replace('"sizes": [2', '"sizes": [1'), "bytes"),
        (signature.replace('"output0"', '"other"'), "other"),
    ]:
        assert wrong != signature
        with pytest.raises(Exception, match=words):
            run([x.double() if "float64" in wrong else x], [], engine, wrong)
    for given, numbers, words in [
        ([x, x], [], "2 tensors"),
        ([x], [3], "1 numbers"),
        ([x.double()], [], "float64"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            run(given, numbers, engine, signature)
    with pytest.raises(InvalidArgumentError, match="'x' is on meta; the engine was compiled for cpu"):
        module.run.check_place(x.to("meta"), "'x'")  # as of a GPU's tensor, whose address says nothing here
    damaged = engine.clone()
    damaged[len(damaged) // 2] ^= 255
    with pytest.raises(camshaft.Error, match="damaged|checksum|corrupt"):
        run([x], [], damaged, signature)


def test_the_loader_in_cpp(net, tmp_path):
    """Which needs no PyTorch."""
    loader = BINARY.parent.parent / "examples" / "run_pt2"
    if not loader.exists():
        pytest.skip("the example run_pt2 was not built")
    module = camshaft.torch.compile(net, inputs=[Input(**IMAGES)], optimization_level=0)
    camshaft.torch.save(module, tmp_path / "module.pt2")
    expected = net(torch.ones(3, 3, 8, 8)).detach()
    said = subprocess.run([loader, tmp_path / "module.pt2", "3x3x8x8"], capture_output=True, text=True, check=True)
    numbers = [float(word) for word in said.stdout.split("]:")[1].split() if word != "..."]
    assert numbers == pytest.approx(expected.flatten()[: len(numbers)].tolist(), rel=1e-4, abs=1e-5)
    parts = camshaft.torch.compile(
        net, inputs=[torch.ones(1, 3, 8, 8)], torch_executed_ops={"aten.convolution"}, min_block_size=1
    )
    camshaft.torch.save(parts, tmp_path / "parts.pt2")
    (tmp_path / "none.pt2").write_bytes((tmp_path / "module.pt2").read_bytes()[:300])
    for name, words in [
        ("parts.pt2", "not one engine"),
        ("none.pt2", "no .pt2 file"),
        ("nowhere.pt2", "cannot be read"),
    ]:
        failed = subprocess.run([loader, tmp_path / name], capture_output=True, text=True)
        assert failed.returncode == 1 and words in failed.stderr


def test_arguments_by_name_and_structures():
    class Structured(torch.nn.Module):
        def forward(self, x, pair, *, scale, negate=False):
            y = x * scale + pair["a"] - pair["b"][0]
            return {"y": -y if negate else y, "sum": [y.sum()]}

    given = (torch.randn(2, 3), {"a": torch.randn(3), "b": (torch.randn(2, 1),)})
    named = {"scale": torch.randn(2, 3), "negate": True}
    module = camshaft.torch.compile(Structured().eval(), inputs=list(given), kwarg_inputs=named, optimization_level=0)
    same(module(*given, **named), Structured()(*given, **named))
    same(module(*given, negate=True, scale=named["scale"]), Structured()(*given, **named))
    with pytest.raises(InvalidArgumentError, match="was compiled for arguments"):
        module(given[0])


def test_an_exported_program(net):
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(net, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: batch},))
    module = camshaft.torch.compile(program, optimization_level=0)
    x = torch.randn(7, 3, 8, 8)
    same(module(x), net(x))


def test_a_recurrent_network():
    """Which torch.compile does not capture; its argument's name is one of Python's."""
    gru = torch.nn.GRU(4, 5, batch_first=True).eval()
    x = torch.randn(2, 3, 4)
    module = camshaft.torch.compile(gru, inputs=[x], optimization_level=0)
    same(module(x), gru(x))
    assert module.run.engine


def test_what_is_refused(net):
    with pytest.raises(InvalidArgumentError, match=r"training mode: call module.eval\(\)"):
        camshaft.torch.compile(Net(), inputs=[Input(**IMAGES)])
    with pytest.raises(UnsupportedError, match="ir='ts'"):
        camshaft.torch.compile(net, inputs=[Input(**IMAGES)], ir="ts")
    with pytest.raises(InvalidArgumentError, match="opt_shape lies between"):
        Input(min_shape=(2, 3), opt_shape=(1, 3), max_shape=(4, 3))
    with pytest.raises(InvalidArgumentError, match="has a shape, or"):
        Input()

    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x.reshape(2, 3, -1)[:, :, : x.shape[0]] if x.shape[0] == 2 else x

    with pytest.raises(Exception, match="axis 0 of argument 0 at 2 alone"):
        ranged = Input(min_shape=(1, 12), opt_shape=(2, 12), max_shape=(4, 12))
        camshaft.torch.compile(Fixed().eval(), inputs=[ranged], optimization_level=0)

    class Writing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return x + self.calls

    with pytest.raises(UnsupportedError, match="the module writes calls"):
        camshaft.torch.compile(Writing().eval(), inputs=[torch.ones(2)])
    module = camshaft.torch.compile(net, inputs=[torch.randn(1, 3, 8, 8)], optimization_level=0)
    with pytest.raises(InvalidArgumentError, match="argument 0 is on meta; the module was compiled for cpu"):
        module(torch.randn(1, 3, 8, 8, device="meta"))
    with pytest.raises(UnsupportedError, match="for inference"):
        module.train()
    assert module.eval() is module


def test_the_names_of_torch_tensorrt(net):
    code = f"""import sys; sys.path.insert(0, {HERE!r})
import torch, camshaft.torch
camshaft.torch.install()
camshaft.torch.install()
import torch_tensorrt
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()).eval()
x = torch.randn(3, 4)
with torch.no_grad():
    for backend in ("tensorrt", "torch_tensorrt"):
        run = torch.compile(model, backend=backend, options={{"enabled_precisions": {{torch.float}}, "min_block_size": 1}})
        torch.testing.assert_close(run(x), model(x))
        torch.compiler.reset()
    inputs = [torch_tensorrt.Input(min_shape=[1, 4], opt_shape=[2, 4], max_shape=[8, 4], dtype=torch_tensorrt.dtype.f32)]
    module = torch_tensorrt.compile(model, ir="dynamo", inputs=inputs, enabled_precisions={{torch_tensorrt.dtype.f32}})
    torch.testing.assert_close(module(x), model(x))
    module = torch_tensorrt.dynamo.compile(torch.export.export(model, (x,)), arg_inputs=[x])
    torch.testing.assert_close(module(x), model(x))
print("done")"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "done\n"


def test_the_page(tmp_path):
    """Its examples run one after the other."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/pytorch.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 3
    before = f"import sys; sys.path.insert(0, {HERE!r})\nfrom typing import Any\nimport torch\n"
    after = """
x = torch.randn(2, 3)
with torch.no_grad():
    run = torch.compile(torch.erfc, backend="camshaft", options={"require_full_compilation": True})
    torch.testing.assert_close(run(x), torch.erfc(x), rtol=1e-4, atol=1e-6)
"""
    subprocess.run([sys.executable, "-c", before + "\n".join(blocks) + after], cwd=tmp_path, check=True)
