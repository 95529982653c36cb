"""Shape arithmetic is done when a model is built: nothing that only computes sizes is left to run.

A model may use sizes as data, for positions and masks. Then a layer "dims" hands single sizes to what computes with
them, most often a range. Anything that makes sizes out of sizes, and any operator whose parameters became data although
only batch, length or image size are dynamic, is left-over shape arithmetic.
"""

import json
import re

import pytest
from camshaft_cli import camshaft
from catalog import EVERY

# Their sizes depend on what is in the images: boxes that are found, elements that are not zero.
DATA_DEPENDENT = {
    "det_fasterrcnn_resnet50_fpn", "det_ssd300_vgg16", "mask_rcnn", "own_nms_head", "own_scatter_gather"
}  # fmt: skip

# What may be left: DeBERTa slices its embeddings from 512 - length on. Where that is negative, longer inputs than it is
# made for, ONNX counts it from the end, so no one expression of sizes says where the slice begins.
NO_EXPRESSION = {"deberta": re.compile(r"slice_\d+: dynamic_slice \['weight_\d+: f32\[1024, 192\]'")}

# "i64[3]", but not "i64[batch, 1]": sizes are few, and how many is known. (Reshapes are no layers, so the layer that
# made an operand is not always found by name, but whatever was made out of positions has their symbolic shape.)
FEW = re.compile(r": \w+\[(\d+)?\]$")


def name(operand):
    return operand.rsplit(": ", 1)[0]


def left_over(inspected):
    """The layers that are shape arithmetic, as text."""
    known = {entry["name"] for entry in inspected["inputs"]}
    sizes, left = set(), []
    for layer in inspected["layers"]:
        operands = layer["inputs"]
        from_sizes = (
            any(name(operand) in sizes for operand in operands)
            and all(FEW.search(operand) for operand in operands + layer["outputs"])
            and not any(name(operand) in known for operand in operands)
        )
        several = layer["op"] == "dims" and not layer["outputs"][0].endswith(("[]", "[1]"))
        if layer["op"] == "dims" or from_sizes:
            sizes.update(map(name, layer["outputs"]))
        else:
            known.update(map(name, layer["outputs"]))
        if from_sizes or several or layer["op"] == "shape_of" or layer["op"].startswith("dynamic_"):
            left.append(f"{layer['name']}: {layer['description']} {operands} -> {layer['outputs']}")
    return left


def test_left_over_shape_arithmetic_is_seen():
    layer = lambda op, inputs, outputs: {  # noqa: E731
        "op": op,
        "name": op,
        "description": op,
        "inputs": inputs,
        "outputs": outputs,
    }
    positions = [layer("dims", [], ["n: i64[]"]), layer("range", ["zero: i64[]", "n: i64[]"], ["p: i64[seq]"])]
    assert not left_over({"inputs": [], "layers": positions})
    for bad in (
        layer("pointwise", ["n: i64[]", "two: i64[]"], ["m: i64[]"]),
        layer("dims", [], ["shape: i64[3]"]),
        layer("dynamic_reduce", ["p: i64[seq]", "axes: i64[1]"], ["r: i64[]"]),
    ):
        assert len(left_over({"inputs": [], "layers": [*positions, bad]})) == 1


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(model.name, marks=[] if model.quick else pytest.mark.large)
        for model in EVERY.values()
        if model.name not in DATA_DEPENDENT
    ],
)
def test_no_shape_arithmetic_is_left(name):
    left = left_over(json.loads(camshaft("inspect", "--json", EVERY[name].path()).stdout))
    excused = NO_EXPRESSION.get(name)
    assert [layer for layer in left if not (excused and excused.match(layer))] == []
