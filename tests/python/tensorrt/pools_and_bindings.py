"""A program over `cuda.bindings`: a pool of memory behind an asynchronous allocator, an output whose size only running
tells, an assertion on shapes, and an operator of two decorated functions."""

import numpy as np
import tensorrt as trt
import tensorrt.plugin as trtp
from cuda.bindings import driver as cuda
from cuda.bindings import nvrtc
from cuda.bindings import runtime as cudart


def checked(call):
    status, *values = call
    names = {cuda.CUresult: cuda.cuGetErrorName, cudart.cudaError_t: cudart.cudaGetErrorName}
    if isinstance(status, nvrtc.nvrtcResult):
        names[nvrtc.nvrtcResult] = nvrtc.nvrtcGetErrorString
    if status.value:
        raise RuntimeError(f"error {status.value}: {names[type(status)](status)[1]}")
    return values[0] if len(values) == 1 else values


class PoolAllocator(trt.IGpuAsyncAllocator):
    def __init__(self):
        trt.IGpuAsyncAllocator.__init__(self)
        properties = cudart.cudaMemPoolProps()
        properties.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
        properties.handleTypes = cudart.cudaMemAllocationHandleType.cudaMemHandleTypeNone
        properties.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
        properties.location.id = 0
        self.pool = checked(cudart.cudaMemPoolCreate(properties))
        threshold = cudart.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold
        checked(cudart.cudaMemPoolSetAttribute(self.pool, threshold, cuda.cuuint64_t(np.iinfo(np.uint64).max)))

    def allocate_async(self, size, alignment, flags, stream):
        return checked(cudart.cudaMallocFromPoolAsync(size, self.pool, stream))

    def deallocate_async(self, memory, stream):
        checked(cudart.cudaFreeAsync(memory, stream))
        return True

    def __del__(self):
        checked(cudart.cudaMemPoolDestroy(self.pool))


class OutputAllocator(trt.IOutputAllocator):
    def __init__(self):
        trt.IOutputAllocator.__init__(self)
        self.address, self.size, self.shape = None, 0, None

    def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
        if size > self.size:
            if self.address is not None:
                checked(cudart.cudaFree(self.address))
            self.address, self.size = checked(cudart.cudaMalloc(size)), size
        return self.address

    def notify_shape(self, tensor_name, shape):
        self.shape = tuple(shape)


@trtp.register("program::above")
def describe_above(x: trtp.TensorDesc, limit: float) -> trtp.TensorDesc:
    return x.like()


@trtp.impl("program::above")
def compute_above(x: trtp.Tensor, limit: float, outputs: tuple[trtp.Tensor], stream: int) -> None:
    given = np.asarray(x)
    np.copyto(np.asarray(outputs[0]), np.where(given > limit, given, 0))


def build(logger):
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    x = network.add_input("x", trt.float32, (-1, 8))
    columns = network.add_slice(network.add_shape(x).get_output(0), (1,), (1,), (1,)).get_output(0)
    eight = network.add_constant((1,), np.array([8], np.int64)).get_output(0)
    is_right = network.add_elementwise(columns, eight, trt.ElementWiseOperation.EQUAL)
    network.add_assertion(condition=is_right.get_output(0), message="rows have eight elements")
    above = network.add_plugin(trtp.op.program.above(x, limit=0.5))
    places = network.add_non_zero(above.get_output(0), trt.DataType.INT64).get_output(0)
    places.name = "places"
    network.mark_output(places)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 8), (4, 8), (16, 8))
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


def main():
    logger = trt.Logger(trt.Logger.WARNING)
    checked(cuda.cuInit(0))
    try:
        context = checked(cuda.cuCtxCreate(None, 0, checked(cuda.cuDeviceGet(0))))
    except TypeError:  # of CUDA before 13
        context = checked(cuda.cuCtxCreate(0, checked(cuda.cuDeviceGet(0))))
    runtime = trt.Runtime(logger)
    runtime.gpu_allocator = PoolAllocator()
    engine = runtime.deserialize_cuda_engine(build(logger))
    runs = engine.create_execution_context()
    assert runs.get_max_output_size("places") == 2 * 16 * 8 * 8
    allocator = OutputAllocator()
    runs.set_output_allocator("places", allocator)
    stream = checked(cudart.cudaStreamCreate())
    random = np.random.default_rng(4)
    for rows in (2, 16, 5):
        x = random.random((rows, 8), np.float32)
        device = checked(cudart.cudaMallocAsync(x.nbytes, stream))
        to_device = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        checked(cudart.cudaMemcpyAsync(device, x.ctypes.data, x.nbytes, to_device, stream))
        runs.set_input_shape("x", x.shape)
        runs.set_tensor_address("x", device)
        assert runs.execute_async_v3(stream)
        found = np.empty(allocator.shape, np.int64)
        from_device = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        checked(cudart.cudaMemcpyAsync(found.ctypes.data, allocator.address, found.nbytes, from_device, stream))
        checked(cudart.cudaStreamSynchronize(stream))
        checked(cudart.cudaFreeAsync(device, stream))
        np.testing.assert_array_equal(found, np.stack(np.nonzero(x > 0.5)))
    checked(cudart.cudaStreamDestroy(stream))
    checked(cuda.cuCtxDestroy(context))
    print("PASSED")


if __name__ == "__main__":
    main()
