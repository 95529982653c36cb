"""The page of `camshaft report`: that what it shows is so, and that it can be read and driven in a browser."""

import json
import os
import re
import subprocess

import browser
import large_model
import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, camshaft
from catalog import MODELS

import onnx
from onnx import TensorProto, helper, numpy_helper

NO_RUN = ("--no-run",)
SHORT = ("--duration", "0.1")


@pytest.fixture(scope="module")
def page():
    if browser.BINARY is None:
        pytest.skip("there is no Chromium: `apt-get install chromium` brings one on Debian")
    with browser.chromium() as tab:
        yield tab


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with a model of 60 nodes and one of 3,000, and the page of each."""
    folder = tmp_path_factory.mktemp("pages")
    for nodes in (60, 3000):
        large_model.write(folder / f"{nodes}.onnx", nodes)
        camshaft("report", folder / f"{nodes}.onnx", "-o", folder / f"{nodes}.html", *SHORT)
    return folder


def data_of(path):
    """What the page holds."""
    text = path.read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def assert_clean(page, path):
    assert page.problems == []
    assert page.requests == [path.resolve().as_uri()]


def pressed(page, key, what="views.after.canvas.focus()"):
    page.evaluate(what)
    page.key(key)


# ---- What the page holds ----


def test_it_holds_what_the_engine_says(engine, tmp_path):
    camshaft("report", engine, "-o", tmp_path / "r.html", "--model", MODELS["ppocr_cls"].path(), *SHORT)
    data = data_of(tmp_path / "r.html")
    said = json.loads(camshaft("inspect", engine, "--json").stdout)
    assert data["inspection"] == said
    nodes = onnx.load(MODELS["ppocr_cls"].path(), load_external_data=False).graph.node
    assert [(n["op"], n["inputs"], n["outputs"]) for n in data["model"]["nodes"]] == [
        (n.op_type, list(n.input), list(n.output)) for n in nodes
    ]
    assert len(data["measured"]["layers"]) == len(data["why"]) == len(said["layers"])
    assert all(error["passed"] for error in data["errors"])
    names = {node["name"] for node in data["model"]["nodes"]}
    assert {source for layer in said["layers"] for source in layer["sources"]} <= names


def test_buffers_that_live_at_once_do_not_overlap_unless_one_takes_over(engine, tmp_path):
    camshaft("report", engine, "-o", tmp_path / "r.html", "--threads", 1, *NO_RUN)
    data = data_of(tmp_path / "r.html")
    buffers = data["arena"]
    assert max(b["offset"] + b["bytes"] for b in buffers) == data["inspection"]["memory"]["arena_bytes"]
    for i, a in enumerate(buffers):
        for b in buffers[:i]:
            apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
            first, second = sorted((a, b), key=lambda buffer: buffer["first_step"])
            follows = first["last_step"] <= second["first_step"] and not (first["workspace"] or second["workspace"])
            assert apart or first["last_step"] < second["first_step"] or follows, (a, b)


def test_layers_read_what_the_model_says(tmp_path):
    """A reshape between two products is a view and no layer: the edge passes through it."""
    weights = [numpy_helper.from_array(np.eye(4, dtype=np.float32) + i, f"w{i}") for i in range(2)]
    shape = numpy_helper.from_array(np.array([2, 2, 4]), "shape")
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Reshape", ["a", "shape"], ["b"]),
        helper.make_node("Softmax", ["b"], ["c"], axis=1),
        helper.make_node("MatMul", ["c", "w1"], ["y"]),
    ]
    save(tmp_path / "m.onnx", nodes, {"x": [4, 4]}, {"y": [2, 2, 4]}, [*weights, shape])
    layers = json.loads(camshaft("inspect", tmp_path / "m.onnx", "--json").stdout)["layers"]
    assert [layer["reads"] for layer in layers] == [[], [0], [1]]


def save(path, nodes, inputs, outputs, initializers=()):
    def values(shapes):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in shapes.items()]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def test_the_error_is_of_the_layer_that_is_wrong(tmp_path):
    """An engine of other weights in the middle: what comes behind is judged on what the engine gave it, and is right."""
    rng = np.random.default_rng(1)
    weights = [rng.standard_normal((8, 8), dtype=np.float32) for _ in range(3)]

    def write(name, middle):
        own = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate([weights[0], middle, weights[2]])]
        nodes = [helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"m{i}"], name=f"product{i}") for i in range(3)]
        nodes += [helper.make_node("Tanh", [f"m{i}"], [f"t{i + 1}"], name=f"tanh{i}") for i in range(3)]
        save(tmp_path / name, nodes, {"t0": [4, 8]}, {"t3": [4, 8]}, own)

    write("right.onnx", weights[1])
    write("wrong.onnx", weights[1] * 1.01)
    camshaft("build", tmp_path / "wrong.onnx", "-o", tmp_path / "wrong.engine")
    camshaft("report", tmp_path / "wrong.engine", "--model", tmp_path / "right.onnx", "-o", tmp_path / "r.html", *SHORT)
    failed = [error["output"] for error in data_of(tmp_path / "r.html")["errors"] if not error["passed"]]
    assert failed == ["t2"]


def test_the_report_of_the_build_is_shown(made, page, tmp_path):
    built = camshaft("build", made / "60.onnx", "-o", tmp_path / "e.engine", "--json").stdout
    (tmp_path / "build.json").write_text(built)
    page_file = tmp_path / "r.html"
    camshaft("report", tmp_path / "e.engine", "-o", page_file, "--build-report", tmp_path / "build.json", *NO_RUN)
    assert data_of(page_file)["build"] == json.loads(built)
    page.open(page_file)
    text = page.evaluate("document.getElementById('errors').textContent")
    assert json.loads(built)["verification"][0]["output"] in text and "seed 0" in text
    assert_clean(page, page_file)


def test_an_engine_for_a_gpu(made, page, tmp_path):
    """An emulated one: its figures are the device's, and so are the bounds."""
    build = BINARY.parent.parent
    if not (build / "tests/backends/cuda/emulator/lib/libcuda.so.1").exists():
        pytest.skip("the emulated GPU was not built")
    path, engine = tmp_path / "gpu.html", tmp_path / "gpu.engine"
    script = """set -e
        "$0" build "$1" -o "$2" --device cuda --fp16 --tuning heuristic --no-verify
        "$0" report "$2" --model "$1" -o "$3" --duration 0.05"""
    command = [ROOT / "scripts/emulate_gpu.sh", "bash", "-c", script, BINARY, made / "60.onnx", engine, path]
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "CAMSHAFT_BUILD": str(build)},
    )
    assert done.returncode == 0, done.stderr
    data = data_of(path)
    assert data["device"]["kind"] == "cuda" and data["device"]["name"] == "emulated GPU"
    layers = data["inspection"]["layers"]
    assert len(data["measured"]["layers"]) == len(layers) > 20
    assert any(": f16[" in tensor for layer in layers for tensor in layer["outputs"])
    assert data["errors"] and all(error["passed"] for error in data["errors"])
    page.open(path, dark=True)
    assert_clean(page, path)
    assert "On emulated GPU" in page.evaluate("document.body.innerText")
    assert "at the limits of the device" in page.evaluate("document.getElementById('times').innerText")


@pytest.mark.parametrize("wrong", ["[]", "{}", "no json"])
def test_other_files_are_no_build_report(engine, tmp_path, wrong):
    (tmp_path / "other.json").write_text(wrong)
    done = camshaft("report", engine, "-o", tmp_path / "r.html", "--build-report", tmp_path / "other.json", check=False)
    assert done.returncode == 2 and "not the report of a build" in done.stderr
    assert not (tmp_path / "r.html").exists()


def test_what_it_reads_is_not_overwritten(made):
    model = made / "60.onnx"
    before = model.read_bytes()
    done = camshaft("report", model, "-o", model, check=False)
    assert done.returncode == 2 and model.read_bytes() == before


def test_the_model_of_another_engine_is_refused(engine, made, tmp_path):
    done = camshaft("report", engine, "--model", made / "60.onnx", "-o", tmp_path / "r.html", *SHORT, check=False)
    assert done.returncode == 2 and "is not the model that the engine was built of" in done.stderr
    assert not (tmp_path / "r.html").exists()


# ---- In a browser ----


@pytest.mark.parametrize("nodes", [60, 3000])
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_without_a_complaint_or_a_request(made, page, nodes, dark):
    path = made / f"{nodes}.html"
    page.open(path, dark=dark)
    assert page.evaluate("views.before.boxes.length") == nodes
    assert page.evaluate("views.after.boxes.length") == len(data_of(path)["inspection"]["layers"])
    assert page.evaluate("isDark()") == dark
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert_clean(page, path)


@pytest.mark.parametrize("view", ["before", "after"])
@pytest.mark.parametrize("nodes", [60, 3000])
def test_no_boxes_overlap_and_edges_lead_on(made, page, nodes, view):
    page.open(made / f"{nodes}.html")
    if view == "after":
        page.evaluate("views.after.open(layers.map(l => l.index), true)")
    boxes = page.evaluate(
        f"views.{view}.boxes.map((_, i) => [views.{view}.placed.x[i], views.{view}.placed.y[i], "
        f"views.{view}.height(i)])"
    )
    boxes = sorted((y - high / 2, y + high / 2, x) for x, y, high in boxes)
    for i, (_, bottom, x) in enumerate(boxes):
        for top, _, other in boxes[i + 1 :]:
            if top >= bottom:
                break
            assert abs(x - other) >= 190, "boxes are 190 wide"
    ranks = page.evaluate(
        f"views.{view}.edges.map(([a, b]) => views.{view}.placed.rank[b] - views.{view}.placed.rank[a])"
    )
    assert min(ranks) >= 1


def test_selection_is_marked_on_both_sides(made, page):
    page.open(made / "60.html")
    page.evaluate("selectLayer(1)")
    sources = page.evaluate("layers[1].sources")
    assert len(sources) == 3
    assert page.evaluate("[...views.before.marked].map(i => nodes[i].name)") == sources
    details = page.evaluate("document.getElementById('details').textContent")
    assert all(source in details for source in sources)
    page.evaluate("selectNode(nodes.findIndex(n => n.name == layers[2].sources[0]))")
    assert page.evaluate("[...views.after.marked]") == [2]
    assert page.evaluate("document.querySelector('#times tr[aria-selected] td').textContent") == "2"


def test_the_mouse_selects_opens_and_zooms(made, page):
    page.open(made / "60.html")
    page.evaluate("views.after.canvas.scrollIntoView({ block: 'center' })")
    where = """(() => { const v = views.after, r = v.canvas.getBoundingClientRect();
        return [r.left + (v.placed.x[0] - v.left) * v.scale, r.top + (v.placed.y[0] - v.top) * v.scale] })()"""
    x, y = page.evaluate(where)
    page.click(x, y)
    assert page.evaluate("selectedLayer") == 0
    scale = page.evaluate("views.after.scale")
    page.wheel(x, y, -200)
    assert page.evaluate("views.after.scale") > scale
    moved_x, moved_y = page.evaluate(where)
    assert abs(moved_x - x) < 1 and abs(moved_y - y) < 1, "what is under the pointer stays there"


def test_it_is_driven_by_keys(made, page):
    path = made / "60.html"
    page.open(path)
    pressed(page, "ArrowDown")
    first = page.evaluate("selectedLayer")
    assert page.evaluate("layers[selectedLayer].reads") == []
    page.key("ArrowDown")
    second = page.evaluate("selectedLayer")
    assert first in page.evaluate("layers[selectedLayer].reads")
    page.key("ArrowUp")
    assert page.evaluate("selectedLayer") == first != second
    page.key("Enter")
    assert page.evaluate("views.after.opened.has(selectedLayer)")
    page.key("Enter")
    assert not page.evaluate("views.after.opened.has(selectedLayer)")
    scale = page.evaluate("views.after.scale")
    page.key("+")
    assert page.evaluate("views.after.scale") > scale
    assert f"Layer {first}" in page.evaluate("spoken.textContent"), "screen readers are told"
    page.key("?")
    assert page.evaluate("keys.open")
    page.key("Escape")
    assert not page.evaluate("keys.open")
    page.key("d")
    assert page.evaluate("isDark()")
    page.key("d")
    assert not page.evaluate("isDark()")
    assert_clean(page, path)


def test_tab_comes_to_every_part(made, page):
    page.open(made / "60.html")
    seen = set()
    for _ in range(80):
        page.key("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-label')"))
    assert {"search", "theme", "help", "paint", "before", "after", "details", "Layers"} <= seen


def test_search_finds_layers_by_the_nodes_in_them(made, page):
    page.open(made / "3000.html")
    page.key("/")
    assert page.evaluate("document.activeElement.id") == "search"
    wanted = page.evaluate("nodes.findLast(n => n.op == 'Mul').name")
    page.type(wanted.upper())
    assert page.evaluate("hitsText.textContent") == "1"
    page.key("Enter")
    assert wanted in page.evaluate("layers[selectedLayer].sources")
    box = page.evaluate(
        "(() => { const v = views.after, s = v.size(), i = selectedLayer; return [(v.placed.x[i] - v.left)"
        " * v.scale / s.width, (v.placed.y[i] - v.top) * v.scale / s.height] })()"
    )
    assert all(0 < part < 1 for part in box), "what is found is in view"
    page.evaluate("search.value = 'no such name'; find()")
    assert page.evaluate("hitsText.textContent") == "0"


def test_tables_sort(made, page):
    page.open(made / "60.html")
    column = "[...document.querySelectorAll('#times tbody tr')].map(r => r.cells[{}].textContent)"
    page.evaluate("document.querySelectorAll('#times th button')[0].click()")
    numbers = [int(text) for text in page.evaluate(column.format(0))]
    assert numbers == sorted(numbers, reverse=True)
    page.evaluate("document.querySelectorAll('#times th button')[1].click()")
    names = page.evaluate(column.format(1))
    assert names == sorted(names)


def test_the_theme_follows_the_system_until_one_is_chosen(made, page):
    page.open(made / "60.html", dark=True)
    back = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(back)
    page.evaluate("theme.click()")
    assert page.evaluate(back) != dark
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.evaluate(back) != dark


HOSTILE = [
    "</script><script>window.hurt=1</script>",
    "<!--<script>",
    "<img src=x onerror=window.hurt=2>",
    "\"'><svg onload=window.hurt=3>",
    "/*script*/window.hurt=4",
    "/*data*/ /*style*/",
    "${window.hurt=5}",
    "\u2028window.hurt=6//",
    "javascript:window.hurt=7",
    "__proto__",
    "constructor",
    "a\nb\tc\\",
]


def test_names_are_text_whatever_they_hold(page, tmp_path):
    nodes, x = [], "x"
    for name in HOSTILE:
        nodes.append(helper.make_node("Softmax", [x], [name], name="node " + name))
        x = name
    save(tmp_path / "m.onnx", nodes, {"x": [2, 3]}, {x: [2, 3]})
    path = tmp_path / "r.html"
    camshaft("report", tmp_path / "m.onnx", "-o", path, *SHORT)
    page.open(path)
    page.evaluate("layers.forEach(l => selectLayer(l.index)); nodes.forEach(n => selectNode(n.index))")
    page.frame()
    assert page.evaluate("window.hurt === undefined")
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    assert page.evaluate("nodes.map(n => n.outputs[0])") == HOSTILE
    shown = page.evaluate("document.getElementById('times').textContent")
    for name in HOSTILE:
        assert name in shown
    assert_clean(page, path)
