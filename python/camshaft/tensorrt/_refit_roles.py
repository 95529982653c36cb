"""Layers and roles of an engine's weights, as TensorRT's parser and its networks name them.

A convolution has a KERNEL and a BIAS, a scale layer a SCALE and a SHIFT, and other weights are those of a layer of their
own, with the role CONSTANT: of a parsed model by the initializer's name. What TensorRT's parser makes of a batch
normalisation is a scale layer, too."""

import numpy

from camshaft.tensorrt._enums import WeightsRole
from camshaft.tensorrt._layers._base import INNER
from camshaft.tensorrt._values import dtype_of_name, nptype

#: {(operator, its input): role}
_OF_NODES = {
    ("Conv", 1): WeightsRole.KERNEL,
    ("Conv", 2): WeightsRole.BIAS,
    ("ConvTranspose", 1): WeightsRole.KERNEL,
    ("ConvTranspose", 2): WeightsRole.BIAS,
}
#: What a network's scale layers become.
_OF_SCALES = {("Mul", 1): WeightsRole.SCALE, ("Add", 1): WeightsRole.SHIFT}
#: What is also found, though the parser of TensorRT 10 makes constants of it.
_OF_MATRICES = {("Gemm", 1): WeightsRole.KERNEL, ("Gemm", 2): WeightsRole.BIAS}


class Roles:
    """Of the records that camshaft.Refitter.all_weights gives."""

    def __init__(self, weights, metadata):
        weights = list(weights)
        is_network = metadata.get("producer", "").startswith("camshaft")
        self._named = {}  # (layer, role) by the names of weights
        self._found = {}  # names of weights by (layer, role)
        #: Names of scale, shift, mean and variance by the names of nodes.
        self.normalizations = _normalizations(weights)
        for weight in weights:
            name = weight["name"]
            self._named[name] = place = self._place(weight, is_network)
            self._found.setdefault(place, name)
            for node in weight["nodes"]:
                role = (_OF_NODES | _OF_MATRICES).get((node["op"], node["input"]))
                if role is not None:
                    self._found.setdefault((node["name"], role), name)

    def _place(self, weight, is_network):
        layer, _, role = weight["name"].rpartition(" ")
        if layer and role in WeightsRole.__members__:  # as a network names its own
            return layer, WeightsRole[role]
        nodes = weight["nodes"]
        for node in nodes if len(nodes) == 1 else ():
            key = node["op"], node["input"]
            if node["op"] == "BatchNormalization" and node["name"] in self.normalizations and node["input"] > 0:
                return node["name"], WeightsRole.SCALE if node["input"] in (1, 4) else WeightsRole.SHIFT
            if key in _OF_NODES:
                return _layer_of(node), _OF_NODES[key]
            # Sums and products that are no part of a scale layer read constants, as ElementWise layers do.
            if is_network and key in _OF_SCALES and _layer_of(node) != node["name"]:
                return _layer_of(node), _OF_SCALES[key]
            if is_network and node["op"] == "Identity":
                return _layer_of(node), WeightsRole.CONSTANT
        return _constant_layer_of(weight["name"]), WeightsRole.CONSTANT

    def of(self, names):
        """(layers, roles) of weights, each pair once."""
        places = list(dict.fromkeys(self._named[name] for name in names))
        return [layer for layer, _ in places], [role for _, role in places]

    def find(self, layer, role):
        """The name of the weights; None where there are none."""
        found = self._found.get((layer, role))
        if found is None and role in (WeightsRole.CONSTANT, WeightsRole.ANY):  # by their own name
            found = next((name for name in (layer, f"{layer}_output") if name in self._named), None)
        return found

    def alike(self, layer):
        """(layer, role) of what the layer has."""
        return [place for place in dict.fromkeys(self._named.values()) if place[0] == layer]


def _layer_of(node):
    """A network's layer: nodes that it writes before its last have names within its own."""
    layer, _, inner = node["name"].rpartition(INNER)
    return layer if inner.startswith(node["op"]) and layer else node["name"]


def _constant_layer_of(name):
    """A network's constant without names of its own is called as the tensor is that it gives."""
    layer = name.removesuffix("_output")
    return layer if layer.startswith("(Unnamed Layer*") else name


def _normalizations(weights):
    found = {}
    for weight in weights:
        for node in weight["nodes"]:
            if node["op"] == "BatchNormalization" and len(weight["nodes"]) == 1 and not weight["fixed_by"]:
                found.setdefault(node["name"], {})[node["input"]] = weight["name"]
    return {name: [inputs[i] for i in (1, 2, 3, 4)] for name, inputs in found.items() if set(inputs) == {1, 2, 3, 4}}


def of_normalization(scale, shift):
    """The numbers of a batch normalisation that is x * scale + shift: scale, shift, mean and variance. The variance is so
    large that nothing is left of the epsilon beside it, and a square, so that the scale is what it was."""
    root = 16 if scale.dtype.itemsize < 4 else 1024
    return scale * root, shift, numpy.zeros_like(shift), numpy.full_like(scale, root * root)


def numpy_type(dtype):
    return nptype(dtype_of_name(dtype))
