// The C interface from the library's side: what functions see and give.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/graph.h"
#include "ir/ops/plugin.h"
#include "plugin/c_operator.h"
#include "reference/evaluate.h"
#include "reference/plugin_run.h"

namespace camshaft::plugin::c_interface_test {
namespace {

int32_t infer_as_first(void*, camshaft_plugin_shapes* s) {
  std::vector<const camshaft_plugin_dim*> dims;
  for (size_t axis = 0; axis < s->rank(s, 0); ++axis) dims.push_back(s->dim(s, 0, axis));
  return s->set_output(s, 0, s->dtype(s, 0), dims.size(), dims.data());
}

int32_t copy(void*, const camshaft_plugin_run* run) {
  std::memcpy(run->outputs[0]->data, run->inputs[0]->data, run->outputs[0]->bytes);
  return 0;
}

camshaft_plugin_operator table(const char* name) {
  camshaft_plugin_operator made = {};
  made.size = sizeof made;
  made.domain = "c_interface";
  made.name = name;
  made.version = "1";
  made.infer = infer_as_first;
  made.enqueue = copy;
  return made;
}

/// A node of the operator on inputs of these shapes.
struct OneNode {
  OneNode(const camshaft_plugin_operator& given, const std::vector<Shape>& shapes,
          const std::vector<PluginAttribute>& attributes = {}) {
    std::string expression;
    auto made = make_operator(given, "test.so", "0", expression);
    add_plugin(made);
    std::vector<ValueId> inputs;
    for (const Shape& shape : shapes) inputs.push_back(graph.add_input("x", {DType::f32, shape}));
    graph.add_output("y", graph.add(ops::make_plugin(*made, attributes), inputs, "y"));
  }
  const TensorType& type() const { return graph.type(graph.outputs[0]); }
  Tensor run(const std::vector<Tensor>& inputs) const {
    ThreadPool pool(3);
    return evaluate(graph, inputs, pool)[0];
  }
  Graph graph;
};

Tensor counted(Dims dims) {
  Tensor t(DType::f32, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.as_mutable<float>()[i] = static_cast<float>(i);
  return t;
}

TEST(PluginShapes, AreExpressions) {
  camshaft_plugin_operator given = table("Shapes");
  given.infer = [](void*, camshaft_plugin_shapes* s) -> int32_t {
    const camshaft_plugin_dim *n = s->dim(s, 0, 0), *m = s->dim(s, 0, 1), *two = s->constant(s, 2);
    const camshaft_plugin_dim* dims[] = {s->combine(s, CAMSHAFT_PLUGIN_ADD, n, two),
                                         s->combine(s, CAMSHAFT_PLUGIN_SUBTRACT, n, m),
                                         s->combine(s, CAMSHAFT_PLUGIN_MULTIPLY, n, m),
                                         s->combine(s, CAMSHAFT_PLUGIN_FLOOR_DIVIDE, n, two),
                                         s->combine(s, CAMSHAFT_PLUGIN_CEIL_DIVIDE, n, two),
                                         s->combine(s, CAMSHAFT_PLUGIN_MODULO, n, two),
                                         s->combine(s, CAMSHAFT_PLUGIN_MIN, n, m),
                                         s->combine(s, CAMSHAFT_PLUGIN_MAX, n, m),
                                         s->combine(s, CAMSHAFT_PLUGIN_BROADCAST, n, m),
                                         s->parse(s, "3*n + 1"),
                                         s->parse(s, s->text(s, s->combine(s, CAMSHAFT_PLUGIN_MULTIPLY, n, n)))};
    return s->set_output(s, 0, CAMSHAFT_F32, std::size(dims), dims);
  };
  const OneNode node(given, {{Dim::symbol("n"), Dim::symbol("m")}});
  Dims got;
  for (const Dim& d : node.type().shape) got.push_back(d.evaluate({{"n", 7}, {"m", 7}}));
  EXPECT_EQ(got, (Dims{9, 0, 49, 3, 4, 1, 7, 7, 7, 22, 49}));
}

TEST(PluginShapes, SayWhatIsWrong) {
  const auto message = [](const char* name, int32_t (*infer)(void*, camshaft_plugin_shapes*)) {
    camshaft_plugin_operator given = table(name);
    given.infer = infer;
    try {
      OneNode(given, {{2, 3}});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(
      has(message("Fails", [](void*, camshaft_plugin_shapes* s) { return s->fail(s, "not these"); }), "not these"));
  // A failure that is explained counts even where 0 is returned.
  EXPECT_TRUE(has(message("FailsQuietly",
                          [](void*, camshaft_plugin_shapes* s) -> int32_t {
                            s->fail(s, "not those");
                            return 0;
                          }),
                  "not those"));
  EXPECT_TRUE(has(message("Divides",
                          [](void*, camshaft_plugin_shapes* s) -> int32_t {
                            const auto* d =
                                s->combine(s, CAMSHAFT_PLUGIN_FLOOR_DIVIDE, s->dim(s, 0, 0), s->constant(s, 0));
                            return s->set_output(s, 0, CAMSHAFT_F32, 1, &d);
                          }),
                  "Divides"));
  EXPECT_TRUE(
      has(message("Strings",
                  [](void*, camshaft_plugin_shapes* s) { return s->set_output(s, 0, CAMSHAFT_STRING, 0, nullptr); }),
          "which plugins cannot give"));
  EXPECT_TRUE(has(message("Negative",
                          [](void*, camshaft_plugin_shapes* s) -> int32_t {
                            const auto* d = s->constant(s, -1);
                            return s->set_output(s, 0, CAMSHAFT_F32, 1, &d);
                          }),
                  "the size -1 along axis 0"));
}

TEST(PluginNode, HasItsAttributes) {
  camshaft_plugin_operator given = table("Attributes");
  given.create = [](void*, const camshaft_plugin_node* node, void** instance) -> int32_t {
    const int64_t* integers = nullptr;
    const double* numbers = nullptr;
    const char* text = nullptr;
    size_t length = 0;
    EXPECT_EQ(node->attribute_count, 4U);
    EXPECT_EQ(node->integers(node, "axes", &integers), 2U);
    EXPECT_EQ(integers[1], -7);
    EXPECT_EQ(node->numbers(node, "scale", &numbers), 1U);
    EXPECT_EQ(numbers[0], 0.5);
    EXPECT_EQ(node->texts(node, "mode", 0, &text, &length), 1U);
    EXPECT_EQ(std::string(text, length), "wide");
    const camshaft_plugin_tensor* table = node->tensor(node, "table");
    EXPECT_TRUE(table && table->rank == 1 && static_cast<const float*>(table->data)[1] == 1);
    EXPECT_EQ(node->integers(node, "absent", &integers), 0U);
    EXPECT_EQ(node->attribute_kind(node, "absent"), CAMSHAFT_PLUGIN_NONE);
    *instance = new int(node->state == nullptr ? 1 : 2);
    return 0;
  };
  given.destroy = [](void* instance) { delete static_cast<int*>(instance); };
  // The state of the instance of the model goes to that of the node.
  given.state = [](void* instance, const void** bytes, size_t* size) -> int32_t {
    *bytes = instance;
    *size = sizeof(int);
    return 0;
  };
  const OneNode node(given, {{3}},
                     {{"axes", std::vector<int64_t>{1, -7}},
                      {"scale", std::vector<double>{0.5}, true},
                      {"mode", std::vector<std::string>{"wide"}, true},
                      {"table", counted({2})}});
  EXPECT_EQ(node.graph.nodes[0].op.as<ops::Plugin>()->state, "01000000");
  EXPECT_EQ(node.run({counted({3})}), counted({3}));
}

TEST(PluginRun, LoopsOverAllThreads) {
  camshaft_plugin_operator given = table("Loops");
  given.reference = given.enqueue = [](void*, const camshaft_plugin_run* run) -> int32_t {
    EXPECT_EQ(run->threads, 3);
    EXPECT_EQ(run->is_cancelled(run), 0);
    run->parallel_for(
        run, run->inputs[0]->dims[0], 10,
        [](void* user, int64_t begin, int64_t end) {
          const auto* of = static_cast<const camshaft_plugin_run*>(user);
          EXPECT_TRUE(begin % 10 == 0);
          for (int64_t i = begin; i < end; ++i)
            static_cast<float*>(of->outputs[0]->data)[i] = 3 * static_cast<const float*>(of->inputs[0]->data)[i];
        },
        const_cast<camshaft_plugin_run*>(run));
    return 0;
  };
  const OneNode node(given, {{1001}});
  const Tensor y = node.run({counted({1001})});
  for (int64_t i = 0; i < 1001; ++i) EXPECT_EQ(y.as<float>()[i], static_cast<float>(3 * i));
}

TEST(PluginRun, ManyOperandsAndEmptyOnes) {
  camshaft_plugin_operator given = table("Sum");
  given.enqueue = [](void*, const camshaft_plugin_run* run) -> int32_t {
    for (int64_t i = 0; i < run->outputs[0]->dims[0]; ++i) {
      float sum = 0;
      for (size_t k = 0; k < run->input_count; ++k) sum += static_cast<const float*>(run->inputs[k]->data)[i];
      static_cast<float*>(run->outputs[0]->data)[i] = sum;
    }
    return 0;
  };
  const OneNode node(given, std::vector<Shape>(40, Shape{Dim::symbol("n")}));
  EXPECT_EQ(node.run(std::vector<Tensor>(40, counted({3}))), Tensor::of<float>(DType::f32, {3}, {0, 40, 80}));
  EXPECT_EQ(node.run(std::vector<Tensor>(40, counted({0}))).size(), 0);
}

TEST(PluginRun, WorkspaceIsGuarded) {
  camshaft_plugin_operator given = table("Workspace");
  given.workspace = [](void*, const camshaft_plugin_run* run) -> size_t {
    EXPECT_EQ(run->inputs[0]->data, nullptr);
    return run->inputs[0]->bytes;
  };
  given.enqueue = [](void*, const camshaft_plugin_run* run) -> int32_t {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(run->workspace) % 64, 0U);
    std::memcpy(run->workspace, run->inputs[0]->data, run->inputs[0]->bytes);
    if (run->inputs[0]->dims[0] == 5) static_cast<char*>(run->workspace)[20] = 1;
    std::memcpy(run->outputs[0]->data, run->workspace, run->inputs[0]->bytes);
    return 0;
  };
  const OneNode node(given, {{Dim::symbol("n")}});
  EXPECT_EQ(node.run({counted({4})}), counted({4}));
  try {
    node.run({counted({5})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("wrote outside of its workspace (20 bytes)"), std::string::npos) << e.what();
  }
}

TEST(PluginVariants, AreOfTheHash) {
  camshaft_plugin_operator given = table("Variants");
  std::string expression;
  EXPECT_EQ(make_operator(given, "test.so", "0", expression)->hash, "0");
  given.variant = "a";
  EXPECT_EQ(make_operator(given, "test.so", "0", expression)->hash, "0.a");
  // Of a plugin that was compiled before there were variants.
  given.size = offsetof(camshaft_plugin_operator, variant);
  EXPECT_EQ(make_operator(given, "test.so", "0", expression)->hash, "0");
}

TEST(PluginLayouts, AreKnownOrRefused) {
  camshaft_plugin_operator given = table("Layouts");
  const int32_t layouts[] = {CAMSHAFT_PLUGIN_CHANNELS_LAST, CAMSHAFT_PLUGIN_CHANNELS_FIRST};
  given.input_layouts = layouts;
  given.input_layout_count = 2;
  given.output_layouts = layouts;
  given.output_layout_count = 1;
  std::string expression;
  const auto made = make_operator(given, "test.so", "0", expression);
  EXPECT_EQ(made->input_layouts,
            (std::vector<PluginLayout>{PluginLayout::channels_last, PluginLayout::channels_first}));
  EXPECT_EQ(made->output_layouts, (std::vector<PluginLayout>{PluginLayout::channels_last}));
  // Of a plugin that was compiled before there were layouts.
  given.size = offsetof(camshaft_plugin_operator, input_layouts);
  EXPECT_TRUE(make_operator(given, "test.so", "0", expression)->input_layouts.empty());
  given.size = sizeof given;
  const int32_t unknown[] = {CAMSHAFT_PLUGIN_CHANNELS_LAST, 7};
  given.output_layouts = unknown;
  given.output_layout_count = 2;
  try {
    make_operator(given, "test.so", "0", expression);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("has 7 as the layout of result 1"), std::string::npos) << e.what();
  }
}

TEST(PluginRun, CancellationIsSeen) {
  camshaft_plugin_operator given = table("Waits");
  given.enqueue = [](void*, const camshaft_plugin_run* run) -> int32_t {
    return run->is_cancelled(run) ? run->fail(run, "stopped") : 0;
  };
  const OneNode node(given, {{4}});
  const ops::Plugin& op = *node.graph.nodes[0].op.as<ops::Plugin>();
  Cancellation cancellation;
  cancellation.cancel();
  ThreadPool pool(1);
  const Dims dims{4};
  try {
    run_plugin(op, *op.instance(), {counted({4})}, {node.type()}, {&dims}, {}, pool, &cancellation);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
}

}  // namespace
}  // namespace camshaft::plugin::c_interface_test
