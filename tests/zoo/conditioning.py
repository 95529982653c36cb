"""Conditions random weights: each layer's results then have about the magnitude 1, and rounding stays rounding.

Where numbers grow from layer to layer, gates are open or shut, and the last bit of a large sum decides which: of
EfficientNet-B4, whose numbers came to 1e6, ONNX Runtime with and without its optimisations differed by 0.7 of the scale
(by 1.3e-5 since). The weights and the bias of each convolution, batch norm and Gemm are therefore multiplied by the power
of two that brings the root mean square of the layer's results next to 1. The mean is not taken away: what is left, small
with random weights, would be mostly rounding.

The powers are kept in conditioning.json. They are exact, so that every machine makes the same model, without running it.
"""

import json
from pathlib import Path

import numpy as np

import onnx
from onnx import helper

POWERS = Path(__file__).with_name("conditioning.json")
LAYERS = ("Conv", "ConvTranspose", "BatchNormalization", "Gemm")
# A layer with results of 0 has no magnitude.
LEAST, MOST_POWER = 1e-30, 40


def layers(model):
    """[(node, names of its weights and its bias)] of all layers with constant weights."""
    same = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Identity"}
    constants = {tensor.name for tensor in model.graph.initializer}

    def origin(name):
        while name in same:
            name = same[name]
        return name

    found = []
    for node in model.graph.node:
        names = [origin(name) for name in node.input[1:3]]
        if node.op_type in LAYERS and names[0] in constants:
            found.append((node, [name for name in names if name in constants]))
    return found


def measured(model, run):
    """{weight: e}: times 2^e, each layer's results have a root mean square next to 1, given that the layers before are
    multiplied so. `run(model)` gives the outputs by name. Of weights that layers share the first layer decides."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    weights = {node.output[0]: names[0] for node, names in layers(probe)}
    if not weights:
        return {}
    nodes, powers, scales = [], {}, {}
    for node in probe.graph.node:
        nodes.append(node)
        result = node.output[0]
        if result not in weights:
            continue
        weight, plain = weights[result], f"{result}/plain"
        node.output[0] = plain
        if weight not in scales:
            last = plain
            for op, further in (("Mul", [plain]), ("ReduceMean", []), ("Sqrt", []), ("Max", ["/least"]), ("Log", []),
                                ("Div", ["/log 2"]), ("Round", [])):  # fmt: skip
                attributes = {"keepdims": 0} if op == "ReduceMean" else {}
                nodes.append(helper.make_node(op, [last, *further], [f"{result}/{op}"], **attributes))
                last = f"{result}/{op}"
            nodes.append(helper.make_node("Pow", ["/two", last], [f"{result}/scale"]))
            powers[weight], scales[weight] = last, f"{result}/scale"
        nodes.append(helper.make_node("Div", [plain, scales[weight]], [result]))
    del probe.graph.node[:], probe.graph.output[:]
    probe.graph.node.extend(nodes)
    for name, number in (("/least", LEAST), ("/log 2", np.log(2)), ("/two", 2)):
        probe.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(number), name))
    probe.graph.output.extend(helper.make_tensor_value_info(e, onnx.TensorProto.FLOAT, []) for e in powers.values())
    results = run(probe)
    return {weight: -int(results[e]) for weight, e in powers.items() if abs(results[e]) < MOST_POWER}


def apply(model, powers):
    """Multiplies the weights of layers() by 2^powers[weight], and biases alike, in place."""
    tensors, scaled = {tensor.name: tensor for tensor in model.graph.initializer}, {}
    for node, names in layers(model):
        power = powers.get(names[0], 0)
        for name in names:
            array = onnx.numpy_helper.to_array(tensors[name])
            if name not in scaled:
                scaled[name] = power
                if power:
                    made = np.ldexp(array, power).astype(array.dtype)
                    tensors[name].CopyFrom(onnx.numpy_helper.from_array(made, name))
            elif scaled[name] != power and array.any():
                raise ValueError(f"'{name}' of '{node.name}' is also that of a layer with another scale")


def recorded():
    """{model: {weight: e}}, without zeros."""
    return json.loads(POWERS.read_text())


def record(powers):
    lines = [
        f"{json.dumps(name)}: {json.dumps({k: e for k, e in found.items() if e})}" for name, found in powers.items()
    ]
    POWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
