"""Options of ONNX Runtime's execution provider: their names, TensorRT's names, and what is wrong with them."""

import json

import numpy as np
import pytest
from ort_sessions import F32, QUICK, model_of, module, onnxruntime, ort, session, session_options, taken

from onnx import helper


@pytest.fixture(autouse=True, scope="module")
def registered():
    ort.register()
    yield
    ort.unregister()


def product(size="n"):
    return model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (F32, [size, 4])},
        {"y": (F32, [size, 4])},
        {"w": np.eye(4, dtype=np.float32)},
    )


def refusal(options):
    with pytest.raises(Exception) as raised:
        session(product(), options)
    return str(raised.value)


def test_an_unknown_option_is_an_error_that_names_what_was_meant():
    assert "no option 'tunning'; did you mean 'tuning'" in refusal({"tunning": "heuristic"})
    assert "no option 'trt_fp16_enabled'" in refusal({"trt_fp16_enabled": "1"})
    assert "trt_fp16_enable'" in refusal({"trt_fp16_enabled": "1"})


def test_a_value_that_does_not_fit_is_an_error():
    assert "'fp16' takes true or false, not 'maybe'" in refusal({"fp16": "maybe"})
    assert "'threads' takes an integer, not 'all'" in refusal({"threads": "all"})
    assert "tuning must be heuristic, measure or locked" in refusal({"tuning": "guess"})
    assert "'min-subgraph-size' takes a number" in refusal({"min_subgraph_size": "-"})
    assert "'x' is no shape" in refusal({"min-shapes": "x"})
    assert "not a path" in refusal({"engine-cache-prefix": "../a"})


def test_what_the_provider_cannot_do_is_an_error():
    assert "'tpu'" in refusal({"device": "tpu"})
    assert "'trt_dla_enable' cannot be had" in refusal({"trt_dla_enable": "1"})
    assert "'refit' is for engines of whole models" in refusal({"refit": "true"})


def test_options_that_contradict_each_other_are_an_error():
    assert "strongly" in refusal({**QUICK, "fp16": "true", "strongly-typed": "true"})
    assert "lock" in refusal({"tuning": "locked"})


def test_every_option_of_a_build_is_taken_or_refused_with_a_reason():
    for option in module.options("build"):
        default = option["default"]
        if option["kind"] == "list":
            continue
        text = json.dumps(default) if not isinstance(default, str) else default
        try:
            session(product(), {**QUICK, option["name"]: text})
        except Exception as e:
            assert "is for engines of whole models" in str(e), option["name"]


def test_options_of_tensorrts_provider():
    made = session(
        product(),
        {
            "device_id": "0",
            "trt_fp16_enable": "True",
            "trt_max_workspace_size": "2147483648",
            "trt_builder_optimization_level": "1",
            "trt_engine_cache_enable": "0",
            "trt_min_subgraph_size": "1",
            "trt_dla_enable": "0",
            "user_compute_stream": "94012345678",
            "verify": "0",
        },
    )
    assert taken(made) == (["MatMul"], 1)
    left = session(product(), {"trt_op_types_to_exclude": "MatMul,Gemm", "trt_build_heuristics_enable": "1"})
    assert taken(left) == ([], 0)


def test_profiles_limit_the_shapes():
    options = {**QUICK, "trt_profile_min_shapes": "x:1x4", "trt_profile_max_shapes": "x:8x4"}
    made = session(product(), {**options, "trt_profile_opt_shapes": "x:4x4"})
    x = np.ones((8, 4), np.float32)
    assert np.array_equal(made.run(None, {"x": x})[0], x)
    with pytest.raises(Exception, match="outside every profile"):
        made.run(None, {"x": np.ones((9, 4), np.float32)})


def test_several_profiles_of_one_input():
    made = session(product(), {**QUICK, "min-shapes": "x:1x4,x:16x4", "max-shapes": "x:2x4,x:32x4"})
    for size in (1, 32):
        x = np.ones((size, 4), np.float32)
        assert np.array_equal(made.run(None, {"x": x})[0], x)
    with pytest.raises(Exception, match="outside every profile"):
        made.run(None, {"x": np.ones((8, 4), np.float32)})


def test_a_build_that_fails_verification_leaves_the_nodes_to_others():
    # Nothing is within so small a tolerance, but for what is exact.
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])],
        {"x": (F32, [8, 64])},
        {"y": (F32, [8, 64])},
        {"w": np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)},
    )
    made = session(model, {"tuning": "heuristic", "verify": "true", "tolerance": "1e-12", "threads": "1"})
    assert taken(made)[1] == 0
    assert made.run(None, {"x": np.ones((8, 64), np.float32)})[0].shape == (8, 64)


def test_a_failure_names_the_option_without_a_fallback():
    """InferenceSession goes on with the CPU's provider after some errors, but not after these."""
    with pytest.raises(Exception, match="no option 'nonsense'"):
        onnxruntime.InferenceSession(
            product().SerializeToString(), session_options(), providers=[(ort.PROVIDER, {"nonsense": "1"})]
        )
