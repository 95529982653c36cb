"""TensorRT's weight streaming: a budget that programs set, and what they ask of it."""

import numpy as np
import pytest
from tensorrt_model import write_network
from test_tensorrt import parsed, pictures, trt
from test_tensorrt_refit import built, result


@pytest.fixture
def engine(tmp_path):
    builder, network = parsed(write_network(tmp_path / "model.onnx"))
    return built(builder, network, trt.BuilderFlag.WEIGHT_STREAMING)


def test_a_budget(engine):
    x = pictures(2)
    expected = result(engine.create_execution_context(), x)
    size = engine.streamable_weights_size
    assert size > 0 and engine.weight_streaming_budget_v2 == size and engine.weight_streaming_budget == 0
    assert engine.weight_streaming_scratch_memory_size == 0
    assert 0 < engine.get_weight_streaming_automatic_budget() <= size
    for budget in (0, size // 2, size, engine.get_weight_streaming_automatic_budget()):
        engine.weight_streaming_budget_v2 = budget
        assert engine.weight_streaming_budget_v2 == budget
        np.testing.assert_array_equal(result(engine.create_execution_context(), x), expected)
    for budget in (-1, 0, max(engine.minimum_weight_streaming_budget, 1)):
        engine.weight_streaming_budget = budget
        np.testing.assert_array_equal(result(engine.create_execution_context(), x), expected)
    assert 0 <= engine.minimum_weight_streaming_budget <= size
    with pytest.raises(ValueError, match="-7"):
        engine.weight_streaming_budget_v2 = -7
