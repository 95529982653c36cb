// Steps and their parameters in the layout of fragments come back as they were, and lie where it says.
#include "compile/constants/step_fragments.h"

#include <gtest/gtest.h>

#include "ir/ops/weight_only.h"
#include "test_random.h"

namespace camshaft::step_fragments_test {
namespace {

Tensor bytes_of(Random& random, DType dtype, const Dims& dims) {
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < static_cast<int64_t>(t.bytes()); ++i)
    t.mutable_data()[i] = static_cast<std::byte>(random.integer(0, 255));
  // Bits behind the last element are nobody's.
  const int64_t rest = element_count(dims) * bit_width(dtype) % 8;
  if (rest > 0) t.mutable_data()[t.bytes() - 1] &= static_cast<std::byte>((1 << rest) - 1);
  return t;
}

Tensor floats(Random& random, DType dtype, const Dims& dims) {
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.size(); ++i) {
    if (dtype == DType::f32) t.as_mutable<float>()[i] = static_cast<float>(random.normal());
    if (dtype == DType::f16) t.as_mutable<uint16_t>()[i] = static_cast<uint16_t>(random.integer(0, 0x7bff));
  }
  return t;
}

/// A product with these weights, scales and zero points.
struct Product {
  Graph graph;
  SymbolBindings symbols;

  explicit Product(const std::vector<Tensor>& constants) {
    std::vector<ValueId> ids{graph.add_input("x", {DType::f32, {Dim(1), Dim(1)}})};
    for (size_t i = 0; i < constants.size(); ++i)
      ids.push_back(graph.add_constant("c" + std::to_string(i + 1), constants[i]));
    graph.nodes.push_back({ops::WeightOnlyMatMul{}, ids, {}, {}, {}});
  }
  RegionView region() const { return {graph, graph.nodes.back(), symbols}; }
};

TEST(StepFragments, ComeBack) {
  Random random = test_random();
  constexpr DType types[] = {DType::u4, DType::i4, DType::u8, DType::i8, DType::u2, DType::i2};
  for (int round = 0; round < 60; ++round) {
    const DType dtype = types[round % 6];
    const bool transposed = random.integer(0, 1) == 1;
    const int64_t k = random.integer(1, 300), n = random.integer(1, 40), blocks = random.integer(1, 9);
    const auto matrix = [&](int64_t depth) { return transposed ? Dims{n, depth} : Dims{depth, n}; };
    const DType scale = round % 2 == 0 ? DType::f32 : DType::f16;
    const std::vector<Tensor> constants{bytes_of(random, dtype, matrix(k)), floats(random, scale, matrix(blocks)),
                                        bytes_of(random, dtype, matrix(blocks))};
    const Product product(constants);
    PackedConstants packed;
    const StepFragments steps{bit_width(dtype), k, n, transposed};
    EXPECT_EQ(pack_steps(product.region(), 1, steps, packed).size(), steps.bytes());
    for (const size_t i : {2U, 3U})
      pack_step_parameters(product.region(), i, {blocks, n, blocks + round % 3, transposed}, packed);
    ASSERT_EQ(packed.all().size(), 3U);
    for (const PackedConstant* constant : packed.all()) {
      const Tensor& raw = constants[static_cast<size_t>(constant->constant[1] - '1')];
      EXPECT_TRUE(unpack_step_fragments(*constant, raw.dtype(), raw.dims()) == raw)
          << constant->layout << " " << to_string(raw.dtype());
      EXPECT_THROW(unpack_step_fragments(*constant, raw.dtype(), {1, 1, 3}), Error);
      EXPECT_THROW(unpack_step_fragments(*constant, DType::f64, raw.dims()), Error);
      PackedConstant cut = *constant;
      cut.bytes = cut.bytes.first(cut.bytes.size() - 1);
      EXPECT_THROW(unpack_step_fragments(cut, raw.dtype(), raw.dims()), Error);
    }
  }
  EXPECT_FALSE(unpack_step_fragments({"c", "rows=1", {}, {}}, DType::u4, {1, 1}).defined());
}

// Lane 4 g + t has of the columns g and g + 8 the elements 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of each 16 along k.
TEST(StepFragments, LieAsTheTensorCoresTakeThem) {
  Tensor codes(DType::u8, {16, 32});  // [n, k]: 16·column + k
  for (int64_t i = 0; i < codes.size(); ++i)
    codes.as_mutable<uint8_t>()[i] = static_cast<uint8_t>(i / 32 * 16 + i % 16);
  const Product product({codes});
  PackedConstants packed;
  const auto bytes = pack_steps(product.region(), 1, {8, 32, 16, true}, packed);
  const size_t lane = 4 * 3 + 1;
  const int first[8] = {0x32, 0x33, 0xb2, 0xb3, 0x3a, 0x3b, 0xba, 0xbb};
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(std::to_integer<int>(bytes[lane * 16 + i]), first[i % 8]) << i;
}

}  // namespace
}  // namespace camshaft::step_fragments_test
