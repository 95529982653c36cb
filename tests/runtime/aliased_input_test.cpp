// Outputs in the memory of the input that they update: what a decoder keeps is written where it is.
#include <gtest/gtest.h>

#include "reference/random_tensor.h"
#include "runtime/support.h"

namespace camshaft::aliased_input_test {
namespace {

constexpr std::string_view decoder = R"(graph (%cache: f32[blocks, 2, 3], %rows: f32[tokens, 3], %slots: i64[tokens]) {
  %kept = paged_store {} (%cache, %rows, %slots)
  %seen = reduce {kind=sum, axes=[0, 1], keep_dims=false} (%kept)
  return "kept" = %kept, "seen" = %seen
})";

Engine engine_of(std::string_view model) {
  return engine_from(model);
}

std::vector<Tensor> reference(std::string_view model, const std::vector<Tensor>& inputs) {
  ThreadPool pool(1);
  return evaluate(parse_graph(model, operators()), inputs, pool);
}

std::string message_of(Context& context) {
  try {
    context.run();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.what();
  }
  return "";
}

TEST(AliasedInput, IsUpdatedInPlaceStepByStep) {
  Random random = test_random();
  const Engine engine = engine_of(decoder);
  EXPECT_EQ(engine.outputs()[0].aliased_input, "cache");
  EXPECT_EQ(engine.outputs()[1].aliased_input, "");
  Context context = engine.create_context({2});
  Tensor cache = random_tensor(random, DType::f32, {4, 2, 3}), expected = cache.copy();
  context.set_input("cache", cache.dims(), cache.data());
  context.bind_output("kept", cache.mutable_data(), cache.bytes());
  for (int64_t step = 0; step < 20; ++step) {
    const Tensor rows = random_tensor(random, DType::f32, {1 + step % 3, 3});
    Tensor slots(DType::i64, {rows.dims()[0]});
    for (int64_t i = 0; i < slots.size(); ++i) slots.as_mutable<int64_t>()[i] = random.integer(-1, 7);
    context.set_input("rows", rows.dims(), rows.data());
    context.set_input("slots", slots.dims(), slots.data());
    context.run();
    const std::vector<Tensor> results = reference(decoder, {expected, rows, slots});
    expected = results[0];
    EXPECT_EQ(cache, expected) << step;
    EXPECT_EQ(context.output("kept").data, cache.data());
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_NEAR(reinterpret_cast<const float*>(context.output("seen").data)[i], results[1].as<float>()[i], 1e-5);
  }
}

// With memory of its own the output is a copy, and the input stays as it is.
TEST(AliasedInput, MemoryOfItsOwnLeavesTheInput) {
  Random random = test_random();
  Context context = engine_of(decoder).create_context({1});
  const Tensor cache = random_tensor(random, DType::f32, {4, 2, 3}), before = cache.copy();
  const Tensor rows = random_tensor(random, DType::f32, {1, 3}), slots = Tensor::from_ints({5});
  context.set_input("cache", cache.dims(), cache.data());
  context.set_input("rows", rows.dims(), rows.data());
  context.set_input("slots", slots.dims(), slots.data());
  context.run();
  EXPECT_EQ(cache, before);
  const Tensor expected = reference(decoder, {cache, rows, slots})[0];
  EXPECT_EQ(output_of(context, "kept"), expected);
}

TEST(AliasedInput, IsNoneThatIsReadLater) {
  const Engine engine = engine_of(R"(graph (%cache: f32[blocks, 2, 3], %rows: f32[tokens, 3], %slots: i64[tokens]) {
    %kept = paged_store {} (%cache, %rows, %slots)
    %seen = reduce {kind=sum, axes=[0, 1], keep_dims=false} (%kept)
    %both = pointwise {function=add} (%cache, %seen)
    return "kept" = %kept, "both" = %both
  })");
  EXPECT_EQ(engine.outputs()[0].aliased_input, "");
  Context context = engine.create_context({1});
  Tensor cache(DType::f32, {4, 2, 3});
  const Tensor rows(DType::f32, {1, 3}), slots = Tensor::from_ints({5});
  set_inputs(context, engine, {cache, rows, slots});
  context.set_input("cache", cache.dims(), cache.data());
  context.bind_output("kept", cache.mutable_data(), cache.bytes());
  EXPECT_NE(message_of(context).find("may be read after it is written"), std::string::npos);
}

TEST(AliasedInput, OtherSharedMemoryIsRefused) {
  Random random = test_random();
  Context context = engine_of(decoder).create_context({1});
  Tensor cache = random_tensor(random, DType::f32, {4, 2, 3}), rows = random_tensor(random, DType::f32, {1, 3});
  const Tensor slots = Tensor::from_ints({5});
  context.set_input("cache", cache.dims(), cache.data());
  context.set_input("rows", rows.dims(), rows.data());
  context.set_input("slots", slots.dims(), slots.data());
  const auto message = [&](const char* output, void* data, size_t bytes) {
    context.bind_output(output, data, bytes);
    const std::string text = message_of(context);
    context.bind_output(output, nullptr, 0);
    return text;
  };
  EXPECT_NE(message("kept", cache.mutable_data() + 4, cache.bytes()).find("does not begin where"), std::string::npos);
  EXPECT_NE(message("seen", rows.mutable_data(), rows.bytes()).find("give it memory of its own"), std::string::npos);
  std::vector<float> memory(27);
  context.bind_output("kept", memory.data(), cache.bytes());
  EXPECT_NE(message("seen", memory.data() + 23, 12).find("bound to the same memory"), std::string::npos);
  // What is given beyond what is needed does not count.
  context.bind_output("kept", memory.data(), 27 * 4);
  EXPECT_EQ(message("seen", memory.data() + 24, 12), "");
}

}  // namespace
}  // namespace camshaft::aliased_input_test
