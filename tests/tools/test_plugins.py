"""Plugins on the command line: the example's library, operators as text and as ONNX functions, and bad ones."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, camshaft, run

import onnx
from onnx import TensorProto, helper

EXAMPLES = ROOT / "examples" / "plugins"
EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"
EXIT_INVALID = 2  # a wrong option
EXIT_VERIFY = 4  # results that differ


def compiled(source, library):
    """A plugin's library, as docs/plugins.md says it is compiled."""
    compiler = shutil.which("c++") or shutil.which("g++")
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT / 'include'}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def swish(tmp_path_factory):
    return compiled(EXAMPLES / "swish.cpp", tmp_path_factory.mktemp("plugins") / "swish.so")


def model_of(path, nodes, inputs, outputs, domains, initializers=(), functions=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
        list(initializers),
    )
    opsets = [helper.make_opsetid("", 17), *[helper.make_opsetid(d, 1) for d in domains]]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))
    onnx.save(model, str(path))
    return path


def swish_model(path, beta=1.5, kind=TensorProto.FLOAT, operator="Swish", domain="example", sizes=("n", 5)):
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node(operator, ["a"], ["s"], domain=domain, **({} if beta is None else {"beta": beta})),
        helper.make_node("Mul", ["s", "x"], ["y"]),
    ]
    return model_of(path, nodes, [("x", kind, list(sizes))], [("y", kind, list(sizes))], [domain])


def swish_of(x, beta=1.5):
    a = 2 * x.astype(np.float64)
    return (a / (1 + np.exp(-beta * a)) * x).astype(x.dtype)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def test_a_library_is_built_saved_loaded_and_run(swish, tmp_path):
    model, engine = swish_model(tmp_path / "m.onnx"), tmp_path / "m.engine"
    done = camshaft("build", model, "-o", engine, "--plugin", swish)
    assert "reference evaluation, its own run" not in done.stdout
    for rows in [1, 7, 1000]:
        x = numbers(rows, 5, seed=rows)
        np.testing.assert_allclose(run(engine, {"x": x}, "--plugin", swish)["y"], swish_of(x), rtol=1e-5, atol=1e-6)
    assert "example::Swish" in camshaft("inspect", engine, "--plugin", swish).stdout


def test_both_tactics_are_measured_and_recorded(swish, tmp_path):
    model = swish_model(tmp_path / "m.onnx", sizes=(512, 512))
    camshaft("build", model, "-o", tmp_path / "m.engine", "--plugin", swish)
    text = camshaft("inspect", tmp_path / "m.engine", "--explain", "--plugin", swish).stdout
    assert "plugin(variant=0)" in text and "plugin(variant=1)" in text


def test_the_default_of_an_attribute(swish, tmp_path):
    model, x = swish_model(tmp_path / "m.onnx", beta=None), numbers(3, 5)
    np.testing.assert_allclose(run(model, {"x": x}, "--plugin", swish)["y"], swish_of(x, 1), rtol=1e-5, atol=1e-6)


def test_narrow_floats_are_computed_in_f32(swish, tmp_path):
    model = swish_model(tmp_path / "m.onnx", kind=TensorProto.FLOAT16)
    x = numbers(3, 5).astype(np.float16)
    got = run(model, {"x": x}, "--plugin", swish)["y"]
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, swish_of(x.astype(np.float32)), rtol=4e-3, atol=1e-3)


def test_an_attribute_of_another_type_is_refused(swish, tmp_path):
    model = swish_model(tmp_path / "m.onnx", beta="much")
    done = camshaft("build", model, "--no-verify", "-o", tmp_path / "m.engine", "--plugin", swish, check=False)
    assert done.returncode != 0 and "the attribute 'beta' must be of floats" in done.stderr, done.stderr


def test_a_model_without_its_plugin_says_what_to_do(tmp_path):
    done = camshaft("build", swish_model(tmp_path / "m.onnx"), "-o", tmp_path / "m.engine", check=False)
    assert done.returncode != 0 and "example.Swish" in done.stderr and "--plugin" in done.stderr


def test_an_engine_without_its_plugin_is_refused(swish, tmp_path):
    engine = tmp_path / "m.engine"
    camshaft("build", swish_model(tmp_path / "m.onnx"), "-o", engine, "--plugin", swish)
    done = camshaft("run", engine, check=False)
    assert done.returncode != 0
    assert "example::Swish (version 1.0, of swish.so" in done.stderr and "--plugin swish.so" in done.stderr


def test_an_engine_does_not_take_another_library_of_the_same_name(swish, tmp_path):
    engine = tmp_path / "m.engine"
    camshaft("build", swish_model(tmp_path / "m.onnx"), "-o", engine, "--plugin", swish)
    changed = tmp_path / "swish.cpp"
    changed.write_text((EXAMPLES / "swish.cpp").read_text().replace("tactics = 2", "tactics = 1"))
    other = compiled(changed, tmp_path / "swish.so")
    done = camshaft("run", engine, "--plugin", other, check=False)
    assert done.returncode != 0 and "was built with version 1.0 of swish.so (hash" in done.stderr, done.stderr
    done = camshaft("run", engine, "--plugin", swish, "--plugin", other, check=False)
    assert done.returncode != 0 and "one process can have one of them" in done.stderr, done.stderr


def test_verifying_a_plugin_by_itself(swish, tmp_path):
    arguments = ["-o", tmp_path / "m.engine", "--plugin", swish, "--plugin-verify"]
    done = camshaft("build", swish_model(tmp_path / "m.onnx"), *arguments)
    assert "example::Swish: 2 tactics on 13 sets of shapes agree" in done.stdout, done.stdout


def test_what_simplify_writes_still_needs_it(swish, tmp_path):
    model, simple, x = swish_model(tmp_path / "m.onnx"), tmp_path / "s.onnx", numbers(3, 5)
    camshaft("simplify", model, "-o", simple, "--plugin", swish)
    node = next(n for n in onnx.load(str(simple)).graph.node if n.domain == "example")
    assert node.op_type == "Swish" and node.attribute[0].f == 1.5
    np.testing.assert_allclose(run(simple, {"x": x}, "--plugin", swish)["y"], swish_of(x), rtol=1e-5, atol=1e-6)


# ---- Operators that nobody compiles ----


def test_an_expression_is_computed_like_our_own_operators(tmp_path):
    text = "example::Swish(x, beta = 1) = x / (1 + exp(-beta * x))"
    model, x = swish_model(tmp_path / "m.onnx"), numbers(33, 5)
    camshaft("build", model, "-o", tmp_path / "m.engine", "--plugin", text)
    # The engine needs no plugin: all is one pointwise layer.
    np.testing.assert_allclose(run(tmp_path / "m.engine", {"x": x})["y"], swish_of(x), rtol=1e-5, atol=1e-6)
    assert "1 layers" in camshaft("build", model, "-o", tmp_path / "m.engine", "--plugin", text).stdout


@pytest.mark.parametrize(
    "text, what",
    [
        ("my::F(x) = x +", "a number, a parameter or a function is expected at character 15"),
        ("my::F(x) = y", "'y' is no parameter; there are: x"),
        ("my::F(x) = frobnicate(x)", "'frobnicate' is no scalar function"),
        ("my::F(x) = tnah(x)", "'tnah' is no scalar function; did you mean 'tan' or 'tanh'?"),
        ("my::F(x, alpha = 1) = x * alhpa", "'alhpa' is no parameter; did you mean 'alpha'?"),
        ("my::F(x) tanh(x)", "'my::F(x) tanh(x)' is no operator: '=' is expected at character 10"),
        ("my::F = tanh(x)", "'(' is expected at character 7"),
        ("my::F(x : tanh(x)", "')' is expected at character 9"),
        ("my::F(x) = 2x", "'x' is not expected at character 13"),
        ("my::F(x) = x $ x", "'$' is not expected at character 14"),
        ("my::F(x) = tanh(x, x)", "tanh takes 1 arguments, not 2"),
        ("my::F(a = 1) = a", "an operator needs an operand"),
        ("my::F(a = 1, x) = a", "operands come before attributes"),
        ("my::F(x, x) = x", "the parameter 'x' stands twice"),
        ("Tanh(x) = x", "cannot bring the operator Tanh, which Camshaft has itself"),
    ],
)
def test_bad_expressions(tmp_path, text, what):
    done = camshaft("run", swish_model(tmp_path / "m.onnx"), "--plugin", text, check=False)
    assert done.returncode == EXIT_INVALID and what in done.stderr, done.stderr


def function_library(path):
    body = [
        helper.make_node("Constant", [], ["one"], value_float=1.0),
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Exp", ["n"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["d"]),
        helper.make_node("Div", ["x", "d"], ["y"]),
    ]
    function = helper.make_function("example", "Swish", ["x"], ["y"], body, [helper.make_opsetid("", 17)])
    identity = [helper.make_node("Identity", ["x"], ["y"])]
    value = [("x", TensorProto.FLOAT, ["n"])]
    return model_of(path, identity, value, [("y", TensorProto.FLOAT, ["n"])], ["example"], functions=[function])


def test_a_library_of_onnx_functions(tmp_path):
    library, x = function_library(tmp_path / "functions.onnx"), numbers(3, 5)
    model = swish_model(tmp_path / "m.onnx", beta=None)
    np.testing.assert_allclose(run(model, {"x": x}, "--plugin", library)["y"], swish_of(x, 1), rtol=1e-5, atol=1e-6)


def test_a_model_without_functions_is_no_library(tmp_path):
    model = swish_model(tmp_path / "m.onnx")
    done = camshaft("run", model, "--plugin", model, check=False)
    assert done.returncode == EXIT_INVALID and "has no functions" in done.stderr


# ---- Bad plugins ----

BAD = """
#include <camshaft/plugin.hpp>
#include <cstring>
#include <stdexcept>
struct Bad : camshaft::plugin::Operator {{
  static constexpr const char *domain = "example", *name = "Swish", *version = "1";
  explicit Bad(const camshaft::plugin::Node&) {{}}
  void infer(camshaft::plugin::Shapes& s) const {{ (void)s; {infer} }}
  void run(const camshaft::plugin::Run& r) const {{
    const float* x = r.input(0).data<const float>();
    float* y = r.output(0).data<float>();
    const int64_t n = r.input(0).size();
    (void)x; (void)y; (void)n;
    {run}
  }}
  {more}
}};
CAMSHAFT_PLUGIN(Bad)
"""
GOOD_INFER = "s.output(0, s.dtype(0), s.dims(0));"
GOOD_RUN = "for (int64_t i = 0; i < n; ++i) y[i] = x[i];\n"


def bad(tmp_path, infer=GOOD_INFER, run=GOOD_RUN, more=""):
    source = tmp_path / "bad.cpp"
    source.write_text(BAD.format(infer=infer, run=run, more=more))
    return compiled(source, tmp_path / "bad.so")


def failure(tmp_path, plugin, *arguments, command="build"):
    out = ["-o", tmp_path / "m.engine"] if command == "build" else []
    done = camshaft(command, swish_model(tmp_path / "m.onnx"), *out, "--plugin", plugin, *arguments, check=False)
    assert done.returncode > 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stderr


@pytest.mark.parametrize(
    "infer, what",
    [
        ('throw std::runtime_error("it takes no rank 2");', "it takes no rank 2"),
        ("", "its shape rule does not set output 0"),
        ("s.output(1, s.dtype(0), s.dims(0));", "its shape rule sets output 1; the node has 1"),
        ("s.output(0, 99, s.dims(0));", "gives output 0 the type 99"),
        ("s.output(0, s.dtype(0), {s.dim(0, 7)});", "operand 0 has no axis 7"),
        ("s.output(0, s.dtype(0), {s.dim(0, 0) / 0});", "example::Swish"),
        # Symbols are told from numbers, and get another answer.
        (
            "int64_t v; s.output(0, s.dtype(0), {s.dim(0, 0).is(&v) ? s.dim(0, 0) + 1 : s.dim(0, 0), s.dim(0, 1)});",
            "(operator 'example::Swish' of the plugin bad.so): the shape rule of the plugin example::Swish (bad.so) contradicts",
        ),
    ],
)
def test_bad_shape_rules(tmp_path, infer, what):
    error = failure(tmp_path, bad(tmp_path, infer=infer))
    assert what in error and "Swish" in error, error


@pytest.mark.parametrize(
    "run, what",
    [
        ('throw std::runtime_error("no luck");', "the plugin example::Swish (bad.so) failed: no luck"),
        ("throw 7;", "it threw something that is no std::exception"),
        ("r.output(3).data<float>()[0] = 1;", "result 3 is not there"),
        ("y[0] = r.input(1).data<const float>()[0];", "operand 1 is not there"),
        (
            'r.parallel_for(n, 1, [](int64_t b, int64_t) { if (b > 3) throw std::runtime_error("in a part"); });',
            "in a part",
        ),
        (GOOD_RUN + "y[n] = 1;", "wrote outside of output 0"),
        (GOOD_RUN + "y[-2] = 1;", "8 bytes before its begin"),
        (GOOD_RUN + "const_cast<float*>(x)[0] = 5;", "wrote to its input 0"),
    ],
)
def test_bad_bodies_are_found_by_the_build(tmp_path, run, what):
    error = failure(tmp_path, bad(tmp_path, run=run))
    assert what in error, error


def test_a_body_that_goes_wrong_later_is_found_by_guards(tmp_path):
    library = bad(tmp_path, run=GOOD_RUN + "if (n == 15) std::memset(y, 0, 61);")
    engine = tmp_path / "m.engine"
    camshaft("build", swish_model(tmp_path / "m.onnx"), "-o", engine, "--no-verify", "--plugin", library)
    arguments = [engine, "--plugin", library, "--shapes", "x:3x5"]
    assert camshaft("run", *arguments, check=False).returncode == 0  # one byte, into what lies there
    done = camshaft("run", *arguments, "--plugin-guards", check=False)
    assert done.returncode > 0 and "wrote outside of output 0 (60 bytes): up to 1 bytes beyond its end" in done.stderr


def test_a_tactic_that_is_wrong(tmp_path):
    library = bad(
        tmp_path,
        run="for (int64_t i = 0; i < n; ++i) y[i] = r.tactic() == 1 && n % 8 != 0 && i == n - 1 ? 0 : x[i] + 1;",
        more="static constexpr size_t tactics = 2;"
        "void reference(const camshaft::plugin::Run& r) const { for (int64_t i = 0; i < r.input(0).size(); ++i) "
        "r.output(0).data<float>()[i] = r.input(0).data<const float>()[i] + 1; }",
    )
    error = failure(tmp_path, library, "--plugin-verify", command="verify")
    assert "output 0 of tactic 1 on [4, 5]: it differs from the reference evaluation" in error, error


def test_a_tactic_that_leaves_elements_out(tmp_path):
    library = bad(tmp_path, run="for (int64_t i = 0; i < n / 8 * 8; ++i) y[i] = x[i];")
    error = failure(tmp_path, library, "--plugin-verify", command="verify")
    assert "elements are not written" in error, error


def test_what_has_no_reference_says_so(tmp_path):
    done = camshaft("build", swish_model(tmp_path / "m.onnx"), "-o", tmp_path / "m.engine", "--plugin", bad(tmp_path))
    assert "not on the plugin example::Swish: it has no reference evaluation" in done.stdout, done.stdout


C_PLUGIN = """
#include <camshaft/camshaft_plugin.h>
#include <stddef.h>
static int32_t infer(void*, camshaft_plugin_shapes*) {{ {infer} }}
static int32_t enqueue(void*, const camshaft_plugin_run*) {{ return 0; }}
static const camshaft_plugin_operator op = [] {{
  camshaft_plugin_operator t = {{}};
  t.size = sizeof t; t.domain = "example"; t.name = "Swish"; t.version = "1"; t.infer = infer; t.enqueue = enqueue;
  {change}
  return t;
}}();
static const camshaft_plugin_operator* const all[] = {{&op}};
static const camshaft_plugin_library library = {{sizeof library, {abi}, 1, all}};
extern "C" CAMSHAFT_API const camshaft_plugin_library* {entry}(uint32_t) {{ return &library; }}
"""


@pytest.mark.parametrize(
    "values, what",
    [
        ({"abi": 7}, "it is for version 7 of the interface, and this is version 1"),
        ({"entry": "another_name"}, "the library exports no function camshaft_plugin_entry"),
        (
            {"change": "t.enqueue = nullptr;"},
            "its operator Swish has no function that runs it (enqueue, enqueue_cuda or compile)",
        ),
        ({"change": "t.infer = nullptr;"}, "its operator Swish has no shape rule (infer)"),
        ({"change": "t.name = nullptr;"}, "an operator has no name"),
        ({"change": "t.version = nullptr;"}, "its operator Swish has no version"),
        ({"change": "t.size = 3;"}, "an operator's table has 3 bytes"),
        ({"change": 't.domain = ""; t.name = "Relu";'}, "cannot bring the operator Relu"),
        # A table that is cut off before its functions, as an older interface might have them.
        ({"change": "t.size = offsetof(camshaft_plugin_operator, infer);"}, "has no shape rule (infer)"),
        ({"infer": "return 1;"}, "it does not say why"),
        ({"change": 't.expression = "(x) = x +";'}, "is no operator"),
    ],
)
def test_bad_tables(tmp_path, values, what):
    source = tmp_path / "bad.cpp"
    texts = {"abi": "CAMSHAFT_PLUGIN_ABI", "entry": "camshaft_plugin_entry", "change": "", "infer": "return 0;"}
    source.write_text(C_PLUGIN.format(**{**texts, **values}))
    error = failure(tmp_path, compiled(source, tmp_path / "bad.so"))
    assert what in error, error


def test_a_later_table_is_longer(swish, tmp_path):
    """What a plugin of a later header says beyond what is known here is not looked at."""
    source = tmp_path / "later.cpp"
    source.write_text(
        """
        #include <camshaft/plugin.hpp>
        struct Later { camshaft_plugin_operator table; void* more[8]; };
        struct Op : camshaft::plugin::Operator {
          static constexpr const char *domain = "example", *name = "Swish", *version = "1";
          explicit Op(const camshaft::plugin::Node&) {}
          void infer(camshaft::plugin::Shapes& s) const { s.output(0, s.dtype(0), s.dims(0)); }
          void run(const camshaft::plugin::Run& r) const {
            for (int64_t i = 0; i < r.input(0).size(); ++i)
              r.output(0).data<float>()[i] = 3 * r.input(0).data<const float>()[i];
          }
        };
        extern "C" CAMSHAFT_API const camshaft_plugin_library* camshaft_plugin_entry(uint32_t) {
          static const Later later = [] {
            Later made = {camshaft::plugin::detail::table<Op>(), {}};
            made.table.size = sizeof made;
            return made;
          }();
          static const camshaft_plugin_operator* const all[] = {&later.table};
          static const camshaft_plugin_library library = {sizeof library + 64, CAMSHAFT_PLUGIN_ABI, 1, all};
          return &library;
        }
        """
    )
    library, x = compiled(source, tmp_path / "later.so"), numbers(2, 5)
    got = run(swish_model(tmp_path / "m.onnx", beta=None), {"x": x}, "--plugin", library)["y"]
    np.testing.assert_allclose(got, 6 * x * x, rtol=1e-6)


WITHIN_PROCESS = """
#include <camshaft/plugin.hpp>
struct Op : camshaft::plugin::Operator {
  static constexpr const char *domain = "example", *name = "Swish", *version = "1";
  explicit Op(const camshaft::plugin::Node&) {}
  %s
  void infer(camshaft::plugin::Shapes& s) const { s.output(0, s.dtype(0), s.dims(0)); }
  void run(const camshaft::plugin::Run& r) const {
    for (int64_t i = 0; i < r.input(0).size(); ++i) r.output(0).data<float>()[i] = r.input(0).data<const float>()[i];
  }
};
%s
"""


@pytest.mark.parametrize(
    "member, rest, what",
    [
        (
            "size_t workspace(const camshaft::plugin::Run&) const { return SIZE_MAX; }",
            "CAMSHAFT_PLUGIN(Op)",
            "cannot have the workspace that it needs",
        ),
        (
            "",
            'CAMSHAFT_PLUGIN(Op)\nstatic const int made = [] { throw std::runtime_error("at once"); return 1; }();',
            "it threw an exception while it was loaded",
        ),
        (
            "",
            'extern "C" CAMSHAFT_API const camshaft_plugin_library* camshaft_plugin_entry(uint32_t) { throw 5; }',
            "camshaft_plugin_entry threw an exception",
        ),
        (
            "",
            'extern "C" CAMSHAFT_API const camshaft_plugin_library* camshaft_plugin_entry(uint32_t) { return {}; }',
            "no plugin",
        ),
    ],
)
def test_what_plugins_ask_for_and_throw_elsewhere(tmp_path, member, rest, what):
    (tmp_path / "odd.cpp").write_text(WITHIN_PROCESS % (member, rest))
    error = failure(tmp_path, compiled(tmp_path / "odd.cpp", tmp_path / "odd.so"))
    assert what in error and "odd.so" in error, error


def test_a_destructor_that_throws_is_named(tmp_path):
    member = '~Op() noexcept(false) { throw std::runtime_error("in the destructor"); }'
    (tmp_path / "odd.cpp").write_text(WITHIN_PROCESS % (member, "CAMSHAFT_PLUGIN(Op)"))
    library = compiled(tmp_path / "odd.cpp", tmp_path / "odd.so")
    out = tmp_path / "m.engine"
    done = camshaft("build", swish_model(tmp_path / "m.onnx"), "-o", out, "--plugin", library, "--no-verify")
    assert "failed while it was destroyed" in done.stderr and "in the destructor" in done.stderr, done.stderr


def test_what_is_no_plugin_at_all(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "broken.so").write_bytes(b"\x7fELF and no more")
    model = swish_model(tmp_path / "m.onnx")
    for plugin, what in [
        (tmp_path / "absent.so", "absent.so"),
        (tmp_path / "notes.txt", "neither a shared library nor an ONNX model"),
        (tmp_path / "broken.so", "is no plugin"),
    ]:
        done = camshaft("run", model, "--plugin", plugin, check=False)
        assert done.returncode > 0 and what in done.stderr, done.stderr


@pytest.mark.parametrize("option", ["--plugin", "--ort-custom-ops"])
@pytest.mark.parametrize(
    "at, value, what",
    [
        (18, 183, "it is for aarch64, and this program for x86-64"),
        (18, 3, "it is for x86 (32 bits), and"),
        (18, 999, "it is for machine 999 of ELF"),
        (4, 1, "it is of 32 bits, and this program of 64"),
    ],
)
def test_libraries_for_other_machines(swish, tmp_path, option, at, value, what):
    """Of which the system says that there is no such file."""
    data = bytearray(swish.read_bytes())
    data[at : at + (2 if at == 18 else 1)] = value.to_bytes(2 if at == 18 else 1, "little")
    (tmp_path / "other.so").write_bytes(data)
    done = camshaft("run", swish_model(tmp_path / "m.onnx"), option, tmp_path / "other.so", check=False)
    assert done.returncode > 0 and what in done.stderr, done.stderr


def test_libraries_that_need_tensorrt_s(tmp_path):
    """Compiled with its headers, or with Camshaft's and linked with its libraries all the same."""

    def made(name, text, *flags):
        (tmp_path / f"{name}.cpp").write_text(text)
        command = ["c++", "-std=c++17", "-shared", "-fPIC", *map(str, flags), str(tmp_path / f"{name}.cpp")]
        subprocess.run([*command, "-o", str(tmp_path / f"{name}.so")], check=True)
        return tmp_path / f"{name}.so"

    theirs = made("libnvinfer", 'extern "C" int nothing() { return 0; }', "-Wl,-soname,libnvinfer.so.10")
    uses = 'extern "C" void* getPluginRegistry(); extern "C" void* use() { return getPluginRegistry(); }'
    includes = [f"-I{ROOT / 'include/camshaft/tensorrt'}", f"-I{ROOT / 'include'}", "-Wl,--no-as-needed", theirs]
    ours = made("ours", "#include <NvInfer.h>", *includes)
    undefined, linked = made("undefined", uses), made("linked", uses, "-Wl,--no-as-needed", theirs)
    compile_it = "compile its source with Camshaft's NvInfer.h"
    for library, what in [(undefined, compile_it), (linked, compile_it), (ours, "leave TensorRT's libraries out of")]:
        done = camshaft("operators", "--plugin", library, check=False)
        assert done.returncode > 0 and what in done.stderr, done.stderr


@pytest.mark.parametrize("option", ["--plugin", "--ort-custom-ops"])
def test_libraries_that_are_cut_short(swish, tmp_path, option):
    """Opening one would end the process (SIGBUS), as parts of it are mapped that the file does not have."""
    whole = swish.read_bytes()
    model = swish_model(tmp_path / "m.onnx")
    for part in (0.1, 0.3, 0.6):
        (tmp_path / "short.so").write_bytes(whole[: int(part * len(whole))])
        done = camshaft("run", model, option, tmp_path / "short.so", check=False)
        assert done.returncode > 0 and "short.so" in done.stderr and "is cut short: it has" in done.stderr, done.stderr


def test_a_size_that_only_running_tells_and_the_rule_denies(tmp_path):
    """The rule says as many rows as there are, and the function gives one more."""
    library = bad(
        tmp_path,
        infer="s.output(0, s.dtype(0), {s.dim(0, 0), s.symbol(0, 1)});",
        run="(void)r.resize_output<float>(0, {r.input(0).dim(0) + 1, 5});",
    )
    node = helper.make_node("Swish", ["x"], ["y"], name="swished", domain="example")
    kind = TensorProto.FLOAT
    model = model_of(tmp_path / "l.onnx", [node], [("x", kind, ["n", 5])], [("y", kind, ["n", "m"])], ["example"])
    done = camshaft("build", model, "-o", tmp_path / "e", "--plugin", library, check=False)
    assert done.returncode > 0 and "node 'swished' (operator 'example::Swish' of the plugin bad.so)" in done.stderr
    assert "gave its output 0 the shape [5, 5], and its shape rule says f32[4, @y0.1]" in done.stderr, done.stderr


@pytest.mark.parametrize("library_first", [True, False])
@pytest.mark.parametrize("other", ["text", "functions", "custom ops"])
def test_an_operator_is_loaded_once(swish, tmp_path, library_first, other):
    """Which one nodes mean would go by the order of the options."""
    if other == "custom ops":
        from test_ort_custom_ops import compiled as ort_compiled

        given = ["--ort-custom-ops", ort_compiled(tmp_path / "ops.so")]
        ours = ["--plugin", "test.ort::Negated(x) = -x"]
        if not library_first:
            pytest.skip("the command loads plugins before libraries for ONNX Runtime")
        name = "test.ort::Negated"
    else:
        text = "example::Swish(x, beta = 1) = x"
        given = ["--plugin", text if other == "text" else function_library(tmp_path / "functions.onnx")]
        ours, name = ["--plugin", swish], "example::Swish"
    options = [*ours, *given] if library_first else [*given, *ours]
    done = camshaft("run", swish_model(tmp_path / "m.onnx"), *options, check=False)
    assert done.returncode == EXIT_INVALID, done.stderr
    assert f"has the operator {name}, which" in done.stderr and "one process can have one of them" in done.stderr


def test_a_library_that_has_an_operator_twice(tmp_path):
    text = BAD.format(infer=GOOD_INFER, run=GOOD_RUN, more="")
    struct = text[text.index("struct Bad") : text.index("CAMSHAFT_PLUGIN")]
    text = text.replace("CAMSHAFT_PLUGIN(Bad)", struct.replace("Bad", "Other") + "CAMSHAFT_PLUGIN(Bad, Other)")
    (tmp_path / "twice.cpp").write_text(text)
    error = failure(tmp_path, compiled(tmp_path / "twice.cpp", tmp_path / "twice.so"))
    assert "twice.so has the operator example::Swish twice" in error, error


def test_operators_lists_those_of_plugins(swish):
    assert "example Swish of swish.so\n" in camshaft("operators", "--plugin", swish).stdout
    listed = json.loads(camshaft("operators", "--json", "--plugin", swish, "--plugin", "my::Half(x) = x / 2").stdout)
    assert {"domain": "example", "operator": "Swish", "kind": "plugin", "version": "1.0", "file": "swish.so"} in listed
    assert any(entry["operator"] == "Half" and entry["kind"] == "text" for entry in listed)


def test_operands_of_types_that_it_does_not_take(tmp_path):
    library = bad(tmp_path, more="static constexpr camshaft::plugin::Types types[] = {{CAMSHAFT_F32, CAMSHAFT_F64}};")
    model = swish_model(tmp_path / "i.onnx", kind=TensorProto.INT32)
    done = camshaft("run", model, "--plugin", library, check=False)
    what = "the operator example::Swish of bad.so does not take i32 as operand 0, but f64, f32"
    assert done.returncode > 0 and what in done.stderr, done.stderr


def test_sizes_that_only_running_tells(tmp_path):
    """The positive elements of a vector."""
    source = tmp_path / "positive.cpp"
    source.write_text(
        """
        #include <camshaft/plugin.hpp>
        #include <vector>
        struct Positive : camshaft::plugin::Operator {
          static constexpr const char *domain = "example", *name = "Positive", *version = "1";
          explicit Positive(const camshaft::plugin::Node&) {}
          void infer(camshaft::plugin::Shapes& s) const { s.output(0, s.dtype(0), {s.symbol(0, 0)}); }
          void run(const camshaft::plugin::Run& r) const {
            std::vector<float> found;
            for (int64_t i = 0; i < r.input(0).size(); ++i)
              if (const float v = r.input(0).data<const float>()[i]; v > 0) found.push_back(v);
            float* y = r.resize_output<float>(0, {static_cast<int64_t>(found.size())});
            for (const float v : found) *y++ = v;
          }
        };
        CAMSHAFT_PLUGIN(Positive)
        """
    )
    library = compiled(source, tmp_path / "positive.so")
    nodes = [
        helper.make_node("Positive", ["x"], ["p"], domain="example"),
        helper.make_node("Add", ["p", "p"], ["y"]),
    ]
    kind = TensorProto.FLOAT
    model = model_of(tmp_path / "m.onnx", nodes, [("x", kind, ["n", 64])], [("y", kind, ["m"])], ["example"])
    camshaft("build", model, "-o", tmp_path / "m.engine", "--plugin", library)
    for count in [1, 100]:
        x = numbers(count, 64)
        np.testing.assert_array_equal(run(tmp_path / "m.engine", {"x": x}, "--plugin", library)["y"], 2 * x[x > 0])


# ---- On a GPU ----


def on_gpu(*arguments, check=True):
    """The command's stdout on the emulated GPU."""
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    done = subprocess.run(
        [ROOT / "scripts/emulate_gpu.sh", BINARY, *map(str, arguments)],
        env=os.environ | {"CAMSHAFT_BUILD": str(BINARY.parent.parent)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def test_a_kernel_as_text_runs_in_the_stream(tmp_path):
    library = compiled(EXAMPLES / "mish_cuda.cpp", tmp_path / "mish.so")
    model = swish_model(tmp_path / "m.onnx", beta=None, operator="Mish")
    engine, out = tmp_path / "m.engine", tmp_path / "y.npz"
    on_gpu("build", model, "-o", engine, "--device", "cuda", "--plugin", library)
    assert "cuda_plugin" in on_gpu("inspect", engine, "--plugin", library).stdout
    for rows in (1, 77):
        x = numbers(rows, 5, seed=rows)
        np.savez(tmp_path / "x.npz", x=x)
        arguments = ["--inputs", tmp_path / "x.npz", "--outputs", out, "--plugin", library]
        on_gpu("run", engine, *arguments)
        a = 2 * x.astype(np.float64)
        with np.load(out) as arrays:
            np.testing.assert_allclose(arrays["y"], a * np.tanh(np.log1p(np.exp(a))) * x, rtol=1e-5, atol=1e-6)
    # On the CPU its reference runs.
    x = numbers(3, 5)
    a = 2 * x.astype(np.float64)
    got = run(model, {"x": x}, "--plugin", library)["y"]
    np.testing.assert_allclose(got, a * np.tanh(np.log1p(np.exp(a))) * x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "old, new, what",
    [
        ("tanhf(", "no_function(", "the plugin example::Mish (mish.so): the kernel 'plugin' does not compile"),
        ('launch("mish"', 'launch("mash"', "mash"),
        ("y[i] = x[i] *", "y[i] = x[i] +", "y"),  # a kernel that is wrong, as the build's verification says
    ],
)
def test_a_kernel_that_is_wrong(tmp_path, old, new, what):
    changed = tmp_path / "mish.cpp"
    text = (EXAMPLES / "mish_cuda.cpp").read_text()
    assert old in text
    changed.write_text(text.replace(old, new))
    library = compiled(changed, tmp_path / "mish.so")
    model = swish_model(tmp_path / "m.onnx", beta=None, operator="Mish")
    done = on_gpu(
        "build",
        model,
        "-o",
        tmp_path / "e",
        "--device",
        "cuda",
        "--plugin",
        library,
        "--tuning",
        "heuristic",
        check=False,
    )
    assert done.returncode > 0 and what in done.stderr, done.stderr


@pytest.mark.parametrize(
    "old, new, flags, what",
    [
        (
            "y[i] = x[i] *",
            "y[i + (i == n - 1 ? 3 : 0)] = x[i] *",
            [],
            "tactic 0 on the GPU on [4, 5]: the plugin example::Mish (mish.so) wrote outside of output 0 (80 bytes): "
            "up to 12 bytes beyond its end",
        ),
        ("y[i] = x[i] *", "y[i - (i == 0 ? 2 : 0)] = x[i] *", [], "8 bytes before its begin"),
        ("y[i] = x[i] *", "y[i] = const_cast<float*>(x)[i] *= 2 *", [], "(mish.so) wrote to its input 0"),
        ("y[i] = x[i] *", "if (n % 15 != 0) y[i] = x[i] *", ["--plugin-verify"], "elements are not written"),
        (
            "y[i] = x[i] *",
            "y[i] = (n % 35 ? 1 : 2) * x[i] *",
            ["--plugin-verify"],
            "output 0 of tactic 0 on the GPU on [7, 5]: it differs from the reference evaluation by",
        ),
    ],
)
def test_bodies_for_gpus_run_between_guard_zones(tmp_path, old, new, flags, what):
    text = (EXAMPLES / "mish_cuda.cpp").read_text()
    assert old in text
    (tmp_path / "mish.cpp").write_text(text.replace(old, new))
    library = compiled(tmp_path / "mish.cpp", tmp_path / "mish.so")
    model = swish_model(tmp_path / "m.onnx", beta=None, operator="Mish", sizes=(4, 5) if not flags else ("n", 5))
    build = ["build", model, "-o", tmp_path / "e", "--device", "cuda", "--plugin", library]
    done = on_gpu(*build, "--tuning", "heuristic", *flags, check=False)
    assert done.returncode == EXIT_VERIFY and what in done.stderr, done.stderr
    assert not (tmp_path / "e").exists()


def test_a_kernel_that_goes_wrong_later_is_found_by_guards(tmp_path):
    text = (EXAMPLES / "mish_cuda.cpp").read_text()
    (tmp_path / "mish.cpp").write_text(text.replace("y[i] = x[i] *", "y[n == 15 && i == 14 ? n : i] = x[i] *"))
    library = compiled(tmp_path / "mish.cpp", tmp_path / "mish.so")
    model = swish_model(tmp_path / "m.onnx", beta=None, operator="Mish")
    engine = tmp_path / "e"
    on_gpu("build", model, "-o", engine, "--device", "cuda", "--plugin", library, "--no-verify")
    arguments = ["run", engine, "--plugin", library, "--shapes", "x:3x5"]
    done = on_gpu(*arguments, "--plugin-guards", check=False)
    assert done.returncode > 0 and "wrote outside of output 0 (60 bytes): up to 4 bytes beyond its end" in done.stderr


def test_tactics_on_the_gpu_are_counted(tmp_path):
    library = compiled(EXAMPLES / "mish_cuda.cpp", tmp_path / "mish.so")
    model = swish_model(tmp_path / "m.onnx", beta=None, operator="Mish")
    said = on_gpu("build", model, "-o", tmp_path / "e", "--device", "cuda", "--plugin", library, "--plugin-verify")
    assert "1 tactic on the GPU on 13 sets of shapes agree with its reference evaluation" in said.stdout + said.stderr


COMPILED_MISH = """
  void compile(camshaft::plugin::Kernels& kernels) const {
    using camshaft::plugin::Argument;
    const auto shapes = kernels.shapes();
    camshaft::plugin::Dim n = shapes.dim(0, 0);
    for (size_t axis = 1; axis < shapes.rank(0); ++axis) n = n * shapes.dim(0, axis);
    for (const int64_t threads : {64, 256}) {
      kernels.text(cuda_text_of_mish);
      kernels.launch("mish", {ceil_div(n, shapes.constant(threads))}, {shapes.constant(threads)},
                     {Argument::input(0), Argument::output(0), Argument::size<long long>(n)});
    }
  }
"""


def test_kernels_that_are_compiled_ahead_of_time_need_no_plugin(tmp_path):
    """Two tactics, the sizes open; the reference is what they are verified against."""
    text = (EXAMPLES / "mish_cuda.cpp").read_text()
    begin, end = text.index("  void run_cuda"), text.index("  void reference")
    text = text.replace("cuda_text", "cuda_text_of_mish").replace(
        text[begin:end].replace("cuda_text", "cuda_text_of_mish"), COMPILED_MISH
    )
    (tmp_path / "mish.cpp").write_text(text)
    library = compiled(tmp_path / "mish.cpp", tmp_path / "mish.so")
    model = swish_model(tmp_path / "m.onnx", beta=None, operator="Mish")
    engine, out = tmp_path / "m.engine", tmp_path / "y.npz"
    on_gpu("build", model, "-o", engine, "--device", "cuda", "--plugin", library)
    assert "cuda_plugin" in on_gpu("inspect", engine).stdout
    for rows in (1, 77):
        x = numbers(rows, 5, seed=rows)
        np.savez(tmp_path / "x.npz", x=x)
        on_gpu("run", engine, "--inputs", tmp_path / "x.npz", "--outputs", out)
        a = 2 * x.astype(np.float64)
        with np.load(out) as arrays:
            np.testing.assert_allclose(arrays["y"], a * np.tanh(np.log1p(np.exp(a))) * x, rtol=1e-5, atol=1e-6)
    (tmp_path / "wrong.cpp").write_text(text.replace("y[i] = x[i] *", "y[i] = x[i] +"))
    wrong = compiled(tmp_path / "wrong.cpp", tmp_path / "wrong.so")
    done = on_gpu("build", model, "-o", engine, "--device", "cuda", "--plugin", wrong, check=False)
    assert done.returncode > 0 and "y" in done.stderr, done.stderr


# ---- What it takes to write one ----


@pytest.mark.parametrize("name, most", [("swish.cpp", 40), ("mish_cuda.cpp", 60)])
def test_the_examples_are_short(name, most):
    assert len((EXAMPLES / name).read_text().splitlines()) <= most
