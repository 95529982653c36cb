"""Attention in the forms that PyTorch gives it on one kind of device."""

import operator as python_operator

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
import camshaft.torch  # noqa: E402, F401
from camshaft.torch._graph import compiled_graph  # noqa: E402
from camshaft.torch._options import Options  # noqa: E402
from camshaft.torch._region import Region  # noqa: E402


@pytest.mark.parametrize(
    "operator, arguments, results",
    [
        ("_scaled_dot_product_flash_attention", (0.0, True), 9),
        ("_scaled_dot_product_efficient_attention", (None, False, 0.0, True), 4),
        ("_scaled_dot_product_cudnn_attention", (None, False, 0.0, True), 9),
        ("_scaled_dot_product_fused_attention_overrideable", (None, 0.0, True), 9),
    ],
)
def test_attention_as_graphs_for_gpus_have_it(operator, arguments, results):
    """These operators run on GPUs alone: the graph is made by hand, and the numbers are the CPU's."""
    generator = torch.Generator().manual_seed(1)
    given = [torch.randn(2, 3, 5, 8, generator=generator) for _ in range(3)]
    expected = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True)
    graph = torch.fx.Graph()
    operands = [graph.placeholder(name) for name in ("query", "key", "value")]
    for node, tensor in zip(operands, given):
        node.meta["val"] = tensor
    call = graph.call_function(getattr(torch.ops.aten, operator).default, (*operands, *arguments))
    call.meta["val"] = (expected, *[None] * (results - 1))
    first = graph.call_function(python_operator.getitem, (call, 0))
    first.meta["val"] = expected
    graph.output((first,))
    region = compiled_graph(torch.fx.GraphModule(torch.nn.Module(), graph), {}, Options())
    assert isinstance(region, Region)
    torch.testing.assert_close(region(*given)[0], expected, rtol=1e-4, atol=1e-5)


class Attends(torch.nn.Module):
    def __init__(self, masked, causal):
        super().__init__()
        self.masked, self.causal = masked, causal

    def forward(self, query, key, value):
        mask = torch.arange(key.shape[2])[None] < key.shape[2] - 1 if self.masked else None
        result = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, is_causal=self.causal)
        return result.transpose(1, 2).reshape(2, 6, 32).relu()


@pytest.mark.parametrize("masked, causal", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kernel", ["FLASH_ATTENTION", "MATH"])
def test_attention_is_one_layer_whatever_pytorch_runs(kernel, masked, causal):
    """Taken apart by PyTorch, attention by products has its softmax in float32 and looks for rows that are masked."""
    backends = pytest.importorskip("torch.nn.attention")
    generator = torch.Generator().manual_seed(3)
    given = [torch.randn(2, 4, 6, 8, generator=generator) for _ in range(3)]
    module = Attends(masked, causal).eval()
    engines = []
    options = {"require_full_compilation": True, "optimization_level": 0}
    with torch.no_grad(), backends.sdpa_kernel(getattr(backends.SDPBackend, kernel)):
        expected = module(*given)
        torch.compiler.reset()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Region, "_hold", lambda self, *held, hold=Region._hold: engines.append(held[0]) or hold(self, *held))  # fmt: skip
            actual = torch.compile(module, backend="camshaft", options=options)(*given)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert [layer["op"] for layer in engines[0].inspect()["layers"]].count("attention") == 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("kernel", ["FLASH_ATTENTION", "MATH"])
def test_queries_that_may_see_no_key(kernel, constant, dtype):
    """A batch that is padded on the left has such rows, which PyTorch gives as zeros."""
    backends = pytest.importorskip("torch.nn.attention")
    generator = torch.Generator().manual_seed(4)
    given = [torch.randn(2, 4, 6, 8, generator=generator) for _ in range(3)]
    seen = torch.ones(2, 1, 6, 6, dtype=torch.bool).tril()
    seen[0, :, :, :3] = False
    mask = seen if dtype == torch.bool else torch.zeros(2, 1, 6, 6).masked_fill(~seen, -torch.inf)

    def attend(query, key, value, mask):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask) + 1

    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", mask)

        def forward(self, *given):
            return attend(*given, self.mask)

    options = {"require_full_compilation": True, "optimization_level": 0}
    module, arguments = (Held(), given) if constant else (attend, [*given, mask])
    with torch.no_grad(), backends.sdpa_kernel(getattr(backends.SDPBackend, kernel)):
        expected = module(*arguments)
        actual = torch.compile(module, backend="camshaft", options=options)(*arguments)
    assert torch.equal(expected[0, :, :3], torch.ones(4, 3, 8))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_attention_that_stays_with_pytorch():
    given = [torch.randn(2, 4, 6, 8) for _ in range(3)]
    module = Attends(False, False).eval()
    options = {"torch_executed_ops": ["camshaft.attention.default"], "min_block_size": 1}
    with torch.no_grad():
        torch.compiler.reset()
        actual = torch.compile(module, backend="camshaft", options=options)(*given)
        torch.testing.assert_close(actual, module(*given))
