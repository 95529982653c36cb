"""What programs write by name, look up, or derive from: arguments, allocators, pools of memory, timing caches."""

import numpy as np
import pytest
from tensorrt_model import write_network
from test_tensorrt import Heard, expected, parsed, pictures, trt


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_network(tmp_path_factory.mktemp("interface") / "model.onnx")


def test_arguments_have_tensorrts_names_and_defaults(model):
    """Programs give many of them by name."""
    builder = trt.Builder(Heard())
    network = builder.create_network()
    x = network.add_input(name="x", dtype=trt.float32, shape=(1, 2, 4, 4))
    scaled = network.add_scale(input=x, mode=trt.ScaleMode.UNIFORM, scale=np.array([2], np.float32))
    shifted = network.add_scale_nd(
        scaled.get_output(0), mode=trt.ScaleMode.UNIFORM, shift=trt.Weights(np.ones(1, np.float32)), channel_axis=1
    )
    with pytest.raises(TypeError, match="channel_axis"):
        network.add_scale_nd(x, trt.ScaleMode.UNIFORM)
    network.mark_output(tensor=shifted.get_output(0))
    engine = builder.build_engine_with_config(network=network, config=builder.create_builder_config())
    data, out = np.ones((1, 2, 4, 4), np.float32), np.empty((1, 2, 4, 4), np.float32)
    context = engine.create_execution_context()
    assert context.execute(bindings=[data.ctypes.data, out.ctypes.data]) and (out == 3).all()
    assert engine.binding_is_input(index=0) and engine.binding_is_input(name="x")
    assert engine.get_binding_shape(name="x") == engine.get_binding_shape(index=0) == (1, 2, 4, 4)
    assert engine.get_binding_dtype(name="x") == trt.float32
    with pytest.raises(TypeError, match="the index or the name"):
        engine.get_location(index=0, name="x")

    class Reader(trt.IStreamReader):
        def __init__(self, held):
            super().__init__()
            self.held = held

        def read(self, size):
            given, self.held = self.held[:size], self.held[size:]
            return given

    loaded = trt.Runtime(logger=builder.logger).deserialize_cuda_engine(stream_reader=Reader(bytes(engine.serialize())))
    assert loaded.num_io_tensors == 2
    weights = trt.Weights(type=trt.float32, ptr=data.ctypes.data, count=4)
    assert weights.numpy().tolist() == [1, 1, 1, 1] and trt.Weights(type=trt.int32).dtype == trt.int32
    order = trt.Permutation([1, 0])
    order[0] = 0
    assert order == (0, 0) and repr(order) == "(0, 0)"
    for held in (engine, context, network, builder, builder.create_builder_config(), engine.serialize()):
        held.__del__()  # as programs for TensorRT 8 do


def test_how_large_outputs_may_be_and_allocators_that_know_the_stream():
    builder = trt.Builder(Heard())
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (-1, 6))
    places = network.add_non_zero(x, trt.DataType.INT64).get_output(0)
    places.name = "places"
    network.mark_output(places)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 6), (2, 6), (5, 6))
    config.add_optimization_profile(profile)
    context = builder.build_engine_with_config(network, config).create_execution_context()
    assert context.get_max_output_size("places") == 2 * 5 * 6 * 8

    class Allocator(trt.IOutputAllocator):
        def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
            self.stream, self.bytes = stream, np.empty(size, np.uint8)
            return self.bytes.ctypes.data

        def notify_shape(self, tensor_name, shape):
            self.shape = tuple(shape)

    allocator = Allocator()
    given = np.zeros((2, 6), np.float32)
    given[1, 3] = given[0, 5] = 1
    context.set_input_shape("x", given.shape)
    context.set_tensor_address("x", given.ctypes.data)
    assert context.set_output_allocator("places", allocator) and context.execute_async_v3(stream_handle=0)
    assert (
        allocator.bytes.view(np.int64).reshape(allocator.shape).tolist() == [[0, 1], [5, 3]] and allocator.stream == 0
    )


def test_pools_of_memory():
    from camshaft.tensorrt import cudart

    properties = cudart.cudaMemPoolProps()
    properties.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
    properties.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
    success = cudart.cudaError_t.cudaSuccess
    status, pool = cudart.cudaMemPoolCreate(properties)
    threshold = cudart.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold
    assert status == success and cudart.cudaMemPoolSetAttribute(pool, threshold, 1 << 20) == (success,)
    assert cudart.cudaMemPoolGetAttribute(pool, threshold) == (success, 1 << 20)
    status, address = cudart.cudaMallocFromPoolAsync(256, pool, 0)
    assert status == success and address
    assert cudart.cudaFreeAsync(address, 0) == (success,) and cudart.cudaMemPoolDestroy(pool) == (success,)
    assert cudart.cudaMallocFromPoolAsync(256, pool, 0)[0] == cudart.cudaError_t.cudaErrorInvalidValue
    assert cudart.cudaDeviceGetDefaultMemPool(0)[0] == success


def test_timing_caches_can_be_read_and_changed(model):
    from camshaft.tensorrt._timing_cache import _number_of

    builder, network = parsed(model)
    network.get_input(0).shape = (2, 3, 32, 32)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.EDITABLE_TIMING_CACHE)
    cache = config.create_timing_cache(b"")
    assert cache.queryKeys() == [] and cache.query(trt.TimingCacheKey()).timingMSec == 0
    config.set_timing_cache(cache, False)

    def tactics():
        return {layer["name"]: layer["tactic"] for layer in builder.build_engine(network, config)._engine.layers()}

    before = tactics()
    keys = cache.queryKeys()
    assert keys and all(cache.query(key).timingMSec > 0 for key in keys)
    assert trt.TimingCacheKey.parse(str(keys[0])) == keys[0] and len({*keys}) == len(keys)
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        trt.TimingCacheKey.parse("0x12")
    changed = 0
    for key, times in cache._entries().items():
        slowest = max(times, key=times.get)
        if len(times) > 1:
            assert cache.query(key).tacticHash != _number_of(slowest)
            assert cache.update(key, trt.TimingCacheValue(_number_of(slowest), 0.000001))
            assert cache.query(key).tacticHash == _number_of(slowest)
            changed += 1
    assert changed and tactics() != before
    assert not cache.update(keys[0], trt.TimingCacheValue(1, 1.0))
    assert not cache.update(trt.TimingCacheKey(), cache.query(keys[0]))


def test_what_later_versions_have_and_we_lack_says_so():
    network = trt.Builder(Heard()).create_network()
    for name, arguments in (("add_moe", 3), ("add_kv_cache_update", 4), ("add_dist_collective", 5), ("add_rnn_v2", 5)):
        with pytest.raises(NotImplementedError, match=f"{name}\\(\\) is not there: "):
            getattr(network, name)(*[None] * arguments)
    for name in ("IMoELayer", "KVCacheMode", "ISymExprs", "EngineStat", "IRNNv2Layer"):
        with pytest.raises(AttributeError, match=f"camshaft.tensorrt has no {name}: "):
            getattr(trt, name)


@pytest.mark.parametrize("flag", [None, "PREFER_PRECISION_CONSTRAINTS", "STRICT_TYPES"])
def test_int8_of_every_layer_and_result(model, flag):
    """As TensorRT's own samples of int8 without a calibrator ask for it."""
    builder, network = parsed(model)
    network.get_input(0).shape = (2, 3, 32, 32)
    network.get_input(0).dynamic_range = (-4, 4)
    for layer in network:
        layer.precision = trt.int8
        for index in range(layer.num_outputs):
            layer.set_output_type(index, trt.int8)
            layer.get_output(index).dynamic_range = (-8, 8)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    if flag is not None:
        config.set_flag(trt.BuilderFlag[flag])
    engine = builder.build_engine_with_config(network, config)
    assert engine is not None, builder.logger.errors()
    assert any("are to be in 8 bits" in text for _, text in builder.logger.messages)
    x, y = pictures(2), np.empty((2, 10), np.float32)
    assert engine.create_execution_context().execute_v2([x.ctypes.data, y.ctypes.data])
    want = expected(model, x)
    assert np.abs(y - want).max() < 0.1 * np.abs(want).max()


def test_a_plan_is_not_printed_byte_by_byte(model):
    builder, network = parsed(model)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert str(plan) == repr(plan) == f"<IHostMemory of {plan.nbytes} bytes>"
    assert bytes(plan) == plan and len(memoryview(plan)) == plan.nbytes
