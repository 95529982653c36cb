"""Two profiles as TensorRT 8 has them: bindings of their own for each, of which a program leaves the others empty."""

import numpy as np
import onnxruntime
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

with trt.Logger(trt.Logger.ERROR) as logger, trt.Builder(logger) as builder:
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    assert trt.OnnxParser(network, logger).parse_from_file("model.onnx")
    config = builder.create_builder_config()
    config.max_workspace_size = 1 << 28
    for batch in (1, 8):
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (batch, 3, 32, 32), (batch, 3, 32, 32), (batch, 3, 32, 32))
        config.add_optimization_profile(profile)
    engine = builder.build_engine(network, config)

session = onnxruntime.InferenceSession("model.onnx")
per_profile = engine.num_bindings // engine.num_optimization_profiles
assert engine.num_bindings == 4 and per_profile == 2
assert [engine.get_binding_name(i) for i in range(4)] == ["x", "y", "x [profile 1]", "y [profile 1]"]
assert engine.get_binding_index("y [profile 1]") == 3 and engine.get_binding_index("z") == -1
for batch in (8, 1):
    chosen = next(
        index
        for index in range(engine.num_optimization_profiles)
        if engine.get_profile_shape(profile_index=index, binding=index * per_profile)[2][0] == batch
    )
    first = chosen * per_profile
    with engine.create_execution_context() as context:
        stream = cuda.Stream()
        context.set_optimization_profile_async(chosen, stream.handle)
        context.set_binding_shape(first, (batch, 3, 32, 32))
        assert context.all_binding_shapes_specified
        x = np.random.default_rng(batch).standard_normal((batch, 3, 32, 32)).astype(np.float32)
        y = cuda.pagelocked_empty(tuple(context.get_binding_shape(first + 1)), np.float32)
        pinned = cuda.register_host_memory(x)
        device_x, device_y = cuda.mem_alloc(x.nbytes), cuda.mem_alloc(y.nbytes)
        cuda.memcpy_htod_async(device_x, pinned, stream)
        bindings = [0] * first + [int(device_x), int(device_y)] + [0] * (engine.num_bindings - first - 2)
        assert context.execute_async_v2(bindings=bindings, stream_handle=stream.handle)
        cuda.memcpy_dtoh_async(y, device_y, stream)
        stream.synchronize()
        assert np.allclose(y, session.run(None, {"x": x})[0], rtol=1e-3, atol=1e-4)
        # Programs keep addresses in arrays of NumPy, too.
        y[...] = 0
        assert context.execute_v2(np.array(bindings[first : first + 2]))
        cuda.memcpy_dtoh(y, device_y)
        assert np.allclose(y, session.run(None, {"x": x})[0], rtol=1e-3, atol=1e-4)
print("PASSED")
