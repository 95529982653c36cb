"""on_gpu_sessions.py FOLDER: what test_ort_provider_gpu.py has run on two emulated GPUs."""

import gc
import sys
from pathlib import Path

import numpy as np
from ort_sessions import F32, QUICK, assert_same, model_of, onnxruntime, ort, plain_session, session_options

import onnx
from onnx import TensorProto, helper

GPU = ort.GPU_PROVIDER
RNG = np.random.default_rng(1)


def network(seed=0, width=8):
    w = np.random.default_rng(seed).standard_normal((4, width)).astype(np.float32)
    return model_of(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])],
        {"x": (F32, ["n", 4])},
        {"y": (F32, ["n", width])},
        {"w": w},
    )


def session(model, options=None, provider=GPU, so=None):
    given = model if isinstance(model, str) else model.SerializeToString()
    providers = [(provider, {**QUICK, **(options or {})}), "CPUExecutionProvider"]
    return onnxruntime.InferenceSession(given, so or session_options(), providers=providers)


def check(made, model, feed):
    assert_same(made.run(None, feed), plain_session(model).run(None, feed))


def feed(rows=3):
    return {"x": RNG.standard_normal((rows, 4)).astype(np.float32)}


def on_the_host():
    """Tensors are the host's, engines run on the GPU that an option names."""
    for options in ({"device": "cuda"}, {"device": "cuda:1"}, {"device_id": "1"}):
        made = session(network(), options, ort.PROVIDER)
        for rows in (3, 5, 3):
            check(made, network(), feed(rows))
        assert taken_by(made, ort.PROVIDER) == 1


def taken_by(made, provider):
    return sum(part.ep_name == provider for part in made.get_provider_graph_assignment_info())


def by_name():
    made = session(network())
    for rows in (3, 5, 3, 1):
        check(made, network(), feed(rows))
    assert taken_by(made, GPU) == 1 and [d.device.device_id for d in ort.devices(GPU)] == [0, 1]
    for options in ({"device_id": 1}, {"device": "cuda:1"}):
        check(session(network(), options), network(), feed())
    for options, text in (({"device_id": 7}, "no GPU 7"), ({"device": "cpu"}, "tensors are on cuda:0")):
        try:
            session(network(), options)
        except Exception as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no error of {options}")


def bound():
    """Tensors on the GPU are read and written in place."""
    for number in (0, 1):
        made = session(network(), {"device_id": number})
        x = feed()
        binding = made.io_binding()
        given = onnxruntime.OrtValue.ortvalue_from_numpy(x["x"], "cuda", number)
        np.testing.assert_array_equal(given.numpy(), x["x"])
        result = onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 8], np.float32, "cuda", number)
        binding.bind_ortvalue_input("x", given)
        binding.bind_ortvalue_output("y", result)
        for _ in range(3):
            made.run_with_iobinding(binding)
        expected = plain_session(network()).run(None, x)
        assert_same([result.numpy()], expected)
        binding.clear_binding_outputs()
        binding.bind_output("y", "cuda", number)  # in memory that the provider gives
        made.run_with_iobinding(binding)
        [kept] = binding.get_outputs()
        assert kept.device_name() == "cuda"
        assert_same([kept.numpy()], expected)
        binding.clear_binding_outputs()
        binding.bind_output("y")  # to the host
        made.run_with_iobinding(binding)
        assert_same([binding.get_outputs()[0].numpy()], expected)


def beside_others():
    """Nodes of the CPU's provider between engines: tensors are copied."""
    names = {"f": (F32, np.float32), "i": (TensorProto.INT64, np.int64), "b": (TensorProto.BOOL, np.bool_)}
    for name, (dtype, array) in names.items():
        nodes = [
            helper.make_node("Concat", ["x", "x"], ["a"], axis=0),
            helper.make_node("Tile", ["a", "twice"], ["b"]),
            helper.make_node("Concat", ["b", "a"], ["y"], axis=1),
        ]
        repeats = {"twice": np.array([1, 2], np.int64)}
        model = model_of(nodes, {"x": (dtype, ["n", 3])}, {"y": (dtype, ["m", 9])}, repeats)
        made = session(model, {"exclude-operators": "Tile"})
        assert taken_by(made, GPU) == 2, name
        x = {"x": RNG.integers(0, 2, (4, 3)).astype(array)}
        check(made, model, x)


def sizes_that_only_running_tells():
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Abs", ["x"], ["y"])]
    model = model_of(nodes, {"x": (F32, ["n"])}, {"i": (TensorProto.INT64, [1, "k"]), "y": (F32, ["n"])})
    made = session(model)
    for array in ([0, 1, 0, 2], [0, 0], [3, 3, 3]):
        check(made, model, {"x": np.array(array, np.float32)})


def texts_stay():
    nodes = [
        helper.make_node("StringConcat", ["s", "s"], ["t"]),
        helper.make_node("Neg", ["x"], ["y"]),
    ]
    inputs = {"s": (TensorProto.STRING, ["n"]), "x": (F32, ["n"])}
    model = model_of(nodes, inputs, {"t": (TensorProto.STRING, ["n"]), "y": (F32, ["n"])})
    made = session(model)
    check(made, model, {"s": np.array(["a", "bc"], object), "x": np.array([1, 2], np.float32)})
    assert taken_by(made, GPU) == 1


def kept(folder):
    cache = {"engine-cache": "true", "engine-cache-path": str(folder / "cache")}
    for seed in (0, 0, 1):
        check(session(network(seed), cache), network(seed), feed())
    assert len(list((folder / "cache").iterdir())) == 2
    weightless = {**cache, "engine-cache-weightless": "true"}
    for seed in (0, 1, 2):
        check(session(network(seed), weightless), network(seed), feed())
    assert len(list((folder / "cache").iterdir())) == 3
    onnx.save(network(), folder / "model.onnx")
    so = session_options()
    so.add_session_config_entry("ep.context_enable", "1")
    so.add_session_config_entry("ep.context_file_path", str(folder / "context.onnx"))
    session(str(folder / "model.onnx"), so=so)
    check(session(str(folder / "context.onnx")), network(), feed())


def memory_is_reused():
    made = session(network(width=1 << 16))
    x = feed(8)
    before = None
    for number in range(20):
        made.run(None, x)
        gc.collect()
        if number == 4:
            before = free_bytes()
    assert free_bytes() == before
    del made
    gc.collect()


def free_bytes():
    import ctypes

    driver = ctypes.CDLL("libcuda.so.1")
    free, total, context, device = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_int()
    assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    return free.value


def main(folder):
    ort.register()
    on_the_host()
    by_name()
    bound()
    beside_others()
    sizes_that_only_running_tells()
    texts_stay()
    kept(folder)
    memory_is_reused()
    print("all is well")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
