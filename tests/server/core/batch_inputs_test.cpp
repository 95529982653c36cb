#include "server/core/batch_inputs.h"

#include <gtest/gtest.h>

#include "server/core/batch_queue.h"
#include "server/core/make_pending.h"
#include "server/core/status.h"

namespace camshaft::server::batch_inputs_test {
namespace {

using Kind = inference::BatchInput;

Signature ragged(Dims dims) {
  Signature signature = one_input(16, std::move(dims));
  signature.inputs[0].ragged = true;
  return signature;
}

// Requests whose tensors have these shapes, with the axis of the batch.
std::vector<PendingPtr> batch_of(const Signature& signature, ModelStatistics& statistics,
                                 const std::vector<Dims>& shapes) {
  std::vector<PendingPtr> batch;
  for (const Dims& shape : shapes) {
    Request request;
    request.inputs = {float_tensor("x", shape, 1)};
    batch.push_back(std::make_unique<Pending>(
        std::move(request), [](const Response&) {}, statistics, nullptr));
    check_request(signature, *batch.back());
  }
  return batch;
}

BatchTensor made(Kind::Kind kind, const std::vector<Dims>& shapes) {
  const Signature signature = ragged(Dims(shapes.front().size() - 1, -1));
  ModelStatistics statistics;
  return make_batch_input({kind, 0, DType::i32, {"t"}}, signature, batch_of(signature, statistics, shapes));
}

// The example of Triton's documentation: requests of 3, 4 and 5 elements.
TEST(BatchInputs, CountElements) {
  const std::vector<Dims> shapes = {{1, 3}, {1, 4}, {1, 5}};
  EXPECT_EQ(made(Kind::BATCH_ELEMENT_COUNT, shapes).values, std::vector<int64_t>({3, 4, 5}));
  EXPECT_EQ(made(Kind::BATCH_ACCUMULATED_ELEMENT_COUNT, shapes).values, std::vector<int64_t>({3, 7, 12}));
  EXPECT_EQ(made(Kind::BATCH_ACCUMULATED_ELEMENT_COUNT, shapes).dims, Dims({3}));
  EXPECT_EQ(made(Kind::BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, shapes).values, std::vector<int64_t>({0, 3, 7, 12}));
  EXPECT_EQ(made(Kind::BATCH_MAX_ELEMENT_COUNT_AS_SHAPE, shapes).dims, Dims({5}));
}

// Those of the comments of its protocol: a request of two elements [3, 1] and one of one [2, 2].
TEST(BatchInputs, SayShapesOfItems) {
  const std::vector<Dims> shapes = {{2, 3, 1}, {1, 2, 2}};
  const BatchTensor rows = made(Kind::BATCH_ITEM_SHAPE, shapes);
  EXPECT_EQ(rows.dims, Dims({3, 2}));
  EXPECT_EQ(rows.values, std::vector<int64_t>({3, 1, 3, 1, 2, 2}));
  EXPECT_EQ(made(Kind::BATCH_ITEM_SHAPE_FLATTEN, shapes).dims, Dims({6}));
  // Counts are of whole requests.
  EXPECT_EQ(made(Kind::BATCH_ELEMENT_COUNT, shapes).values, std::vector<int64_t>({6, 4}));
}

TEST(BatchInputs, AreWrittenInTheTypeThatIsAskedFor) {
  const BatchTensor tensor{{3}, {1, 20, 300}};
  std::vector<int32_t> narrow(3);
  write_batch_input(tensor, DType::i32, reinterpret_cast<std::byte*>(narrow.data()));
  EXPECT_EQ(narrow, std::vector<int32_t>({1, 20, 300}));
  std::vector<int64_t> wide(3);
  write_batch_input(tensor, DType::i64, reinterpret_cast<std::byte*>(wide.data()));
  EXPECT_EQ(wide, tensor.values);
  std::vector<float> real(3);
  write_batch_input(tensor, DType::f32, reinterpret_cast<std::byte*>(real.data()));
  EXPECT_EQ(real, std::vector<float>({1, 20, 300}));
}

TEST(BatchInputs, OutputsAreCutByInputsShapes) {
  Signature signature = ragged({-1, 4});
  TensorSpec output;
  output.name = "y";
  output.dims = {-1, 2};
  output.scattered_by = 0;
  ModelStatistics statistics;
  const auto batch = batch_of(signature, statistics, {{2, 7, 4}});
  EXPECT_EQ(scattered_shape(output, signature, *batch.front()), Dims({2, 7, 2}));
  output.dims = {-1, -1, -1};
  EXPECT_THROW(scattered_shape(output, signature, *batch.front()), ServerError);
}

TEST(BatchInputs, RequestsOfOtherShapesFitTogether) {
  ModelStatistics statistics;
  const auto together = batch_of(ragged({-1}), statistics, {{1, 3}, {1, 4}});
  EXPECT_TRUE(fit_together(*together[0], *together[1]));
  const auto apart = batch_of(one_input(16, {-1}), statistics, {{1, 3}, {1, 4}});
  EXPECT_FALSE(fit_together(*apart[0], *apart[1]));
}

// The first of them has the row, the second has not: each is a batch, and nothing is read that is not there.
TEST(BatchInputs, AnInputThatIsNotThere) {
  Signature signature = one_input(16, {-1});
  signature.inputs.push_back(signature.inputs.front());
  signature.inputs.back().name = "row";
  signature.inputs.back().ragged = signature.inputs.back().optional = true;
  ModelStatistics statistics;
  BatchPolicy policy;
  policy.max_batch = 16;
  policy.most_elements = {0, 100};
  BatchQueue queue(policy, nullptr);
  const Clock::time_point now = Clock::now();
  for (const bool has_row : {false, true, true}) {
    Request request;
    request.inputs = {float_tensor("x", {1, 2}, 1)};
    if (has_row) request.inputs.push_back(float_tensor("row", {1, 40}, 1));
    auto pending = std::make_unique<Pending>(
        std::move(request), [](const Response&) {}, statistics, nullptr);
    check_request(signature, *pending);
    queue.push(pending, now);
  }
  std::vector<PendingPtr> out;
  EXPECT_EQ(queue.next(now, out).batch.size(), 1U);
  EXPECT_EQ(queue.next(now, out).batch.size(), 2U);
}

// What a profile's row does not hold is the next batch's.
TEST(BatchInputs, ABatchHoldsNoMoreThanItsRow) {
  ModelStatistics statistics;
  auto waiting = batch_of(ragged({-1}), statistics, {{1, 30}, {1, 40}, {1, 31}, {1, 200}});
  BatchPolicy policy;
  policy.max_batch = 16;
  policy.most_elements = {100};
  BatchQueue queue(policy, nullptr);
  const Clock::time_point now = Clock::now();
  for (PendingPtr& pending : waiting) queue.push(pending, now);
  std::vector<PendingPtr> out;
  EXPECT_EQ(queue.next(now, out).batch.size(), 2U);
  EXPECT_EQ(queue.next(now, out).batch.size(), 1U);
  EXPECT_EQ(queue.next(now, out).batch.size(), 1U);  // it is the engine that refuses it
}

}  // namespace
}  // namespace camshaft::server::batch_inputs_test
