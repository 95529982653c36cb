// What a context promises: shapes, bindings, asynchronous runs, cancellation, profiles, taps.
#include "runtime/context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "base/large_memory.h"
#include "base/temporary_folder.h"
#include "reference/random_tensor.h"
#include "runtime/support.h"

namespace camshaft::context_test {
namespace {

Tensor reference(const std::vector<Tensor>& inputs, size_t output = 0, std::string_view model = small_model) {
  ThreadPool pool(1);
  return evaluate(parse_graph(model, operators()), inputs, pool)[output];
}

void expect_close(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.dims(), expected.dims());
  const auto a = actual.to_doubles(), e = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-4 * std::max(1.0, std::abs(e[i]))) << i;
}

template <class Call>
std::string message_of(Call&& call, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

#define EXPECT_MESSAGE(text, ...)                                \
  do {                                                           \
    const std::string message = message_of(__VA_ARGS__);         \
    EXPECT_NE(message.find(text), std::string::npos) << message; \
  } while (false)

TEST(Context, SeveralShapesInTurn) {
  Random random = test_random();
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({2});
  std::vector<Dims> shapes = {{1, 6, 8, 4}, {3, 6, 5, 4}, {2, 6, 33, 4}, {1, 6, 1, 4}, {0, 6, 4, 4}};
  for (int i = 0; i < 20; ++i) shapes.push_back({1 + i % 3, 6, 2 + i, 4});  // more than a context remembers
  for (int round = 0; round < 2; ++round)
    for (const Dims& dims : shapes) {
      const Tensor x = random_tensor(random, DType::f32, dims);
      context.set_input("x", dims, x.data());
      context.run();
      expect_close(output_of(context, "probabilities"), reference({x}));
      expect_close(output_of(context, "logits"), reference({x}, 1));
    }
}

// Found by fuzzing: the reader of the view, whose own shape is known, read beyond what was there.
TEST(Context, AViewOfKnownShapeMustFitWhatRunningGives) {
  const Engine engine = engine_from(R"(graph "g" (%x: f32[4], %y: f32[2, 3]) {
  %n = non_zero (%x)
  %i = cast {to=f32} (%n)
  %v = reshape {shape=shape(2, 3)} (%i)
  %s = pointwise {function=add} (%v, %y)
  return "s" = %s
})");
  Context context = engine.create_context({1});
  const std::vector<float> y(6, 0.5F), x{1, 0, 0, 1};
  context.set_input("y", {2, 3}, y.data());
  context.set_input("x", {4}, x.data());
  EXPECT_MESSAGE("cannot reshape [1, 2] to [2, 3]", [&] { context.run(); });
}

TEST(Context, OutputShapeBeforeTheRun) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  EXPECT_MESSAGE("the shape of input 'x' [batch, 6, width, 4] is not set yet", [&] { context.output_shape("logits"); });
  context.set_input_shape("x", {7, 6, 9, 4});
  EXPECT_EQ(context.output_shape("logits"), (Dims{7, 5}));
  EXPECT_MESSAGE("the outputs are: probabilities, logits", [&] { context.output_shape("y"); });
  EXPECT_MESSAGE("run the context first", [&] { context.output("logits"); });
}

TEST(Context, WrongInputs) {
  const Engine engine = engine_from(small_model);
  EXPECT_MESSAGE("cannot have -1 threads", [&] { engine.create_context({-1}); });
  Context context = engine.create_context({1});
  EXPECT_MESSAGE("no input is named 'z'; the inputs are: x", [&] { context.set_input_shape("z", {1}); });
  EXPECT_MESSAGE("has 3 dimensions instead of 4", [&] { context.set_input_shape("x", {1, 6, 4}); });
  EXPECT_MESSAGE("does not fit in dimension 1", [&] { context.set_input_shape("x", {1, 5, 8, 4}); });
  EXPECT_MESSAGE("does not fit in dimension 2", [&] { context.set_input_shape("x", {1, 6, -8, 4}); });
  EXPECT_MESSAGE("not set yet", [&] { context.run(); });
  context.set_input_shape("x", {1, 6, 8, 4});
  EXPECT_MESSAGE("input 'x' has no data; bind it", [&] { context.run(); });
  const std::vector<float> x(6 * 8 * 4);
  context.bind_input("x", x.data(), 100);
  EXPECT_MESSAGE("needs 768 bytes, 100 are bound", [&] { context.run(); });
  EXPECT_MESSAGE("no output is named 'z'", [&] { context.bind_output("z", nullptr, 0); });
  context.set_input_shape("x", {int64_t{1} << 40, 6, int64_t{1} << 20, 4});
  message_of([&] { context.run(); });
  context.set_input_shape("x", {int64_t{1} << 30, 6, int64_t{1} << 20, 4});
  message_of([&] { context.run(); }, ErrorCode::out_of_memory);
  // After all of that it still works.
  context.set_input("x", {1, 6, 8, 4}, x.data());
  context.run();
  EXPECT_EQ(context.output("logits").dims, (Dims{1, 5}));
}

TEST(Context, InputsThatContradictEachOther) {
  const Engine engine = engine_from(R"(graph (%a: f32[m, k], %b: f32[j, n], %c: f32[m, p]) {
    %y = matmul (%a, %b)
    %z = pointwise {function=add} (%y, %c)
    return "z" = %z
  })");
  Context context = engine.create_context({1});
  const std::vector<float> data(64, 1);
  const auto run = [&](Dims a, Dims b, Dims c) {
    context.set_input("a", a, data.data());
    context.set_input("b", b, data.data());
    context.set_input("c", c, data.data());
    context.run();
  };
  run({2, 3}, {3, 4}, {2, 4});
  EXPECT_EQ(output_of(context, "z").to_doubles(), std::vector<double>(8, 4));
  run({2, 3}, {3, 4}, {2, 1});
  EXPECT_MESSAGE("the size that matmul sums over is 3, needed is 2", [&] { run({2, 3}, {2, 4}, {2, 4}); });
  message_of([&] { run({2, 3}, {3, 4}, {2, 3}); });
  EXPECT_MESSAGE("'m' is already 2", [&] { run({2, 3}, {3, 4}, {1, 4}); });
}

TEST(Context, MemoryOfTheCallerIsUsedAsItIs) {
  Random random = test_random();
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  const Tensor x = random_tensor(random, DType::f32, {2, 6, 8, 4});
  context.set_input("x", x.dims(), x.data());
  std::vector<float> mine(10, -1);
  context.bind_output("logits", mine.data(), mine.size() * sizeof(float));
  context.run();
  EXPECT_EQ(context.output("logits").data, mine.data());
  EXPECT_EQ(context.output("logits").bytes, 40u);
  const std::vector<double> first(mine.begin(), mine.end());
  EXPECT_EQ(output_of(context, "logits").to_doubles(), first);
  // New contents of the same memory, seen by the next run: below all biases, so that nothing is left behind the ReLU.
  // (What moves all channels alike, the norm takes off again.)
  auto* contents = reinterpret_cast<float*>(const_cast<std::byte*>(x.data()));
  std::fill_n(contents, x.size(), -100.0F);
  context.run();
  EXPECT_NE(std::vector<double>(mine.begin(), mine.end()), first);
  context.bind_output("logits", mine.data(), 39);
  EXPECT_MESSAGE("output 'logits' needs 40 bytes, 39 are bound", [&] { context.run(); });
  context.bind_output("logits", nullptr, 0);
  context.run();
  EXPECT_NE(context.output("logits").data, mine.data());
}

TEST(Context, Profiles) {
  CompileOptions options;
  options.profiles = {{{{"x", {{1, 6, 4, 4}, {2, 6, 8, 4}, {4, 6, 16, 4}}}}},
                      {{{"x", {{8, 6, 4, 4}, {8, 6, 4, 4}, {8, 6, 4, 4}}}}}};
  const Engine engine = engine_from(small_model, options);
  Context context = engine.create_context({1});
  const std::vector<float> x(8 * 6 * 16 * 4);
  for (const Dims& dims : {Dims{1, 6, 4, 4}, Dims{4, 6, 16, 4}, Dims{8, 6, 4, 4}}) {
    context.set_input("x", dims, x.data());
    context.run();
  }
  for (const Dims& dims : {Dims{5, 6, 8, 4}, Dims{1, 6, 3, 4}, Dims{8, 6, 5, 4}, Dims{1, 6, 17, 4}}) {
    context.set_input("x", dims, x.data());
    EXPECT_MESSAGE("outside every profile of this engine: 'x' is " + to_string(dims), [&] { context.run(); });
  }
  EXPECT_GT(engine.memory().arena_bytes, 0);
  options.profiles[0].inputs["x"].min = {3, 6, 4, 4};
  EXPECT_MESSAGE("is not min <= opt <= max in dimension 0", [&] { engine_from(small_model, options); });
  options.profiles[0].inputs = {{"y", {{1}, {1}, {1}}}};
  EXPECT_MESSAGE("no input is named 'y'", [&] { engine_from(small_model, options); });
}

TEST(Context, RunAsync) {
  Random random = test_random();
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({2});
  const Tensor x = random_tensor(random, DType::f32, {2, 6, 8, 4});
  context.set_input("x", x.dims(), x.data());
  for (int i = 0; i < 50; ++i) {
    std::promise<std::exception_ptr> done;
    context.run_async([&](std::exception_ptr e) { done.set_value(e); });
    EXPECT_EQ(done.get_future().get(), nullptr);
  }
  expect_close(output_of(context, "probabilities"), reference({x}));
  // A second one while the first runs is refused.
  std::promise<void> hold;
  std::promise<std::exception_ptr> done;
  context.set_tap("logits", [&](const TensorView&) { hold.get_future().wait(); });
  context.run_async([&](std::exception_ptr e) { done.set_value(e); });
  EXPECT_MESSAGE("running already", [&] { context.run_async([](std::exception_ptr) {}); });
  EXPECT_MESSAGE("nothing to call", [&] { context.run_async(nullptr); });
  hold.set_value();
  EXPECT_EQ(done.get_future().get(), nullptr);
  // A failure arrives as what run() would have thrown.
  context.set_tap("logits", {});
  context.bind_output("logits", const_cast<std::byte*>(x.data()), 1);
  std::promise<std::exception_ptr> failed;
  context.run_async([&](std::exception_ptr e) { failed.set_value(e); });
  EXPECT_THROW(std::rethrow_exception(failed.get_future().get()), Error);
  // A context that goes away finishes first.
  bool finished = false;
  {
    Context other = engine.create_context({1});
    other.set_input("x", x.dims(), x.data());
    other.run_async([&](std::exception_ptr) { finished = true; });
  }
  EXPECT_TRUE(finished);
}

TEST(Context, CancellationBetweenLayers) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  const std::vector<float> x(2 * 6 * 8 * 4);
  context.set_input("x", {2, 6, 8, 4}, x.data());
  const Cancellation cancellation;
  context.set_cancellation(cancellation);
  int later = 0;
  context.set_tap("c", [&](const TensorView&) { cancellation.cancel(); });
  context.set_tap("logits", [&](const TensorView&) { ++later; });
  message_of([&] { context.run(); }, ErrorCode::cancelled);
  EXPECT_EQ(later, 0);
  EXPECT_MESSAGE("run the context first", [&] { context.output("logits"); });
  context.set_cancellation({});
  context.set_tap("c", {});
  context.run();
  EXPECT_EQ(later, 1);
}

TEST(Context, ProfilerNamesLayersAndSources) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  const std::vector<float> x(2 * 6 * 8 * 4);
  context.set_input("x", {2, 6, 8, 4}, x.data());
  Profiler profiler;
  context.set_profiler(&profiler);
  for (int i = 0; i < 3; ++i) context.run();
  context.set_profiler(nullptr);
  context.run();
  std::vector<std::string> sources;
  for (const LayerTime& layer : profiler.layers()) {
    EXPECT_EQ(layer.runs, 3) << layer.name;
    EXPECT_GE(layer.seconds, 0);
    EXPECT_FALSE(layer.tactic.empty());
    sources.insert(sources.end(), layer.sources.begin(), layer.sources.end());
  }
  EXPECT_EQ(sources, (std::vector<std::string>{"Conv_0", "Relu_1", "Pool_2", "Norm_3", "MatMul_4", "Softmax_5"}));
  const auto is_no_copy = [](const LayerTime& layer) { return layer.op != "copy"; };  // to a device
  EXPECT_EQ(std::find_if(profiler.layers().begin(), profiler.layers().end(), is_no_copy)->op, "conv");
  EXPECT_GT(profiler.total_seconds(), 0);
  profiler.reset();
  EXPECT_EQ(profiler.total_seconds(), 0);
}

TEST(Context, ProfilerKeepsWhenLayersBegan) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({2});
  const std::vector<float> x(2 * 6 * 8 * 4);
  context.set_input("x", {2, 6, 8, 4}, x.data());
  Profiler profiler;
  context.set_profiler(&profiler);
  context.run();
  EXPECT_TRUE(profiler.runs().empty()) << "nobody asked";
  profiler.keep_runs(2);
  for (int i = 0; i < 3; ++i) context.run();
  ASSERT_EQ(profiler.runs().size(), 2U);
  // Clocks of two devices agree within what an event takes; on the host there is one.
  const auto slack = [](const LayerSpan& span) { return span.device.is_host() ? 1e-9 : 1e-3; };
  double before = 0;
  for (const RunSpan& run : profiler.runs()) {
    EXPECT_GE(run.time.start, before);
    before = run.time.start + run.time.seconds;
    EXPECT_GT(run.thread, 0);
    ASSERT_EQ(run.layers.size(), profiler.layers().size());
    std::map<DeviceId, double> free;  // from when on
    for (const LayerSpan& span : run.layers) {
      EXPECT_GE(span.time.start + slack(span), run.time.start);
      EXPECT_LE(span.time.start + span.time.seconds, run.time.start + run.time.seconds + slack(span));
      EXPECT_GE(span.time.start + slack(span), free[span.device]);
      free[span.device] = span.time.start + span.time.seconds;
    }
    std::set<int64_t> which;
    for (const LayerSpan& span : run.layers) which.insert(span.layer);
    EXPECT_EQ(which.size(), run.layers.size());
    EXPECT_EQ(*which.rbegin(), static_cast<int64_t>(profiler.layers().size()) - 1);
  }
  profiler.keep_runs(0);
  context.run();
  EXPECT_TRUE(profiler.runs().empty());
}

TEST(Context, RunsThatFailAreNotKept) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  const std::vector<float> x(2 * 6 * 8 * 4);
  context.set_input("x", {2, 6, 8, 4}, x.data());
  Profiler profiler;
  context.set_profiler(&profiler);
  profiler.keep_runs(5);
  context.set_tap("logits", [](const TensorView&) { throw Error(ErrorCode::invalid_argument, "enough"); });
  EXPECT_MESSAGE("enough", [&] { context.run(); });
  context.set_tap("logits", {});
  context.run();
  ASSERT_EQ(profiler.runs().size(), 1U);
  EXPECT_EQ(profiler.runs()[0].layers.size(), profiler.layers().size());
}

TEST(Context, Taps) {
  Random random = test_random();
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  const Tensor x = random_tensor(random, DType::f32, {2, 6, 8, 4});
  context.set_input("x", x.dims(), x.data());
  ThreadPool pool(1);
  std::map<std::string, Tensor> expected;
  const Graph graph = parse_graph(small_model, operators());
  EvaluateOptions options;
  options.observer = [&](const Node& node, const std::vector<Tensor>& outputs) {
    expected[graph.value(node.outputs[0]).name] = outputs[0];
  };
  evaluate(graph, {x}, pool, options);
  ASSERT_EQ(expected.size(), 6u);
  int calls = 0;
  for (const auto& [name, tensor] : expected)
    context.set_tap(name, [&, &tensor = tensor](const TensorView& view) {
      expect_close(Tensor(view.dtype, view.dims, {static_cast<const std::byte*>(view.data), view.bytes}, nullptr),
                   tensor);
      ++calls;
    });
  context.run();
  EXPECT_EQ(calls, 6);
  EXPECT_MESSAGE("the plan has no tensor 'q'", [&] { context.set_tap("q", [](const TensorView&) {}); });
  const auto names = engine.tensor_names();
  EXPECT_NE(std::find(names.begin(), names.end(), "logits"), names.end());
}

TEST(Context, ContextsInParallel) {
  Random random = test_random();
  const Engine engine = engine_from(small_model);
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
  for (int i = 0; i < 2; ++i) {
    inputs.push_back(random_tensor(random, DType::f32, {1 + i, 6, 8 + i, 4}));
    expected.push_back(reference({inputs.back()}));
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      Context context = engine.create_context({2});
      for (int i = 0; i < 20; ++i) {
        const Tensor& x = inputs[(t + static_cast<size_t>(i)) % 2];
        context.set_input("x", x.dims(), x.data());
        context.run();
        expect_close(output_of(context, "probabilities"), expected[(t + static_cast<size_t>(i)) % 2]);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// 80 MB that one run gives up are the next one's, in the middle of the graph and at its end, and go with the context.
TEST(Context, MemoryOfResultsThatOnlyRunningSizesIsUsedAgain) {
  const Engine engine = engine_from(R"(graph (%limit: i64[]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    %r = range (%zero, %limit, %one)
    %twice = pointwise {function=add} (%r, %r)
    return "twice" = %twice
  })");
  constexpr int64_t count = 10'000'000;
  {
    Context context = engine.create_context({1});
    const int64_t limit = count;
    context.set_input("limit", {}, &limit);
    for (int round = 0; round < 4; ++round) {
      context.run();
      EXPECT_EQ(context.output("twice").dims, Dims{count});
      EXPECT_EQ(static_cast<const int64_t*>(context.output("twice").data)[count - 1], 2 * (count - 1));
      if (round > 0) {
        EXPECT_GE(spare_memory(), static_cast<size_t>(count) * 8) << "of the sum's operand";
      }
    }
    EXPECT_GE(context.memory_bytes(), static_cast<size_t>(count) * 8);
  }
  EXPECT_LE(spare_memory(), size_t{64} << 20);
}

TEST(Context, SizesThatDependOnTheData) {
  constexpr std::string_view model = R"(graph (%x: f32[n, 3], %limit: i64[], %start: i64[1], %end: i64[1]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    const %axis: i64[1] = [0]
    const %w: f32[3, 2] = [1, 2, 3, 4, 5, 6]
    %r = range (%zero, %limit, %one)
    %twice = pointwise {function=add} (%r, %r)
    %s = dynamic_slice (%x, %start, %end, %axis)
    %m = matmul (%s, %w)
    %t = pointwise {function=tanh} (%m)
    %sum = reduce {kind=sum, axes=[0], keep_dims=false} (%t)
    %known = pointwise {function=neg} (%x)
    return "twice" = %twice, "t" = %t, "sum" = %sum, "known" = %known, "part" = %s
  })";
  Random random = test_random();
  const Engine engine = engine_from(model);
  Context context = engine.create_context({2});
  ThreadPool pool(1);
  for (const auto& [n, limit, start, end] :
       {std::array<int64_t, 4>{5, 4, 1, 4}, {5, 0, 0, 0}, {8, 9, -3, 100}, {5, 4, 1, 4}, {2, 3, 0, 1}}) {
    const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {n, 3}),
                                        Tensor::of<int64_t>(DType::i64, {}, {limit}), Tensor::from_ints({start}),
                                        Tensor::from_ints({end})};
    set_inputs(context, engine, inputs);
    EXPECT_MESSAGE("depends on the data", [&] { context.output_shape("twice"); });
    EXPECT_EQ(context.output_shape("known"), (Dims{n, 3}));
    EXPECT_EQ(context.output_shape("sum"), (Dims{2}));
    EXPECT_EQ(context.largest_output_shape("part"), (Dims{n, 3}));
    EXPECT_EQ(context.largest_output_shape("t"), (Dims{n, 2}));
    EXPECT_EQ(context.largest_output_shape("known"), (Dims{n, 3}));
    EXPECT_MESSAGE("nothing bounds the shape of output 'twice'", [&] { context.largest_output_shape("twice"); });
    context.run();
    const std::vector<Tensor> expected = evaluate(parse_graph(model, operators()), inputs, pool);
    for (size_t o = 0; o < expected.size(); ++o)
      expect_close(output_of(context, engine.outputs()[o].name), expected[o]);
  }
  // Bound memory is filled, and may be too small.
  const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {2, 3}),
                                      Tensor::of<int64_t>(DType::i64, {}, {3}), Tensor::from_ints({0}),
                                      Tensor::from_ints({1})};
  set_inputs(context, engine, inputs);
  std::vector<int64_t> mine(3, -1);
  context.bind_output("twice", mine.data(), 24);
  context.run();
  EXPECT_EQ(mine, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(context.output("twice").data, mine.data());
  context.bind_output("twice", mine.data(), 23);
  EXPECT_MESSAGE("output 'twice' needs 24 bytes, 23 are bound", [&] { context.run(); });
}

TEST(Context, ReshapesToSizesThatDependOnTheDataKeepTheirElements) {
  // What %v would see is written over by %b, which dies before the run ends, and by the caller behind the run.
  constexpr std::string_view model = R"(graph (%x: f32[n, 4], %shape: i64[2]) {
    %a = pointwise {function=neg} (%x)
    %v: f32['@v.0', '@v.1'] = reshape {shape=shape('@v.0', '@v.1')} (%a, %shape)
    %w: f32['@w.0', '@w.1'] = reshape {shape=shape('@w.0', '@w.1')} (%x, %shape)
    %b = pointwise {function=tanh} (%x)
    %c = reduce {kind=sum, axes=[1], keep_dims=false} (%b)
    return "v" = %v, "w" = %w, "c" = %c
  })";
  Random random = test_random();
  const Engine engine = engine_from(model);
  Context context = engine.create_context({2});
  ThreadPool pool(1);
  for (const int64_t n : {1, 30, 7}) {
    Tensor x = random_tensor(random, DType::f32, {n, 4});
    const std::vector<Tensor> inputs = {x.copy(), Tensor::from_ints({2, 2 * n})};
    const std::vector<Tensor> expected = evaluate(parse_graph(model, operators()), inputs, pool);
    context.set_input("x", x.dims(), x.data());
    context.set_input("shape", view_of(inputs[1]));
    context.run();
    std::fill_n(x.as_mutable<float>(), x.size(), 0.0F);
    for (size_t o = 0; o < expected.size(); ++o)
      expect_close(output_of(context, engine.outputs()[o].name), expected[o]);
  }
}

TEST(Context, OutputsThatAreInputsConstantsOrStrings) {
  constexpr std::string_view model = R"(graph (%x: f32[n, 4], %names: string[n]) {
    const %c: f32[2, 2] = [1, 2, 3, 4]
    const %words: string[3] = ["a", "", "longer than the small buffer of a string"]
    const %index: i64[2] = [2, 0]
    %flat = reshape {shape=shape(4*n)} (%x)
    %y = pointwise {function=neg} (%x)
    %y2 = reshape {shape=shape(2*n, 2)} (%y)
    %picked = gather {axis=0} (%words, %index)
    %same = pointwise {function=equal} (%names, %names)
    return "x" = %x, "flat" = %flat, "c" = %c, "y" = %y, "again" = %y, "y2" = %y2, "names" = %names,
           "words" = %words, "picked" = %picked
  })";
  std::string text(model);
  try {
    parse_graph(text, operators());
  } catch (const Error&) {
    text.erase(text.find("    %same"), text.find("    return") - text.find("    %same"));  // strings are not compared
  }
  const Engine engine = engine_from(text);
  ThreadPool pool(1);
  Random random = test_random();
  for (const int64_t n : {1, 3}) {
    std::vector<std::string> words(static_cast<size_t>(n), "a word that needs memory of its own");
    const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {n, 4}),
                                        Tensor::of<std::string>(DType::string, {n}, words)};
    const std::vector<Tensor> expected = evaluate(parse_graph(text, operators()), inputs, pool);
    const std::vector<Tensor> actual = run_engine(engine, inputs);
    for (size_t o = 0; o < expected.size(); ++o) EXPECT_EQ(actual[o], expected[o]) << engine.outputs()[o].name;
  }
}

TEST(Context, StringsAreCopied) {
  const Engine engine = engine_from("graph (%x: string[n]) { %y = concat {axis=0} (%x, %x) return %y }");
  Context context = engine.create_context({1});
  const auto words = [](const char* word) {
    return Tensor::of<std::string>(DType::string, {2}, std::vector<std::string>(2, word));
  };
  context.set_input("x", view_of(words("a word that needs memory of its own")));  // which is gone when it runs
  context.run();
  const TensorView y = context.output("y");
  ASSERT_EQ(y.dims, (Dims{4}));
  EXPECT_EQ(static_cast<const std::string*>(y.data)[3], "a word that needs memory of its own");
  const Tensor bound = words("another word that needs memory of its own");
  context.set_input("x", bound.dims(), bound.data());
  context.run();
  EXPECT_EQ(static_cast<const std::string*>(context.output("y").data)[0], bound.as<std::string>()[0]);
}

TEST(Engine, InspectionOfADynamicModel) {
  const Engine engine = compile_graph(parse_graph(small_model, operators()), find_backend("cpu"));
  EXPECT_EQ(engine.inputs()[0].dims, (Dims{-1, 6, -1, 4}));
  EXPECT_EQ(engine.inputs()[0].dim_names, (std::vector<std::string>{"batch", "6", "width", "4"}));
  const MemoryInfo memory = engine.memory();
  EXPECT_GT(memory.arena_bytes, 0);
  EXPECT_GE(memory.arena_bytes, memory.arena_lower_bound);
  EXPECT_GT(memory.weight_bytes, 0);
  EXPECT_EQ(engine.layers().size(), 6u);
}

}  // namespace
}  // namespace camshaft::context_test
