// What a page about an engine shows of it beside its own record.
#include <gtest/gtest.h>

#include <fstream>
#include <span>

#include "camshaft/camshaft.hpp"
#include "doubling_model.h"

namespace camshaft::inspection_test {
namespace {

class Inspection : public ::testing::Test {
 protected:
  static std::string written() {
    std::string path = testing::TempDir() + "/inspection_test.onnx";
    std::ofstream(path, std::ios::binary) << api::doubling_model();
    return path;
  }
  const std::string path_ = written();
  const Engine engine_ = Builder(BuildOptions().set("tuning", "heuristic")).build(path_);
};

TEST_F(Inspection, NodesOfAFile) {
  const Record model = model_nodes(path_);
  EXPECT_EQ(model["inputs"].texts(), std::vector<std::string>{"x"});
  EXPECT_EQ(model["outputs"].texts(), std::vector<std::string>{"y"});
  ASSERT_EQ(model["nodes"].size(), 1U);
  EXPECT_EQ(model["nodes"][0]["op"].text(), "Add");
  EXPECT_EQ(model["nodes"][0]["inputs"].texts(), (std::vector<std::string>{"x", "x"}));
  EXPECT_EQ(std::vector<std::string>{model["nodes"][0]["name"].text()}, engine_.layers().at(0).sources);
  EXPECT_THROW(model_nodes(path_ + ".missing"), Error);
}

TEST_F(Inspection, LayersAsAFileToLookAt) {
  const std::string shown = testing::TempDir() + "/inspection_test_layers.onnx";
  const std::vector<std::byte> bytes = engine_.layers_onnx();
  std::ofstream(shown, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const Record graph = model_nodes(shown);
  EXPECT_EQ(graph["inputs"].texts(), std::vector<std::string>{"x"});
  EXPECT_EQ(graph["outputs"].texts(), std::vector<std::string>{"y"});
  ASSERT_EQ(graph["nodes"].size(), engine_.layers().size());
  EXPECT_EQ(graph["nodes"][0]["domain"].text(), "camshaft");
  EXPECT_EQ(graph["nodes"][0]["op"].text(), engine_.layers().at(0).op);
  EXPECT_EQ(camshaft_engine_layers_onnx(engine_.handle(), nullptr, nullptr), CAMSHAFT_INVALID_ARGUMENT);
}

TEST_F(Inspection, KeptRuns) {
  Context context = engine_.create_context();
  const Tensor x = Tensor::of<float>(DType::f32, {2}, {1, -2});
  context.set_input("x", x);
  Profiler profiler;
  EXPECT_THROW(profiler.keep_runs(-1), Error);
  profiler.keep_runs(1);
  context.set_profiler(&profiler);
  for (int i = 0; i < 2; ++i) context.run();
  const std::vector<RunSpan> runs = profiler.runs();
  ASSERT_EQ(runs.size(), 1U);
  ASSERT_EQ(runs[0].layers.size(), engine_.layers().size());
  EXPECT_EQ(runs[0].layers[0].layer, 0);
  EXPECT_EQ(runs[0].layers[0].device, "cpu");
  EXPECT_GE(runs[0].layers[0].start, runs[0].start);
}

TEST_F(Inspection, OperandsOfLayersHaveTheirSizes) {
  const std::vector<LayerCost> costs = engine_.layer_costs({});
  ASSERT_EQ(costs.size(), engine_.layers().size());
  EXPECT_EQ(costs[0].inputs, (std::vector<std::string>{"x: f32[2]", "x: f32[2]"}));
  EXPECT_EQ(costs[0].outputs, std::vector<std::string>{"y: f32[2]"});
}

TEST_F(Inspection, OutputsAreNotInTheArena) {
  EXPECT_EQ(engine_.arena({}).size(), 0U);
  EXPECT_THROW(engine_.arena({{"x", {3}}}), Error) << "the input has two elements";
  EXPECT_THROW(engine_.arena({}, -1), Error);
}

TEST_F(Inspection, ErrorsOfTensors) {
  const NamedTensors inputs = {{"x", Tensor::of<float>(DType::f32, {2}, {1, -2})}};
  const Record errors = engine_.tensor_errors(path_, inputs, 1e-4, 1);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0]["output"].text(), "y");
  EXPECT_TRUE(errors[0]["passed"].boolean());
  EXPECT_EQ(errors[0]["compared"].integer(), 2);
  EXPECT_THROW(engine_.tensor_errors(path_, {}, 1e-4, 1), Error);
  const Cancellation cancelled;
  cancelled.cancel();
  EXPECT_THROW(engine_.tensor_errors(path_, inputs, 1e-4, 1, cancelled), Error);
}

}  // namespace
}  // namespace camshaft::inspection_test
