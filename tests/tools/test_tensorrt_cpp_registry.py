"""The registry of plugins in C++: one for the process, whichever libraries have creators."""

import json
import subprocess

import numpy as np
import pytest
from camshaft_cli import ROOT, camshaft, run
from test_plugins import model_of, numbers
from test_tensorrt_cpp_creators import program
from test_tensorrt_cpp_plugins import SOURCES, compiled

from onnx import TensorProto, helper

SHARED = SOURCES / "shared.cpp"

FUNCTIONS = """
def library(path, mode=ctypes.DEFAULT_MODE):
    loaded = ctypes.CDLL(path, mode=mode)
    for name in ("registerTwice", "registerThrice", "registerTwiceAgain", "deregister", "deregisterTwice", "others"):
        getattr(loaded, name).restype = ctypes.c_bool
    for name in ("find", "acquire", "load"):
        getattr(loaded, name).restype = ctypes.c_void_p
    loaded.unload.argtypes = [ctypes.c_void_p]
    return loaded

def names():
    return sorted((c.name, c.plugin_namespace) for c in registry.all_creators if c.name in ("Twice", "Stretch"))
"""


def twice_model(path, **attributes):
    node = helper.make_node("Twice", ["x"], ["y"], domain="my", **attributes)
    return model_of(path, [node], [("x", TensorProto.FLOAT, ["n", 3])], [("y", TensorProto.FLOAT, ["n", 3])], ["my"])


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    made = {"stretch": compiled(SOURCES / "stretch.cpp", folder / "stretch.so")}
    for name, flags in {
        "twice": [],
        "other": ['-DNAME="Other"'],
        "creators": ["-DBY_CREATORS"],
        "other_creators": ["-DBY_CREATORS", '-DNAME="Other"'],
        "init": ["-DBY_INIT"],
        "throws": ["-DTHROWS"],
        "old": ["-DNV_TENSORRT_MAJOR=8", '-DNAME="Old"'],
    }.items():
        made[name] = compiled(SHARED, folder / f"{name}.so", *flags)
    return made


@pytest.mark.parametrize("major", [8, 10])
@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++20"])
@pytest.mark.parametrize("source", ["shared", "columns"])
def test_sources_of_older_standards_compile(tmp_path, source, standard, major):
    """Those of TensorRT 8's time are compiled as C++11 and C++14."""
    flags = [f"-DNV_TENSORRT_MAJOR={major}", "-fsyntax-only"]
    compiled(SOURCES / f"{source}.cpp", tmp_path / "x.so", *flags, standard=standard)


@pytest.mark.parametrize("mode", ["DEFAULT_MODE", "RTLD_GLOBAL"])
def test_libraries_find_each_other_s_creators(libraries, mode):
    program(
        FUNCTIONS
        + f"""
mode = ctypes.{mode}
first, second = library({str(libraries["twice"])!r}, mode), library({str(libraries["other"])!r}, mode)
assert first.others() and second.others()
assert not first.find(b"Stretch", b"")
ctypes.CDLL({str(libraries["stretch"])!r}, mode=mode)
assert first.find(b"Stretch", b"") and first.find(b"Stretch", b"") == second.find(b"Stretch", b"")
assert first.count(b"Stretch") == second.count(b"Stretch") == 11
assert first.registerTwice(b"corp") and not first.registerTwice(b"corp")
assert second.find(b"Twice", b"corp") == first.find(b"Twice", b"corp") and not second.find(b"Twice", b"")
assert second.count(b"Twice") == 1 and names() == [("Stretch", ""), ("Twice", "corp")], names()
assert registry.get_creator("Twice", "1", "corp") and not registry.get_creator("Twice", "1", "")
assert first.registerTwice(b"") and names() == [("Stretch", ""), ("Twice", ""), ("Twice", "corp")], names()
assert second.deregister(b"Twice", b"corp") and not first.find(b"Twice", b"corp") and not first.find(b"Twice", b"")
assert not second.deregister(b"Twice", b"corp") and names() == [("Stretch", "")], names()
assert registry.deregister_creator(registry.get_creator("Stretch", "1", "")) and not first.find(b"Stretch", b"")
one = first.acquire(b"k")
assert one and one == second.acquire(b"k") and second.acquire(b"other") != one
assert [first.release(b"k"), second.release(b"k"), first.release(b"k")] == [0, 0, -1]
"""
    )


def test_libraries_of_other_sizes_are_apart(libraries):
    """TensorRT 8's plugins, whose classes are others, are found from Python alone."""
    program(
        FUNCTIONS
        + f"""
old, new = library({str(libraries["old"])!r}), library({str(libraries["twice"])!r})
assert old.registerTwice(b"") and new.registerTwice(b"")
assert old.count(b"Twice") == 0 and new.count(b"Old") == 0
assert registry.get_creator("Old", "1", "") and registry.get_creator("Twice", "1", "")
"""
    )


def test_what_a_function_registers_in_a_namespace_is_meant_by_it(libraries, tmp_path):
    model = twice_model(tmp_path / "m.onnx", plugin_namespace="corp")
    program(
        FUNCTIONS
        + f"""
library({str(libraries["twice"])!r}).registerTwice(b"corp")
parsed({str(model)!r})
x = np.ones((2, 3), np.float32)
np.testing.assert_array_equal(camshaft.build({str(model)!r})(x), 2 * x)
"""
    )


def test_a_creator_that_was_deregistered_is_not_meant_any_more(libraries, tmp_path):
    model = twice_model(tmp_path / "m.onnx")
    program(
        FUNCTIONS
        + f"""
def refused():
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert not parser.parse_from_file({str(model)!r}) and "Twice" in str(parser.get_error(0))
    try:
        camshaft.build({str(model)!r})
        return False
    except camshaft.Error as error:
        return "Twice" in str(error)

loaded = library({str(libraries["twice"])!r})
for by in ("C++", "Python"):
    assert loaded.registerTwice(b"")
    parsed({str(model)!r})
    engine = camshaft.build({str(model)!r})
    creator = registry.get_creator("Twice", "1", "")
    assert loaded.deregister(b"Twice", b"") if by == "C++" else registry.deregister_creator(creator)
    assert registry.get_creator("Twice", "1", "") is None and not loaded.find(b"Twice", b"")
    assert refused()
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(engine.create_context().run({{"x": x}})["y"], 2 * x)
    np.testing.assert_array_equal(camshaft.Engine(engine.to_bytes(weights=True))(x), 2 * x)
assert registry.register_creator(creator) and loaded.find(b"Twice", b"")
parsed({str(model)!r})
"""
    )


def test_another_creator_takes_the_place_of_one_that_was_deregistered(libraries, tmp_path):
    model = twice_model(tmp_path / "m.onnx")
    program(
        FUNCTIONS
        + f"""
class Thrice(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    plugin_name, plugin_version, plugin_namespace, num_outputs = "Twice", "1", "", 1
    def __init__(self):
        for kind in (trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
            kind.__init__(self)
    def get_capability_interface(self, kind): return self
    def clone(self): return Thrice()
    def attach_to_context(self, context): return self.clone()
    def get_output_data_types(self, types): return [types[0]]
    def get_output_shapes(self, inputs, shapes, builder): return [trt.DimsExprs(inputs[0])]
    def get_fields_to_serialize(self): return trt.PluginFieldCollection()
    def supports_format_combination(self, pos, descs, inputs): return descs[pos].desc.type == trt.float32
    def configure_plugin(self, inputs, outputs): pass
    def on_shape_change(self, inputs, outputs): pass
    def get_workspace_size(self, *descs): return 0
    def enqueue(self, in_descs, out_descs, inputs, outputs, workspace, stream):
        count = int(np.prod(in_descs[0].dims))
        of = lambda at: np.ctypeslib.as_array((ctypes.c_float * count).from_address(at))
        of(outputs[0])[:] = 3 * of(inputs[0])

class Creator(trt.IPluginCreatorV3One):
    name, plugin_version, plugin_namespace = "Twice", "1", ""
    field_names = trt.PluginFieldCollection()
    def create_plugin(self, name, fields, phase): return Thrice()

loaded, ours, x = library({str(libraries["twice"])!r}), Creator(), np.ones((2, 3), np.float32)
assert loaded.registerTwice(b"") and not registry.register_creator(ours)
twice = camshaft.build({str(model)!r})
assert registry.deregister_creator(registry.get_creator("Twice", "1", "")) and registry.register_creator(ours)
thrice = camshaft.build({str(model)!r})
assert registry.deregister_creator(ours) and not registry.deregister_creator(ours)
assert loaded.registerTwice(b"") and registry.get_creator("Twice", "1", "")
again = camshaft.build({str(model)!r})
for engine, factor in ((twice, 2), (thrice, 3), (again, 2)):
    np.testing.assert_array_equal(camshaft.Engine(engine.to_bytes(weights=True))(x), factor * x)
"""
    )


@pytest.mark.parametrize("kind", ["creators", "init"])
def test_libraries_that_register_by_a_function(libraries, tmp_path, kind):
    """Of the names that TensorRT's have: getCreators() is what its load_library() calls."""
    library = libraries[kind]
    model, engine = twice_model(tmp_path / "m.onnx"), tmp_path / "e"
    done = camshaft("build", model, "-o", engine, "--plugin", library)
    assert kind != "creators" or "the logger is found" in done.stderr
    x = numbers(4, 3)
    np.testing.assert_array_equal(run(engine, {"x": x}, "--plugin", library)["y"], 2 * x)
    program(
        FUNCTIONS
        + f"""
handle = registry.load_library({str(library)!r})
assert handle and names() == [("Twice", "")]
parsed({str(model)!r})
registry.deregister_library(handle)
assert names() == []
handle = registry.load_library({str(library)!r})
assert names() == [("Twice", "")]
"""
    )
    program(
        FUNCTIONS
        + f"""
other = library({str(libraries["other"])!r})
handle = other.load({str(library)!r}.encode())
assert handle and other.find(b"Twice", b"") and names() == [("Twice", "")]
other.unload(handle)
assert not other.find(b"Twice", b"") and names() == []
assert not other.load(b"nothing.so")
"""
    )


def test_a_library_whose_function_has_a_name_of_its_own(libraries, tmp_path):
    """It may be loaded before the function is called, and models mean its creators from there on."""
    library, model = libraries["twice"], twice_model(tmp_path / "m.onnx")
    warnings = program(
        FUNCTIONS
        + f"""
assert registry.load_library({str(library)!r}) and names() == []
assert library({str(library)!r}).registerTwice(b"") and names() == [("Twice", "")]
parsed({str(model)!r})
"""
    )
    assert "has no creators yet: call its function that registers them" in warnings
    done = camshaft("build", model, "-o", tmp_path / "e", "--plugin", library, check=False)
    assert done.returncode > 0 and "has no creators yet" in done.stderr and "Twice" in done.stderr


def test_a_program_in_cpp_loads_a_library_again(libraries, tmp_path):
    """What its function has registered since is there then, and what it took out is not."""
    (tmp_path / "main.cpp").write_text(
        """#include <camshaft/load_plugin.hpp>
#include <dlfcn.h>
#include <cstdio>
int main(int, char** arguments) {
  const auto list = [&] {
    camshaft::load_plugin(arguments[1]);
    std::printf("%s\\n", camshaft::plugins().json().c_str());
  };
  list();
  void* const library = dlopen(arguments[1], RTLD_NOW);
  reinterpret_cast<bool (*)(char const*)>(dlsym(library, "registerTwice"))("");
  list();
  reinterpret_cast<bool (*)(char const*, char const*)>(dlsym(library, "deregister"))("Twice", "");
  list();
  reinterpret_cast<bool (*)(char const*)>(dlsym(library, "registerTwice"))("");
  list();
  camshaft::unregister_plugin("tensorrt::Twice.1");
  std::printf("%s\\n", camshaft::plugins().json().c_str());
  try {
    camshaft::unregister_plugin("tensorrt::Twice.1");
  } catch (camshaft::Error const& error) {
    std::puts(error.what());
  }
}
"""
    )
    built = ROOT / "build/release"
    program = tmp_path / "main"
    flags = ["-std=c++20", f"-I{ROOT / 'include'}", f"-L{built}", f"-Wl,-rpath,{built}"]
    subprocess.run(["c++", *flags, str(tmp_path / "main.cpp"), "-lcamshaft", "-ldl", "-o", str(program)], check=True)
    done = subprocess.run([program, libraries["twice"]], capture_output=True, text=True, check=True)
    *lists, error = done.stdout.splitlines()
    names = [[plugin["name"] for plugin in json.loads(line)] for line in lists]
    assert names == [[], ["tensorrt::Twice.1"], [], ["tensorrt::Twice.1"], []]
    assert "no plugin 'tensorrt::Twice.1' is loaded" in error


@pytest.mark.parametrize("is_loaded_between", [False, True])
def test_another_class_in_the_place_of_a_creator(libraries, tmp_path, is_loaded_between):
    """Models mean the one that is registered now, engines the class that they were built with."""
    model, library = twice_model(tmp_path / "m.onnx"), str(libraries["twice"])
    program(
        FUNCTIONS
        + f"""
loaded, x = library({library!r}), np.ones((2, 3), np.float32)
def engine():
    camshaft.load_plugin({library!r})
    return camshaft.build({str(model)!r})
def between():
    if {is_loaded_between}: camshaft.load_plugin({library!r})
def deregister():
    assert loaded.deregister(b"Twice", b"")
    between()

assert loaded.registerTwice(b"")
twice = engine()
deregister()
assert loaded.registerThrice()
thrice = engine()
deregister()
assert loaded.registerTwiceAgain(True)  # another object of the same class
again = engine()
for built, factor in ((twice, 2), (thrice, 3), (again, 2)):
    np.testing.assert_array_equal(built(x), factor * x)
    np.testing.assert_array_equal(camshaft.Engine(built.to_bytes(weights=True))(x), factor * x)
"""
    )


def test_an_engine_is_of_its_class_in_another_process(libraries, tmp_path):
    """The class is told from others of its name by what does not change from process to process."""
    model, library = twice_model(tmp_path / "m.onnx"), str(libraries["twice"])
    start = FUNCTIONS + f"loaded, x = library({library!r}), np.ones((2, 3), np.float32)\n"
    program(
        start
        + f"""
assert loaded.registerThrice()
camshaft.load_plugin({library!r})
camshaft.build({str(model)!r}).save({str(tmp_path / "e")!r})
"""
    )
    program(
        start
        + f"""
assert loaded.registerTwice(b"")
camshaft.load_plugin({library!r})
try:
    camshaft.Engine({str(tmp_path / "e")!r})
    raise AssertionError("an engine of another class was loaded")
except camshaft.Error as error:
    assert "Twice" in str(error)
assert loaded.registerThrice()
camshaft.load_plugin({library!r})
np.testing.assert_array_equal(camshaft.Engine({str(tmp_path / "e")!r})(x), 3 * x)
"""
    )


def test_functions_of_a_library_are_its_own(libraries, tmp_path):
    """Not those of the same names in one that was loaded before, for all to see."""
    first, second = str(libraries["creators"]), str(libraries["other_creators"])
    program(
        FUNCTIONS
        + f"""
for path in ({first!r}, {second!r}):
    library(path, ctypes.RTLD_GLOBAL)
    camshaft.load_plugin(path)
assert {{plugin["name"] for plugin in camshaft.plugins()}} == {{"tensorrt::Twice.1", "tensorrt::Other.1"}}
assert registry.get_creator("Other", "1", "")
"""
    )


def test_a_library_is_loaded_and_deregistered_again_and_again(libraries):
    library = str(libraries["creators"])
    warnings = program(
        FUNCTIONS
        + f"""
other = library({str(libraries["other"])!r})
for by in ("C++", "Python", "C++", "both", "both"):
    handle = other.load({library!r}.encode()) if by != "Python" else registry.load_library({library!r})
    assert handle and other.find(b"Twice", b"") and names() == [("Twice", "")], by
    assert "tensorrt::Twice.1" in [plugin["name"] for plugin in camshaft.plugins()]
    if by == "C++":
        other.unload(handle)
    else:
        registry.deregister_library({library!r})
        registry.deregister_library({library!r})
    assert not other.find(b"Twice", b"") and names() == []
    camshaft.load_plugin({library!r})
    if by == "both":
        assert registry.load_library({library!r}) and names() == [("Twice", "")]
        other.unload(other.load({library!r}.encode()))
# A name that another library has by now stays that one's.
again = library({str(libraries["twice"])!r})
assert again.registerTwice(b"")
found = again.find(b"Twice", b"")
assert other.load({library!r}.encode()) and registry.load_library({library!r}) and names() == [("Twice", "")]
assert other.find(b"Twice", b"") == found
"""
    )
    assert "has no creators yet" not in warnings


def test_a_creator_is_taken_out_of_all_its_namespaces(libraries):
    program(
        FUNCTIONS
        + f"""
loaded = library({str(libraries["twice"])!r})
assert loaded.registerTwice(b"corp") and loaded.registerTwice(b"") and len(names()) == 2
assert loaded.deregisterTwice() and names() == [] and not loaded.deregisterTwice()
"""
    )


def test_a_library_that_loads_itself(libraries, tmp_path):
    path = tmp_path / "itself.so"
    compiled(SHARED, path, "-DBY_CREATORS", f'-DOWN_PATH="{path}"')
    program(FUNCTIONS + f"assert registry.load_library({str(path)!r}) and names() == [('Twice', '')]")


def test_a_function_of_a_library_that_throws(libraries):
    path = str(libraries["throws"])
    errors = program(
        FUNCTIONS
        + f"""
loaded = library({str(libraries["other"])!r})
assert not loaded.load({path!r}.encode()) and not loaded.load({path!r}.encode())
try:
    camshaft.load_plugin({path!r})
    raise AssertionError("it was loaded")
except camshaft.Error as error:
    assert "no creators today" in str(error)
"""
    )
    assert errors.count(f"{path}: its function that registers creators threw an exception: no creators today") == 2


def test_one_name_of_two_libraries_that_register_at_once(libraries, tmp_path):
    """One of them has it; and of a resource there is one clone."""
    second = compiled(SHARED, tmp_path / "second.so")
    program(
        FUNCTIONS
        + f"""
import threading
both = [library({str(libraries["twice"])!r}), library({str(second)!r})]
for turn in range(200):
    space, done, barrier = f"n{{turn}}".encode(), [], threading.Barrier(4)
    def work(loaded):
        barrier.wait()
        done.append(loaded.registerTwice(space))
    threads = [threading.Thread(target=work, args=(both[i % 2],)) for i in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert sum(done) == 1, done
assert len(names()) == 200

got, barrier = [], threading.Barrier(4)
def hold(loaded):
    barrier.wait()
    got.append(loaded.acquire(b"k"))
threads = [threading.Thread(target=hold, args=(both[i % 2],)) for i in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert len(set(got)) == 1 and got[0] and sum(loaded.clonesMade() for loaded in both) == 1, got
assert [both[i % 2].release(b"k") for i in range(5)] == [0, 0, 0, 0, -1]
"""
    )


def test_a_registry_stays_loaded_once_it_is_found(libraries):
    """Another thread may be using it."""
    program(
        FUNCTIONS
        + f"""
import _ctypes
first, second = library({str(libraries["twice"])!r}), ctypes.CDLL({str(libraries["other"])!r})
second.registerTwice.restype = ctypes.c_bool
assert second.registerTwice(b"") and first.count(b"Other") == 1
_ctypes.dlclose(second._handle)
assert any("other.so" in line for line in open("/proc/self/maps")) and first.count(b"Other") == 1
"""
    )


def test_registering_again_and_again_keeps_no_more(libraries):
    program(
        FUNCTIONS
        + f"""
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

loaded, path = library({str(libraries["stretch"].with_name("twice.so"))!r}), {str(libraries["twice"])!r}
def turn(count):
    for _ in range(count):
        assert loaded.registerTwice(b"")
        loaded.count(b"Twice")
        camshaft.load_plugin(path)
        assert loaded.deregister(b"Twice", b"")
        loaded.count(b"Twice")
        camshaft.load_plugin(path)

turn(2000)
before = resident()
turn(8000)
assert resident() - before < 600_000, resident() - before
"""
    )
