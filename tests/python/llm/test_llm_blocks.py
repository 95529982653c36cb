"""Weights in blocks of few bits: how far they are from what they stand for, and MatMulNBits of them."""

import camshaft
import numpy as np
import pytest
from camshaft.llm._blocks import BLOCK, in_blocks


@pytest.fixture
def random():
    return np.random.default_rng(7)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", [(1, 32), (3, 64), (7, 33), (5, 31), (2, 1), (300, 20000)])
def test_values_are_within_a_step(random, bits, shape):
    x = random.standard_normal(shape, np.float32)
    made = in_blocks(x, bits)
    codes, scales = made.codes, made.scales
    blocks = -(-shape[1] // BLOCK)
    assert codes.shape == (shape[0], blocks, BLOCK * bits // 8) and scales.shape == (shape[0], blocks)
    np.testing.assert_array_equal(scales, scales.astype(np.float16))
    wrong = np.abs(made.values(shape[1]) - x)
    steps = np.repeat(np.abs(scales), BLOCK, axis=1)[:, : shape[1]]
    # Half a step; a whole one at the end of the codes that has one less; and what fp16 lost of the scale.
    assert np.all(wrong <= steps * (1 + 2**-10 * 2 ** (bits - 1)))


@pytest.mark.parametrize("bits", [4, 8])
def test_zeros_and_extremes(bits):
    x = np.zeros((4, 64), np.float32)
    x[1, 3], x[2, 5], x[3, :] = 1000.0, -1e-9, 3.0
    made = in_blocks(x, bits).values(64)
    assert np.all(made[0] == 0) and np.isfinite(made).all()
    np.testing.assert_allclose(made[[1, 3]], x[[1, 3]], rtol=1e-3)
    assert np.abs(made[2] - x[2]).max() <= 1e-7


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("columns", [32, 64, 50])
def test_products_of_an_engine_take_them(random, bits, columns):
    weights = random.standard_normal((24, columns), np.float32)
    made = in_blocks(weights, bits)
    net = camshaft.Network()
    x = net.input("x", np.float32, ("rows", columns))
    y = net.microsoft.MatMulNBits(x, made.codes, made.scales.reshape(-1), K=columns, N=24, bits=bits, block_size=BLOCK)
    net.output(y, "y")
    given = random.standard_normal((5, columns), np.float32)
    actual = camshaft.build(net, tuning="heuristic", inputs={"x": given})(given)
    wanted = given @ made.values(columns).T
    np.testing.assert_allclose(actual, wanted, atol=1e-4 * np.abs(wanted).max())
