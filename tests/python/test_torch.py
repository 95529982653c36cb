"""PyTorch's tensors on a GPU, in PyTorch's streams."""

import sys

import numpy as np
import pytest
from camshaft_cli import BINARY, camshaft

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU", allow_module_level=True)
sys.path.insert(0, str(BINARY.parent.parent / "python"))
module = pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
from test_module import W, make_model  # noqa: E402


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torch")
    camshaft("build", make_model(folder / "model.onnx"), "-o", folder / "model.engine", "--device", "cuda")
    return module.Engine(folder / "model.engine")


def inputs(batch):
    return {"x": torch.randn(batch, 3, device="cuda"), "i": torch.tensor([2, 0], device="cuda")}


def expected(feed):
    return torch.relu(feed["x"].double() @ torch.tensor(W, device="cuda").double()).float()


@pytest.mark.parametrize("default_stream", [True, False])
def test_in_the_current_stream(engine, default_stream):
    context = engine.create_context()
    stream = torch.cuda.default_stream() if default_stream else torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for batch in [1, 64, 64, 64, 1000]:
            feed = inputs(batch)
            outputs = context.run(feed, stream=torch.cuda.current_stream().cuda_stream)
            y = torch.from_dlpack(outputs["y"])
            torch.testing.assert_close(y, expected(feed))


def test_bound_outputs_in_turn_and_offsets(engine):
    context = engine.create_context()
    buffers = [torch.zeros(8 * 4 + 1, device="cuda")[1:].view(8, 4) for _ in range(3)]
    feeds = [inputs(8) for _ in range(3)]
    for turn in range(12):
        context.bind_output("y", buffers[turn % 3])
        context.run(feeds[turn % 3], stream=torch.cuda.current_stream().cuda_stream)
        torch.testing.assert_close(buffers[turn % 3], expected(feeds[turn % 3]))


def test_recorded_into_a_graph(engine):
    context, feed = engine.create_context(), inputs(16)
    y = torch.zeros(16, 4, device="cuda")
    context.bind_output("y", y)
    context.run(feed, stream=torch.cuda.current_stream().cuda_stream)
    context.synchronize()
    graph = torch.cuda.CUDAGraph()
    doubled = feed["x"] * 2
    with torch.cuda.graph(graph):
        torch.mul(doubled, 0.5, out=feed["x"])
        context.enqueue(torch.cuda.current_stream().cuda_stream)
        tripled = y * 3
    for _ in range(5):
        doubled.copy_(torch.randn(16, 3))
        graph.replay()
        torch.testing.assert_close(tripled, 3 * expected(feed))
    # Runs of its own, over other memory and other shapes, between the graph's.
    for batch in [16, 3, 500]:
        other = inputs(batch)
        context.bind_output("y", torch.zeros(batch, 4, device="cuda"))
        context.run(other, stream=torch.cuda.current_stream().cuda_stream)
        context.synchronize()
        doubled.copy_(torch.randn(16, 3))
        graph.replay()
        torch.testing.assert_close(tripled, 3 * expected(feed))


def test_what_cannot_be_recorded(engine):
    context, feed = engine.create_context(), inputs(16)
    graph = torch.cuda.CUDAGraph()
    x = torch.ones(4, device="cuda")
    with torch.cuda.graph(graph):
        with pytest.raises(module.Error, match="must have run with these input shapes before"):
            context.run(feed, stream=torch.cuda.current_stream().cuda_stream)
        doubled = x * 2
    graph.replay()
    assert doubled.tolist() == [2] * 4
    outputs = context.run(feed, stream=torch.cuda.current_stream().cuda_stream)
    torch.testing.assert_close(torch.from_dlpack(outputs["y"]), expected(feed))


def test_two_contexts_in_two_streams(engine):
    streams = [torch.cuda.Stream() for _ in range(2)]
    contexts = [engine.create_context() for _ in range(2)]
    feeds = [inputs(256) for _ in range(2)]
    torch.cuda.synchronize()
    outputs = None
    for _ in range(10):
        outputs = [c.run(f, stream=s.cuda_stream) for c, f, s in zip(contexts, feeds, streams)]
    for output, feed in zip(outputs, feeds):
        torch.testing.assert_close(torch.from_dlpack(output["y"]), expected(feed))


def test_wrong_memory(engine):
    context = engine.create_context()
    with pytest.raises(module.Error, match="not row-major"):
        context.set_input("x", torch.randn(3, 8, device="cuda").T)
    with pytest.raises(module.Error, match="a value of f16"):
        context.set_input("x", torch.randn(8, 3, device="cuda", dtype=torch.float16))
    if torch.cuda.device_count() > 1:
        with pytest.raises(module.Error, match="memory of GPU 1; this engine runs on GPU 0"):
            context.set_input("x", torch.randn(8, 3, device="cuda:1"))
    feed = {"x": np.ones((2, 3), np.float32), "i": np.array([2, 0])}
    y = torch.zeros(2, 4, device="cuda")
    context.bind_output("y", y)
    context.run(feed)
    torch.testing.assert_close(y, expected({"x": torch.ones(2, 3, device="cuda")}))
