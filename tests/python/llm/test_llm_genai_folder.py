"""bench/llm/genai_folder.py: blocks of GGUF's as codes of MatMulNBits have the same values."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

spec = importlib.util.spec_from_file_location(
    "genai_folder", Path(__file__).resolve().parents[3] / "bench/llm/genai_folder.py"
)
genai_folder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(genai_folder)


def stored(scales, elements, bits):
    """Rows of blocks as GGUF stores them: Q4_0 has codes of 4 bits around 8, half a block apart in a byte; Q8_0 has i8."""
    halves = scales.astype(np.float16)[:, :, None].view(np.uint8)
    if bits == 4:
        codes = (elements + 8).astype(np.uint8)
        data = codes[:, :, :16] | codes[:, :, 16:] << 4
    else:
        data = elements.astype(np.int8).view(np.uint8)
    return np.concatenate([halves, data], axis=2).reshape(len(elements), -1)


@pytest.mark.parametrize("bits", [4, 8])
def test_values_are_those_of_the_blocks(bits):
    random = np.random.default_rng(bits)
    elements = random.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (5, 3, 32))
    scales = random.standard_normal((5, 3)).astype(np.float16)
    codes, floats = genai_folder.codes_of(stored(scales, elements, bits), bits)
    assert codes.dtype == np.uint8 and codes.shape == (5, 3, 32 * bits // 8)
    # As ONNX Runtime's operator says: the earlier element in the lower bits, zero points in the middle.
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=3).reshape(5, 3, 32)
    np.testing.assert_array_equal(codes.astype(int) - 2 ** (bits - 1), elements)
    np.testing.assert_array_equal(floats, scales.astype(np.float32))
