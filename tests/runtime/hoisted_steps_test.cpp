// What depends on constants and sizes alone runs once for each set of shapes, and gives in every run what it would give
// if it ran each time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "compile/plan/bound_plan.h"
#include "optimize/fuse/fuse.h"
#include "reference/random_tensor.h"
#include "runtime/profiler.h"
#include "runtime/support.h"

namespace camshaft::hoisted_steps_test {
namespace {

constexpr std::string_view model = R"(graph (%x: f32[n, 3]) {
  const %zero: i64[] = 0
  const %one: i64[] = 1
  %count = dims {elements=shape(n), scalar=true} ()
  %r = range (%zero, %count, %one)
  %f = cast {to=f32} (%r)
  %s = softmax {axis=0} (%f)
  %t = transpose {permutation=[1, 0]} (%x)
  %p = pointwise {function=mul} (%t, %s)
  %q = pointwise {function=add} (%p, %s)
  return "q" = %q
})";

constexpr int hoisted_layers = 4;

Tensor reference(std::string_view text, const std::vector<Tensor>& inputs) {
  ThreadPool pool(1);
  return evaluate(parse_graph(text, operators()), inputs, pool)[0];
}

void expect_close(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.dims(), expected.dims());
  const std::vector<double> a = actual.to_doubles(), e = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-4 * std::max(1.0, std::abs(e[i]))) << i;
}

template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// Runs and compares; the input's first size is n.
void expect_right(Context& context, const Engine& engine, Random& random, int64_t n) {
  const Tensor x = random_tensor(random, DType::f32, {n, 3});
  set_inputs(context, engine, {x});
  context.run();
  SCOPED_TRACE(n);
  expect_close(output_of(context, "q"), reference(model, {x}));
}

bool is_copy(const LayerTime& layer) {
  return layer.op == "copy";  // to a device
}

TEST(HoistedSteps, RunOnceForEachSetOfShapes) {
  Random random = test_random();
  const Engine engine = engine_from(model);
  Context context = engine.create_context({1});
  Profiler profiler;
  context.set_profiler(&profiler);
  for (const int64_t n : {5, 5, 8, 5, 8, 8, 5}) expect_right(context, engine, random, n);
  int hoisted = 0;
  for (const LayerTime& layer : profiler.layers()) {
    EXPECT_EQ(layer.runs, layer.at_binding ? 2 : 7) << layer.name;
    if (!is_copy(layer)) hoisted += layer.at_binding;
  }
  EXPECT_EQ(hoisted, hoisted_layers);
  hoisted = 0;
  for (const LayerInfo& layer : engine.layers()) hoisted += layer.at_binding && layer.op != "copy";
  EXPECT_EQ(hoisted, hoisted_layers);
}

TEST(HoistedSteps, ManyRunsOfManyShapes) {
  Random random = test_random();
  const Engine engine = engine_from(model);
  for (const int threads : {1, 2}) {
    Context context = engine.create_context({threads, make_workers(threads)});
    for (int round = 0; round < 60; ++round) expect_right(context, engine, random, random.integer(1, 40));
  }
}

TEST(HoistedSteps, ContextsHaveTheirOwn) {
  Random random = test_random();
  const Engine engine = engine_from(model);
  std::vector<Context> contexts;
  for (int i = 0; i < 3; ++i)
    contexts.push_back(engine.create_context({.threads = 1, .shares_memory = !engine.device().is_gpu() && i > 0}));
  for (int round = 0; round < 12; ++round)
    expect_right(contexts[static_cast<size_t>(round % 3)], engine, random, random.integer(1, 4));
}

// A tap sees in each run what it asks for.
TEST(HoistedSteps, AreTapped) {
  Random random = test_random();
  const Engine engine = engine_from(model);
  Context context = engine.create_context({1});
  expect_right(context, engine, random, 6);
  std::map<std::string, int> seen;
  for (const char* name : {"f", "s", "t"})
    context.set_tap(name, [&, name](const TensorView& view) {
      ++seen[name];
      if (name[0] == 'f') {
        EXPECT_EQ(copy_of(view).to_doubles(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
      }
    });
  for (int round = 0; round < 3; ++round) expect_right(context, engine, random, 6);
  EXPECT_EQ(seen["f"], 3);
  EXPECT_EQ(seen["s"], 3);
  EXPECT_EQ(seen["t"], 3);
  for (const char* name : {"f", "s"}) context.set_tap(name, {});
  Profiler profiler;
  context.set_profiler(&profiler);
  for (int round = 0; round < 2; ++round) expect_right(context, engine, random, 6);
  EXPECT_EQ(seen["t"], 5);
  for (const LayerTime& layer : profiler.layers()) EXPECT_EQ(layer.runs, layer.at_binding ? 0 : 2) << layer.name;
}

TEST(HoistedSteps, AfterACancelledRunTheyRunAgain) {
  Random random = test_random();
  const Engine engine = engine_from(model);
  Context context = engine.create_context({1});
  for (const char* last : {"count", "r", "f", "s", "t"}) {
    const Cancellation cancellation;
    context.set_cancellation(cancellation);
    context.set_tap(last, [&](const TensorView&) { cancellation.cancel(); });
    const Tensor x = random_tensor(random, DType::f32, {7, 3});
    set_inputs(context, engine, {x});
    EXPECT_NE(message_of([&] { context.run(); }).find("cancelled before layer"), std::string::npos) << last;
    context.set_cancellation({});
    context.set_tap(last, {});
    expect_right(context, engine, random, 7);
  }
}

// What is wrong with the sizes is said in each run, whenever a device finds it.
TEST(HoistedSteps, ErrorsAreThrownInEachRun) {
  Random random = test_random();
  constexpr std::string_view text = R"(graph (%x: f32[n, 3]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    const %table: f32[4, 3] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    %count = dims {elements=shape(n), scalar=true} ()
    %r = range (%zero, %count, %one)
    %rows = gather {axis=0} (%table, %r)
    %q = pointwise {function=mul} (%x, %rows)
    return "q" = %q
  })";
  const Engine engine = engine_from(text);
  Context context = engine.create_context({1});
  for (const int64_t n : {3, 6, 6, 3, 6, 4}) {
    const Tensor x = random_tensor(random, DType::f32, {n, 3});
    set_inputs(context, engine, {x});
    if (n > 4) {
      EXPECT_NE(message_of([&] { context.run(); }).find("of size 4"), std::string::npos);
      continue;
    }
    context.run();
    expect_close(output_of(context, "q"), reference(text, {x}));
  }
}

constexpr std::string_view wide_model = R"(graph (%x: f32[n, k]) {
  const %zero: i64[] = 0
  const %one: i64[] = 1
  %count = dims {elements=shape(n), scalar=true} ()
  %r = range (%zero, %count, %one)
  %f = cast {to=f32} (%r)
  %column = reshape {shape=shape(n, 1)} (%f)
  %wide = expand {shape=shape(n, k)} (%column)
  %s = softmax {axis=0} (%wide)
  %m = pointwise {function=mul} (%x, %s)
  %y = reduce {kind=sum, axes=[1], keep_dims=false} (%m)
  return "y" = %y
})";

Tensor sums(const Tensor& x) {
  const int64_t n = x.dims()[0], k = x.dims()[1];
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += std::exp(static_cast<double>(i - n + 1));
  std::vector<float> y;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) sum += x.as<float>()[static_cast<size_t>(i * k + j)];
    y.push_back(static_cast<float>(sum * std::exp(static_cast<double>(i - n + 1)) / total));
  }
  return Tensor::of(DType::f32, {n}, y);
}

// One more column than is kept: then it runs each time, and the memory is the arena's.
TEST(HoistedSteps, MemoryIsLimited) {
  Random random = test_random();
  const Engine engine = engine_from(wide_model);
  if (engine.device().is_gpu()) GTEST_SKIP() << "an emulated GPU takes long for so much";
  Context context = engine.create_context({1});
  Profiler profiler;
  const auto runs_of_wide = [&] {
    const auto& layers = profiler.layers();
    return std::find_if(layers.begin(), layers.end(), [](const LayerTime& l) { return l.name == "s"; })->runs;
  };
  for (const int64_t k : {4096, 4097}) {
    const Tensor x = random_tensor(random, DType::f32, {4096, k});
    set_inputs(context, engine, {x});
    profiler.reset();
    context.set_profiler(&profiler);
    for (int round = 0; round < 2; ++round) {
      context.run();
      expect_close(output_of(context, "y"), sums(x));
    }
    context.set_profiler(nullptr);
    EXPECT_EQ(runs_of_wide(), k == 4096 ? 1 : 2);
    EXPECT_GE(context.memory_bytes(), static_cast<size_t>(4096 * k * 4 * (k == 4096 ? 2 : 1)));
  }
}

// All shapes together: those that were not used for the longest time are bound again when they come back.
TEST(HoistedSteps, MemoryOfSeveralShapesIsLimitedTogether) {
  Random random = test_random();
  const Engine engine = engine_from(wide_model);
  if (engine.device().is_gpu()) GTEST_SKIP() << "an emulated GPU takes long for so much";
  Context context = engine.create_context({1});
  const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {2048, 2048}),   // 16 MiB are kept
                                      random_tensor(random, DType::f32, {2048, 4096}),   // 32
                                      random_tensor(random, DType::f32, {2048, 3000})};  // 23.4: not all three fit
  Profiler profiler;
  context.set_profiler(&profiler);
  const auto runs_after = [&](size_t i) {
    set_inputs(context, engine, {inputs[i]});
    context.run();
    expect_close(output_of(context, "y"), sums(inputs[i]));
    const auto& layers = profiler.layers();
    return std::find_if(layers.begin(), layers.end(), [](const LayerTime& l) { return l.name == "s"; })->runs;
  };
  EXPECT_EQ(runs_after(0), 1);
  EXPECT_EQ(runs_after(1), 2);
  EXPECT_EQ(runs_after(0), 2) << "both are kept";
  const size_t with_both = context.memory_bytes();
  EXPECT_EQ(runs_after(2), 3);
  EXPECT_LT(context.memory_bytes(), with_both) << "the second is given up";
  EXPECT_EQ(runs_after(0), 3);
  EXPECT_EQ(runs_after(2), 3);
  EXPECT_EQ(runs_after(1), 4);
}

TEST(HoistedSteps, MemoryIsInTheFigures) {
  const Engine engine = engine_from(model);
  EXPECT_GT(engine.memory().kept_bytes, 0);
  const Engine other = engine_from(small_model);
  EXPECT_EQ(other.memory().kept_bytes, 0);
}

// ---- random graphs: values of n x 4 elements, of which some depend on x and others on n alone

class RandomGraph {
 public:
  explicit RandomGraph(Random& random) : random_(random) {
    text_ = R"(graph (%x: f32[n, 4]) {
      const %zero: i64[] = 0
      const %one: i64[] = 1
      const %ones: f32[1, 4] = [1, 2, 3, 4]
      %count = dims {elements=shape(n), scalar=true} ()
      %range = range (%zero, %count, %one)
      %numbers = cast {to=f32} (%range)
      %column = reshape {shape=shape(n, 1)} (%numbers)
      %spread = pointwise {function=mul} (%column, %ones)
      %start = pointwise {function=sin} (%spread)
)";
    values_ = {"x", "start"};
    for (int i = 0; i < 14; ++i) add();
    text_ += "return ";
    for (int o = 0; o < 3; ++o)
      text_ += (o ? ", " : "") + std::string("\"y") + std::to_string(o) + "\" = %" +
               values_[values_.size() - 1 - static_cast<size_t>(o)];
    text_ += "\n}";
  }
  const std::string& text() const { return text_; }

 private:
  std::string any() {
    return "%" + values_[static_cast<size_t>(random_.integer(0, static_cast<int64_t>(values_.size()) - 1))];
  }
  std::string name() { return "v" + std::to_string(++count_); }
  std::string line(const std::string& op, const std::string& operands) {
    const std::string made = name();
    text_ += "      %" + made + " = " + op + " (" + operands + ")\n";
    return made;
  }
  void add() {
    switch (random_.integer(0, 6)) {
      case 0:
        return values_.push_back(line("softmax {axis=1}", any()));
      case 1:
        return values_.push_back(line("pointwise {function=add}", any() + ", " + any()));
      case 2:
        return values_.push_back(line("pointwise {function=tanh}", any()));
      case 3: {
        const std::string turned = line("transpose {permutation=[1, 0]}", any());
        const std::string scores = line("softmax {axis=0}", "%" + turned);
        return values_.push_back(line("transpose {permutation=[1, 0]}", "%" + scores));
      }
      case 4: {
        const std::string both = line("concat {axis=0}", any() + ", " + any());
        const std::string changed = random_.integer(0, 1) ? line("softmax {axis=1}", "%" + both) : both;
        return values_.push_back(line("slice {axes=[0], starts=shape(n), counts=shape(n), steps=[1]}", "%" + changed));
      }
      case 5: {
        const std::string both = line("concat {axis=1}", any() + ", " + any());
        const std::string changed = random_.integer(0, 1) ? line("softmax {axis=1}", "%" + both) : both;
        return values_.push_back(line("slice {axes=[1], starts=shape(2), counts=shape(4), steps=[1]}", "%" + changed));
      }
      default: {  // columns that stay where they are, beside others: the whole may take over its operand's memory
        const bool first = random_.integer(0, 1) == 0;
        const char* const columns[] = {"slice {axes=[1], starts=shape(0), counts=shape(2), steps=[1]}",
                                       "slice {axes=[1], starts=shape(2), counts=shape(2), steps=[1]}"};
        const std::string whole = line("softmax {axis=1}", any());
        if (random_.integer(0, 1) == 0) values_.push_back(line("pointwise {function=tanh}", "%" + whole));
        const std::string part = line(columns[first ? 0 : 1], "%" + whole);
        const std::string other = line("softmax {axis=1}", "%" + line(columns[random_.integer(0, 1)], any()));
        return values_.push_back(
            line("concat {axis=1}", first ? "%" + part + ", %" + other : "%" + other + ", %" + part));
      }
    }
  }

  Random& random_;
  std::string text_;
  std::vector<std::string> values_;
  int count_ = 0;
};

TEST(HoistedSteps, RandomGraphs) {
  Random random = test_random();
  ThreadPool pool(1);
  int64_t hoisted = 0;
  for (int g = 0; g < 60; ++g) {
    const std::string text = RandomGraph(random).text();
    SCOPED_TRACE(text);
    const Graph graph = parse_graph(text, operators());
    Graph compiled = graph;
    if (random.integer(0, 1) == 1) fuse(compiled, PassContext{.pool = pool});
    const Engine engine = compile_graph(std::move(compiled), test_backend());
    for (const LayerInfo& layer : engine.layers()) hoisted += layer.at_binding;
    Context context = engine.create_context({1});
    for (int round = 0; round < 7; ++round) {
      const Tensor x = random_tensor(random, DType::f32,
                                     {std::array<int64_t, 3>{1, 3, 6}[static_cast<size_t>(random.integer(0, 2))], 4});
      set_inputs(context, engine, {x});
      context.run();
      const std::vector<Tensor> expected = evaluate(graph, {x}, pool);
      for (int o = 0; o < 3; ++o) {
        expect_close(output_of(context, "y" + std::to_string(o)), expected[static_cast<size_t>(o)]);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(hoisted, 60 * 5);
}

}  // namespace
}  // namespace camshaft::hoisted_steps_test
