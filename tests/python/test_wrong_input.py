"""What programs get wrong, again and again: each time one clear exception, and nothing stays behind. Also run with
AddressSanitizer (scripts/sanitize_python.sh), which sees what counting does not."""

import asyncio
import ctypes
import gc
import os
import re
import struct
import sys
import threading

import numpy as np
import pytest
from tensorrt_model import write_network
from test_module import module
from test_tensorrt import Heard, parsed, pictures, trt

SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
TIMES = 40 if SANITIZED else 400


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]  # fmt: skip


mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
if mallinfo is not None:
    mallinfo.restype = _Mallinfo


def in_use():
    """(bytes that are allocated, objects of Python)"""
    gc.collect()
    if SANITIZED:  # whose allocator is its own
        return 0, len(gc.get_objects())
    info = mallinfo()
    return info.uordblks + info.hblkhd, len(gc.get_objects())


def leaves_nothing(wrong, error, match, times=TIMES):
    """Does it so often, with this error each time, and counts what is left."""

    def once():  # without pytest.raises(), which keeps some bytes each time
        try:
            wrong()
        except error as raised:
            assert re.search(match, str(raised)), str(raised)
        else:
            pytest.fail(f"no {error}")

    for _ in range(3):
        once()
    used = [in_use()]
    for _ in range(4):  # what leaks does so each time; caches fill up once, and threads come and go
        for _ in range(times // 4):
            once()
        used.append(in_use())
    grown = [(after[0] - before[0], after[1] - before[1]) for before, after in zip(used, used[1:])]
    assert min(objects for _, objects in grown) <= 0, f"objects of Python stay: {grown}"
    # Of what pytest itself does meanwhile some hundred bytes are left.
    assert min(size for size, _ in grown) < 2048 + 16 * (times // 4), f"memory stays: {grown}"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_network(tmp_path_factory.mktemp("bad") / "model.onnx")


@pytest.fixture(scope="module")
def engine(model):
    ranges = {"x": {"min": (1, 3, 32, 32), "opt": (2, 3, 32, 32), "max": (4, 3, 32, 32)}}
    return module.build(model, tuning="heuristic", profiles=[ranges])


@pytest.fixture
def context(engine):
    return engine.create_context(threads=2)


def test_a_wrong_dtype(context):
    x = pictures(2)
    for dtype in (np.float64, np.int32, np.float16, np.bool_):
        leaves_nothing(lambda dtype=dtype: context.run({"x": x.astype(dtype)}), module.InvalidArgumentError, "'x'")
    leaves_nothing(lambda: context.run({"x": np.array([object()])}), TypeError, "input 'x': an array of object")
    leaves_nothing(lambda: context.run({"x": "a text"}), TypeError, "input 'x': str has no __dlpack__")
    assert context.run({"x": x})["y"].shape == (2, 10)


def test_a_shape_outside_every_profile(context):
    for shape in ((5, 3, 32, 32), (0, 3, 32, 32), (2, 3, 33, 32), (2, 3, 32), ()):
        x = np.zeros(shape, np.float32)
        leaves_nothing(lambda x=x: context.run({"x": x}), module.InvalidArgumentError, "'x'|input x")
    assert context.run({"x": pictures(4)})["y"].shape == (4, 10)


def test_names_that_are_not_there(context):
    leaves_nothing(lambda: context.run({"z": pictures(2)}), module.InvalidArgumentError, "'z'")
    leaves_nothing(lambda: context.run({}), module.InvalidArgumentError, "'x'|input x")
    leaves_nothing(lambda: context.output_shape("nothing"), module.InvalidArgumentError, "nothing")


def test_a_deleted_buffer(context):
    """The context holds on to what was bound, and what a result shows stays what it was."""
    x = pictures(2)
    want = np.array(context.run({"x": x})["y"])
    context.set_input("x", np.array(x))  # which nobody else has
    gc.collect()
    np.testing.assert_array_equal(np.asarray(context.run()["y"]), want)
    kept = np.asarray(context.run({"x": x})["y"])
    alone = kept.base if kept.base is not None else kept
    del context
    gc.collect()
    np.testing.assert_array_equal(kept, want)
    assert alone is not None


def test_memory_of_the_stand_ins_that_was_given_back(model):
    from camshaft.tensorrt import cudart

    logger = Heard()
    builder, network = parsed(model, logger)
    network.get_input(0).shape = (2, 3, 32, 32)
    made = builder.build_engine_with_config(network, builder.create_builder_config())
    runs = made.create_execution_context()
    y = np.empty((2, 10), np.float32)

    def wrong():
        status, address = cudart.cudaMalloc(pictures(2).nbytes // 2)
        assert status == cudart.cudaError_t.cudaSuccess
        runs.set_tensor_address("x", address)
        runs.set_tensor_address("y", y.ctypes.data)
        done = runs.execute_async_v3(0)
        cudart.cudaFree(address)
        logger.messages.clear()
        if not done:
            raise ValueError("refused")

    leaves_nothing(wrong, ValueError, "refused")


def test_engines_of_a_newer_version_and_damaged_ones(engine):
    data = bytes(engine)
    version = struct.unpack_from("<I", data, 8)[0]
    newer = data[:8] + struct.pack("<I", version + 1) + data[12:]
    leaves_nothing(lambda: module.Engine(newer), module.CorruptEngineError, f"version {version + 1}")
    leaves_nothing(lambda: module.Engine(data[: len(data) // 2]), module.CorruptEngineError, "engine")
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 255
    leaves_nothing(lambda: module.Engine(bytes(flipped)), module.CorruptEngineError, "engine")
    leaves_nothing(lambda: module.Engine(b""), module.CorruptEngineError, "engine")
    logger = Heard()

    def as_tensorrt():
        if trt.Runtime(logger).deserialize_cuda_engine(newer) is None:
            said = logger.errors()[-1]
            logger.messages.clear()
            raise ValueError(said)

    leaves_nothing(as_tensorrt, ValueError, f"version {version + 1}")


def test_a_calibrator_that_raises(model):
    def batches():
        yield {"x": pictures(2)}
        raise LookupError("no picture is left")

    leaves_nothing(lambda: module.calibrate(model, batches()), LookupError, "no picture is left", times=12)

    class Calibrator(trt.IInt8EntropyCalibrator2):
        def get_batch(self, names):
            raise LookupError("no batch is left")

        def get_batch_size(self):
            return 2

    def through_tensorrt():
        builder, network = parsed(model)
        network.get_input(0).shape = (2, 3, 32, 32)
        config = builder.create_builder_config()
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = Calibrator()
        builder.build_serialized_network(network, config)

    leaves_nothing(through_tensorrt, LookupError, "no batch is left", times=12)


def test_a_calibrator_with_memory_that_is_too_small(model):
    """A batch has the size of the profile's usual shape, whatever get_batch_size() says."""
    from camshaft.tensorrt import cudart

    logger = Heard()
    _, small = cudart.cudaMalloc(pictures(1).nbytes)

    def build(address):
        class Calibrator(trt.IInt8EntropyCalibrator2):
            def get_batch(self, names):
                return [address]

        builder, network = parsed(model, logger)
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (1, 3, 32, 32), (4, 3, 32, 32), (8, 3, 32, 32))
        config = builder.create_builder_config()
        config.add_optimization_profile(profile)
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = Calibrator()
        return builder.build_serialized_network(network, config)

    for address, told in [
        (small, "more than what was allocated at"),
        (-5, "-5 as the address of input 'x'"),
        (0, "0 as"),
    ]:
        assert build(address) is None
        assert any(told in message for _, message in logger.messages), logger.messages
        logger.messages.clear()
    cudart.cudaFree(small)


def test_a_callback_that_raises_in_another_thread(model, context):
    def progress(stage, fraction):
        raise LookupError("from the callback")

    def in_a_thread(call):
        raised = []

        def work():
            try:
                call()
            except BaseException as error:  # noqa: BLE001, whatever it is is looked at
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert len(raised) == 1
        raise raised.pop()

    leaves_nothing(
        lambda: in_a_thread(lambda: module.build(model, tuning="heuristic", progress=progress)),
        LookupError,
        "from the callback",
        times=12,
    )


def test_a_context_that_threads_share(engine):
    """One run at a time: the others are refused, and none of them reaches into the one that goes on."""
    shared = engine.create_context(threads=2)
    inputs = {batch: pictures(batch) for batch in (1, 2, 4)}
    want = {batch: engine(x) for batch, x in inputs.items()}
    begin, told = threading.Barrier(len(inputs)), []

    def run(batch):
        begin.wait()
        for _ in range(TIMES):
            try:
                result = shared.run({"x": inputs[batch]})["y"]
            except module.InvalidArgumentError as error:
                told.append(str(error))
            else:
                assert result.shape == (batch, 10)

    threads = [threading.Thread(target=run, args=(batch,)) for batch in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(told) <= {"the context is in use by another thread or task: make one for each with create_context()"}
    for batch, x in inputs.items():
        np.testing.assert_array_equal(np.asarray(shared.run({"x": x})["y"]), want[batch])


def test_a_context_that_a_task_runs(engine):
    context = engine.create_context()

    async def main():
        task = asyncio.create_task(context.run_async({"x": pictures(4)}))
        await asyncio.sleep(0)  # it has begun, and goes on in this loop
        for wrong in (context.run, lambda: context.set_input("x", pictures(1)), lambda: context.output_shape("y")):
            with pytest.raises(module.InvalidArgumentError, match="in use by another thread or task"):
                wrong()
        return (await task)["y"].shape

    assert asyncio.run(main()) == (4, 10)
    assert context.output_shape("y") == (4, 10)


def test_an_array_that_dlpack_has_no_form_for(engine):
    """The engine's own call says it as a context's does."""
    swapped = pictures(2).astype(">f4")
    leaves_nothing(lambda: engine(swapped), TypeError, "input 'x': an array of >f4")


def test_a_function_of_the_program_that_raises_while_threads_run():
    """It is called by threads of the library's."""

    @module.plugin("bad_input::Raises", shape=lambda x: x.shape)
    def raises(x: np.float32):
        if x[0] > 0:
            raise LookupError("from the operator")
        return x + 1

    net = module.Network("raises")
    x = net.input("x", "f32", [4])
    net.output(net.domain("bad_input").Raises(x), "y")
    made = module.build(net, tuning="heuristic", verify=False)
    runs = made.create_context(threads=2)
    leaves_nothing(lambda: runs.run({"x": np.ones(4, np.float32)}), (LookupError, module.Error), "from the operator")
    np.testing.assert_array_equal(runs.run({"x": -np.ones(4, np.float32)})["y"], np.zeros(4, np.float32))


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x08\x07" * 1000, bytes(range(256)) * 40])
def test_models_that_are_none(data):
    leaves_nothing(lambda: module.build(data), module.Error, ".")


def test_options_that_are_wrong(model):
    for options, match in (
        ({"fp17": True}, "fp17"),
        ({"tuning": "sometimes"}, "sometimes"),
        ({"profiles": [{"z": {"min": (1,), "opt": (1,), "max": (1,)}}]}, "z"),
        ({"device": "tpu"}, "tpu"),
    ):
        leaves_nothing(lambda options=options: module.build(model, **options), (module.Error, TypeError, ValueError), match, times=12)  # fmt: skip


def test_it_is_known_where_it_runs():
    """The counting is off where a sanitizer's allocator is in the way, and there alone."""
    assert SANITIZED == ("libclang_rt.asan" in open("/proc/self/maps").read()) or sys.platform != "linux"
