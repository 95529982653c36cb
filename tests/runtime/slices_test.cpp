// Operands that are slices of wider rows: the same results as of dense ones, whatever lies between the rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backends/cpu/each_target.h"
#include "base/error.h"
#include "optimize/fuse/fuse.h"
#include "optimize/layout/nest_concats.h"
#include "reference/random_tensor.h"
#include "runtime/engine_impl.h"
#include "runtime/support.h"

namespace camshaft::slices_test {
namespace {

Graph with_random_weights(const std::string& text, Random& random) {
  Graph graph = parse_graph(text, operators());
  for (Value& v : graph.values)
    if (v.constant && v.constant->size() > 1)
      v.constant = std::make_shared<const Tensor>(random_tensor(random, DType::f32, v.constant->dims()));
  return graph;
}

Engine compiled(Graph graph, ThreadPool& pool) {
  const PassContext context{.pool = pool};
  nest_concats(graph, context);
  fuse(graph, context);
  return compile_graph(std::move(graph), test_backend());
}

void expect_near(const Tensor& actual, const Tensor& expected, const std::string& what) {
  const std::vector<double> a = actual.to_doubles(), e = expected.to_doubles();
  ASSERT_EQ(actual.dims(), expected.dims()) << what;
  double scale = 1;
  for (const double v : e) scale = std::max(scale, std::abs(v));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-3 * scale) << what << " element " << i;
}

// Runs first on NaN, so that the gaps and all memory hold NaN.
void expect_as_reference(const Graph& graph, const std::vector<Tensor>& inputs) {
  ThreadPool pool(1);
  const std::vector<Tensor> expected = evaluate(graph, inputs, pool);
  const Engine engine = compiled(graph, pool);
  for (const int threads : {1, 3}) {
    Context context = engine.create_context({threads, make_workers(threads)});
    std::vector<Tensor> poison;
    for (const Tensor& t : inputs) {
      Tensor nan(t.dtype(), t.dims());
      std::fill_n(nan.as_mutable<float>(), nan.size(), std::numeric_limits<float>::quiet_NaN());
      poison.push_back(std::move(nan));
    }
    set_inputs(context, engine, poison);
    context.run();
    set_inputs(context, engine, inputs);
    context.run();
    for (size_t o = 0; o < expected.size(); ++o)
      expect_near(output_of(context, engine.outputs()[o].name), expected[o], engine.outputs()[o].name);
  }
}

int count_slices(const Engine& engine) {
  const auto& values = engine.impl()->plan.values;
  return static_cast<int>(std::count_if(
      values.begin(), values.end(), [](const PlanValue& v) { return v.storage == Storage::slice && v.copy_of < 0; }));
}

// Channels-last images of one size, joined, cut and computed on in any order.
class RandomModel {
 public:
  explicit RandomModel(Random& random) : random_(random) {
    for (int k = 0; k < pick(1, 2); ++k) {
      const int64_t channels = pick(1, 40);
      inputs += fmt::format("{}%x{}: f32[n, 5, 7, {}]", k ? ", " : "", k, channels);
      input_dims.push_back({2, 5, 7, channels});
      values_.push_back({fmt::format("x{}", k), channels});
    }
  }

  std::string text(int nodes) {
    for (int i = 0; i < nodes; ++i) add();
    std::string returned = "return %" + values_.back().name;
    for (const Value& v : values_)
      if (v.name != values_.back().name && pick(0, 9) == 0) returned += ", %" + v.name;
    return "graph \"g\" (" + inputs + ") {\n" + body_ + returned + "\n}";
  }

  std::string inputs;
  std::vector<Dims> input_dims;

 private:
  struct Value {
    std::string name;
    int64_t channels;
  };

  int64_t pick(int64_t low, int64_t high) { return random_.integer(low, high); }
  std::string next_name() { return fmt::format("v{}", names_++); }
  const Value& any() {
    // Mostly of the latest.
    const auto size = static_cast<int64_t>(values_.size());
    return values_[static_cast<size_t>(pick(pick(0, 2) ? std::max<int64_t>(0, size - 4) : 0, size - 1))];
  }
  std::string constant(const std::string& dims) {
    const std::string name = next_name();
    body_ += fmt::format("const %{}: f32[{}] = 0.5\n", name, dims);
    return name;
  }
  void define(const std::string& expression, int64_t channels) {
    const std::string name = next_name();
    body_ += fmt::format("%{} = {}\n", name, expression);
    values_.push_back({name, channels});
  }

  void add() {
    const Value x = any();
    const char* window = pick(0, 3) ? "strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]"
                                    : "strides=[1, 1], pads=shape(2, 2, 2, 2), dilations=[2, 2]";
    switch (pick(0, 17)) {
      case 0: {
        const int64_t out = pick(1, 40);
        define(
            fmt::format("conv {{strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true}} (%{}, "
                        "%{})",
                        x.name, constant(fmt::format("{}, {}, 1, 1", out, x.channels))),
            out);
        break;
      }
      case 1: {
        const int64_t out = pick(1, 40);
        define(fmt::format("conv {{{}, channels_last=true}} (%{}, %{})", window, x.name,
                           constant(fmt::format("{}, {}, 3, 3", out, x.channels))),
               out);
        break;
      }
      case 2: {
        const int64_t multiplier = pick(1, 2);
        define(fmt::format("conv {{{}, groups={}, channels_last=true}} (%{}, %{})", window, x.channels, x.name,
                           constant(fmt::format("{}, 1, 3, 3", multiplier * x.channels))),
               multiplier * x.channels);
        break;
      }
      case 3: {
        const int64_t out = pick(1, 40);
        define(fmt::format("matmul (%{}, %{})", x.name, constant(fmt::format("{}, {}", x.channels, out))), out);
        break;
      }
      case 4:
        define(fmt::format("pool {{kind={}, kernel=[3, 3], {}, channels_last=true}} (%{})",
                           pick(0, 1) ? "max" : "average", window, x.name),
               x.channels);
        break;
      case 5:
        define(fmt::format("resize {{mode={}, axes=[1, 2], sizes=shape(5, 7), scales=[1.0, 1.0]}} (%{})",
                           pick(0, 1) ? "linear" : "nearest", x.name),
               x.channels);
        break;
      case 6:
        define(fmt::format("pointwise {{function=add}} (%{}, %{})", x.name, constant(fmt::format("{}", x.channels))),
               x.channels);
        break;
      case 7: {
        // Of equal widths, where there are two.
        const auto same = std::find_if(values_.rbegin(), values_.rend(),
                                       [&](const Value& v) { return v.channels == x.channels && v.name != x.name; });
        const std::string other = same == values_.rend() ? x.name : same->name;
        define(fmt::format("pointwise {{function={}}} (%{}, %{})", pick(0, 1) ? "add" : "max", x.name, other),
               x.channels);
        break;
      }
      case 11: {
        // An activation, gated where it is a convolution's only reader: with what is added behind it, an epilogue.
        const std::string gate = next_name();
        body_ += fmt::format("%{} = pointwise {{function=sigmoid}} (%{})\n", gate, x.name);
        define(fmt::format("pointwise {{function=mul}} (%{}, %{})", x.name, gate), x.channels);
        break;
      }
      case 13: {
        // Some columns change, the others stay where they are.
        if (x.channels < 2) return;
        const int64_t first = pick(1, x.channels - 1), rest = x.channels - first;
        const std::string a = next_name(), b = next_name(), c = next_name();
        const auto slice = [&](const std::string& name, int64_t start, int64_t count) {
          body_ += fmt::format("%{} = slice {{axes=[3], starts=shape({}), counts=shape({}), steps=[1]}} (%{})\n", name,
                               start, count, x.name);
        };
        slice(a, 0, first);
        slice(b, first, rest);
        const bool behind = pick(0, 1) == 0;
        const int64_t width = behind ? rest : first;
        body_ += fmt::format("%{} = conv {{{}, channels_last=true}} (%{}, %{})\n", c, window, behind ? b : a,
                             constant(fmt::format("{}, {}, 3, 3", width, width)));
        const std::string sum = pick(0, 1) ? c : next_name();
        if (sum != c) body_ += fmt::format("%{} = pointwise {{function=add}} (%{}, %{})\n", sum, c, behind ? b : a);
        values_.push_back({behind ? a : b, behind ? first : rest});
        define(fmt::format("concat {{axis=3}} (%{}, %{})", behind ? a : sum, behind ? sum : b), x.channels);
        break;
      }
      case 12: {
        const int64_t out = pick(1, 20);
        define(fmt::format("conv_transpose {{{}, output_padding=shape(0, 0), channels_last=true}} (%{}, %{})", window,
                           x.name, constant(fmt::format("{}, {}, 3, 3", x.channels, out))),
               out);
        break;
      }
      case 8:
        define(fmt::format("softmax {{axis=3}} (%{})", x.name), x.channels);
        break;
      case 9: {
        const std::string once = next_name();
        body_ += fmt::format("%{} = transpose {{permutation=[0, 2, 1, 3]}} (%{})\n", once, x.name);
        define(fmt::format("transpose {{permutation=[0, 2, 1, 3]}} (%{})", once), x.channels);
        break;
      }
      case 10: {
        const int64_t start = pick(0, x.channels - 1), count = pick(1, x.channels - start);
        define(fmt::format("slice {{axes=[3], starts=shape({}), counts=shape({}), steps=[1]}} (%{})", start, count,
                           x.name),
               count);
        break;
      }
      default: {
        std::string parts;
        int64_t channels = 0;
        for (int64_t k = pick(2, 4); k > 0; --k) {
          const Value part = any();
          if (channels + part.channels > 160) continue;
          parts += (parts.empty() ? "%" : ", %") + part.name;
          channels += part.channels;
        }
        if (!parts.empty()) define(fmt::format("concat {{axis=3}} ({})", parts), channels);
      }
    }
  }

  Random& random_;
  std::vector<Value> values_;
  std::string body_;
  int names_ = 0;
};

void run_random_models(Random& random, int& placed) {
  for (int round = 0; round < 60; ++round) {
    RandomModel model(random);
    const std::string text = model.text(static_cast<int>(random.integer(3, 14)));
    SCOPED_TRACE(text);
    const Graph graph = with_random_weights(text, random);
    std::vector<Tensor> inputs;
    for (Dims dims : model.input_dims) {
      if (round % 10 == 0) dims[0] = 0;
      inputs.push_back(random_tensor(random, DType::f32, dims));
    }
    expect_as_reference(graph, inputs);
    if (testing::Test::HasFatalFailure()) return;
    ThreadPool pool(1);
    placed += count_slices(compiled(graph, pool));
  }
}

TEST(Slices, RandomModels) {
  Random random = test_random();
  int placed = 0;
  cpu::for_each_target([&] { run_random_models(random, placed); });
  EXPECT_GT(placed, 60);
}

const std::string conv = "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} ";

TEST(Slices, DenseBlockIsOneTensor) {
  Random random = test_random();
  const Graph graph = with_random_weights(
      "graph (%x: f32[n, 6, 6, 16]) {\n"
      "const %w: f32[16, 16, 3, 3] = 1\nconst %v: f32[8, 16, 3, 3] = 1\n"
      "const %u: f32[8, 24, 3, 3] = 1\n"
      "%a = " +
          conv + "(%x, %w)\n%b = " + conv +
          "(%a, %v)\n"
          "%ab = concat {axis=3} (%a, %b)\n%c = " +
          conv +
          "(%ab, %u)\n"
          "%abc = concat {axis=3} (%a, %b, %c)\n"
          "%y = pool {kind=max, kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), "
          "dilations=[1, 1], channels_last=true} (%abc)\nreturn %y\n}",
      random);
  expect_as_reference(graph, {random_tensor(random, DType::f32, {2, 6, 6, 16})});
  ThreadPool pool(1);
  const Engine engine = compiled(graph, pool);
  const bool on_cpu = !std::getenv("CAMSHAFT_TEST_DEVICE");
  for (const PlanStep& step : engine.impl()->plan.steps)
    if (step.op == "conv" && !step.kernel->writes_slices(0)) {
      ASSERT_FALSE(on_cpu) << step.tactic;
      GTEST_SKIP() << step.tactic << " writes whole images only";
    }
  EXPECT_EQ(count_slices(engine), 4) << "a and b in ab, ab and c in abc";
}

// Columns that are no longer needed make room for what is concatenated with the others. (The most memory is alive
// before: what is a slice keeps the whole of it.)
TEST(Slices, ConcatenationsInWhatTheyHaveASliceOf) {
  Random random = test_random();
  const auto model = [&](const std::string& rest) {
    return with_random_weights(
        "graph (%x: f32[n, 6, 6, 16]) {\n"
        "const %u: f32[64, 16, 3, 3] = 1\nconst %w: f32[24, 64, 3, 3] = 1\nconst %v: f32[8, 8, 3, 3] = 1\n"
        "%large = " +
            conv + "(%x, %u)\n%ab = " + conv +
            "(%large, %w)\n"
            "%a = slice {axes=[3], starts=shape(0), counts=shape(8), steps=[1]} (%ab)\n"
            "%b = slice {axes=[3], starts=shape(8), counts=shape(16), steps=[1]} (%ab)\n"
            "%m = " +
            conv + "(%a, %v)\n%c = " + conv + "(%m, %v)\n" + rest + "\n}",
        random);
  };
  const std::string pool_of =
      "pool {kind=max, kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} ";
  const Tensor x = random_tensor(random, DType::f32, {2, 6, 6, 16});
  const auto concats_in_operands = [&](const Graph& graph) {
    ThreadPool pool(1);
    const Engine engine = compiled(graph, pool);
    int count = 0;
    for (const PlanStep& step : engine.impl()->plan.steps)
      if (step.op == "concat")
        count += engine.impl()->plan.values[static_cast<size_t>(step.outputs[0])].storage == Storage::alias;
    return count;
  };
  const Graph plain = model("%y = concat {axis=3} (%c, %b)\n%z = " + pool_of + "(%y)\nreturn %z");
  EXPECT_EQ(concats_in_operands(plain), 1) << "nobody reads a when c is written";
  expect_as_reference(plain, {x});
  // A residual is read where the sum goes.
  const Graph residual = model("%d = " + conv +
                               "(%c, %v)\n%s = pointwise {function=add} (%d, %a)\n"
                               "%y = concat {axis=3} (%s, %b)\n%z = " +
                               pool_of + "(%y)\nreturn %z");
  EXPECT_EQ(concats_in_operands(residual), 1);
  expect_as_reference(residual, {x});
  const Graph late =
      model("%y = concat {axis=3} (%c, %b)\n%z = " + pool_of + "(%y)\n%p = " + pool_of + "(%a)\nreturn %z, %p");
  EXPECT_EQ(concats_in_operands(late), 0) << "a is read later";
  expect_as_reference(late, {x});
}

// Along the first axis that is not 1, parts are dense: any kernel takes them.
TEST(Slices, OfLeadingAxes) {
  Random random = test_random();
  const Graph graph = with_random_weights(R"(graph (%x: f32[1, n, 12]) {
    %a = softmax {axis=2} (%x)
    %head = slice {axes=[1], starts=shape(0), counts=shape(2), steps=[1]} (%a)
    %s = softmax {axis=1} (%head)
    %r = reshape {shape=shape(1, 2, 2, 6)} (%s)
    %t = softmax {axis=2} (%r)
    %u = reshape {shape=shape(1, 2, 12)} (%t)
    %c = concat {axis=1} (%u, %a)
    %y = softmax {axis=1} (%c)
    return %y
  })",
                                          random);
  ThreadPool pool(1);
  EXPECT_GE(count_slices(compiled(graph, pool)), 2);
  expect_as_reference(graph, {random_tensor(random, DType::f32, {1, 5, 12})});
  const Engine engine = compiled(graph, pool);
  Context context = engine.create_context({1});
  const Tensor short_input = random_tensor(random, DType::f32, {1, 1, 12});
  context.set_input("x", view_of(short_input));
  EXPECT_THROW(context.run(), Error) << "a slice of two rows of one";
}

// What goes into the concatenation is a slice itself: its tensor, which is larger, does not lie there.
TEST(Slices, OfSlices) {
  Random random = test_random();
  const Graph graph = with_random_weights(
      "graph (%x: f32[1, 9, 16]) {\n"
      "%a = pointwise {function=exp} (%x)\n"
      "%first = slice {axes=[1], starts=shape(0), counts=shape(1), steps=[1]} (%a)\n"
      "%rest = slice {axes=[1], starts=shape(1), counts=shape(8), steps=[1]} (%a)\n"
      "%b = pointwise {function=neg} (%rest)\n"
      "%ab = concat {axis=1} (%first, %b)\n"
      "%y = pointwise {function=abs} (%ab)\nreturn %y\n}",
      random);
  expect_as_reference(graph, {random_tensor(random, DType::f32, {1, 9, 16})});
}

TEST(Slices, OutputsAndTapsAreDense) {
  Random random = test_random();
  const Graph graph = with_random_weights(
      "graph (%x: f32[2, 5, 5, 8]) {\n"
      "const %w: f32[8, 8, 3, 3] = 1\n%a = " +
          conv +
          "(%x, %w)\n"
          "%b = " +
          conv +
          "(%a, %w)\n%c = concat {axis=3} (%b, %a, %x)\n"
          "%d = slice {axes=[3], starts=shape(4), counts=shape(9), steps=[1]} (%c)\n"
          "return %a, %c, %d\n}",
      random);
  const Tensor x = random_tensor(random, DType::f32, {2, 5, 5, 8});
  expect_as_reference(graph, {x});
  ThreadPool pool(1);
  const Engine engine = compiled(graph, pool);
  EXPECT_EQ(count_slices(engine), 1) << "b alone: a is an output, x the caller's, d an output";
  Graph with_b = graph;
  with_b.add_output("tapped", with_b.nodes[1].outputs[0]);
  const Tensor expected = evaluate(with_b, {x}, pool)[3];
  Context context = engine.create_context({1});
  set_inputs(context, engine, {x});
  int called = 0;
  context.set_tap("b", [&](const TensorView& view) {
    ++called;
    expect_near(copy_of(view), expected, "b");
  });
  context.run();
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace camshaft::slices_test
