"""What ONNX Runtime's results would be without its own rounding.

Some definitions lose digits, such as GroupNormalization's: the mean of the squares less the square of the mean. ONNX
Runtime computes them in f32 as they stand. Here each node is computed by the standard's reference implementation in f64,
on the values that ONNX Runtime's nodes hand on; where the two are further apart than two results may be, the exact one
takes its place, and nodes behind it read that. Camshaft's code has no part in it.
"""

import agreement
import numpy as np
from graph_builder import ELEMENT_TYPE, FLOATS, IR_VERSION, SHORT, as_array, opset_imports, session
from onnx.reference import ReferenceEvaluator

import onnx
from onnx import helper


def one_node(node, inputs, opset):
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(n, ELEMENT_TYPE[SHORT[a.dtype]], [None] * a.ndim) for n, a in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    return helper.make_model(graph, opset_imports=opset_imports(opset), ir_version=IR_VERSION)


def has_stash_type(node, opset):
    try:
        return "stash_type" in onnx.defs.get_schema(node.op_type, opset, node.domain).attributes
    except onnx.defs.SchemaError:
        return False


def by_reference(node, inputs, opset):
    """{output: array}, in f64 where the inputs are floats; None where the standard has no implementation, or one that
    fails."""
    wide = {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in inputs.items()}
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    if has_stash_type(node, opset):  # in which its own steps are computed
        del copy.attribute[:]
        copy.attribute.extend(a for a in node.attribute if a.name != "stash_type")
        copy.attribute.append(helper.make_attribute("stash_type", onnx.TensorProto.DOUBLE))
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(one_node(copy, wide, opset)).run(None, wide)
    except Exception:  # whatever it throws
        return None
    return dict(zip([name for name in node.output if name], map(np.asarray, results)))


def by_onnxruntime(node, inputs, opset):
    try:
        names = [name for name in node.output if name]
        results = session(one_node(node, inputs, opset), optimised=False).run(names, inputs)
    except Exception:  # as above
        return None
    return dict(zip(names, map(as_array, results)))


def without_rounding(case, k):
    """{value: (array, the operators that ONNX Runtime rounds too much on the way there)} of those that are others than in
    set `k` of the case. A node that reads such a value and cannot be run alone keeps what it had."""
    changed = {}
    for node in case.builder.nodes:
        names = [name for name in dict.fromkeys(node.input) if name]
        outputs = [case.values.get(name) for name in node.output if name]
        if any(a.HasField("g") for a in node.attribute) or None in outputs or not set(names) <= set(case.values):
            continue
        inputs = {name: changed[name][0] if name in changed else case.values[name].arrays[k] for name in names}
        behind = set().union(*(changed[name][1] for name in names if name in changed))
        if behind:
            results = by_onnxruntime(node, inputs, case.builder.opset) or {}
            changed |= {name: (array, behind) for name, array in results.items()}
        if not any(value.dtype in FLOATS and not value.exact for value in outputs):
            continue
        results = by_reference(node, inputs, case.builder.opset) or {}
        for value in outputs:
            had = changed[value.name][0] if value.name in changed else value.arrays[k]
            result = results.get(value.name)
            if result is None or result.dtype.kind != "f" or result.shape != had.shape:
                continue
            with np.errstate(all="ignore"):
                result = result.astype(had.dtype)
            if agreement.difference(had, result, value):
                changed[value.name] = result, behind | {node.op_type}
    return changed


def by_exact_steps(case, k):
    """{value: array} of set `k` with each node by the standard's reference implementation in f64, on what that gave for
    those before, and by ONNX Runtime where it has none. Where no single node of ONNX Runtime's rounds too much, this says
    how far rounding has brought it: a number that is nearly 0 and is chosen among large ones is nothing else."""
    exact = {}
    for node in case.builder.nodes:
        values = [case.values.get(name) for name in node.output if name]
        names = [name for name in dict.fromkeys(node.input) if name]
        if any(a.HasField("g") for a in node.attribute) or None in values or not set(names) <= set(case.values):
            continue
        inputs = {name: exact.get(name, case.values[name].arrays[k]) for name in names}
        results = by_reference(node, inputs, case.builder.opset) or by_onnxruntime(node, inputs, case.builder.opset)
        for value in values:
            had, result = value.arrays[k], (results or {}).get(value.name)
            if result is None or result.shape != had.shape or result.dtype.kind != had.dtype.kind:
                continue
            with np.errstate(all="ignore"):
                exact[value.name] = result.astype(had.dtype)
    return exact
