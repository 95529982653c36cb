"""Products whose rows a GPU would not write whole are widened in the graph: on fake tensors of a GPU, as there is none here."""

import pytest

torch = pytest.importorskip("torch")

from camshaft.torch._padding import NARROWED, pad_results  # noqa: E402
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
    return [node.meta.get(NARROWED) for node in output.args[0]]


def product(x, w):
    return [aten.view(aten.mm(x, w), [8, ROWS // 8, COLUMNS])]


def with_bias(x, w, b):
    return [aten.addmm(b, x, w)]


def transposed(x, w):
    return [aten.mm(x, aten.permute(w, [1, 0]))]


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (product, [(ROWS, DEPTH), (DEPTH, COLUMNS)]),
        (with_bias, [(ROWS, DEPTH), (DEPTH, COLUMNS), (COLUMNS,)]),
        (transposed, [(ROWS, DEPTH), (COLUMNS, DEPTH)]),
    ],
)
def test_wider_rows_have_the_same_columns(function, sizes):
    gm = graph_of(function, *sizes)
    given = [torch.randn(size) for size in sizes]
    expected = gm(*given)[0]
    pad_results(gm, names(gm)[1:])
    assert narrowed(gm) == [COLUMNS]
    wide = gm(*given)[0]
    assert wide.shape[-1] == COLUMNS + 5 and wide.is_contiguous()
    torch.testing.assert_close(wide.narrow(-1, 0, COLUMNS), expected)
    output = next(node for node in gm.graph.nodes if node.op == "output")
    assert output.args[0][0].meta["val"].shape == wide.shape


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


def test_a_host_writes_any_rows():
    with FakeTensorMode():
        gm = make_fx(product)(torch.empty(ROWS, DEPTH).half(), torch.empty(DEPTH, COLUMNS).half())
    pad_results(gm, names(gm)[1:])
    assert narrowed(gm) == [None]
