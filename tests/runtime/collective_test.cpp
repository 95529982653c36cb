// Collectives in engines, each rank on a thread, beside their definition; and what goes wrong.
#include "ir/ops/collective.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/libraries/libraries.h"
#include "base/logger.h"
#include "reference/random_tensor.h"
#include "runtime/on_ranks.h"
#include "runtime/shared_communicator.h"
#include "runtime/support.h"

namespace camshaft::collective_test {
namespace {

using ops::CollectiveKind;
using ops::CollectiveReduction;

struct Case {
  ops::Collective op;
  DType dtype = DType::f32;
  Dims dims;

  std::string text() const {
    std::string shape;
    for (size_t d = 0; d < dims.size(); ++d) shape += fmt::format("{}d{}", d ? ", " : "", d);
    // With symbols, so that one engine serves all sizes.
    return fmt::format("graph \"g\" (%x: {}[{}]) {{\n  %y = {} (%x)\n  return \"y\" = %y\n}}", to_string(dtype), shape,
                       to_string(Op(op)));
  }
};

// Where an element of a tensor lies along an axis: before it, on it, behind it.
struct Place {
  int64_t outer, at, inner;
};

Place place_of(int64_t i, const Dims& dims, size_t axis) {
  int64_t inner = 1;
  for (size_t d = axis + 1; d < dims.size(); ++d) inner *= dims[d];
  return {i / inner / dims[axis], i / inner % dims[axis], i % inner};
}

double element_at(const std::vector<double>& x, const Dims& dims, size_t axis, const Place& place) {
  int64_t inner = 1;
  for (size_t d = axis + 1; d < dims.size(); ++d) inner *= dims[d];
  return x[static_cast<size_t>((place.outer * dims[axis] + place.at) * inner + place.inner)];
}

double reduced(const Case& c, const std::vector<std::vector<double>>& all, size_t i) {
  double sum = all[0][i];
  for (size_t r = 1; r < all.size(); ++r) {
    const double x = all[r][i];
    switch (c.op.reduction) {
      case CollectiveReduction::prod:
        sum *= x;
        break;
      case CollectiveReduction::min:
        sum = std::isnan(sum) || std::isnan(x) ? NAN : std::min(sum, x);
        break;
      case CollectiveReduction::max:
        sum = std::isnan(sum) || std::isnan(x) ? NAN : std::max(sum, x);
        break;
      default:
        sum += x;
    }
  }
  if (c.op.reduction != CollectiveReduction::avg) return sum;
  return is_floating(c.dtype) ? sum / static_cast<double>(c.op.ranks)
                              : std::trunc(sum / static_cast<double>(c.op.ranks));
}

// The definition, element by element: of `rank`'s result.
std::vector<double> defined(const Case& c, const std::vector<std::vector<double>>& all, const Dims& result,
                            size_t rank) {
  const auto axis = static_cast<size_t>(c.op.axis);
  std::vector<double> y(static_cast<size_t>(element_count(result)));
  for (size_t i = 0; i < y.size(); ++i) {
    if (c.op.kind == CollectiveKind::broadcast) {
      y[i] = all[static_cast<size_t>(c.op.root)][i];
      continue;
    }
    if (c.op.kind == CollectiveKind::all_reduce) {
      y[i] = reduced(c, all, i);
      continue;
    }
    Place place = place_of(static_cast<int64_t>(i), result, axis);
    if (c.op.kind == CollectiveKind::all_gather) {
      const int64_t from = place.at / c.dims[axis];
      place.at %= c.dims[axis];
      y[i] = element_at(all[static_cast<size_t>(from)], c.dims, axis, place);
    } else if (c.op.kind == CollectiveKind::reduce_scatter) {
      place.at += static_cast<int64_t>(rank) * result[axis];
      std::vector<std::vector<double>> single;
      for (const auto& x : all) single.push_back({element_at(x, c.dims, axis, place)});
      y[i] = reduced(c, single, 0);
    } else {
      const int64_t part = c.dims[axis] / c.op.ranks, from = place.at / part;
      place.at = static_cast<int64_t>(rank) * part + place.at % part;
      y[i] = element_at(all[static_cast<size_t>(from)], c.dims, axis, place);
    }
  }
  return y;
}

// One a rank: on a GPU of its own each, where there are so many.
std::vector<Engine> engines_of(std::string_view model, size_t ranks) {
  size_t gpus = 0;
  if (test_backend()->device().kind == "cuda") gpus = cuda::list_devices(cuda::driver_library().functions).size();
  if (gpus < ranks) return std::vector<Engine>(ranks, engine_from(model));
  std::vector<Engine> engines;
  for (size_t r = 0; r < ranks; ++r)
    engines.push_back(
        compile_graph(parse_graph(model, operators()), find_backend(to_string(DeviceId::gpu(static_cast<int>(r))))));
  return engines;
}

void check(const Case& c, const std::vector<Tensor>& inputs) {
  SCOPED_TRACE(c.text());
  SCOPED_TRACE(to_string(c.dims));
  const auto ranks = static_cast<size_t>(c.op.ranks);
  std::vector<std::vector<double>> all;
  for (const Tensor& x : inputs) all.push_back(x.to_doubles());
  const std::vector<Engine> engines = engines_of(c.text(), ranks);
  const auto ends = local_communicators(static_cast<int>(ranks), 60);
  const auto thrown = on_ranks(ranks, [&](size_t r) {
    const Engine& engine = engines[r];
    Context context = engine.create_context({1, make_workers(1)});
    context.set_communicator(ends[r]);
    set_inputs(context, engine, {inputs[r]});
    for (int round = 0; round < 2; ++round) {
      context.run();
      const Tensor y = output_of(context, "y");
      const std::vector<double> expected = defined(c, all, y.dims(), r), actual = y.to_doubles();
      for (size_t i = 0; i < actual.size(); ++i) {
        const double wanted = rounded(c.dtype, expected[i]);
        if (std::isnan(wanted) && std::isnan(actual[i])) continue;
        if (std::isinf(wanted) && wanted == actual[i]) continue;
        const double most = is_floating(c.dtype) && c.op.reduces() ? 4 * tolerance(c.dtype, expected[i]) : 0;
        ASSERT_NEAR(actual[i], wanted, most) << "rank " << r << ", element " << i;
      }
    }
    // The reference, over the same ranks.
    const CommunicatorScope scope(ends[r].get());
    ThreadPool pool(1);
    const Tensor y = evaluate(parse_graph(c.text(), operators()), {inputs[r]}, pool)[0];
    const std::vector<double> expected = defined(c, all, y.dims(), r), actual = y.to_doubles();
    for (size_t i = 0; i < actual.size(); ++i) {
      const double wanted = rounded(c.dtype, expected[i]);
      if ((std::isnan(wanted) && std::isnan(actual[i])) || wanted == actual[i]) continue;
      ASSERT_NEAR(actual[i], wanted, tolerance(c.dtype, expected[i])) << "reference of rank " << r << ", element " << i;
    }
  });
  for (const std::string& each : thrown) EXPECT_EQ(each, "");
}

Case random_case(Random& random, DType dtype, CollectiveKind kind) {
  Case c;
  c.dtype = dtype;
  c.op.kind = kind;
  c.op.ranks = random.integer(1, 4);
  const int64_t rank = random.integer(c.op.has_axis() ? 1 : 0, 3);
  for (int64_t d = 0; d < rank; ++d) c.dims.push_back(random.integer(0, 9) == 0 ? 0 : random.integer(1, 20));
  if (c.op.has_axis()) {
    c.op.axis = random.integer(0, rank - 1);
    if (kind != CollectiveKind::all_gather) c.dims[static_cast<size_t>(c.op.axis)] *= c.op.ranks;
  }
  if (c.op.reduces()) c.op.reduction = static_cast<CollectiveReduction>(random.integer(0, 4));
  if (kind == CollectiveKind::broadcast) c.op.root = random.integer(0, c.op.ranks - 1);
  c.op.sequence = random.integer(0, 5);
  return c;
}

constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
                                    CollectiveKind::all_to_all};

TEST(Collective, RandomOnes) {
  Random random = test_random();
  for (const CollectiveKind kind : kinds)
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i8,
                              DType::u8, DType::boolean})
      for (int round = 0; round < 8; ++round) {
        const Case c = random_case(random, dtype, kind);
        if (dtype == DType::boolean && c.op.reduces()) continue;
        // Small numbers: what integers of 8 bits cannot hold wraps, and the definition here does not.
        if (c.op.reduction == CollectiveReduction::prod && !is_floating(dtype) && c.op.ranks > 2) continue;
        std::vector<Tensor> inputs;
        for (int64_t r = 0; r < c.op.ranks; ++r) inputs.push_back(random_tensor(random, dtype, c.dims));
        check(c, inputs);
        if (testing::Test::HasFailure()) return;
      }
}

// Of several megabytes, which go through the shared memory in parts.
TEST(Collective, LargeOnes) {
  Random random = test_random();
  for (const CollectiveKind kind : kinds) {
    Case c{.op = {.kind = kind, .ranks = 3}, .dims = {7, 99, 1001}};
    if (c.op.has_axis()) c.op.axis = 1;
    std::vector<Tensor> inputs;
    for (int64_t r = 0; r < c.op.ranks; ++r) inputs.push_back(random_tensor(random, c.dtype, c.dims));
    check(c, inputs);
  }
}

TEST(Collective, NaNAndInfinity) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const CollectiveKind kind : kinds)
    for (int reduction = 0; reduction < 5; ++reduction) {
      Case c{.op = {.kind = kind, .ranks = 2, .reduction = static_cast<CollectiveReduction>(reduction)}, .dims = {6}};
      check(c, {Tensor::of<float>(DType::f32, {6}, {nan, 1, inf, -inf, inf, 0}),
                Tensor::of<float>(DType::f32, {6}, {1, nan, 1, 1, -inf, -0.0F})});
    }
}

// A rank alone is what is built and verified: it takes the others to hold what it does.
TEST(Collective, Rehearsal) {
  Case c{.op = {.kind = CollectiveKind::all_gather, .ranks = 3, .axis = 1}, .dims = {2, 2}};
  const Engine engine = engine_from(c.text());
  Context context = engine.create_context({1, make_workers(1)});
  const Tensor x = Tensor::of<float>(DType::f32, {2, 2}, {1, 2, 3, 4});
  context.set_input("x", view_of(x));
  context.rehearse();
  context.run();
  EXPECT_EQ(output_of(context, "y").to_doubles(), (std::vector<double>{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}));
}

// Equal ones stay apart, and constants are not gathered while building: another rank may have others.
TEST(Collective, StaysWhereItIs) {
  const Engine engine = engine_from(R"(graph "g" (%x: f32[2]) {
  const %c: f32[2] = [1, 2]
  %a = collective {kind=all_gather, ranks=2, sequence=0} (%c)
  %b = collective {kind=all_gather, ranks=2, sequence=1} (%x)
  %d = collective {kind=all_gather, ranks=2, sequence=2} (%x)
  %s = pointwise {function=add} (%a, %b)
  %t = pointwise {function=add} (%s, %d)
  return "y" = %t
})");
  int count = 0;
  for (const LayerInfo& layer : engine.layers()) count += layer.op == "collective" ? 1 : 0;
  EXPECT_EQ(count, 3);
  const auto ends = local_communicators(2, 60);
  const auto thrown = on_ranks(2, [&](size_t r) {
    Context context = engine.create_context({1, make_workers(1)});
    context.set_communicator(ends[r]);
    for (int round = 0; round < 3; ++round) {  // also those of constants, in each run
      const Tensor x = Tensor::of<float>(DType::f32, {2}, {static_cast<float>(r), static_cast<float>(round)});
      set_inputs(context, engine, {x});
      context.run();
      const double n = round;
      EXPECT_EQ(output_of(context, "y").to_doubles(), (std::vector<double>{1, 2 + 2 * n, 3, 2 + 2 * n}));
    }
  });
  for (const std::string& each : thrown) EXPECT_EQ(each, "");
}

constexpr std::string_view gather_model = R"(graph "g" (%x: f32[n, 2]) {
  %y = collective {kind=all_gather, ranks=2, axis=1} (%x) from "Gather_7"
  return "y" = %y
})";

std::string error_of(const std::function<void()>& call) {
  return on_ranks(1, [&](size_t) { call(); })[0];
}

// On GPUs that are linked: neither waits for the host, and both are recorded.
constexpr std::string_view chain_model = R"(graph "g" (%x: f32[n, 6]) {
  %a = softmax {axis=1} (%x) from "Softmax_0"
  %b = collective {kind=all_gather, ranks=2, axis=1, sequence=0} (%a) from "Gather_1"
  %c = softmax {axis=1} (%b) from "Softmax_2"
  %d = collective {kind=all_reduce, ranks=2, sequence=1} (%c) from "Reduce_3"
  %e = softmax {axis=1} (%d) from "Softmax_4"
  return "y" = %e
})";

class Messages final : public Logger {
 public:
  void log(LogLevel, std::string_view message) noexcept override { all_.emplace_back(message); }
  std::vector<std::string> take() { return std::exchange(all_, {}); }

 private:
  std::vector<std::string> all_;
};

// Runs the chain on both ranks, in turn over sets of memory, with several communicators, and compares with the
// reference.
void check_chain(bool expects_link) {
  const std::vector<Engine> engines = engines_of(chain_model, 2);
  Random random = test_random();
  std::vector<Context> contexts;
  for (const Engine& engine : engines) contexts.push_back(engine.create_context({1, make_workers(1)}));
  for (int made = 0; made < 2; ++made) {
    const auto ends = local_communicators(2, 60);
    for (int round = 0; round < 5; ++round) {
      const int64_t rows = round == 3 ? 5 : 3;
      const Tensor inputs[] = {random_tensor(random, DType::f32, {rows, 6}),
                               random_tensor(random, DType::f32, {rows, 6})};
      std::vector<Tensor> results(2), wanted(2);
      const auto thrown = on_ranks(2, [&](size_t r) {
        if (round == 0) contexts[r].set_communicator(ends[r]);
        set_inputs(contexts[r], engines[r], {inputs[r]});
        contexts[r].run();
        results[r] = output_of(contexts[r], "y");
        const CommunicatorScope scope(ends[r].get());
        ThreadPool pool(1);
        wanted[r] = evaluate(parse_graph(chain_model, operators()), {inputs[r]}, pool)[0];
      });
      for (size_t r = 0; r < 2; ++r) {
        ASSERT_EQ(thrown[r], "");
        EXPECT_EQ(ends[r]->link() != nullptr, expects_link);
        const std::vector<double> got = results[r].to_doubles(), want = wanted[r].to_doubles();
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR(got[i], want[i], 1e-5) << "rank " << r << " round " << round;
      }
    }
  }
}

bool has_two_gpus() {
  return test_backend()->device().kind == "cuda" && cuda::list_devices(cuda::driver_library().functions).size() > 1;
}

TEST(Collective, LinkedDevices) {
  if (!has_two_gpus()) GTEST_SKIP() << "needs two GPUs, or CAMSHAFT_EMULATED_DEVICES=2 scripts/emulate_gpu.sh";
  const auto messages = std::make_shared<Messages>();
  set_logger(messages);
  check_chain(true);
  set_logger(nullptr);
  EXPECT_EQ(messages->take(), std::vector<std::string>());
}

TEST(Collective, DevicesThatCannotBeLinked) {
  if (!has_two_gpus() || std::getenv("CAMSHAFT_EMULATED_DEVICES") == nullptr) GTEST_SKIP() << "needs emulated GPUs";
  const auto messages = std::make_shared<Messages>();
  set_logger(messages);
  setenv("CAMSHAFT_EMULATED_NCCL_FAILS", "1", 1);
  check_chain(false);
  unsetenv("CAMSHAFT_EMULATED_NCCL_FAILS");
  set_logger(nullptr);
  const std::vector<std::string> said = messages->take();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("NCCL"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("ranks meet over the host's memory"), std::string::npos) << said[0];
}

// While one rank's device waits for the other, whose run has failed before it came to the collective.
TEST(Collective, ARankThatFailsEndsTheWaitOfDevices) {
  const std::vector<Engine> engines = engines_of(chain_model, 2);
  const auto ends = local_communicators(2, 60);
  const Tensor x(DType::f32, {3, 6});
  const auto start = std::chrono::steady_clock::now();
  const auto thrown = on_ranks(2, [&](size_t r) {
    Context context = engines[r].create_context({1, make_workers(1)});
    context.set_communicator(ends[r]);
    set_inputs(context, engines[r], {x});
    context.run();
    if (r == 1) context.set_tap("c", [](const TensorView&) { throw Error(ErrorCode::io, "the tap is full"); });
    context.run();
  });
  for (const std::string& each : thrown) EXPECT_NE(each.find("the tap is full"), std::string::npos) << each;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Collective, WithoutACommunicatorNothingRuns) {
  const Engine engine = engine_from(gather_model);
  Context context = engine.create_context();
  const Tensor x = Tensor::of<float>(DType::f32, {1, 2}, {1, 2});
  set_inputs(context, engine, {x});
  EXPECT_NE(error_of([&] { context.run(); }).find("one of 2 ranks, and its context has no communicator"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              context.set_communicator(local_communicators(3)[0]);
            }).find("the communicator is of 3 ranks, the engine is one of 2"),
            std::string::npos);
  const Engine alone = engine_from("graph \"g\" (%x: f32[2]) {\n  %y = softmax {axis=0} (%x)\n  return \"y\" = %y\n}");
  Context other = alone.create_context();
  EXPECT_NE(error_of([&] { other.set_communicator(local_communicators(2)[0]); }).find("takes no communicator"),
            std::string::npos);
}

TEST(Collective, RanksOfOtherSizesAreTold) {
  const std::vector<Engine> engines = engines_of(gather_model, 2);
  const auto ends = local_communicators(2, 60);
  const auto thrown = on_ranks(2, [&](size_t r) {
    Context context = engines[r].create_context({1, make_workers(1)});
    context.set_communicator(ends[r]);
    const auto rows = static_cast<int64_t>(1 + r);
    const Tensor x(DType::f32, {rows, 2});
    set_inputs(context, engines[r], {x});
    context.run();
  });
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_NE(thrown[r].find("f32[1, 2]"), std::string::npos) << thrown[r];
    EXPECT_NE(thrown[r].find("f32[2, 2]"), std::string::npos) << thrown[r];
    // Over a link all of a run's are compared before it begins.
    if (!ends[r]->link()) {
      EXPECT_NE(thrown[r].find("Gather_7"), std::string::npos) << thrown[r];
    }
  }
}

TEST(Collective, ARunThatFailsFailsOnAll) {
  const Engine engine = engine_from(gather_model);
  const auto ends = local_communicators(2, 60);
  const Tensor x(DType::f32, {1, 2});
  const auto thrown = on_ranks(2, [&](size_t r) {
    Context context = engine.create_context({1, make_workers(1)});
    context.set_communicator(ends[r]);
    if (r == 0) set_inputs(context, engine, {x});
    context.run();
  });
  for (const std::string& each : thrown) EXPECT_NE(each.find("input 'x'"), std::string::npos) << each;
  EXPECT_NE(thrown[0].find("rank 1: "), std::string::npos) << thrown[0];
}

TEST(Collective, ACancelledRankCancelsAll) {
  const Engine engine = engine_from(gather_model);
  const auto ends = local_communicators(2, 60);
  const Tensor x(DType::f32, {1, 2});
  Cancellation cancellation;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancellation.cancel();
  });
  // Rank 1 never comes.
  const std::string thrown = error_of([&] {
    Context context = engine.create_context({1, make_workers(1)});
    context.set_communicator(ends[0]);
    context.set_cancellation(cancellation);
    set_inputs(context, engine, {x});
    context.run();
  });
  later.join();
  EXPECT_NE(thrown.find("cancelled"), std::string::npos) << thrown;
  EXPECT_NE(
      error_of([&] { ends[1]->exchange("x", {}, 0, [](int, size_t, std::span<const std::byte>) {}); }).find("rank 0: "),
      std::string::npos);
}

TEST(Collective, ShapeRules) {
  const auto refused = [](std::string_view input, std::string_view op) {
    const std::string text =
        fmt::format("graph \"g\" (%x: {}) {{\n  %y = collective {{{}}} (%x)\n  return \"y\" = %y\n}}", input, op);
    EXPECT_THROW(parse_graph(text, operators()), Error) << text;
  };
  refused("f32[3]", "kind=reduce_scatter, ranks=2");
  refused("f32[3]", "kind=all_to_all, ranks=2");
  refused("f32[3]", "kind=all_gather, ranks=2, axis=1");
  refused("f32[3]", "kind=all_gather, ranks=0");
  refused("f32[3]", "kind=broadcast, ranks=2, root=2");
  refused("i4[4]", "kind=broadcast, ranks=2");
  refused("string[4]", "kind=broadcast, ranks=2");
  refused("bool[4]", "kind=all_reduce, ranks=2");
  // Sizes with symbols are looked at when they are known.
  const Engine engine = engine_from(
      "graph \"g\" (%x: f32[n]) {\n  %y = collective {kind=reduce_scatter, ranks=2} (%x)\n  return \"y\" = %y\n}");
  Context context = engine.create_context();
  context.rehearse();
  const Tensor x(DType::f32, {3});
  set_inputs(context, engine, {x});
  EXPECT_NE(error_of([&] { context.run(); }), "");
}

}  // namespace
}  // namespace camshaft::collective_test
