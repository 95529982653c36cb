"""A program on Polygraphy's Python interface: engines of files and of networks that a program extends, profiles, a
calibrator over NumPy's arrays, runners, and a comparison with ONNX Runtime."""

import os

import numpy as np
import tensorrt as trt
from polygraphy import func
from polygraphy.backend.common import BytesFromPath, SaveBytes
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    CreateNetwork,
    EngineBytesFromNetwork,
    EngineFromBytes,
    EngineFromNetwork,
    ModifyNetworkOutputs,
    NetworkFromOnnxPath,
    Profile,
    SaveEngine,
    SetLayerPrecisions,
    TrtRunner,
)
from polygraphy.comparator import Comparator, CompareFunc, DataLoader

PROFILE = Profile().add("x", min=(1, 3, 32, 32), opt=(2, 3, 32, 32), max=(4, 3, 32, 32))
x = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)

# From a file to a file, and from there.
build = EngineFromNetwork(NetworkFromOnnxPath("model.onnx"), CreateConfig(fp16=True, profiles=[PROFILE]))
with TrtRunner(SaveEngine(build, "model.engine")) as runner:
    first = runner.infer({"x": x})["y"].copy()
    assert runner.last_inference_time() > 0 and runner.get_input_metadata()["x"].dtype.name == "float32"
with TrtRunner(EngineFromBytes(BytesFromPath("model.engine"))) as runner:
    np.testing.assert_array_equal(runner.infer({"x": x})["y"], first)
    try:
        runner.infer({"x": np.zeros((5, 3, 32, 32), np.float32)})
    except Exception as error:
        assert "outside" in str(error) or "shape" in str(error), error
    else:
        raise SystemExit("a shape outside the profile was taken")


# With outputs marked, precisions set, and a layer added behind the model's.
@func.extend(NetworkFromOnnxPath("model.onnx"))
def with_softmax(builder, network, parser):
    softmax = network.add_softmax(network.get_output(0))
    softmax.axes = 1 << 1
    softmax.get_output(0).name = "probabilities"
    network.unmark_output(network.get_output(0))
    network.mark_output(softmax.get_output(0))


network = ModifyNetworkOutputs(with_softmax, outputs=["probabilities", "r"])
network = SetLayerPrecisions(network, {"conv": trt.float32})
config = CreateConfig(fp16=True, profiles=[PROFILE], precision_constraints="obey")
with TrtRunner(EngineFromBytes(SaveBytes(EngineBytesFromNetwork(network, config), "softmax.engine"))) as runner:
    outputs = runner.infer({"x": x})
assert set(outputs) == {"probabilities", "r"} and os.path.getsize("softmax.engine") > 0
np.testing.assert_allclose(outputs["probabilities"].sum(1), 1, rtol=1e-2)

# Int8 with a calibrator, whose cache serves the second build.
batches = [{"x": np.random.default_rng(k).standard_normal((2, 3, 32, 32)).astype(np.float32)} for k in range(4)]
for data in (batches, []):
    calibrator = Calibrator(data_loader=data, cache="interface.cache")
    config = CreateConfig(int8=True, calibrator=calibrator, profiles=[PROFILE])
    with TrtRunner(EngineFromNetwork(NetworkFromOnnxPath("model.onnx"), config)) as runner:
        np.testing.assert_allclose(runner.infer({"x": x})["y"], first, atol=0.1)
assert open("interface.cache", "rb").read(4) == b"TRT-"


# A network that is made by hand.
@func.extend(CreateNetwork(strongly_typed=True))
def scaled(builder, network):
    x = network.add_input("x", shape=(-1, 4), dtype=trt.float32)
    factor = network.add_constant((1, 4), np.array([1, 2, 3, 4], np.float32)).get_output(0)
    y = network.add_elementwise(x, factor, trt.ElementWiseOperation.PROD).get_output(0)
    y.name = "y"
    network.mark_output(y)


config = CreateConfig(profiles=[Profile().add("x", (1, 4), (1, 4), (8, 4))])
with TrtRunner(EngineFromNetwork(scaled, config)) as runner:
    np.testing.assert_array_equal(runner.infer({"x": np.ones((3, 4), np.float32)})["y"], [[1, 2, 3, 4]] * 3)

# Beside ONNX Runtime.
runners = [
    OnnxrtRunner(SessionFromOnnx(open("model.onnx", "rb").read())),
    TrtRunner(EngineFromNetwork(NetworkFromOnnxPath("model.onnx"), CreateConfig(profiles=[PROFILE]))),
]
results = Comparator.run(runners, data_loader=DataLoader(iterations=3, val_range=(-1, 1)))
assert bool(Comparator.compare_accuracy(results, compare_func=CompareFunc.simple(atol=1e-4)))
print("PASSED")
