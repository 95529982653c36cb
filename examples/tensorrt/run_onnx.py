"""A program for TensorRT 10, as it would be written for it: builds an engine of an ONNX model, runs it on numbers that are
drawn, and prints its outputs. Without TensorRT: python -m camshaft.tensorrt run_onnx.py model.onnx x=1x3x48x320"""

import sys

import numpy as np
import tensorrt as trt
from cuda import cudart


def checked(result):
    status, *values = result
    if status != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA: {status}")
    return values[0] if values else None


def build(path, shapes, logger):
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(path):
        raise SystemExit("\n".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    for name, shape in shapes.items():
        profile.set_shape(name, shape, shape, shape)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SystemExit("the engine could not be built")
    return trt.Runtime(logger).deserialize_cuda_engine(plan)


def run(engine, shapes):
    """{output: array}, of inputs that are drawn."""
    context = engine.create_execution_context()
    stream = checked(cudart.cudaStreamCreate())
    to_device, to_host = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    for name, shape in shapes.items():
        context.set_input_shape(name, shape)
    memory, outputs = {}, {}
    for name in (engine.get_tensor_name(i) for i in range(engine.num_io_tensors)):
        dtype = trt.nptype(engine.get_tensor_dtype(name))
        array = np.empty(tuple(context.get_tensor_shape(name)), dtype)
        memory[name] = checked(cudart.cudaMalloc(array.nbytes))
        context.set_tensor_address(name, memory[name])
        if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
            outputs[name] = array
        else:
            array[...] = np.random.default_rng(0).standard_normal(array.shape)
            checked(cudart.cudaMemcpyAsync(memory[name], array.ctypes.data, array.nbytes, to_device, stream))
    if not context.execute_async_v3(stream):
        raise SystemExit("the run failed")
    for name, array in outputs.items():
        checked(cudart.cudaMemcpyAsync(array.ctypes.data, memory[name], array.nbytes, to_host, stream))
    checked(cudart.cudaStreamSynchronize(stream))
    for address in memory.values():
        checked(cudart.cudaFree(address))
    checked(cudart.cudaStreamDestroy(stream))
    return outputs


def main():
    path, *given = sys.argv[1:]
    shapes = {name: tuple(map(int, sizes.split("x"))) for name, _, sizes in (word.rpartition("=") for word in given)}
    engine = build(path, shapes, trt.Logger(trt.Logger.WARNING))
    for name, array in run(engine, shapes).items():
        print(f"{name}: {array.dtype}{list(array.shape)}, from {array.min():.4g} to {array.max():.4g}")


if __name__ == "__main__":
    main()
