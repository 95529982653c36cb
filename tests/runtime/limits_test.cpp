// What a context may take for a run: max_operations and max_memory.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/default_limits.h"
#include "base/error.h"
#include "runtime/support.h"

namespace camshaft::limits_test {
namespace {

constexpr std::string_view product = R"(graph "g" (%x: f32[n, 64]) {
  %t = transpose {permutation=[1, 0]} (%x)
  %y = matmul (%x, %t) from "the_large_one"
  return "y" = %y
})";

// As many rounds as it is told.
constexpr std::string_view rounds = R"(graph "g" (%n: i64[], %x: f32[2]) {
  const %t: bool[] = true
  %y = loop {carried=1} (%n, %t, %x) from "the_loop"
    graph "body" (%i: i64[], %c: bool[], %v: f32[2]) {
      %w = pointwise {function=neg} (%v)
      return "c" = %c, "w" = %w
    }
  return "y" = %y
})";

std::string refusal(const std::function<void()>& work, ErrorCode code) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

void run(Context& context, int64_t rows) {
  const Tensor x(DType::f32, {rows, 64});
  context.set_input("x", view_of(x));
  context.run();
}

TEST(Limits, OperationsOfTheLayersAreKnownBeforeTheyRun) {
  const Engine engine = engine_from(product);
  Context context = engine.create_context({.threads = 1, .max_operations = 2e7});
  for (int i = 0; i < 5; ++i) run(context, 100);  // of each run, not of all
  expect_parts(refusal([&] { run(context, 2000); }, ErrorCode::unsupported),
               {"'the_large_one'", "2e+07 are allowed", "--max-operations"});
  run(context, 100);
  Context unlimited = engine.create_context({.threads = 1});
  run(unlimited, 2000);
}

TEST(Limits, MemoryThatAContextHolds) {
  const Engine engine = engine_from(product);
  Context context = engine.create_context({.threads = 1, .max_memory = 4e6});
  for (int i = 0; i < 5; ++i) run(context, 500 + i);  // each instead of the one before
  expect_parts(refusal([&] { run(context, 4000); }, ErrorCode::out_of_memory), {"3.8 MiB are allowed", "--max-memory"});
  run(context, 500);
}

TEST(Limits, LoopsRunOutOfOperations) {
  const Engine engine = engine_from(rounds);
  Context context = engine.create_context({.threads = 1, .max_operations = 1e9});
  const Tensor x = Tensor::of(DType::f32, {2}, std::vector<float>{1, 2});
  const auto run_rounds = [&](int64_t count) {
    const Tensor n = Tensor::scalar(DType::i64, static_cast<double>(count));
    context.set_input("n", view_of(n));
    context.set_input("x", view_of(x));
    context.run();
  };
  for (int i = 0; i < 3; ++i) run_rounds(500);  // of each run, not of all
  expect_parts(refusal([&] { run_rounds(1 << 20); }, ErrorCode::unsupported),
               {"1e+09 are allowed", "--max-operations"});
  run_rounds(500);
  EXPECT_EQ(output_of(context, "y"), x);
}

TEST(Limits, ZeroIsTheDefaultOfABuild) {
  EXPECT_EQ(default_operations(0, 0), 5e11);
  EXPECT_EQ(default_operations(size_t{1} << 20, 0), 5e11 + 1e8 * (1 << 20));
  EXPECT_EQ(default_operations(0, 1e6), 5e11 + 2e10);
  EXPECT_EQ(default_operations(0, 1e12), 2e12);
  EXPECT_GE(default_memory(0), size_t{6} << 30);
  EXPECT_EQ(default_memory(100) - default_memory(0), 1600U);
  const Engine engine = engine_from(product);
  Context context = engine.create_context({.threads = 1, .max_operations = 0, .max_memory = 0});
  run(context, 100);
  expect_parts(refusal(
                   [&] {
                     context.set_input_shape("x", {200'000, 64});
                     context.output_shape("y");
                   },
                   ErrorCode::unsupported),
               {"5e+11 are allowed"});
}

}  // namespace
}  // namespace camshaft::limits_test
