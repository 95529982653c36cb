"""Runs that an event loop does not wait for."""

import asyncio
import gc
import time

import numpy as np
import pytest
from test_module import make_model
from test_module import module as camshaft


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return camshaft.build(make_model(tmp_path_factory.mktemp("async") / "model.onnx"), tuning="heuristic")


def feed(batch, seed=0):
    x = np.random.default_rng(seed).standard_normal((batch, 3), np.float32)
    return {"x": x, "i": np.array([2, 0])}


@pytest.fixture(scope="module")
def slow():
    """An engine whose run takes a minute, and looks at cancellation."""
    net = camshaft.Network()
    x, count = net.input("x", np.float32, (64, 64)), net.input("count", np.int64)

    def body(inner, i, condition, carried):
        return True, inner.Tanh(inner.MatMul(carried, carried))

    net.output(net.Loop(count, True, x, body=body), "y")
    return camshaft.build(net, tuning="heuristic", inputs={"count": np.array(2)})


def slow_feed(count):
    return {"x": np.full((64, 64), 0.01, np.float32), "count": np.array(count)}


def test_many_runs_at_a_time(engine):
    async def all_of_them():
        feeds = [feed(1 + k % 5, k) for k in range(40)]
        return feeds, await asyncio.gather(*[engine.run_async(each) for each in feeds])

    feeds, results = asyncio.run(all_of_them())
    for given, result in zip(feeds, results):
        for name, array in engine.run(given).items():
            np.testing.assert_array_equal(result[name], array)
    assert 1 <= len(engine._idle) <= 40


def test_the_loop_goes_on(slow):
    async def ticks():
        task = asyncio.create_task(slow.run_async(slow_feed(3000)))
        count = 0
        while not task.done():
            await asyncio.sleep(0)
            count += 1
        await task
        return count

    assert asyncio.run(ticks()) > 3


def test_a_context(engine):
    async def twice():
        context = engine.create_context()
        given = feed(4)
        first = {name: np.array(array) for name, array in (await context.run_async(given)).items()}
        second = {name: np.array(array) for name, array in (await context.run_async()).items()}
        return given, first, second

    given, first, second = asyncio.run(twice())
    expected = engine.run(given)
    for name in expected:
        np.testing.assert_array_equal(first[name], expected[name])
        np.testing.assert_array_equal(second[name], expected[name])


def test_a_cancelled_task_ends_the_run(slow):
    async def cancelled():
        context = slow.create_context()
        task = asyncio.create_task(context.run_async(slow_feed(10**9)))
        await asyncio.sleep(0.05)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - start < 30  # it would have taken hours
        return (await context.run_async(slow_feed(1)))["y"].shape  # the context goes on

    assert asyncio.run(cancelled()) == (64, 64)


def test_wait_for(slow):
    async def too_late():
        await asyncio.wait_for(slow.run_async(slow_feed(10**9)), timeout=0.05)

    with pytest.raises((asyncio.TimeoutError, TimeoutError)):
        asyncio.run(too_late())
    x = slow.run(slow_feed(0))["y"]
    np.testing.assert_array_equal(x, slow_feed(0)["x"])


def test_errors(engine):
    async def wrong(given):
        return await engine.run_async(given)

    with pytest.raises(camshaft.InvalidArgumentError, match="input 'x'.*not given"):
        asyncio.run(wrong({"i": np.array([0, 1])}))
    with pytest.raises(camshaft.InvalidArgumentError, match="'x'"):
        asyncio.run(wrong({**feed(1), "x": np.zeros((1, 3, 3), np.float32)}))
    with pytest.raises(camshaft.Error):  # found while running, on a thread of the library's
        asyncio.run(wrong({**feed(1), "i": np.array([7, 0])}))
    assert asyncio.run(wrong(feed(2)))  # and goes on


def test_outside_of_a_loop(engine):
    coroutine = engine.run_async(feed(1))
    with pytest.raises(RuntimeError):
        coroutine.send(None)
    coroutine.close()
    gc.collect()
    assert engine.run(feed(1))
