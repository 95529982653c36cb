#!/usr/bin/env python3
"""Writes docs/operators.md: every operator that models may use, its versions, the element types that run on kernels and
those that run by the reference evaluation, and the standard's cases.

What runs where is asked of `camshaft inspect`: for each operator of the standard, a test case of the ONNX package with that
one node is compiled for every element type that its schema lists.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft_cli
import onnx.backend.test

import onnx

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/operators.md"
CASES = Path(onnx.backend.test.__file__).parent / "data/node"
RUNNER = camshaft_cli.BINARY.parents[1] / "tests/onnx_backend_tests"
NEWEST = 27
TITLES = {
    "ai.onnx": "ONNX",
    "ai.onnx.ml": "ai.onnx.ml",
    "ai.onnx.preview": "ai.onnx.preview",
    "com.microsoft": "com.microsoft",
    "TRT": "TRT",
    "camshaft": "camshaft",
    "mmcv": "mmcv",
    "mmdeploy": "mmdeploy",
}


def schema_of(domain, name):
    domain = "" if domain == "ai.onnx" else domain
    try:
        return onnx.defs.get_schema(name, NEWEST if not domain else 100, domain)
    except onnx.defs.SchemaError:
        return None


def versions_of(domain, name):
    domain = "" if domain == "ai.onnx" else domain
    return sorted(
        s.since_version for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == (domain, name)
    )


def single_nodes():
    """{(domain, operator): [(case, model)]} of the cases whose graph is one node."""
    found = defaultdict(list)
    for case in sorted(CASES.iterdir()):
        model = onnx.load(str(case / "model.onnx"))
        if len(model.graph.node) == 1:
            node = model.graph.node[0]
            found[node.domain or "ai.onnx", node.op_type].append((case.name, model))
    return found


def retyped(model, schema, dtype):
    """The model with every input and output of the first input's type parameter made `dtype`."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    node = copy.graph.node[0]
    parameter = schema.inputs[0].type_str
    names = set()
    for formals, actuals in ((schema.inputs, node.input), (schema.outputs, node.output)):
        for index, actual in enumerate(actuals):
            if formals[min(index, len(formals) - 1)].type_str == parameter:
                names.add(actual)
    for info in [*copy.graph.input, *copy.graph.output]:
        if info.name in names and info.type.HasField("tensor_type"):
            info.type.tensor_type.elem_type = dtype
    return copy


def where(model):
    """'kernel', 'reference', or None when the model is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        done = camshaft_cli.camshaft("inspect", path, "--json", check=False)
    if done.returncode != 0:
        return None
    return (
        "reference" if any(layer["tactic"] == "reference" for layer in json.loads(done.stdout)["layers"]) else "kernel"
    )


def placement(schema, cases):
    """{'kernel': [types], 'reference': [types]} over the types of the operator's first input."""
    out = {"kernel": [], "reference": []}
    if not schema or not schema.inputs or not cases:
        return out
    parameter = schema.inputs[0].type_str
    allowed = next((t.allowed_type_strs for t in schema.type_constraints if t.type_param_str == parameter), [parameter])
    for text in sorted(allowed):
        match = re.fullmatch(r"tensor\((\w+)\)", text)
        if not match:
            continue
        spelling = {"double": "DOUBLE", "float": "FLOAT"}.get(match[1], match[1].upper())
        dtype = onnx.TensorProto.DataType.Value(spelling)
        places = set()
        for _, model in cases[:3]:
            places.add(where(retyped(model, schema, dtype)))
            if "kernel" in places:
                break
        for place in ("kernel", "reference"):
            if place in places:
                out[place].append(match[1])
                break
    return out


def case_results():
    """{case: passed} of the standard's node cases."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.tsv"
        subprocess.run([RUNNER, CASES, "--report", report], check=True, stdout=subprocess.DEVNULL)
        return dict(line.partition("\t")[::2] for line in report.read_text(errors="replace").splitlines())


def row(entry, nodes, results):
    key = entry["domain"], entry["operator"]
    schema = schema_of(*key)
    cases = nodes.get(key, [])
    places = placement(schema, cases)
    passed = sum(results[name] == "" for name, _ in cases)
    versions = ", ".join(map(str, versions_of(*key))) or f"{entry['since']}"
    cells = [
        entry["operator"],
        versions,
        ", ".join(places["kernel"]) or "–",
        ", ".join(places["reference"]) or "–",
        f"{passed} of {len(cases)}" if cases else "–",
    ]
    return "| " + " | ".join(cells) + " |"


def page():
    entries = json.loads(camshaft_cli.camshaft("operators", "--json").stdout)
    nodes, results = single_nodes(), case_results()
    lines = [
        "# Operators",
        "",
        f"Made by `scripts/operators_page.py` with onnx {onnx.__version__}; do not edit. {len(entries)} operators, of operator sets up to {NEWEST}.",
        "",
        "*Versions* are the operator sets in which an operator changed; all from 7 on are read, and older ones where the "
        "meaning is the same. *Kernel* and *reference* are the element types of the first input, by what compiles the "
        "standard's cases: on a kernel throughout, or with a step by the reference evaluation. *Cases* are the standard's "
        "own with that one node, from model to engine file to result; those that fail are listed with the reason in "
        "`tests/conformance/known_failures.txt`.",
        "",
        f"Of the standard's {len(results)} node cases {sum(not reason for reason in results.values())} pass.",
    ]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(lambda entry: row(entry, nodes, results), entries))
    untitled = {entry["domain"] for entry in entries} - TITLES.keys()
    assert not untitled, f"TITLES has no title for {untitled}"
    for domain, title in TITLES.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| operator | versions | kernel | reference | cases |",
            "|---|---|---|---|---|",
        ]
        lines += [text for entry, text in zip(entries, rows) if entry["domain"] == domain]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    arguments = parser.parse_args()
    text = page()
    if arguments.check:
        sys.exit(0 if PAGE.read_text() == text else f"{PAGE} is not up to date: run scripts/operators_page.py")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
