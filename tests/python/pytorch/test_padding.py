"""Products whose rows a GPU would not write whole are widened in the graph: on fake tensors of a GPU, for
which none is needed."""

import pytest

torch = pytest.importorskip("torch")

import camshaft.torch  # noqa: E402
from camshaft.torch import _graph, _padding  # noqa: E402
from camshaft.torch._conversion import NARROWED  # noqa: E402
from camshaft.torch._padding import pad_results  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

aten = torch.ops.aten
ROWS, DEPTH, COLUMNS = 1024, 8, 4099


def graph_of(function, *sizes, dtype=torch.float16):
    with FakeTensorMode():
        return make_fx(function)(*(torch.empty(size, dtype=dtype, device="cuda") for size in sizes))


def names(gm):
    return [node.name for node in gm.graph.nodes if node.op == "placeholder"]


def narrowed(gm):
    output = next(node for node in gm.graph.nodes if node.op == "output")
    return [node.meta["val"].shape[-1] if node.meta.get(NARROWED) else None for node in output.args[0]]


def product(x, w):
    return [aten.view(aten.mm(x, w), [8, ROWS // 8, COLUMNS])]


def with_bias(x, w, b):
    return [aten.addmm(b, x, w)]


def permuted(x, w):
    return [aten.mm(x, aten.permute(w, [1, 0]))]


def transposed(x, w):
    return [aten.mm(x, aten.transpose(w, 0, 1))]


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (product, [(ROWS, DEPTH), (DEPTH, COLUMNS)]),
        (with_bias, [(ROWS, DEPTH), (DEPTH, COLUMNS), (COLUMNS,)]),
        (permuted, [(ROWS, DEPTH), (COLUMNS, DEPTH)]),
        (transposed, [(ROWS, DEPTH), (COLUMNS, DEPTH)]),
    ],
)
def test_wider_rows_have_the_same_columns(function, sizes):
    gm = graph_of(function, *sizes)
    given = [torch.randn(size) for size in sizes]
    expected = gm(*given)[0]
    pad_results(gm, names(gm)[1:])
    assert narrowed(gm) == [COLUMNS]
    actual = gm(*given)[0]
    torch.testing.assert_close(actual, expected)
    assert actual.stride(-2) == COLUMNS + 5
    fake = next(node for node in gm.graph.nodes if node.op == "output").args[0][0].meta["val"]
    assert fake.shape == actual.shape and fake.stride() == actual.stride()


def twice(x, w):
    y = aten.mm(x, w)
    return [y, aten.relu(y)]


def split(x, w):
    return [aten.view(aten.mm(x, w), [ROWS * COLUMNS])]


@pytest.mark.parametrize(
    ("function", "columns", "dtype", "constants"),
    [
        (twice, COLUMNS, torch.float16, True),
        (split, COLUMNS, torch.float16, True),
        (product, COLUMNS, torch.float32, True),
        (product, COLUMNS, torch.float16, False),
        (lambda x, w: [aten.mm(x, w)], 4104, torch.float16, True),
        (lambda x, w: [aten.mm(x, w)], 99, torch.float16, True),
    ],
)
def test_others_stay(function, columns, dtype, constants):
    gm = graph_of(function, (ROWS, DEPTH), (DEPTH, columns), dtype=dtype)
    before = str(gm.graph)
    pad_results(gm, names(gm)[1:] if constants else [])
    assert str(gm.graph) == before


def test_what_a_model_captures():
    """Its weights are transposed as PyTorch captures it, whatever that is called."""
    linear = torch.nn.Linear(DEPTH, COLUMNS, bias=False).half()
    seen = []

    def capture(gm, example_inputs):
        seen.append(gm)
        return gm

    from camshaft.torch._lowering import decompositions
    from torch._functorch.aot_autograd import aot_module_simplified

    def backend(gm, inputs):
        return aot_module_simplified(gm, inputs, fw_compiler=capture, decompositions=decompositions())

    with torch.no_grad():
        torch.compile(linear, backend=backend, dynamic=False)(torch.zeros(ROWS, DEPTH).half())
    gm = seen[0]
    for node in gm.graph.nodes:
        if isinstance(node.meta.get("val"), torch.Tensor):
            with FakeTensorMode():
                fake = node.meta["val"]
                node.meta["val"] = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="cuda")
    pad_results(gm, names(gm))
    assert narrowed(gm) == [COLUMNS]


class Vocabulary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.last = torch.nn.Linear(16, 99)

    def forward(self, x):
        y = torch.nn.functional.silu(self.norm(x))
        return self.last(y), y


@pytest.mark.parametrize("stays", ["nothing", "the product", "a view", "a part", "the whole"])
def test_results_have_their_columns_whatever_stays_with_pytorch(monkeypatch, stays):
    monkeypatch.setattr(_padding, "_is_worth_it", lambda chain, constants: True)  # as it is on a GPU, at larger sizes
    options = {"optimization_level": 0, "cache": False, "min_block_size": 1}
    if stays == "the product":
        options["torch_executed_ops"] = {"aten.addmm"}
    elif stays == "a view":
        options["torch_executed_ops"] = {"aten.view"}
    elif stays == "a part":
        options.update(torch_executed_ops={"aten.native_layer_norm"}, min_block_size=99)
    elif stays == "the whole":
        monkeypatch.setattr(_graph, "build", failing)
    torch.manual_seed(0)
    module, x = Vocabulary().eval(), torch.randn(2, 3, 16)
    with torch.no_grad():
        run = torch.compile(module, backend="camshaft", dynamic=False, options=options)
        for given in (x, x + 1):
            actual, expected = run(given), module(given)
            assert [y.shape for y in actual] == [y.shape for y in expected]
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        assert actual[0].stride(-2) == 104 and actual[0].view(-1, 99).shape == (6, 99)
        assert actual[1].is_contiguous()


def failing(*args, **kwargs):
    raise camshaft.Error("it fails")


def test_a_host_writes_any_rows():
    with FakeTensorMode():
        gm = make_fx(product)(torch.empty(ROWS, DEPTH).half(), torch.empty(DEPTH, COLUMNS).half())
    pad_results(gm, names(gm)[1:])
    assert narrowed(gm) == [None]
