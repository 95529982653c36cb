"""What depends on no input is not computed in each run: of constants alone when the model is built, of sizes too when its
shapes are bound.

The optimised graph is read for it, not what the plan says of itself.
"""

import json
import re

import pytest
from camshaft_cli import camshaft
from catalog import EVERY

NAME = r'%(?:"(?:[^"\\]|\\.)*"|[^\s,():]+)'
NODE = re.compile(
    rf"  (?P<results>{NAME}: .*?) = (?P<op>\w+) .*?\((?P<operands>(?:(?:{NAME}|-)(?:, )?)*)\)(?: from .*)?"
)


def names(text):
    return [name[1:].strip('"') for name in re.findall(NAME, text)]


def constant_nodes(graph):
    """{result: operator} of the nodes that depend on no input: nor do their sizes, whose names begin with @ where only
    running tells them."""
    lines = graph.splitlines()
    changing = set(names(re.sub(r": \w+\[[^\]]*\]", "", lines[0])))
    found = {}
    for line in lines[1:]:
        node = NODE.fullmatch(line)
        if not node:
            assert line.startswith(("  const ", "  return", "   ", "}")), line
            continue
        results = [name[1:].strip('"') for name in re.findall(rf"({NAME}): ", node["results"])]
        if "@" in node["results"] or changing.intersection(names(node["operands"])):
            changing.update(results)
        else:
            found[results[0]] = node["op"]
    return found


def outputs(graph):
    return set(names(graph.splitlines()[-2]))


def inspected(path):
    done = camshaft("inspect", "--json", "--graph", path)
    return json.loads(done.stdout)


def built(name, folder, *options):
    engine = folder / f"{name}.engine"
    camshaft("build", EVERY[name].path(), "-o", engine, "--no-verify", "--tuning", "heuristic", *options)
    return engine


def test_constant_nodes_are_seen():
    graph = """graph "g" (%x: f32[n, 3], %"y (2)": i64[]) {
  const %a: f32[3] = 1
  %b: f32[3] = pointwise {function=sin} (%a) from "Sin (1)"
  %c: f32[n, 3] = expand {shape=shape(n, 3)} (%b)
  %d: f32[n, 3], %"e.1": f32[3] = region {kind=pointwise} (%c, %x)
      graph (%x: f32[n, 3]) {
        %z: f32[n, 3] = pointwise {function=sin} (%x)
        return %z
      }
  %f: f32[3, n] = reshape {shape=shape(3, n)} (%c)
  %i: f32["@m"] = expand {shape=shape("@m")} (%a)
  %j: f32["@m"] = pointwise {function=neg} (%i)
  %g: i64[] = pointwise {function=neg} (%"y (2)")
  %h: f32[3] = random {shape=shape(3), seed=1} ()
  return "d" = %d, "e" = %"e.1", %f
}
"""
    assert constant_nodes(graph) == {"b": "pointwise", "c": "expand", "f": "reshape", "h": "random"}
    assert {"d", "e.1", "f"} <= outputs(graph)


def shapes_of(feed):
    return [f"--shapes={name}:{'x'.join(map(str, array.shape))}" for name, array in feed.items() if array.ndim]


MODELS = [pytest.param(model.name, marks=[] if model.quick else pytest.mark.large) for model in EVERY.values()]


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_left_of_constants(name, tmp_path):
    seen = inspected(built(name, tmp_path, *shapes_of(EVERY[name].feed())))
    assert constant_nodes(seen["graph"]) == {}
    assert [layer["name"] for layer in seen["layers"] if layer["at_binding"]] == []


@pytest.mark.parametrize("name", MODELS)
def test_what_depends_on_sizes_is_computed_once(name):
    seen = inspected(EVERY[name].path())
    constant = constant_nodes(seen["graph"])
    each_time = {layer["name"] for layer in seen["layers"] if layer["name"] in constant and not layer["at_binding"]}
    assert each_time <= outputs(seen["graph"])
