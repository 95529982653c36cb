#include <gtest/gtest.h>

#include "ir/ops/paged.h"
#include "ir/ops/rotary_embedding.h"
#include "reference/random_paged_update.h"
#include "reference/single_op.h"

namespace camshaft::ops::paged_update_reference_test {
namespace {

using Op = PagedUpdate;

Tensor reshaped(const Tensor& t, Dims dims) {
  Tensor made(t.dtype(), std::move(dims));
  if (t.size() > 0) std::copy_n(t.data(), t.bytes(), made.mutable_data());
  return made;
}

// What it says of itself: two embeddings and two stores.
TEST(PagedUpdateReference, IsTwoEmbeddingsAndTwoStores) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const DType type = round % 3 == 0 ? DType::f16 : DType::f32;
    const RandomPagedUpdate made = random_paged_update(random, type, DType::f32, type, round % 2 == 0);
    const auto& in = made.inputs;
    const int64_t tokens = in[Op::in_query].dims()[0], size = in[Op::in_keys].dims()[3];
    const auto turned = [&](const Tensor& x, int64_t heads) {
      const Tensor rows = reshaped(x, {tokens, heads, size}),
                   cosine = reshaped(in[Op::in_cosine], {tokens, 1, made.op.rotated / 2}),
                   sine = reshaped(in[Op::in_sine], {tokens, 1, made.op.rotated / 2});
      const auto shape = [](const Tensor& t) {
        Shape s;
        for (const int64_t d : t.dims()) s.emplace_back(d);
        return s;
      };
      return run_op(
          dense_rotary_embedding(shape(rows), shape(cosine), shape(sine), made.op.rotated, made.op.interleaved),
          {rows, cosine, sine})[0];
    };
    const auto stored = [&](const Tensor& cache, const Tensor& rows) {
      return run_op(PagedStore{},
                    {cache, reshaped(rows, {tokens, cache.dims()[2], cache.dims()[3]}), in[Op::in_slots]})[0];
    };
    const std::vector<Tensor> y = run_op(made.op, in);
    const int64_t key_heads = in[Op::in_keys].dims()[2];
    EXPECT_EQ(y[Op::out_query], reshaped(turned(in[Op::in_query], made.op.heads), {tokens, made.op.heads * size}));
    EXPECT_EQ(y[Op::out_keys], stored(in[Op::in_keys], turned(in[Op::in_key], key_heads)));
    EXPECT_EQ(y[Op::out_values], stored(in[Op::in_values], in[Op::in_value]));
  }
}

TEST(PagedUpdateReference, RefusesSlotsBeyondTheCache) {
  Random random = test_random();
  RandomPagedUpdate made;
  do made = random_paged_update(random, DType::f32, DType::f32, DType::f32, false);
  while (made.inputs[Op::in_slots].size() == 0);
  const Dims& cache = made.inputs[Op::in_keys].dims();
  const double slot = static_cast<double>(cache[0] * cache[1]);
  store_elements(made.inputs[Op::in_slots].dtype(), made.inputs[Op::in_slots].mutable_data(), 0, 1, 1, &slot);
  EXPECT_THROW(run_op(made.op, made.inputs), Error);
}

}  // namespace
}  // namespace camshaft::ops::paged_update_reference_test
