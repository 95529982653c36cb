"""The FLOP that bench/gpu_bounds.py counts of PyTorch's modules, against what they are by hand. Needs PyTorch, and no GPU."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import gpu_bounds
from torch import nn

BATCH, LENGTH, WIDTH, HEADS, INNER = 2, 5, 16, 4, 24
ATTENTION = (
    2 * BATCH * LENGTH * WIDTH * 3 * WIDTH  # queries, keys and values
    + 2 * 2 * BATCH * LENGTH * LENGTH * WIDTH  # scores, and what they weigh
    + 2 * BATCH * LENGTH * WIDTH * WIDTH  # the projection behind
)
TOKENS = torch.randn(BATCH, LENGTH, WIDTH)


def flops(module, *inputs):
    return sum(flops for flops, _ in gpu_bounds.counted(module.eval(), inputs))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


@pytest.mark.parametrize("needs_weights", [False, True])
def test_multihead_attention(needs_weights):
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    module = Function(lambda x: attention(x, x, x, need_weights=needs_weights)).eval()
    module.attention = attention.eval()
    assert flops(module, TOKENS) == ATTENTION


def test_encoder_layer():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, batch_first=True)
    feed_forward = 2 * 2 * BATCH * LENGTH * WIDTH * INNER
    assert flops(layer, TOKENS) == ATTENTION + feed_forward
    assert flops(nn.TransformerEncoder(layer, 3), TOKENS) == 3 * (ATTENTION + feed_forward)


def test_attention_by_itself():
    query, key = torch.randn(2, 3, 7, 8), torch.randn(2, 3, 5, 8)
    module = Function(lambda q, k: nn.functional.scaled_dot_product_attention(q, k, k))
    assert flops(module, query, key) == 2 * 2 * 2 * 3 * 7 * 5 * 8


def test_convolutions():
    image = torch.randn(2, 6, 9, 10)
    assert flops(nn.Conv2d(6, 8, 3, padding=1, groups=2), image) == 2 * 2 * 8 * 9 * 10 * 3 * 9
    assert flops(nn.ConvTranspose2d(6, 8, 2, stride=2), image) == 2 * 2 * 6 * 9 * 10 * 8 * 4
    assert flops(nn.Conv1d(6, 8, 1), image[:, :, 0]) == 2 * 2 * 8 * 10 * 6


def test_products():
    x = torch.randn(3, 4, 5)
    assert flops(nn.Linear(5, 7), x) == flops(nn.Linear(5, 7, bias=False), x) == 2 * 3 * 4 * 5 * 7
    assert flops(Function(lambda a: a @ a.mT), x) == 2 * 3 * 4 * 4 * 5
    assert flops(Function(lambda a: torch.einsum("bij,bkj->bik", a, a)), x) == 2 * 3 * 4 * 4 * 5
    assert flops(Function(lambda a: torch.baddbmm(a[:, :, :4], a, a.mT)), x) == 2 * 3 * 4 * 4 * 5


def test_what_has_no_products():
    image = nn.Sequential(nn.BatchNorm2d(6), nn.SiLU(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.Hardswish())
    assert flops(image, torch.randn(2, 6, 8, 8)) == 0
    assert flops(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Softmax(-1)), torch.randn(2, 6, 8, 8)) == 0
    assert flops(nn.Sequential(nn.LayerNorm(WIDTH), nn.GELU(), nn.Hardsigmoid()), TOKENS) == 0
    assert flops(nn.Embedding(10, 4), torch.tensor([1, 2])) == 0


@pytest.mark.parametrize(
    "module, inputs, name",
    [
        (nn.LSTM(WIDTH, 3), (TOKENS,), "rnn_layer|lstm"),
        (Function(torch.mv), (torch.randn(3, 4), torch.randn(4)), "aten::mv"),
        (Function(torch.dot), (torch.randn(4), torch.randn(4)), "aten::dot"),
        (Function(torch.cdist), (TOKENS, TOKENS), "cdist"),
        (Function(torch.linalg.inv), (torch.randn(3, 3),), "linalg_inv"),
    ],
)
def test_an_operator_that_cannot_be_counted_is_an_error(module, inputs, name):
    with pytest.raises(gpu_bounds.Uncounted, match=f"({name}).*FORMULAS"):
        flops(module, *inputs)


def test_an_attention_in_one_operator_is_not_missed():
    """What nn.MultiheadAttention asks for where its fast path is on."""
    weight, bias = torch.randn(3 * WIDTH, WIDTH), torch.randn(3 * WIDTH)
    module = Function(
        lambda x: torch._native_multi_head_attention(
            x, x, x, WIDTH, HEADS, weight, bias, weight[:WIDTH], bias[:WIDTH], None, False
        )
    )
    with pytest.raises(gpu_bounds.Uncounted, match="_native_multi_head_attention"):
        flops(module, TOKENS)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_fast_path_stays_as_it_was(enabled):
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(enabled)
    try:
        flops(nn.Identity(), TOKENS)
        with pytest.raises(gpu_bounds.Uncounted):
            flops(nn.LSTM(WIDTH, 3), TOKENS)
        assert torch.backends.mha.get_fastpath_enabled() == enabled
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def test_bound():
    """The larger of what the arithmetic takes and what the bytes take."""
    linear, x = nn.Linear(64, 32, bias=False), torch.randn(16, 64)
    flop, size = 2 * 16 * 64 * 32, 4 * (16 * 64 + 64 * 32 + 16 * 32)
    fast = gpu_bounds.bound(linear, (x,), {"tflops": flop * 1e-12, "gbs": 1e9})
    assert fast == {"gflop": flop * 1e-9, "ms": pytest.approx(1e3)}
    slow = gpu_bounds.bound(linear, (x,), {"tflops": 1e9, "gbs": size * 1e-9})
    assert slow["ms"] == pytest.approx(1e3)


def test_bytes_of_what_is_repeated():
    assert gpu_bounds.stored_bytes(torch.zeros(8, 16).expand(5, 8, 16)) == 4 * 8 * 16
    assert gpu_bounds.stored_bytes(torch.zeros(8, 0)) == 0
    # Tokens before the batch: their projection is a product of many matrices with the same weights.
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    module = Function(lambda x: attention(x, x, x, need_weights=False)[0]).eval()
    sizes = sum(size for _, size in gpu_bounds.counted(module, [TOKENS]))
    weights = 4 * 4 * WIDTH * WIDTH
    assert weights < sizes < 3 * weights
