"""Makes one random graph out of a seed.

generate.py SEED MODEL.onnx    writes the model; its inputs and what ONNX Runtime computes go beside it as .npz
"""

import sys
from dataclasses import dataclass

import numpy as np
import operators_contraction  # noqa: F401  they fill the table
import operators_microsoft  # noqa: F401
import operators_microsoft_shape  # noqa: F401
import operators_pointwise  # noqa: F401
import operators_quantized  # noqa: F401
import operators_recurrent  # noqa: F401
import operators_sequence  # noqa: F401
import operators_shape  # noqa: F401
import operators_vision  # noqa: F401
import patterns  # noqa: F401
from graph_builder import (
    ELEMENT_TYPE,
    IR_VERSION,
    NEWEST_OPSET,
    GraphBuilder,
    Rejected,
    opset_imports,
    tensor_proto,
)  # fmt: skip
from table import OPERATORS, PATTERNS, importable

from onnx import helper

THEMES = ["f32"] * 11 + ["f64", "f64", "f16", "i64", "i32", "u8", "i8", "bool", "string", "f16"]
OPSETS = [7, 8, 9, 10, 11, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 20, 21, 21, 22, 23, 24, 25, NEWEST_OPSET]
COVERED = sorted(set(OPERATORS) & importable())
THREADS = (1, 2, 5)


@dataclass
class Case:
    seed: int
    model: object  # ModelProto
    feeds: list  # of {input: array}, one for each set of sizes
    expected: list  # of {output: array}: ONNX Runtime's results, every node run alone
    values: dict  # name: Value, of outputs and all between
    operators: list  # (domain, name) of each node
    builder: GraphBuilder
    threads: int  # that build and run it


def grow(b, count):
    """Appends nodes until there are `count`, in operators and patterns drawn at random."""
    for _ in range(12 * count):
        if len(b.nodes) >= count:
            return
        mark = b.mark()
        try:
            if b.chance(0.3):
                b.pick(PATTERNS)(b)
            else:
                domain, name = b.pick(COVERED)
                if domain == "":
                    b.since(name)
                OPERATORS[domain, name](b, name)
        except Rejected:
            b.back_to(mark)


def outputs_of(b):
    """All values that nothing reads, and sometimes one that something does."""
    read = {name for node in b.nodes for name in names_read(node)}
    made = [v for v in b.values if v.kind == "node"]
    return [v for v in made if v.name not in read or b.chance(0.07)] + b.hidden


def names_read(node):
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from names_read(inner)


def declared(value):
    return [d if isinstance(d, (int, str)) else None for d in value.dims]


def build_model(b, outputs, as_nodes=False):
    """The model of a builder's graph. `as_nodes`: constants are Constant nodes instead of initialisers."""
    read = {name for node in b.nodes for name in names_read(node)}
    constants = [c for c in b.constants if c.name in read]
    inputs = [v for v in b.inputs if v.name in read]
    nodes, initializers = list(b.nodes), [tensor_proto(c.arrays[0], c.name) for c in constants]
    if as_nodes:
        made = [helper.make_node("Constant", [], [t.name], name=f"make {t.name}", value=t) for t in initializers]
        nodes, initializers = made + nodes, []
    graph = helper.make_graph(
        nodes, "random",
        [helper.make_tensor_value_info(v.name, ELEMENT_TYPE[v.dtype], declared(v)) for v in inputs],
        [helper.make_tensor_value_info(v.name, ELEMENT_TYPE[v.dtype], declared(v)) for v in outputs],
        initializers,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=opset_imports(b.opset), ir_version=IR_VERSION), inputs


def generate(seed):
    rng = np.random.default_rng(seed)
    opset = OPSETS[int(rng.integers(len(OPSETS)))]
    theme = THEMES[int(rng.integers(len(THEMES)))]
    large = rng.random() < 0.12
    b = GraphBuilder(rng, opset, theme, dynamic=rng.random() < 0.5, special=rng.random() < 0.2,
                     empty=rng.random() < 0.12, large=large)  # fmt: skip
    with np.errstate(all="ignore"):
        grow(b, int(rng.integers(1, 4 if large else 13)))
    outputs = outputs_of(b)
    if not outputs:
        return None
    model, inputs = build_model(b, outputs, as_nodes=b.chance(0.2))
    sets = range(b.sets)
    return Case(
        seed,
        model,
        [{v.name: v.arrays[k] for v in inputs} for k in sets],
        [{v.name: v.arrays[k] for v in outputs} for k in sets],
        {v.name: v for v in b.values + b.hidden},
        b.operators,
        b,
        b.pick(THREADS),
    )


def plain(array):
    """Strings as np.savez takes them."""
    return array.astype("U") if array.dtype == np.object_ else array


def main():
    case = generate(int(sys.argv[1]))
    if case is None:
        sys.exit("this seed makes no graph")
    path = sys.argv[2]
    with open(path, "wb") as file:
        file.write(case.model.SerializeToString())
    for k, (feed, expected) in enumerate(zip(case.feeds, case.expected)):
        np.savez(f"{path}.inputs{k}.npz", **{n: plain(a) for n, a in feed.items()})
        np.savez(f"{path}.expected{k}.npz", **{n: plain(a) for n, a in expected.items()})
    print(helper.printable_graph(case.model.graph))


if __name__ == "__main__":
    main()
