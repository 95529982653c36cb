"""on_gpu_streams.py: what test_ort_provider_gpu.py has run in streams of two emulated GPUs. Nothing in a stream is done
there before somebody waits for it, so that results tell who waited, and for which stream."""

import ctypes
import gc
import threading

import numpy as np
import ort_c_api
from cuda_driver import Driver
from on_gpu_sessions import GPU, QUICK, RNG, feed, network, session
from ort_sessions import F32, I64, assert_same, model_of, onnxruntime, ort, plain_session

from onnx import helper

NO_WAIT = onnxruntime.RunOptions()
NO_WAIT.add_run_config_entry("disable_synchronize_execution_providers", "1")


def on_gpu(array, number=0):
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", number)


def empty(shape, number=0):
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "cuda", number)


def bound(made, inputs, outputs):
    """A run with tensors on the GPU by their names; an output of None is the provider's memory."""
    binding = made.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        if value is None:
            binding.bind_output(name, "cuda", 0)
        else:
            binding.bind_ortvalue_output(name, value)
    return binding


def expected(model, x):
    return plain_session(model).run(None, {"x": x})


def raises(text, call):
    try:
        call()
    except Exception as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error: {text}")


def in_the_programs_stream():
    with Driver() as driver:
        stream = driver.stream()
        for address in (str(stream.value), hex(stream.value)):
            made = session(network(), {"user_compute_stream": address, "has_user_compute_stream": "1"})
            old, new, late = (feed()["x"] for _ in range(3))
            x, y = on_gpu(old), empty([3, 8])
            binding = bound(made, {"x": x}, {"y": y})
            # What the program put into the stream before is read.
            driver.write(x.data_ptr(), new, stream)
            made.run_with_iobinding(binding)
            assert_same([driver.read(y.data_ptr(), [3, 8], stream)], expected(network(), new))
            # Nobody has waited when the run returns: another stream is faster.
            made.run_with_iobinding(binding)
            other = driver.stream()
            driver.write(x.data_ptr(), late, other)
            driver.wait(other)
            assert_same([driver.read(y.data_ptr(), [3, 8], stream)], expected(network(), late))
            # Results on the host are there when it returns.
            assert_same(made.run(None, {"x": new}), expected(network(), new))
            # A copy to the host waits, though it knows of no stream.
            made.run_with_iobinding(binding)
            assert_same([y.numpy()], expected(network(), late))


def in_the_default_stream():
    with Driver() as driver:
        made = session(network(), {"user_compute_stream": "0"})
        old, new = feed()["x"], feed()["x"]
        x, y = on_gpu(old), empty([3, 8])
        driver.write(x.data_ptr(), new, None)
        made.run_with_iobinding(bound(made, {"x": x}, {"y": y}))
        assert_same([driver.read(y.data_ptr(), [3, 8], None)], expected(network(), new))
        assert_same(made.run(None, {"x": old}), expected(network(), old))
    # As TensorRT's provider lists its options.
    none = session(network(), {"user_compute_stream": "0", "has_user_compute_stream": "0"})
    assert_same(none.run(None, {"x": old}), expected(network(), old))


def tensors_of_the_host():
    """The other provider's, whose engines copy."""
    with Driver() as driver:
        stream = driver.stream()
        options = {"device": "cuda", "user_compute_stream": str(stream.value)}
        made = session(network(), options, ort.PROVIDER)
        for rows in (3, 5, 3):
            x = feed(rows)["x"]
            assert_same(made.run(None, {"x": x}), expected(network(), x))
        raises("takes a stream's address", lambda: session(network(), {"user_compute_stream": "mine"}))
        raises("needs 'user_compute_stream'", lambda: session(network(), {"has_user_compute_stream": "1"}))
        of_another = {"device_id": 1, "user_compute_stream": str(stream.value)}
        raises("is not one of GPU 1", lambda: session(network(), of_another))


def two_streams():
    """Tensors go from one session's stream to another's without a wait; freed memory does not serve others too early."""
    with Driver() as driver:
        streams = [driver.stream(), driver.stream()]
        first, second = (session(network(s, 4), {"user_compute_stream": str(streams[s].value)}) for s in (0, 1))
        x = feed()["x"]
        wanted = expected(network(1, 4), expected(network(0, 4), x)[0])
        for _ in range(3):
            a = bound(first, {"x": on_gpu(x)}, {"y": None})
            first.run_with_iobinding(a)
            b = bound(second, {"x": a.get_outputs()[0]}, {"y": None})
            second.run_with_iobinding(b)
            [result] = b.get_outputs()
            assert_same([driver.read(result.data_ptr(), [3, 4], streams[1])], wanted)
        for _ in range(3):
            # An input is freed before it is read, and another of its size made.
            y = empty([3, 4])
            first.run_with_iobinding(bound(first, {"x": on_gpu(x)}, {"y": y}))
            gc.collect()
            other = on_gpu(feed()["x"])
            assert_same([driver.read(y.data_ptr(), [3, 4], streams[0])], expected(network(0, 4), x))
            del other


def gathered():
    table = np.arange(20, dtype=np.float32).reshape(4, 5)
    nodes = [helper.make_node("Gather", ["t", "i"], ["y"])]
    return model_of(nodes, {"i": (I64, ["n"])}, {"y": (F32, ["n", 5])}, {"t": table})


def what_goes_wrong_on_the_gpu():
    made = session(gathered())
    good, bad = np.array([1, 3]), np.array([1, 9])
    # A run in a stream of our own ends with a wait, so that it is the one that fails.
    raises("index 9 is out of range", lambda: made.run_with_iobinding(bound(made, {"i": on_gpu(bad)}, {"y": None})))
    raises("index 9 is out of range", lambda: made.run(None, {"i": bad}))
    assert_same(made.run(None, {"i": good}), plain_session(gathered()).run(None, {"i": good}))
    # In the program's the next wait tells.
    with Driver() as driver:
        made = session(gathered(), {"user_compute_stream": str(driver.stream().value)})
        made.run_with_iobinding(bound(made, {"i": on_gpu(bad)}, {"y": None}))
        raises("index 9 is out of range", lambda: made.run(None, {"i": good}))
        assert_same(made.run(None, {"i": good}), plain_session(gathered()).run(None, {"i": good}))


def runs_that_do_not_wait():
    """In ONNX Runtime's own stream, where a run's options say that nobody needs its end yet."""
    with Driver() as driver:
        made = session(network())
        old, late = feed()["x"], feed()["x"]
        x, y = on_gpu(old), empty([3, 8])
        binding = bound(made, {"x": x}, {"y": y})
        made.run_with_iobinding(binding)
        other = driver.stream()
        assert_same([driver.read(y.data_ptr(), [3, 8], other)], expected(network(), old))
        made.run_with_iobinding(binding, NO_WAIT)
        driver.write(x.data_ptr(), late, other)
        driver.wait(other)
        assert_same([y.numpy()], expected(network(), late))


def beside_others():
    """A node of the CPU's provider between two engines: the host waits for the one, the other for the copy."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("Tile", ["a", "twice"], ["b"]),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    repeats = {"twice": np.array([1, 2], np.int64)}
    model = model_of(nodes, {"x": (F32, ["n", 3])}, {"y": (F32, ["n", 6])}, repeats)
    with Driver() as driver:
        stream = driver.stream()
        for more in ({}, {"user_compute_stream": str(stream.value)}):
            made = session(model, {"exclude-operators": "Tile", **more})
            for rows in (2, 4, 2):
                x = RNG.standard_normal((rows, 3)).astype(np.float32)
                assert_same(made.run(None, {"x": x}), plain_session(model).run(None, {"x": x}))
                y = empty([rows, 6])
                made.run_with_iobinding(bound(made, {"x": on_gpu(x)}, {"y": y}))
                assert_same([y.numpy()], plain_session(model).run(None, {"x": x}))


def threads():
    with Driver() as driver:
        stream = driver.stream()
        for options in ({"user_compute_stream": str(stream.value)}, {}):
            made = session(network(), options)
            problems = []

            def work(made=made, problems=problems):
                try:
                    rng = np.random.default_rng(threading.get_ident() % 1000)
                    for _ in range(5):
                        x = rng.standard_normal((3, 4)).astype(np.float32)
                        y = empty([3, 8])
                        made.run_with_iobinding(bound(made, {"x": on_gpu(x)}, {"y": y}))
                        assert_same([y.numpy()], expected(network(), x))
                        assert_same(made.run(None, {"x": x}), expected(network(), x))
                except Exception as error:
                    problems.append(error)

            running = [threading.Thread(target=work) for _ in range(4)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            assert not problems, problems


def recorded():
    """The program records its stream: a run becomes a part of its CUDA graph."""
    with Driver() as driver:
        stream = driver.stream()
        made = session(network(), {"user_compute_stream": str(stream.value)})
        old, new = feed()["x"], feed()["x"]
        x, y = on_gpu(old), empty([3, 8])
        binding = bound(made, {"x": x}, {"y": y})
        for _ in range(2):
            made.run_with_iobinding(binding, NO_WAIT)
        driver.wait(stream)
        driver.call("cuStreamBeginCapture_v2", stream, 2)
        made.run_with_iobinding(binding, NO_WAIT)
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        driver.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
        driver.write(x.data_ptr(), new, stream)
        driver.call("cuGraphLaunch", ready, stream)
        assert_same([driver.read(y.data_ptr(), [3, 8], stream)], expected(network(), new))


def onnx_runtimes_streams():
    [first, second] = ort.devices(GPU)
    stream = first.create_sync_stream()
    assert stream.get_handle()
    x = feed()["x"]
    source, there = onnxruntime.OrtValue.ortvalue_from_numpy(x), empty(x.shape)
    onnxruntime.copy_tensors([source], [there], stream)
    back = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(x))
    onnxruntime.copy_tensors([there], [back], stream)
    np.testing.assert_array_equal(back.numpy(), x)
    onnxruntime.copy_tensors([there], [back])
    np.testing.assert_array_equal(back.numpy(), x)
    far = empty(x.shape, 1)
    onnxruntime.copy_tensors([there], [far], second.create_sync_stream())
    np.testing.assert_array_equal(far.numpy(), x)


def stream_with(api, device, option, value):
    pairs = ctypes.c_void_p()
    api.plain("CreateKeyValuePairs", ctypes.pointer(pairs), result=None)
    api.plain("AddKeyValuePair", pairs, ctypes.c_char_p(option.encode()), ctypes.c_char_p(value.encode()), result=None)
    try:
        return api.make("CreateSyncStreamForEpDevice", device, pairs)
    finally:
        api.plain("ReleaseKeyValuePairs", pairs, result=None)


def streams_of_run_options():
    """A stream that one run goes into: of the C interface alone."""
    api = ort_c_api.Api()
    env = api.make("CreateEnv", ctypes.c_int(3), ctypes.c_char_p(b"streams"))
    api.call(
        "RegisterExecutionProviderLibrary",
        env,
        ctypes.c_char_p(b"camshaft"),
        ctypes.c_char_p(ort.library_path().encode()),
    )
    devices, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
    api.call("GetEpDevices", env, ctypes.pointer(devices), ctypes.pointer(count))
    name_of = lambda device: api.plain("EpDevice_EpName", device, result=ctypes.c_char_p).decode()  # noqa: E731
    device = next(d for d in map(ctypes.c_void_p, devices[: count.value]) if name_of(d) == GPU)
    memory = ctypes.c_void_p(api.plain("EpDevice_MemoryInfo", device, ctypes.c_int(0)))
    options = api.make("CreateSessionOptions")
    one = (ctypes.c_void_p * 1)(device)
    api.call(
        "SessionOptionsAppendExecutionProvider_V2", options, env, one, ctypes.c_size_t(1),
        ort_c_api.texts(*QUICK), ort_c_api.texts(*QUICK.values()), ctypes.c_size_t(len(QUICK)),
    )  # fmt: skip
    model = network().SerializeToString()
    made = api.make("CreateSessionFromArray", env, ctypes.c_char_p(model), ctypes.c_size_t(len(model)), options)
    allocator = api.make("CreateAllocator", made, memory)

    def tensor(*shape):
        dims = (ctypes.c_int64 * len(shape))(*shape)
        value = api.make("CreateTensorAsOrtValue", allocator, dims, ctypes.c_size_t(len(shape)), ctypes.c_int(1))
        return value, api.make("GetTensorMutableData", value).value

    (x, at_x), (y, at_y) = tensor(3, 4), tensor(3, 8)
    binding = api.make("CreateIoBinding", made)
    api.call("BindInput", binding, ctypes.c_char_p(b"x"), x)
    api.call("BindOutput", binding, ctypes.c_char_p(b"y"), y)
    old, new, late = (feed()["x"] for _ in range(3))
    with Driver() as driver:
        other = driver.stream()
        the_programs = stream_with(api, device, "user_compute_stream", str(other.value))
        assert api.plain("SyncStream_GetHandle", the_programs) == other.value
        api.plain("ReleaseSyncStream", the_programs, result=None)
        raises("no option 'priority'", lambda: stream_with(api, device, "priority", "1"))
        driver.write(at_x, old, other)
        driver.wait(other)
        for waits in (True, False):
            stream = api.make("CreateSyncStreamForEpDevice", device, ctypes.c_void_p())
            handle = ctypes.c_void_p(api.plain("SyncStream_GetHandle", stream))
            run = api.make("CreateRunOptions")
            api.plain("RunOptionsSetSyncStream", run, stream, result=None)
            driver.write(at_x, new, handle)
            if not waits:
                key = ctypes.c_char_p(b"disable_synchronize_execution_providers")
                api.call("AddRunConfigEntry", run, key, ctypes.c_char_p(b"1"))
            api.call("RunWithBinding", made, run, binding)
            if waits:
                assert_same([driver.read(at_y, [3, 8], other)], expected(network(), new))
            else:
                assert_same([driver.read(at_y, [3, 8], handle)], expected(network(), new))
                api.call("RunWithBinding", made, run, binding)
                driver.write(at_x, late, other)
                driver.wait(other)
                assert_same([driver.read(at_y, [3, 8], handle)], expected(network(), late))
            api.plain("ReleaseRunOptions", run, result=None)
            api.plain("ReleaseSyncStream", stream, result=None)
    for kind, value in (
        ("IoBinding", binding),
        ("Value", x),
        ("Value", y),
        ("Allocator", allocator),
        ("Session", made),
    ):
        api.plain(f"Release{kind}", value, result=None)
    api.plain("ReleaseSessionOptions", options, result=None)


def main():
    ort.register()
    in_the_programs_stream()
    in_the_default_stream()
    tensors_of_the_host()
    two_streams()
    what_goes_wrong_on_the_gpu()
    runs_that_do_not_wait()
    beside_others()
    threads()
    recorded()
    onnx_runtimes_streams()
    streams_of_run_options()
    print("all is well")


if __name__ == "__main__":
    main()
