#!/usr/bin/env python3
"""Writes src/onnx/operator_schemas.inc: what operators' inputs, outputs and attributes are called, and their types.

    scripts/operator_schemas.py [FILE]

The standard's come from the Python package onnx, those of ONNX Runtime's own that Camshaft reads from there. A version
of an operator has a line where it differs in these facts from the one before it."""

import re
import sys
from pathlib import Path

import onnx.defs
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

SOURCES = Path(__file__).parents[1] / "src/onnx"
# As AttributeProto.AttributeType numbers them; the words are attribute_type_name()'s in operator_schema.cpp.
TYPES = dict(zip("FLOAT INT STRING TENSOR GRAPH FLOATS INTS STRINGS TENSORS GRAPHS".split(), range(1, 11)))
TYPES |= {"SPARSE_TENSOR": 11, "TYPE_PROTO": 13}
MARKS = {"Single": "", "Optional": "?", "Variadic": "*"}


def name_of(value):
    return str(value).rpartition(".")[2]


def parameters(listed):
    typed = [(p, p.type_str if hasattr(p, "type_str") else p.typeStr) for p in listed]
    return " ".join(f"{p.name}:{kind.replace(' ', '')}{MARKS[name_of(p.option)]}" for p, kind in typed)


def attributes(schema):
    return " ".join(
        f"{name}:{TYPES[name_of(a.type)]}{'!' if a.required else ''}" for name, a in sorted(schema.attributes.items())
    )


def microsoft_operators():
    texts = [path.read_text() for path in SOURCES.glob("ops_*.cpp")]
    return {name for text in texts for name in re.findall(r'\{\s*"(\w+)",', text)}


def schemas():
    standard = [s for s in onnx.defs.get_all_schemas_with_history() if "training" not in s.domain]
    names = microsoft_operators()
    known = {(s.domain, s.name) for s in standard}
    others = [s for s in runtime.get_all_operator_schema() if s.domain in ("", "com.microsoft") and s.name in names]
    others = [s for s in others if (s.domain, s.name) not in known]
    return sorted(standard + others, key=lambda s: (s.domain, s.name, s.since_version))


def lines():
    yield "// Made by scripts/operator_schemas.py: domain, operator, since, inputs, outputs, attributes."
    last = None
    for s in schemas():
        if s.deprecated:
            continue
        facts = (s.domain, s.name, parameters(s.inputs), parameters(s.outputs), attributes(s), s.min_output)
        if facts != last:
            quoted = ", ".join(f'"{text}"' for text in facts[2:5])
            yield f'{{"{s.domain}", "{s.name}", {s.since_version}, {quoted}}},'
        last = facts


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCES / "operator_schemas.inc"
    target.write_text("\n".join(lines()) + "\n")
