"""Assertions: conditions on shapes, which engines compute as outputs that nobody but contexts sees."""

import json

import numpy

import camshaft
from camshaft.tensorrt._enums import LayerType
from camshaft.tensorrt._network import ILayer
from camshaft.tensorrt._values import address_of

#: How the names of these outputs begin; behind it is the layer's name and its message.
PREFIX = "camshaft_assertion "


class IAssertionLayer(ILayer):
    """A condition without which an engine does not run: all elements of a tensor of truths."""

    def __init__(self, network, name, condition, outputs, message):
        super().__init__(network, LayerType.ASSERTION, name, [condition], outputs)
        self.message = message

    def _write_into(self, scope, plan):
        if scope.outer is not None:
            raise NotImplementedError(
                f"'{self.name}': an assertion inside a loop or a conditional cannot be checked: make it of tensors outside"
            )

    def _follows_from_shapes(self):
        """Whether no element of an input has a part in it."""
        sources = {tensor: layer for layer in self._network for tensor in layer._outputs}
        seen, stack = set(), list(self._inputs)
        while stack:
            tensor = stack.pop()
            if tensor in seen or tensor is None:
                continue
            seen.add(tensor)
            layer = sources.get(tensor)
            if layer is None:
                return False
            if layer.type != LayerType.SHAPE:
                stack += layer._reads()
        return True


def assertions_of(network):
    return [layer for layer in network if isinstance(layer, IAssertionLayer)]


def _names(layers):
    """Of the outputs."""
    return [PREFIX + json.dumps([layer.name, layer.message]) for layer in layers]


def outputs_of(network):
    """{name of the output: condition}"""
    layers = assertions_of(network)
    return {name: layer.get_input(0) for layer, name in zip(layers, _names(layers))}


def failed(name, condition):
    """What is wrong where the output of that name has these elements; None: nothing."""
    if numpy.all(numpy.asarray(condition)):
        return None
    layer, message = json.loads(name[len(PREFIX) :])
    return f"the assertion '{layer}' does not hold: {message}"


def check_known(network):
    """Raises ValueError for an assertion that does not hold whatever comes: of a network without dynamic sizes, for one
    that follows from shapes."""
    layers = [layer for layer in assertions_of(network) if layer._follows_from_shapes()]
    if not layers or any(-1 in tensor.shape for tensor in network._inputs):
        return
    model = network._with_outputs({name: layer.get_input(0) for layer, name in zip(layers, _names(layers))})
    engine = camshaft.build(model, tuning="heuristic", verify=False, device="cpu")
    context = engine.create_context()
    zeros = {info.name: numpy.zeros(info.shape, numpy.int64) for info in engine.inputs}  # of the widest type
    for info in engine.inputs:
        context.set_input(info.name, camshaft.Memory(address_of(zeros[info.name]), info.dtype, info.shape))
    for name, condition in context.run().items():
        if wrong := failed(name, condition):
            raise ValueError(wrong)
