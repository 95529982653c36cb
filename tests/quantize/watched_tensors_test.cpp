// What an engine shows of tensors that are watched, against the reference evaluation of the model.
#include "quantize/watched_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/passes.h"
#include "optimize/pipeline.h"
#include "quantize/collect_numbers.h"
#include "runtime/support.h"
#include "test_random.h"

namespace camshaft::watched_tensors_test {
namespace {

// Convolutions in the model's layout, with a residual, pooling and a product behind a reshape.
constexpr std::string_view network = R"(graph "net" (%x: f32[batch, 3, 12, 12]) {
  const %w: f32[8, 3, 3, 3] = 0.05
  const %w1: f32[8, 8, 3, 3] = 0.02
  const %zero: f32[] = 0
  const %m: f32[8, 4] = 0.25
  %c = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w)
  %r = pointwise {function=max} (%c, %zero)
  %d = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%r, %w1)
  %s = pointwise {function=add} (%d, %r)
  %t = pointwise {function=max} (%s, %zero)
  %p = reduce {kind=mean, axes=[2, 3], keep_dims=false} (%t)
  %y = matmul (%p, %m)
  return "y" = %y
})";

struct Watched {
  Engine engine;
  std::vector<WatchedValue> values;
};

Watched watch(std::string_view text, const std::vector<std::string>& tensors) {
  Graph graph = parse_graph(text, operators());
  const WatchedTensors watched(graph, tensors);
  ThreadPool pool(1);
  const PassContext context{.pool = pool, .verify = true};
  run_passes_with_branches(graph, cpu::passes(ops::Rounding::none).form, context);
  std::vector<WatchedValue> values = watched.settle(graph);
  EXPECT_EQ(graph.output_names.front(), "y");
  return {compile_graph(std::move(graph), find_backend("cpu")), std::move(values)};
}

Tensor random_tensor(Random& random, const Dims& dims) {
  Tensor tensor(DType::f32, dims);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.as_mutable<float>()[i] = static_cast<float>(random.normal());
  return tensor;
}

/// Gives these batches of `x`, one after another.
NextBatch batches_of(const std::vector<Tensor>& tensors) {
  return [tensors, next = size_t{0}](const std::vector<TensorInfo>& inputs, Batch& batch) mutable {
    if (next == tensors.size()) return false;
    batch.emplace_back(inputs[0].name, view_of(tensors[next++]));
    return true;
  };
}

const Histogram& of(const Watched& watched, const CollectedNumbers& numbers, const std::string& tensor) {
  for (size_t w = 0; w < watched.values.size(); ++w) {
    const auto& names = watched.values[w].tensors;
    if (std::any_of(names.begin(), names.end(), [&](const WatchedTensor& name) { return name.name == tensor; }))
      return numbers.histograms[w];
  }
  throw std::runtime_error("not watched: " + tensor);
}

TEST(WatchedTensors, AreTheModels) {
  Random random = test_random();
  const std::vector<std::string> tensors = {"x", "c", "r", "d", "t", "p", "y"};
  const Watched watched = watch(network, tensors);
  Graph model = parse_graph(network, operators());
  model.outputs.clear();
  model.output_names.clear();
  for (const std::string& tensor : tensors)
    for (size_t v = 0; v < model.values.size(); ++v)
      if (model.values[v].name == tensor) model.add_output(tensor, static_cast<ValueId>(v));
  ASSERT_EQ(model.outputs.size(), tensors.size());
  ThreadPool pool(1);
  for (const int64_t batch : {1, 3}) {
    const Tensor x = random_tensor(random, {batch, 3, 12, 12});
    const CollectedNumbers numbers = collect_numbers(watched.engine, watched.values, batches_of({x}));
    EXPECT_EQ(numbers.samples, batch);
    const std::vector<Tensor> expected = evaluate(model, {x}, pool);
    for (size_t t = 0; t < tensors.size(); ++t) {
      SCOPED_TRACE(tensors[t]);
      const cpu::NumberSummary& seen = of(watched, numbers, tensors[t]).summary();
      ASSERT_EQ(seen.count, expected[t].size());
      float min = std::numeric_limits<float>::infinity(), max = -min;
      for (int64_t i = 0; i < seen.count; ++i) {
        min = std::min(min, expected[t].as<float>()[i]);
        max = std::max(max, expected[t].as<float>()[i]);
      }
      EXPECT_NEAR(seen.min, min, 1e-4);
      EXPECT_NEAR(seen.max, max, 1e-4);
    }
  }
}

TEST(WatchedTensors, CostNoLayersWhereTheyAreWritten) {
  const Watched plain = watch(network, {}), watched = watch(network, {"x", "r", "t", "p"});
  EXPECT_EQ(watched.engine.layers().size(), plain.engine.layers().size());
  EXPECT_EQ(watched.engine.outputs().size(), plain.engine.outputs().size());
}

TEST(WatchedTensors, ThoseOfAnotherModelAreRefused) {
  Graph graph = parse_graph(network, operators());
  EXPECT_THROW(WatchedTensors(graph, {"r", "nothing"}), Error);
}

TEST(CollectNumbers, TheSameWhateverTheThreads) {
  Random random = test_random();
  const Watched watched = watch(network, {"x", "c", "t"});
  std::vector<Tensor> data;
  for (int i = 0; i < 3; ++i) data.push_back(random_tensor(random, {32 + i, 3, 12, 12}));
  CollectOptions options;
  options.threads = 1;
  const CollectedNumbers one = collect_numbers(watched.engine, watched.values, batches_of(data), options);
  EXPECT_EQ(one.batches, 3);
  EXPECT_EQ(one.samples, 32 + 33 + 34);
  for (const int threads : {2, 5}) {
    options.threads = threads;
    const CollectedNumbers other = collect_numbers(watched.engine, watched.values, batches_of(data), options);
    for (size_t w = 0; w < watched.values.size(); ++w) {
      EXPECT_EQ(other.histograms[w].bins(), one.histograms[w].bins());
      EXPECT_EQ(other.histograms[w].summary(), one.histograms[w].summary());
    }
  }
  options.extremes_only = true;
  const CollectedNumbers extremes = collect_numbers(watched.engine, watched.values, batches_of(data), options);
  for (size_t w = 0; w < watched.values.size(); ++w) {
    EXPECT_EQ(extremes.histograms[w].summary(), one.histograms[w].summary());
    EXPECT_TRUE(extremes.histograms[w].bins().empty());
  }
}

TEST(CollectNumbers, BatchesThatDoNotFitAreNamed) {
  const Watched watched = watch(network, {"t"});
  const Tensor right(DType::f32, {1, 3, 12, 12});
  const auto refusal = [&](const NextBatch& next) -> std::string {
    try {
      collect_numbers(watched.engine, watched.values, next);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    ADD_FAILURE() << "was taken";
    return "";
  };
  const auto expect_said = [](const std::string& what, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  expect_said(refusal(batches_of({right, Tensor(DType::f32, {1, 3, 12, 13})})), {"batch 2", "'x'", "13"});
  expect_said(refusal(batches_of({Tensor(DType::f64, {1, 3, 12, 12})})), {"batch 1", "'x' is f32, but f64 is given"});
  expect_said(refusal([](const std::vector<TensorInfo>&, Batch&) { return true; }),
              {"batch 1", "input 'x' (f32[batch, 3, 12, 12]) is not given"});
  expect_said(refusal([&](const std::vector<TensorInfo>&, Batch& batch) {
                batch.emplace_back("x", view_of(right));
                batch.emplace_back("q", view_of(right));
                return true;
              }),
              {"batch 1", "the model has no input 'q'"});
}

TEST(CollectNumbers, CanBeCancelled) {
  const Watched watched = watch(network, {"t"});
  const Tensor x(DType::f32, {1, 3, 12, 12});
  CollectOptions options;
  int given = 0;
  try {
    collect_numbers(
        watched.engine, watched.values,
        [&](const std::vector<TensorInfo>&, Batch& batch) {
          batch.emplace_back("x", view_of(x));
          if (++given == 3) options.cancellation.cancel();
          return true;
        },
        options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
  EXPECT_EQ(given, 3);
}

}  // namespace
}  // namespace camshaft::watched_tensors_test
