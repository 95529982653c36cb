"""What libcamshaft.so and the public headers are: one list of symbols, and headers that stand alone."""

import ctypes
import re
import subprocess

import pytest
from camshaft_cli import BINARY, ROOT

import onnx
from onnx import TensorProto, helper

LIBRARY = BINARY.parent.parent / "libcamshaft.so"
HEADERS = ROOT / "include" / "camshaft"
SYMBOLS = (ROOT / "src" / "api" / "exported_symbols.txt").read_text().split()
PROVIDER = ["CreateEpFactories", "ReleaseEpFactory"]  # what ONNX Runtime looks for


def output(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_exports_the_listed_symbols_alone():
    lines = output("nm", "--dynamic", "--defined-only", "--extern-only", LIBRARY).splitlines()
    names = {line.split()[-1] for line in lines}
    assert names == {f"{name}@@CAMSHAFT_1" for name in SYMBOLS + PROVIDER} | {"CAMSHAFT_1"}


def test_the_header_declares_what_is_exported():
    text = "".join((HEADERS / name).read_text() for name in ["camshaft.h", "camshaft_plugin.h"])
    declared = re.findall(r"CAMSHAFT_API[^;(]*?(camshaft_\w+)\(", text)
    assert sorted(declared) == SYMBOLS


def test_the_version_is_in_the_name():
    assert re.search(r"SONAME.*\[libcamshaft\.so\.1\]", output("readelf", "--dynamic", LIBRARY))


def test_programs_in_c_can_use_it(tmp_path):
    source = tmp_path / "program.c"
    source.write_text(
        """
        #include <camshaft/camshaft.h>
        #include <stdio.h>
        #include <string.h>
        int main(void) {
          camshaft_options* options = NULL;
          camshaft_engine* engine = NULL;
          if (camshaft_options_create(CAMSHAFT_BUILD, &options) != CAMSHAFT_OK) return 1;
          if (camshaft_options_set(options, "fp16", "true") != CAMSHAFT_OK) return 2;
          if (camshaft_options_set(options, "fp61", "true") != CAMSHAFT_INVALID_ARGUMENT) return 3;
          puts(camshaft_error_message());
          if (camshaft_build_file("/nowhere/model.onnx", options, &engine, NULL) != CAMSHAFT_IO) return 4;
          puts(camshaft_error_message());
          camshaft_options_free(options);
          return engine == NULL ? 0 : 5;
        }
        """
    )
    program = tmp_path / "program"
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    output("cc", *flags, source, "-o", program, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}")
    lines = output(program).splitlines()
    assert lines[0] == "no option is named 'fp61'; did you mean 'fp16' or 'fp8'?"
    assert lines[1].startswith("/nowhere/model.onnx: could not be read")


def test_it_may_be_closed_while_its_threads_are_there(tmp_path):
    source = tmp_path / "program.c"
    source.write_text(
        """
        #include <dlfcn.h>
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        typedef int (*build_function)(const char*, void*, void**, void**);
        typedef int (*create_function)(void*, void*, void**);
        typedef int (*run_function)(void*);
        typedef void (*free_function)(void*);
        int main(int count, char** arguments) {
          void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL), *engine = NULL, *context = NULL;
          pid_t child;
          int status = 1;
          if (count != 3 || library == NULL) return 1;
          if (((build_function)dlsym(library, "camshaft_build_file"))(arguments[2], NULL, &engine, NULL) != 0) return 2;
          if (((create_function)dlsym(library, "camshaft_context_create"))(engine, NULL, &context) != 0) return 3;
          ((free_function)dlsym(library, "camshaft_context_free"))(context);
          ((free_function)dlsym(library, "camshaft_engine_free"))(engine);
          if (dlclose(library) != 0) return 4;
          usleep(200000);  /* workers that spun go to sleep */
          child = fork();
          if (child == 0) _exit(0);
          if (waitpid(child, &status, 0) != child || status != 0) return 5;
          puts("alive");
          return 0;
        }
        """
    )
    model = tmp_path / "model.onnx"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "doubling", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), model)
    program = tmp_path / "program"
    output("cc", source, "-o", program, "-ldl")
    assert output(program, LIBRARY, model) == "alive\n"


@pytest.mark.parametrize("header", sorted(path.name for path in HEADERS.glob("*.hpp")))
def test_headers_stand_alone(header, tmp_path):
    source = tmp_path / "program.cpp"
    source.write_text(f"#include <camshaft/{header}>\n#include <camshaft/{header}>\nint main() {{}}\n")
    output("c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", source)


def included(folder):
    """What the files of a folder include, but for what the compiler brings."""
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".h", ".hpp", ".cpp"):
            for name in re.findall(r'#include [<"]([^>"]+)[>"]', path.read_text()):
                yield path, name


def test_clients_include_the_public_headers_alone():
    internal = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    public = ("camshaft/camshaft.h", "camshaft/camshaft_plugin.h")
    offenders = {
        str(path.relative_to(ROOT))
        for folder in ["tools", "python", "examples"]
        for path, name in included(folder)
        if name.split("/")[0] in internal
        or (name.startswith("camshaft/") and not name.endswith(".hpp") and name not in public)
    }
    assert offenders == set()


def test_every_option_is_documented_under_its_name():
    library = ctypes.CDLL(str(LIBRARY))
    for name in ["camshaft_record_at", "camshaft_record_get"]:
        getattr(library, name).restype = ctypes.c_void_p
    library.camshaft_record_text.restype = ctypes.c_char_p
    library.camshaft_record_size.restype = ctypes.c_size_t
    names = []
    for what in [1, 4, 2, 3]:  # in the order of the page
        options = ctypes.c_void_p()
        assert library.camshaft_options_list(what, ctypes.byref(options)) == 0
        for index in range(library.camshaft_record_size(options)):
            entry = ctypes.c_void_p(library.camshaft_record_at(options, ctypes.c_size_t(index)))
            name = ctypes.c_void_p(library.camshaft_record_get(entry, b"name"))
            names.append(library.camshaft_record_text(name, None).decode())
        library.camshaft_record_free(options)
    page = (ROOT / "docs" / "options.md").read_text()
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE) == names
