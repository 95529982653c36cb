"""A program of somebody else finds the installed library with find_package and runs a model with it."""

import subprocess

import pytest
from camshaft_cli import BINARY, ROOT

import onnx
from onnx import TensorProto, helper


def command(*arguments, **options):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """examples/, built outside the source tree against an install tree alone."""
    folder = tmp_path_factory.mktemp("install")
    command("cmake", "--install", BINARY.parent.parent, "--component", "library", "--prefix", folder / "prefix")
    # The install tree is found from where it is, not from where it was made for.
    (folder / "prefix").rename(folder / "moved")
    (folder / "app").mkdir()
    programs = ["minimal.cpp", "plugins/swish.cpp", "plugins/mish_cuda.cpp", "pytorch/pt2.h", "pytorch/pt2.cpp"]
    for name in ["CMakeLists.txt", *programs, "pytorch/run_pt2.cpp"]:
        (folder / "app" / name).parent.mkdir(exist_ok=True)
        (folder / "app" / name).write_bytes((ROOT / "examples" / name).read_bytes())
    build = ["cmake", "-G", "Ninja", "-S", folder / "app", "-B", folder / "build"]
    command(*build, "-D", f"CMAKE_PREFIX_PATH={folder / 'moved'}", "-D", "CMAKE_BUILD_TYPE=Release")
    command("cmake", "--build", folder / "build")
    return folder / "build" / "minimal"


@pytest.fixture
def model(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor("w", TensorProto.FLOAT, [3, 4], list(range(12)))],
    )
    path = tmp_path / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_builds_saves_loads_and_runs(program, model):
    assert command(program, model) == "y: f32 [ 1 4 ]\n"
    assert command(program, model.with_suffix(".engine")) == "y: f32 [ 1 4 ]\n"


def test_a_plugin_needs_the_installed_headers_alone(program, tmp_path):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Swish", ["x"], ["y"], domain="example")], "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
    model = tmp_path / "swish.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), model)
    text = command(BINARY, "build", model, "-o", tmp_path / "a.engine", "--plugin", program.parent / "swish.so")
    assert "has no reference evaluation" not in text


def test_errors_cross_the_boundary(program, tmp_path):
    absent = tmp_path / "absent.engine"
    done = subprocess.run([program, absent], capture_output=True, text=True)
    assert done.returncode == 1
    assert str(absent) in done.stderr


def test_example_is_short():
    assert len((ROOT / "examples" / "minimal.cpp").read_text().splitlines()) <= 40
