"""The weights of an ONNX model by the names that a refit knows them by."""

from collections import Counter


def model_weights(graph):
    """(name, tensor) of each initializer and of each tensor of a Constant node, in branches and loops, too. One of a
    body has its own name where nothing else in the model has that, else "<node>/<attribute>/<name>"."""
    defined = Counter()
    _count(graph, defined)
    for name, tensor in _tensors(graph):
        yield name, tensor
    yield from _of_bodies(graph, "", defined)


def _count(graph, defined):
    defined.update(info.name for info in graph.input)
    defined.update(tensor.name for tensor in graph.initializer)
    for node in graph.node:
        defined.update(node.output)
        for body in _bodies(node):
            _count(body[1], defined)


def _bodies(node):
    """(attribute, graph)"""
    for attribute in node.attribute:
        for body in ([] if attribute.g is None else [attribute.g]) + attribute.graphs:
            yield attribute.name, body


def _tensors(graph):
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1:
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.t is not None:
                    yield node.output[0], attribute.t


def _of_bodies(graph, path, defined):
    for node in graph.node:
        for attribute, body in _bodies(node):
            here = f"{path}{_shown(node)}/{attribute}/"
            results = {info.name for info in body.output}
            for name, tensor in _tensors(body):
                stays = defined[name] == 1 and name not in results
                yield (name if stays else _unique(here + name, defined)), tensor
            yield from _of_bodies(body, here, defined)


def _unique(base, defined):
    name, number = base, 0
    defined[name] += 1
    while defined[name] > 1:
        number += 1
        name = f"{base}_{number}"
        defined[name] += 1
    return name


def _shown(node):
    """What messages call it, too."""
    output = next(filter(None, node.output), "")
    name = node.name or (f"{node.op_type}({output})" if output else node.op_type)
    return name if len(name.encode()) <= 1024 else _shortened(name.encode())


def _shortened(name):
    return (name[:512] + b"~" + name[-512:]).decode(errors="replace")
