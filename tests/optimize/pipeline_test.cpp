#include "optimize/pipeline.h"

#include <algorithm>

#include "optimize/pass_test.h"

namespace camshaft {
namespace {

const std::string model = R"(graph "g" (%x: f32[n, 3, 8, 8]) {
    const %w: f32[4, 3, 1, 1] = 0.5
    const %scale: f32[4, 1, 1] = [1, 2, 3, 4]
    const %zero: f32[] = 0
    %shape = shape_of {start=0, end=1} (%x)
    %c = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %w)
    %s = pointwise {function=mul} (%c, %scale)
    %y = pointwise {function=max} (%s, %zero)
    return "y" = %y, "batch" = %shape
  })";

Graph optimized(int stop_after) {
  Graph graph = parse_graph(model, operators());
  PassContext context = test_context();
  context.channels_last = true;
  context.stop_after = stop_after;
  optimize(graph, context);
  return graph;
}

TEST(Pipeline, AllPasses) {
  const Graph expected = parse_graph(R"(graph "g" (%x: f32[n, 3, 8, 8]) {
      const %w: f32[4, 3, 1, 1] = [0.5, 0.5, 0.5, 1, 1, 1, 1.5, 1.5, 1.5, 2, 2, 2]
      %batch = dims {elements=shape(n)} ()
      %t = transpose {permutation=[0, 2, 3, 1]} (%x)
      %r = region {kind=contract} (%t, %w)
        graph (%x_1: f32[n, 8, 8, 3], %w_1: f32[4, 3, 1, 1]) {
          const %zero: f32[] = 0
          %c = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%x_1, %w_1)
          %y_1 = pointwise {function=max} (%c, %zero)
          return %y_1
        }
      %u = transpose {permutation=[0, 3, 1, 2]} (%r)
      return "y" = %u, "batch" = %batch
    })",
                                     operators());
  const Graph result = optimized(-1);
  // Names of a body's inputs count in equal(); they are those of the values outside.
  ASSERT_EQ(result.nodes.size(), 4U) << print(result);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(result.nodes[i].op, expected.nodes[i].op) << print(result);
  ASSERT_EQ(result.nodes[2].bodies.size(), 1U);
  const Graph &body = result.nodes[2].bodies[0], &wanted = expected.nodes[2].bodies[0];
  ASSERT_EQ(body.nodes.size(), wanted.nodes.size()) << print(result);
  for (size_t i = 0; i < body.nodes.size(); ++i) EXPECT_EQ(body.nodes[i].op, wanted.nodes[i].op);
  EXPECT_EQ(result.output_names, expected.output_names);
}

TEST(Pipeline, StopsWhereTold) {
  EXPECT_EQ(optimized(0).nodes.size(), 4U);
  const std::vector<std::string> names = pass_names();
  const auto layout = std::find(names.begin(), names.end(), "to_channels_last") - names.begin();
  const auto has_transposes = [](const Graph& graph) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& n) { return n.op.name() == "transpose"; });
  };
  EXPECT_FALSE(has_transposes(optimized(static_cast<int>(layout))));
  EXPECT_TRUE(has_transposes(optimized(static_cast<int>(layout) + 1)));
  EXPECT_TRUE(equal(optimized(static_cast<int>(names.size())), optimized(-1)));
}

TEST(Pipeline, TheSecondStageCountsOnFromTheFirst) {
  const std::vector<std::string> names = pass_names();
  const auto first = static_cast<int>(std::find(names.begin(), names.end(), "lower_precision") - names.begin());
  EXPECT_EQ(names[static_cast<size_t>(first) - 1], "chain_convolutions");
  EXPECT_EQ(names[names.size() - 3], "widen_images");
  EXPECT_EQ(names[names.size() - 2], "allow_rounding");
  EXPECT_EQ(names.back(), "chain_squeeze_excite");
  const auto stores_f16 = [](int stop_after, DType storage) {
    Graph graph = parse_graph(model, operators());
    PassContext context = test_context();
    context.storage = storage;
    context.stop_after = stop_after;
    optimize(graph, context);
    optimize_storage(graph, context);
    return std::any_of(graph.values.begin(), graph.values.end(),
                       [](const Value& value) { return value.type.dtype == DType::f16; });
  };
  EXPECT_FALSE(stores_f16(first, DType::f16));
  EXPECT_TRUE(stores_f16(first + 1, DType::f16));
  EXPECT_TRUE(stores_f16(-1, DType::f16));
  EXPECT_FALSE(stores_f16(-1, DType::f32));
}

TEST(Pipeline, TheSecondStageCanBeCancelled) {
  Graph graph = parse_graph(model, operators());
  PassContext context = test_context();
  context.storage = DType::f16;
  context.cancellation.cancel();
  EXPECT_THROW(optimize_storage(graph, context), Error);
}

TEST(Pipeline, CanBeCancelled) {
  Graph graph = parse_graph(model, operators());
  PassContext context = test_context();
  context.cancellation.cancel();
  try {
    optimize(graph, context);
    FAIL() << "was not cancelled";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
}

}  // namespace
}  // namespace camshaft
