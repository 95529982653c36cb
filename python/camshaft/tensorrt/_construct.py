"""What loops and conditionals of TensorRT's network API have in common."""


class Construct:
    """A part of a network with layers on its boundary, in the order in which they were added."""

    def __init__(self, network, name):
        self._network = network
        self.name = name
        self._boundary = []

    def _add(self, kind, type, *arguments, outputs=1):
        layer = self._network._add(
            lambda network, name, results: kind(network, self, name, *arguments, results), type, outputs=outputs
        )
        self._boundary.append(layer)
        self._network._changed()
        return layer

    def _of(self, kind):
        return [layer for layer in self._boundary if isinstance(layer, kind)]

    def __repr__(self):
        return f"<{type(self).__name__} '{self.name}'>"


def scalar(scope, tensor, dtypes):
    """The value of a condition or a limit: a scalar of one of these types. Raises ValueError otherwise."""
    value = scope.value(tensor)
    if value.shape != () or value.dtype not in dtypes:
        raise ValueError(
            f"the trip limit or condition '{tensor.name}' is a scalar of {' or '.join(dtypes)}, not {value.type}"
        )
    return value
