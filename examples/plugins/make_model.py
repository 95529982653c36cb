"""make_model.py OPERATOR MODEL.onnx: a model of one node of the domain "example", for the plugins here."""

import sys

import onnx
from onnx import TensorProto, helper

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "xy")
graph = helper.make_graph([helper.make_node(sys.argv[1], ["x"], ["y"], domain="example")], "g", [x], [y])
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), sys.argv[2])
