"""camshaft.parallel: one batch over several engines."""

import threading

import numpy as np
import pytest
from test_module import module as camshaft

from onnx import parser

parallel = pytest.importorskip("camshaft.parallel")


def engine_of(text):
    return camshaft.build(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), tuning="heuristic")


@pytest.fixture(scope="module")
def engine():
    return engine_of(
        "g (float[n, 3] x, float[3] w) => (float[n, 3] y, float[n] s) { y = Mul(x, w) axis = Constant<value_ints = [1]>() "
        "s = ReduceSum<keepdims = 0>(y, axis) }"
    )


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("engines", [1, 2, 3])
def test_equals_one_run(engine, rows, engines):
    x, w = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32), np.array([1, -2, 3], np.float32)
    outputs = parallel.run([engine] * engines, {"x": x, "w": w})
    np.testing.assert_allclose(outputs["y"], x * w)
    np.testing.assert_allclose(outputs["s"], (x * w).sum(1), rtol=1e-5)


def test_from_several_threads(engine):
    wrong = []

    def work(number):
        x, w = np.full((5, 3), number, np.float32), np.ones(3, np.float32)
        for _ in range(50):
            if (parallel.run([engine, engine], {"x": x, "w": w})["y"] != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_cannot_be_shared_out(engine):
    w = np.ones(3, np.float32)
    with pytest.raises(camshaft.InvalidArgumentError, match="needs an engine"):
        parallel.run([], {})
    with pytest.raises(camshaft.InvalidArgumentError, match="any number of rows"):
        parallel.run([engine], {"w": w})
    with pytest.raises(camshaft.InvalidArgumentError, match="'w'"):
        parallel.run([engine, engine], {"x": np.ones((4, 3), np.float32)})
    summed = engine_of(
        "g (float[n, 3] x) => (float[k, 3] y) { axis = Constant<value_ints = [0]>() y = ReduceSum(x, axis) }"
    )
    with pytest.raises(camshaft.InvalidArgumentError, match="cannot be put together"):
        parallel.run([summed, summed], {"x": np.ones((8, 3), np.float32)})
    two = engine_of("g (float[n, 3] a, float[m, 3] b) => (float[n, 3] y) { s = ReduceSum(b) y = Add(a, s) }")
    with pytest.raises(camshaft.InvalidArgumentError, match="different numbers of rows"):
        parallel.run([two], {"a": np.ones((8, 3), np.float32), "b": np.ones((2, 3), np.float32)})
