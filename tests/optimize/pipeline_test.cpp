#include "optimize/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "ir/ops/control_flow.h"
#include "optimize/canonicalize/canonicalization.h"
#include "optimize/canonicalize/fold_constants.h"
#include "optimize/fuse/fuse.h"
#include "optimize/layout/to_channels_last.h"
#include "optimize/pass_test.h"

namespace camshaft::pipeline_test {
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

PassList some_passes() {
  return {canonicalization(), to_channels_last_pass, fold_constants_pass, fuse_pass};
}

Graph optimized(PassRuns& runs) {
  Graph graph = parse_graph(model, operators());
  PassContext context = test_context();
  context.runs = &runs;
  run_passes_with_branches(graph, some_passes(), context);
  return graph;
}

Graph optimized_by(int most) {
  PassRuns runs;
  runs.most = most;
  return optimized(runs);
}

std::vector<std::string_view> op_names(const Graph& graph) {
  std::vector<std::string_view> names;
  for (const Node& node : graph.nodes) names.push_back(node.op.name());
  return names;
}

TEST(Pipeline, RunsAllPasses) {
  const Graph result = optimized_by(-1);
  EXPECT_EQ(op_names(result), (std::vector<std::string_view>{"dims", "transpose", "region", "transpose"}))
      << print(result);
  EXPECT_EQ(op_names(result.nodes[2].bodies[0]), (std::vector<std::string_view>{"conv", "pointwise"}));
  EXPECT_EQ(result.output_names, (std::vector<std::string>{"y", "batch"}));
}

TEST(Pipeline, RepeatsASetUntilNothingChanges) {
  PassRuns runs;
  optimized(runs);
  const size_t in_set = canonicalization().passes.size();
  const auto round = [&](const std::string& suffix) {
    return std::count_if(runs.names.begin(), runs.names.end(),
                         [&](const std::string& name) { return name.ends_with(suffix); });
  };
  // The second round changes nothing: the scale is in the weights after the first.
  EXPECT_EQ(round(" (round 2)"), static_cast<int64_t>(in_set));
  EXPECT_EQ(round(" (round 3)"), 0);
  EXPECT_EQ(runs.names.size(), 2 * in_set + 3);
  EXPECT_EQ(runs.names.back(), "fuse");
}

// Passes that undo each other's work.
void negate(Graph& graph, const PassContext&) {
  std::reverse(graph.outputs.begin(), graph.outputs.end());
}

TEST(Pipeline, RepeatsASetNoMoreThanItsRounds) {
  Graph graph = graph_of("%x: f32[2], %z: f32[2]", "return \"a\" = %x, \"b\" = %z");
  PassRuns runs;
  PassContext context = test_context();
  context.runs = &runs;
  run_passes(graph, {PassStep({{.name = "negate", .run = negate}}, 3)}, context);
  EXPECT_EQ(runs.names, (std::vector<std::string>{"negate", "negate (round 2)", "negate (round 3)"}));
}

TEST(Pipeline, StopsWhereTold) {
  PassRuns all;
  const Graph whole = optimized(all);
  EXPECT_EQ(optimized_by(0).nodes.size(), 4U);
  const auto layout = std::find(all.names.begin(), all.names.end(), "to_channels_last") - all.names.begin();
  const auto has_transposes = [](const Graph& graph) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& n) { return n.op.name() == "transpose"; });
  };
  EXPECT_FALSE(has_transposes(optimized_by(static_cast<int>(layout))));
  EXPECT_TRUE(has_transposes(optimized_by(static_cast<int>(layout) + 1)));
  EXPECT_TRUE(equal(optimized_by(static_cast<int>(all.names.size())), whole));
}

TEST(Pipeline, CountsOnFromTheStageBefore) {
  Graph graph = parse_graph(model, operators());
  PassRuns runs;
  runs.most = 1;
  PassContext context = test_context();
  context.runs = &runs;
  run_passes(graph, {fold_constants_pass}, context);
  run_passes(graph, {to_channels_last_pass}, context);
  EXPECT_EQ(runs.names, (std::vector<std::string>{"fold_constants"}));
}

TEST(Pipeline, RunsOnBranchesWithoutChains) {
  Graph graph = graph_of("%x: f32[2], %c: bool[]", R"(
    %y = if (%c, %x)
      graph (%a: f32[2]) {
        %b = pointwise {function=neg} (%a)
        %d = pointwise {function=exp} (%b)
        return %d
      }
      graph (%a: f32[2]) {
        return %a
      }
    return "y" = %y)");
  const Pass chains = {.name = "chains",
                       .run = [](Graph& g, const PassContext&) { EXPECT_EQ(g.nodes[0].op.name(), "if"); },
                       .settles = {Fact::chains}};
  run_passes_with_branches(graph, {fuse_pass, chains}, test_context());
  ASSERT_EQ(op_names(graph), (std::vector<std::string_view>{"if"}));
  EXPECT_EQ(op_names(graph.nodes[0].bodies[0]), (std::vector<std::string_view>{"region"}));
}

TEST(Pipeline, CanBeCancelled) {
  Graph graph = parse_graph(model, operators());
  const PassContext context = test_context();
  context.cancellation.cancel();
  try {
    run_passes(graph, some_passes(), context);
    FAIL() << "was not cancelled";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
}

std::string order_error(const BackendPasses& passes) {
  try {
    check_order(passes);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    return e.what();
  }
}

TEST(PassOrder, IsCheckedAcrossStages) {
  const Pass regions = {.name = "regions", .settles = {Fact::regions}};
  const Pass reader = {.name = "reader", .needs = {Fact::regions}};
  const Pass early = {.name = "early", .before = {Fact::regions}};
  EXPECT_EQ(order_error({.form = {regions}, .precision = {reader}}), "");
  EXPECT_EQ(order_error({.meaning = {early}, .form = {regions}}), "");
  EXPECT_EQ(order_error({.form = {reader, regions}}),
            "the pass 'reader' needs regions, which no pass before it settles");
  EXPECT_EQ(order_error({.form = {regions}, .precision = {early}}),
            "the pass 'early' must come before regions are settled");
  EXPECT_EQ(order_error({.form = {PassStep({regions, early}, 2)}}),
            "the pass 'early' must come before regions are settled");
  EXPECT_EQ(order_error({.form = {PassStep({early, regions}, 2)}}),
            "the pass 'early' must come before regions are settled");
  EXPECT_EQ(order_error({.form = {PassStep({early, regions}, 1)}}), "");
  EXPECT_EQ(order_error({.form = {PassStep({regions, reader}, 2)}}), "");
  EXPECT_EQ(order_error({.form = {PassStep({reader, regions}, 2)}}),
            "the pass 'reader' needs regions, which no pass before it settles");
}

}  // namespace
}  // namespace camshaft::pipeline_test
