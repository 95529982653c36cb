#!/usr/bin/env python3
"""Writes what checkers and editors know of camshaft's options, operators and names, from what the built module says of
itself: `scripts/build.sh release camshaft_python && scripts/python_types.py`. Tests hold the files to it."""

import enum
import inspect
import json
import keyword
import os
import re
import subprocess
import sys
import textwrap

import project_python

project_python.use()

ROOT = project_python.HOME.parent
sys.path.insert(0, os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")))

import camshaft  # noqa: E402
import camshaft.jobs  # noqa: E402
import camshaft.tensorrt  # noqa: E402
from camshaft import _native, _network  # noqa: E402

PACKAGE = ROOT / "python/camshaft"
HEAD = "Made by scripts/python_types.py from what the library says of itself."


def main():
    for path, text in files().items():
        path.write_text(text)


def files():
    """{path: text} of what is made, as ruff formats it."""
    made = {
        PACKAGE / "_options.py": options_text(),
        PACKAGE / "jobs/_keys.py": keys_text(),
        PACKAGE / "_operators.pyi": operators_text(),
        PACKAGE / "tensorrt/__init__.pyi": tensorrt_text(),
    }
    return {path: formatted(path, text) for path, text in made.items()}


def formatted(path, text):
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", path]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def docstring(text, indent="    "):
    """The text as a docstring of lines that are not too long."""
    lines = textwrap.wrap(text.replace("\\", "\\\\"), 110)
    return "\n".join(indent + line if line else "" for line in f'"""{chr(10).join(lines)}"""'.splitlines())


# Options.

OF_KIND = {"boolean": "bool", "integer": "int", "number": "float", "text": "str | os.PathLike[str]"}


def options_text():
    """A TypedDict of the options of a build, and one of a calibration's."""
    lines = [f'"""Options as keywords. {HEAD}"""', "", "from __future__ import annotations", ""]
    lines += ["import os", "from collections.abc import Sequence", "from typing import Literal, TypedDict", ""]
    for what in ("build", "calibration"):
        lines += ["", f"class {what.title()}Options(TypedDict, total=False):"]
        lines += [
            f'    """Of a {what}, but for those that are arguments of their own. None is as if it were not given."""',
            "",
        ]
        for option in camshaft.options(what):
            if option["name"] != "calibration":  # which build() takes in more forms
                lines += [f"    {option['name'].replace('-', '_')}: {type_of(option)} | None"]
                lines += [docstring(option["description"] + ".")]
        lines += [""]
    return "\n".join(lines)


def type_of(option):
    if "choices" in option:
        return f"Literal[{', '.join(map(json.dumps, option['choices']))}]"
    return "str | Sequence[str]" if option["kind"] == "list" else OF_KIND[option["kind"]]


# Keys of jobs.

OF_REFERENCE = {
    "path": "str | os.PathLike[str]",
    "flag": "bool",
    "count": "int",
    "counts": "Sequence[int]",
    "shapes": "Sequence[int] | str | Mapping[str, Sequence[int] | str]",
}
OF_JSON = {"string": "str | os.PathLike[str]", "number": "float", "integer": "int", "object": "Mapping[str, Any]"}


def keys_text():
    """A TypedDict of what a job may have."""
    lines = [f'"""Keys of jobs, as keywords. {HEAD}"""', "", "from __future__ import annotations", ""]
    lines += [
        "import os",
        "from collections.abc import Mapping, Sequence",
        "from typing import Any, Literal, TypedDict",
        "",
    ]
    lines += ["", "class JobKeys(TypedDict, total=False):"]
    lines += ['    """Those of every operation. None is as if it were not given."""', ""]
    for name, rule in camshaft.jobs.schema()["properties"].items():
        if name not in ("$schema", "operation"):
            lines += [f"    {name}: {type_of_rule(rule)} | None", docstring(rule["description"])]
    return "\n".join([*lines, ""])


def type_of_rule(rule):
    if "$ref" in rule:
        return OF_REFERENCE[rule["$ref"].rsplit("/", 1)[1]]
    if "enum" in rule:
        return f"Literal[{', '.join(map(json.dumps, rule['enum']))}]"
    if "anyOf" in rule:
        return " | ".join(type_of_rule(choice) for choice in rule["anyOf"])
    if rule["type"] == "array":
        of_items = {key: item for key, item in rule["items"].items() if key != "additionalProperties"}
        return f"Sequence[{type_of_rule(of_items)}]"
    return OF_JSON[rule["type"]]


# Operators of networks.

CLASSES = {"": "Onnx", "ai.onnx.ml": "Ml", "com.microsoft": "Microsoft", "ai.onnx.preview": "Preview"}
# By ONNX's numbers of the types of attributes.
OF_ATTRIBUTE = {
    1: "float",
    2: "SupportsIndex",
    3: "str | bytes",
    4: "Operand",
    5: "Body",
    6: "Sequence[float]",
    7: "Sequence[SupportsIndex]",
    8: "Sequence[str | bytes]",
    13: "str",
}


def operators_text():
    """A class for each domain, with a method for each operator."""
    lines = [f'"""The operators that networks have. {HEAD}"""', "", "from collections.abc import Sequence"]
    lines += ["from typing import Any, SupportsIndex", ""]
    lines += ["from camshaft._types import Body, DType, Names, Operand", "from camshaft._values import Value", ""]
    network = camshaft.Network()
    known = json.loads(_native.list_operators())
    for domain, name in CLASSES.items():
        names = sorted({k["operator"] for k in known if k["domain"] == (domain or "ai.onnx")})
        lines += ["", f"class {name}Operators:"]
        for operator in names:
            lines += [method(network._schema(domain, operator))]
        lines += [""]
    return "\n".join(lines)


def method(schema):
    parameters, star = ["self"], False
    types = {a["name"]: OF_ATTRIBUTE.get(a["type"], "Any") for a in schema["attributes"]}
    types.update({name: "DType" for name in types if name == "to" or name.endswith("dtype")})
    for p in _network._signature(schema).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            parameters.append(f"*{p.name}: Operand | None")
            star = True
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parameters.append("*")
            star = True
        given = "Operand" if p.kind is p.POSITIONAL_OR_KEYWORD else types.get(p.name, OF_WORD.get(p.name))
        optional = "" if p.default is p.empty else " = None" if p.name == "outputs" else " | None = None"
        assert not keyword.iskeyword(p.name), (schema["operator"], p.name)
        parameters.append(f"{p.name}: {given}{optional}")
    results = schema["outputs"]
    gives = "Value" if len(results) == 1 and results[0]["count"] == "one" else "Any"
    text = _network._described(schema).split("\n")[0]
    return f"    def {schema['operator']}({', '.join(parameters)}) -> {gives}:\n" + docstring(text, "        ")


OF_WORD = {"name": "str", "outputs": "Names"}


# Names of the interface for TensorRT.


def tensorrt_text():
    """Every name of camshaft.tensorrt: classes with their members, enumerations with theirs; types are not known."""
    module = camshaft.tensorrt
    lines = [f'"""The names of camshaft.tensorrt. {HEAD}"""', "", "import enum", "from typing import Any", ""]
    functions, values = [], []
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") and name != "__version__" or inspect.ismodule(value):
            continue
        if inspect.isclass(value) and value.__name__ == name:
            lines += ["", class_text(value)]
        elif inspect.isclass(value):
            values.append(f"{name} = {value.__name__}")
        elif isinstance(value, enum.Enum):
            values.append(f"{name} = {type(value).__name__}.{value.name}")
        elif inspect.isfunction(value):
            functions.append(function_text(name, value, ""))
        else:
            values.append(f"{name}: {type(value).__name__}")
    return "\n".join([*lines, "", *values, "", *functions, ""])


def class_text(kind, indent=""):
    inner = indent + "    "
    if issubclass(kind, enum.IntEnum):
        names = kind.__members__
        lines = [f"{inner}{name} = {int(member)}" for name, member in names.items()]
        found = {name: member for name, member in sorted(vars(kind).items()) if name not in names}
        base = "enum.IntEnum"
    else:
        lines, found = [], dict(members(kind))
        bases = [base for base in kind.__mro__[1:] if is_public(base) or base.__module__ == "builtins"]
        base = bases[0].__name__.replace("object", "")
    lines += [text for name, member in found.items() if (text := member_text(name, member, inner))]
    lines += [f"{inner}{name}: Any" for name in assigned(kind) if name not in found]
    head = f"{indent}class {kind.__name__}{f'({base})' if base else ''}:"
    return "\n".join([head, *(lines or [inner + "..."])])


def assigned(kind):
    """Public attributes that its methods, or those of bases without a public name, give an instance."""
    names = set()
    for base in kind.__mro__:
        if base is kind or (base.__module__.startswith("camshaft") and not is_public(base)):
            for method in vars(base).values():
                if inspect.isfunction(method):
                    names |= set(re.findall(r"\bself\.([a-z]\w*)(?=(?:, self\.\w+)* = )", inspect.getsource(method)))
    return sorted(names)


def is_public(kind):
    return getattr(camshaft.tensorrt, kind.__name__, None) is kind


def members(kind):
    """Its own, and those of the bases that have no public name."""
    found = {}
    for base in reversed(kind.__mro__):
        if base is kind or (base.__module__.startswith("camshaft") and not is_public(base)):
            found.update(vars(base))
    return sorted(found.items())


SPECIAL = ("__init__", "__call__", "__len__", "__getitem__", "__setitem__", "__iter__", "__enter__", "__exit__")


def member_text(name, member, indent):
    if name.startswith("_") and name not in SPECIAL:
        return None
    if isinstance(member, property):
        text = f"{indent}@property\n{indent}def {name}(self) -> Any: ..."
        return text + (
            f"\n{indent}@{name}.setter\n{indent}def {name}(self, value: Any) -> None: ..." if member.fset else ""
        )
    if isinstance(member, (staticmethod, classmethod)):
        return f"{indent}@{type(member).__name__}\n" + function_text(name, member.__func__, indent)
    if inspect.isfunction(member):
        return function_text(name, member, indent)
    if inspect.isclass(member) and not is_public(member):
        return class_text(member, indent)
    return f"{indent}{name}: Any"


def function_text(name, function, indent):
    parameters, star = [], False
    for index, p in enumerate(inspect.signature(function).parameters.values()):
        if index == 0 and p.name in ("self", "cls"):
            parameters.append(p.name)
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parameters.append("*")
            star = True
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        star = star or mark == "*"
        parameters.append(f"{mark}{p.name}: Any" + ("" if p.default is p.empty else " = ..."))
    gives = "None" if name == "__init__" else "Any"
    return f"{indent}def {name}({', '.join(parameters)}) -> {gives}: ..."


if __name__ == "__main__":
    main()
