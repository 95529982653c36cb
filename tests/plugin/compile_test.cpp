// Kernels that plugins compile ahead of time: what engines keep of them, and what is launched.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "ir/graph.h"
#include "ir/ops/plugin.h"
#include "ir/plugin_notes.h"
#include "plugin/c_operator.h"

namespace camshaft::plugin::compile_test {
namespace {

int32_t infer_as_first(void*, camshaft_plugin_shapes* s) {
  std::vector<const camshaft_plugin_dim*> dims;
  for (size_t axis = 0; axis < s->rank(s, 0); ++axis) dims.push_back(s->dim(s, 0, axis));
  return s->set_output(s, 0, s->dtype(s, 0), dims.size(), dims.data());
}

using Compile = int32_t (*)(void*, camshaft_plugin_kernels*);

camshaft_plugin_operator table(const char* name, Compile compile) {
  camshaft_plugin_operator made = {};
  made.size = sizeof made;
  made.domain = "compile_test";
  made.name = name;
  made.version = "1";
  made.infer = infer_as_first;
  made.compile = compile;
  return made;
}

/// A launch of `kernel` with these arguments: a block of 32 threads for each element of the operand's first axis.
int32_t launch(camshaft_plugin_kernels* k, const char* kernel, const std::vector<camshaft_plugin_argument>& arguments) {
  camshaft_plugin_shapes* s = k->shapes;
  const camshaft_plugin_dim *one = s->constant(s, 1), *zero = s->constant(s, 0);
  const camshaft_plugin_dim* blocks[] = {s->dim(s, 0, 0), one, one};
  const camshaft_plugin_dim* threads[] = {s->constant(s, 32), one, one};
  return k->add_launch(k, kernel, blocks, threads, zero, arguments.size(), arguments.data());
}

int32_t compile_two(void*, camshaft_plugin_kernels* k) {
  camshaft_plugin_shapes* s = k->shapes;
  const camshaft_plugin_dim* n = s->combine(s, CAMSHAFT_PLUGIN_MULTIPLY, s->dim(s, 0, 0), s->dim(s, 0, 1));
  static const char constant[3] = {7, 8, 9};
  k->add_tactic(k, "text of kernels", nullptr, 0);
  launch(k, "first",
         {{CAMSHAFT_PLUGIN_INPUT, 0, nullptr, nullptr, 0},
          {CAMSHAFT_PLUGIN_SIZE, 0, n, nullptr, 2},
          {CAMSHAFT_PLUGIN_BYTES, 0, nullptr, constant, sizeof constant},
          {CAMSHAFT_PLUGIN_OUTPUT, 0, nullptr, nullptr, 0}});
  launch(k, "second", {});
  k->add_tactic(k, nullptr, "\177ELF", 4);
  return launch(k, "third", {{CAMSHAFT_PLUGIN_SIZE, 0, s->dim(s, 0, 0), nullptr, 8}});
}

/// What a model's node of the operator notes, on an f32 operand of this shape.
std::vector<PluginAttribute> notes_of(const PluginOperator& plugin, const Shape& shape) {
  PluginModelNode node{"", 1, {}, {}, {}};
  node.inputs.push_back({true, "x", true, true, DType::f32, shape});
  node.outputs.push_back({true, "y"});
  return dynamic_cast<const PluginNoteTaker&>(plugin).notes(node);
}

std::shared_ptr<const PluginOperator> made(const camshaft_plugin_operator& given) {
  std::string expression;
  return make_operator(given, "test.so", "0", expression);
}

/// As an engine has the node: nothing is loaded.
ops::Plugin node_of(const PluginOperator& plugin, const Shape& shape) {
  return ops::make_plugin(plugin, notes_of(plugin, shape));
}

/// Remembers what it is asked to launch.
struct FakeDevice {
  std::string launched;
  PluginDevice device;
  FakeDevice() {
    device.launch = [this](const std::string& kernel, const PluginGrid& grid, void* const* arguments) {
      launched += kernel + " " + std::to_string(grid.blocks[0]) + "x" + std::to_string(grid.threads[0]) + "\n";
      if (kernel != "first") return;
      const std::byte *x = nullptr, *y = nullptr;
      int16_t n = 0;
      std::memcpy(&x, arguments[0], sizeof x);
      std::memcpy(&n, arguments[1], sizeof n);
      std::memcpy(&y, arguments[3], sizeof y);
      launched += std::to_string(x == inputs) + std::to_string(y == outputs) + " " + std::to_string(n) + " " +
                  std::to_string(static_cast<const char*>(arguments[2])[1]) + "\n";
    };
    device.copy = [this](std::byte* to, std::span<const std::byte> from) {
      launched += "copy " + std::to_string(to == outputs) + std::to_string(from.data() == inputs) + " " +
                  std::to_string(from.size()) + "\n";
    };
  }
  std::byte inputs[4], outputs[4];

  void run(const PluginInstance& instance, Dims dims, size_t tactic) {
    const PluginOperand input{DType::f32, dims, inputs}, output{DType::f32, dims, outputs};
    PluginCall call{{&input, 1}, {&output, 1}, tactic};
    call.device = &device;
    instance.run_on_device(call);
  }
};

const Dim n = Dim::symbol("n");

TEST(CompiledPlugin, RunsWithoutItsPlugin) {
  const auto instance = node_of(*made(table("Two", compile_two)), {2 * n + 1, 3}).instance();
  EXPECT_TRUE(instance->has_device());
  EXPECT_FALSE(instance->has_host());
  EXPECT_EQ(instance->device_text(0), "text of kernels");
  EXPECT_EQ(instance->device_module(1).size(), 4U);
  FakeDevice fake;
  PluginCall call;
  EXPECT_EQ(instance->tactics(call), 0U);
  call.device = &fake.device;
  EXPECT_EQ(instance->tactics(call), 2U);
  fake.run(*instance, {5, 3}, 0);
  EXPECT_EQ(fake.launched, "first 5x32\n11 15 8\nsecond 5x32\n");
  fake.launched.clear();
  fake.run(*instance, {0, 3}, 0);
  fake.run(*instance, {7, 3}, 1);
  EXPECT_EQ(fake.launched, "third 7x32\n") << "what has no blocks is not launched";
}

TEST(CompiledPlugin, InfersSizesByThoseOfItsOperands) {
  const ops::Plugin op = node_of(*made(table("Infers", compile_two)), {n, 3});
  const auto result = [&](const Shape& shape, DType dtype = DType::f32) {
    Graph graph;
    const ValueId x = graph.add_input("x", {dtype, shape});
    return graph.type(graph.add(op, {x}, "y"));
  };
  const Dim m = Dim::symbol("m");
  EXPECT_EQ(result({m + 1, 3}), (TensorType{DType::f32, {m + 1, 3}}));
  EXPECT_THROW(result({m, 4}), Error) << "it was compiled for 3 columns";
  EXPECT_THROW(result({m, 3, 1}), Error);
  EXPECT_THROW(result({m, 3}, DType::f16), Error);
  FakeDevice fake;
  EXPECT_THROW(fake.run(*op.instance(), {2, 4}, 0), Error);
}

TEST(CompiledPlugin, ArgumentsThatDoNotFitTheirTypeEndTheRun) {
  const auto instance = node_of(*made(table("Narrow", compile_two)), {n, 3}).instance();
  FakeDevice fake;
  fake.run(*instance, {10922, 3}, 0);
  try {
    fake.run(*instance, {10923, 3}, 0);
    FAIL() << "32769 is no int16";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("argument 1 of its kernel 'first'"), std::string::npos) << e.what();
  }
}

// The driver reads as many bytes as the kernel has parameters, and would take what lies behind.
TEST(CompiledPlugin, ArgumentsThatAreNotTheKernelsEndTheRun) {
  const auto instance = node_of(*made(table("Parameters", compile_two)), {n, 3}).instance();
  FakeDevice fake;
  std::vector<size_t> parameters;
  fake.device.parameters = [&](const std::string& kernel) { return kernel == "first" ? &parameters : nullptr; };
  const auto message = [&](const std::vector<size_t>& bytes) -> std::string {
    parameters = bytes;
    try {
      fake.run(*instance, {5, 3}, 0);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  const std::string bytes_of_a_text = "parameter 2 of its kernel 'first' has 64 bytes";
  EXPECT_EQ(message({8, 2, 1, 8}), "");
  EXPECT_EQ(message({8, 8, 1, 8}), "") << "a size has eight bytes, whatever is taken of them";
  fake.launched.clear();
  EXPECT_NE(message({8, 2, 1, 8, 4}).find("its kernel 'first' has 5 parameters, and is given 4"), std::string::npos);
  EXPECT_NE(message({8, 2, 64, 8}).find(bytes_of_a_text), std::string::npos);
  EXPECT_NE(message({24, 2, 1, 8}).find("parameter 0"), std::string::npos);
  EXPECT_EQ(fake.launched, "");
}

TEST(CompiledPlugin, AResultMayLieInAnOperand) {
  const auto compile = [](void*, camshaft_plugin_kernels* k) -> int32_t {
    k->alias(k, 0, 0);
    k->add_tactic(k, "text", nullptr, 0);
    return launch(k, "changes", {{CAMSHAFT_PLUGIN_INPUT, 0, nullptr, nullptr, 0}});
  };
  const auto instance = node_of(*made(table("InPlace", compile)), {n}).instance();
  FakeDevice fake;
  fake.run(*instance, {2}, 0);
  EXPECT_EQ(fake.launched, "copy 11 8\nchanges 2x32\n");
}

TEST(CompiledPlugin, OneThatCompilesNothingIsLeftAsItIs) {
  EXPECT_TRUE(
      notes_of(*made(table("Nothing", [](void*, camshaft_plugin_kernels*) -> int32_t { return 0; })), {n}).empty());
  EXPECT_TRUE(notes_of(*made(table("Two", compile_two)), {n, 3}).size() > 2);
}

TEST(CompiledPlugin, WhatIsWrongIsNamed) {
  const auto message = [](Compile compile) {
    try {
      notes_of(*made(table("Wrong", compile)), {n, 3});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find("compile_test::Wrong") != std::string::npos && text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(message([](void*, camshaft_plugin_kernels* k) { return k->fail(k, "not here"); }), "not here"));
  EXPECT_TRUE(has(message([](void*, camshaft_plugin_kernels* k) { return launch(k, "k", {}); }), "after the tactic"));
  EXPECT_TRUE(
      has(message([](void*, camshaft_plugin_kernels* k) { return k->add_tactic(k, "a", "b", 1); }), "one of the"));
  EXPECT_TRUE(has(message([](void*, camshaft_plugin_kernels* k) { return k->add_tactic(k, "a", nullptr, 0); }),
                  "launches nothing"));
  EXPECT_TRUE(has(message([](void*, camshaft_plugin_kernels* k) { return k->alias(k, 1, 0); }), "is not there"));
  EXPECT_TRUE(has(message([](void*, camshaft_plugin_kernels* k) {
                    k->add_tactic(k, "a", nullptr, 0);
                    return launch(k, "k", {{CAMSHAFT_PLUGIN_INPUT, 1, nullptr, nullptr, 0}});
                  }),
                  "operand 1, which is not there"));
  EXPECT_TRUE(has(message([](void*, camshaft_plugin_kernels* k) {
                    k->add_tactic(k, "a", nullptr, 0);
                    return launch(k, "k", {{CAMSHAFT_PLUGIN_SIZE, 0, k->shapes->constant(k->shapes, 1), nullptr, 3}});
                  }),
                  "an integer of 3 bytes"));
  EXPECT_TRUE(
      has(message([](void*, camshaft_plugin_kernels* k) {
            k->add_tactic(k, "a", nullptr, 0);
            return launch(k, "k", {{CAMSHAFT_PLUGIN_SIZE, 0, k->shapes->parse(k->shapes, "other"), nullptr, 4}});
          }),
          "other, which its operands' sizes do not tell"));
  EXPECT_TRUE(
      has(message([](void*, camshaft_plugin_kernels*) -> int32_t { throw std::runtime_error("thrown"); }), "thrown"));
}

TEST(CompiledPlugin, NamesOfKernelsAreWords) {
  const auto garbage = [](void*, camshaft_plugin_kernels* k) -> int32_t {
    k->add_tactic(k, "text of kernels", nullptr, 0);
    return launch(k, "twice\x01 (", {});
  };
  try {
    notes_of(*made(table("Garbage", garbage)), {2, 3});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'twice\\x01 (' is no name of a kernel"), std::string::npos) << e.what();
  }
}

// Engines may be any bytes: what they keep is refused, or is kernels.
TEST(CompiledPlugin, DamagedKernelsAreRefused) {
  const ops::Plugin op = node_of(*made(table("Damaged", compile_two)), {n, 3});
  size_t refused = 0;
  for (size_t i = 0; i < op.attributes.size(); ++i)
    for (size_t at = 0; at < op.attributes[i].size(); ++at)
      for (const char c : {'9', '0', 'x'}) {
        ops::Plugin damaged = op;
        if (damaged.attributes[i][at] == c) continue;
        damaged.attributes[i][at] = c;
        try {
          damaged.instance();
        } catch (const Error& e) {
          EXPECT_TRUE(e.code() == ErrorCode::invalid_argument || e.code() == ErrorCode::unsupported) << e.what();
          ++refused;
        }
      }
  EXPECT_GT(refused, 500U);
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    ops::Plugin damaged = op;
    damaged.attributes.erase(damaged.attributes.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_THROW(damaged.instance(), Error);
  }
}

}  // namespace
}  // namespace camshaft::plugin::compile_test
