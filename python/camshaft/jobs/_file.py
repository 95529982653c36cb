"""Reading what a job is to do, and saying where it is wrong."""

from __future__ import annotations

import difflib
import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from camshaft._errors import FileError, InvalidArgumentError

if TYPE_CHECKING:
    from camshaft._types import Record


class JobError(InvalidArgumentError):
    """What is wrong with a job: the file and line, the key, what is expected there."""


def schema(of: Literal["job", "report"] = "job") -> Record:
    """The JSON schema (draft 2020-12) of a "job" or of its "report"."""
    names = {"job": "schema.json", "report": "report.schema.json"}
    if of not in names:
        raise ValueError(f"{of!r}: there are schemas of a {' and of a '.join(names)}")
    return json.loads(Path(__file__).with_name(names[of]).read_text())


def read_job(path):
    """The mapping that a YAML or JSON file holds, as it is, and the lines of its keys: {(key, …): line}."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise JobError(f"{path}: a job is a YAML or JSON file of text in UTF-8") from None
    except OSError as error:
        raise FileError(f"{path}: the job cannot be read: {error.strerror}") from None
    if Path(path).suffix.lower() == ".json":
        try:  # tells better than YAML what is wrong with JSON
            json.loads(text)
        except ValueError as error:
            raise JobError(f"{path}: not JSON: {error}") from None
    yaml = _package("yaml", "PyYAML")
    try:
        root = yaml.compose(text, Loader=_loader(yaml))
        lines = {}
        job = _value(root, (), lines, path, yaml)
    except RecursionError:
        raise JobError(f"{path}: not a job: an anchor holds itself, or lists are nested without end") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else path
        raise JobError(f"{place}: not YAML: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(job, dict):
        raise JobError(f"{path}: a job is a map of keys and values, as 'onnx_path: model.onnx'")
    return job, lines


def check_job(job, path="job", lines=None):
    """Raises JobError, one line for each thing that is wrong, where a mapping is no job."""
    validator = _package("jsonschema", "jsonschema").Draft202012Validator(schema())
    found = sorted(validator.iter_errors(job), key=lambda error: [str(part) for part in error.absolute_path])
    complaints = [line for error in found for line in _complaints(error, job, path, lines or {})]
    complaints = sorted(complaints, key=_line_of) + list(_missing(job, path))
    if complaints:
        raise JobError("\n".join(dict.fromkeys(complaints)))


def _complaints(error, job, path, lines):
    where = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        for key in error.instance:
            if key not in known:
                near = difflib.get_close_matches(str(key).lower().replace("-", "_"), known, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(known)}"
                yield f"{_place(path, lines, (*where, key))}: unknown key '{_dotted((*where, key))}'; {hint}"
    elif error.validator == "required":
        absent = [key for key in error.validator_value if key not in error.instance]
        yield f"{_place(path, lines, where)}: '{_dotted(where)}' lacks {', '.join(absent)}"
    else:
        if error.validator == "anyOf" and isinstance(error.instance, (dict, list)):  # which item of it is wrong
            deepest = max(error.context, key=lambda inner: len(inner.absolute_path))
            if isinstance(error.instance, dict) and len(deepest.absolute_path) > len(where):
                yield from _complaints(deepest, job, path, lines)
                return
        given = json.dumps(error.instance, default=str)
        given = given if len(given) <= 60 else given[:57] + "…"
        yield f"{_place(path, lines, where)}: '{_dotted(where)}' must be {_expected(where)}, not {given}"


def _missing(job, path):
    """What an operation needs, and what contradicts itself."""
    operation = job.get("operation", "convert")
    if operation == "benchmark":
        if "onnx_path" not in job and "engines" not in job:
            yield f"{path}: benchmark needs the key 'onnx_path', 'engines', or both"
    elif "onnx_path" not in job:
        yield f"{path}: {operation} needs the key 'onnx_path', the model"
    if operation == "calibrate":
        for key, what in [("calibration_data", "the data"), ("calibration_cache", "the file to write")]:
            if key not in job:
                yield f"{path}: calibrate needs the key '{key}', {what}"
    shapes = [key for key in ("min_shape", "opt_shape", "max_shape") if key in job]
    if "profiles" in job and shapes:
        yield f"{path}: give 'profiles', or {', '.join(shapes)}, not both"
    if len(shapes) == 1 and shapes != ["opt_shape"] or len(shapes) == 2 and "opt_shape" in shapes:
        yield f"{path}: {' and '.join(shapes)} alone: give min_shape, opt_shape and max_shape, or opt_shape for one size"
    elif len(shapes) == 2:
        yield f"{path}: min_shape and max_shape need opt_shape, the size to tune for"


def _expected(where):
    """What the schema expects at a place."""
    whole = schema()
    node, text = whole, "a map of keys and values"
    for depth, part in enumerate(where):
        if node.get("$ref", "").endswith("/shapes") and depth:
            return whole["$defs"]["shape"]["expects"]
        node = _resolved(whole, node)
        node = (
            node.get("properties", {}).get(part) or node.get("items")
            if not isinstance(part, int)
            else node.get("items")
        )
        if not isinstance(node, dict):
            break  # below what is described as a whole
        text = node.get("expects") or _resolved(whole, node).get("expects") or text
    return text


def _resolved(whole, node):
    return whole["$defs"][node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node


def _dotted(where):
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")


def _line_of(complaint):
    """Of the file, which a complaint names in front where it is known; 0: it is not."""
    line = complaint.split(": ", 1)[0].rpartition(":")[2]
    return int(line) if line.isdecimal() else 0


def _place(path, lines, where):
    while where and where not in lines:
        where = where[:-1]
    return f"{path}:{lines[where]}" if where in lines else str(path)


def _value(node, where, lines, path, yaml):
    """What a node of YAML holds; a key that is given twice is an error, which YAML's loaders let pass."""
    if node is None:
        return None
    lines.setdefault(where, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        made = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in made:
                raise JobError(f"{path}:{line}: the key '{_dotted((*where, name))}' is given twice")
            lines[(*where, name)] = line
            made[name] = _value(value, (*where, name), lines, path, yaml)
        return {key: value for key, value in made.items() if value is not None}  # "key:" is as if it were not there
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*where, index), lines, path, yaml) for index, item in enumerate(node.value)]
    return _scalar(node, yaml)


def _scalar(node, yaml):
    loader = _loader(yaml)("")
    try:
        return loader.construct_object(node)
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None
    finally:
        loader.dispose()


@functools.lru_cache(None)
def _loader(yaml):
    """YAML's safe loader with the scalars of YAML 1.2: 1e-3 is a number, and no text a date or a number to base 60."""
    import re

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {}

    for tag, pattern, first in [
        ("bool", r"^(?:true|True|TRUE|false|False|FALSE|yes|Yes|no|No|on|On|off|Off)$", "tTfFyYnNoO"),
        ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
        ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
        ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ]:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
    return Loader


def _package(name, of):
    try:
        return __import__(name)
    except ModuleNotFoundError:
        raise InvalidArgumentError(f"jobs need the package {of}: pip install 'camshaft[jobs]'") from None


def existing(path, what, job_path=None):
    """A path that is there; says where it was looked for."""
    if os.path.exists(path):
        return path
    message = f"{path}: {what} is not there"
    if not os.path.isabs(path):
        message += f"; paths are taken from the folder that the command runs in, {os.getcwd()}"
        beside = Path(job_path).resolve().parent / path if job_path else None
        if beside and beside.exists():
            message += f"; there is {beside}, beside the job"
    raise FileError(message)
