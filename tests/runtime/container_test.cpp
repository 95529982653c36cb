// Sequences, optionals and maps through an engine file and the public interface.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/temporary_folder.h"
#include "runtime/support.h"

namespace camshaft::container_test {
namespace {

Tensor f32(Dims dims, const std::vector<float>& values) {
  return Tensor::of(DType::f32, std::move(dims), values);
}

constexpr std::string_view text =
    R"(graph "g" (%s: seq[n]<f32[?, 2]>, %x: f32[m, 2], %o: opt<i64[*]>, %p: map<string, f32>) {
  %y = pointwise {function=neg} (%x)
  %t = sequence_insert {} (%s, %y)
  %i = sequence_length {} (%s)
  %last = sequence_at {} (%t, %i)
  %z = pointwise {function=neg} (%last)
  %all = concat_from_sequence {axis=0} (%t)
  %h = optional_has_element {} (%o)
  return "t" = %t, "z" = %z, "all" = %all, "h" = %h, "o" = %o, "p" = %p
})";

std::vector<Tensor> inputs() {
  return {Tensor::sequence({f32({1, 2}, {1, 2}), f32({2, 2}, {3, 4, 5, 6})}), f32({1, 2}, {7, 8}),
          Tensor::optional(Tensor::from_ints({1, 2})),
          Tensor::map(Tensor::of(DType::string, {1}, std::vector<std::string>{"k"}), f32({1}, {0.5F}))};
}

TEST(Containers, ThroughAnEngineFile) {
  TemporaryFolder folder;
  engine_from(text).save(folder.file("e.engine"));
  const Engine engine = Engine::load(folder.file("e.engine"));
  EXPECT_EQ(engine.inputs()[0].type, "seq[n]<f32[?, 2]>");
  EXPECT_EQ(engine.inputs()[3].type, "map<string, f32>");
  for (int round = 0; round < 2; ++round) {
    const auto out = run_engine(engine, inputs());
    EXPECT_EQ(out[0], Tensor::sequence({f32({1, 2}, {1, 2}), f32({2, 2}, {3, 4, 5, 6}), f32({1, 2}, {-7, -8})}));
    EXPECT_EQ(out[1], f32({1, 2}, {7, 8}));
    EXPECT_EQ(out[2], f32({4, 2}, {1, 2, 3, 4, 5, 6, -7, -8}));
    EXPECT_EQ(out[3], Tensor::scalar(DType::boolean, 1));
    EXPECT_EQ(out[4], inputs()[2]);
    EXPECT_EQ(out[5], inputs()[3]);
  }
}

TEST(Containers, InputsAreCopiedAndChecked) {
  const Engine engine = engine_from(text);
  Context context = engine.create_context({1});
  std::vector<Tensor> good = inputs();
  for (size_t i = 0; i < good.size(); ++i) context.set_input(engine.inputs()[i].name, view_of(good[i]));
  good[0] = Tensor();  // the context has its own
  context.run();
  EXPECT_EQ(context.output("t").elements.size(), 3U);
  EXPECT_EQ(context.output("t").elements[1].dims, (Dims{2, 2}));
  const auto refused = [&](const std::string& name, const Tensor& value) {
    try {
      context.set_input(name, view_of(value));
    } catch (const Error& e) {
      return e.code() == ErrorCode::invalid_argument;
    }
    return false;
  };
  EXPECT_TRUE(refused("s", Tensor::sequence({f32({2}, {1, 2})})));
  EXPECT_TRUE(refused("s", Tensor::sequence({Tensor::from_ints({1})})));
  EXPECT_TRUE(refused("s", f32({1, 2}, {1, 2})));
  EXPECT_TRUE(refused("x", Tensor::sequence({})));
  EXPECT_TRUE(refused("o", Tensor::optional(f32({1}, {1}))));
  try {
    context.bind_input("s", &good, 8);
    ADD_FAILURE() << "memory alone is no sequence";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("bind a tensor with camshaft_context_set_input"), std::string::npos);
  }
  TensorView wrong{DType::optional, {}, nullptr, 0, {view_of(good[1]), view_of(good[1])}};
  EXPECT_THROW(context.set_input("o", wrong), Error);
  std::vector<std::byte> memory(1024);
  context.bind_output("t", memory.data(), memory.size());
  EXPECT_THROW(context.run(), Error);
  context.bind_output("t", nullptr, 0);
  context.set_input("o", {DType::optional, {}, nullptr, 0});
  context.run();
  EXPECT_TRUE(context.output("o").elements.empty());
  const Tensor plain = Tensor::from_ints({3, 4});
  context.set_input("o", view_of(plain));  // the value that it has
  context.run();
  ASSERT_EQ(context.output("o").elements.size(), 1U);
  EXPECT_EQ(copy_of(context.output("o").elements[0]), plain);
  EXPECT_TRUE(refused("o", f32({1}, {1})));
}

TEST(Containers, AnEndlessLoopStopsWhenTheRunIsCancelled) {
  const Engine engine = engine_from(R"(graph "g" (%x: f32[2]) {
    const %m: i64[] = 9223372036854775807
    const %yes: bool[] = true
    %y = loop {carried=1} (%m, %yes, %x)
      graph "body" (%i: i64[], %on: bool[], %v: f32[2]) {
        %w = pointwise {function=neg} (%v)
        return %on, %w
      }
    return "y" = %y
  })");
  Context context = engine.create_context({1});
  const Tensor x = f32({2}, {1, 2});
  context.set_input("x", view_of(x));
  const Cancellation cancellation;
  context.set_cancellation(cancellation);
  std::exception_ptr failure;
  std::atomic<bool> done = false;
  context.run_async([&](std::exception_ptr f) {
    failure = f;
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  cancellation.cancel();
  while (!done) std::this_thread::yield();
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
}

}  // namespace
}  // namespace camshaft::container_test
