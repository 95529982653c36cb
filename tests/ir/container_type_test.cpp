// Types of sequences, optionals and maps, and tensors that hold tensors.
#include "ir/container_type.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"

namespace camshaft::container_type_test {
namespace {

Tensor f32(Dims dims, const std::vector<float>& values) {
  return Tensor::of(DType::f32, std::move(dims), values);
}

TEST(ContainerType, TextGoesBothWays) {
  for (const char* text : {"f32[?, 3]", "f32[*]", "seq[?]<f32[batch, ?]>", "opt<seq[4]<i64[*]>>", "map<string, f32>",
                           "seq[2]<map<i64, f32>>", "opt<u8[]>"})
    EXPECT_EQ(to_string(parse_element_type(text)), text);
  for (const char* text : {"seq[1, 2]<f32[*]>", "seq[?]", "opt<f32>", "map<i64>", "f32[*, 2]", "map<seq, f32>"})
    EXPECT_THROW(parse_element_type(text), Error) << text;
}

TEST(ContainerType, OnlyElementsMayBeUnknown) {
  EXPECT_NE(malformed({DType::f32, {unknown_dim()}}), "");
  EXPECT_NE(malformed({DType::f32, {unknown_dim() + 1}}), "");
  EXPECT_NE(malformed(any_tensor(DType::f32)), "");
  EXPECT_NE(malformed({DType::f32, {}, true, {any_tensor(DType::f32)}}), "");
  EXPECT_NE(malformed({DType::sequence, {3}}), "");
  EXPECT_NE(malformed({DType::map, {3}, true, map_of(DType::i64, DType::f32).elements}), "");
  EXPECT_EQ(malformed(sequence_of(any_tensor(DType::f32), Dim::symbol("n"))), "");
  TensorType deep = any_tensor(DType::f32);
  for (int i = 0; i < 40; ++i) deep = optional_of(deep);
  EXPECT_NE(malformed(deep), "");
}

TEST(ContainerType, Joins) {
  const auto join = [](const char* a, const char* b) {
    return to_string(join_elements(parse_element_type(a), parse_element_type(b)));
  };
  EXPECT_EQ(join("f32[2, n]", "f32[3, n]"), "f32[?, n]");
  EXPECT_EQ(join("f32[2]", "f32[2, 1]"), "f32[*]");
  EXPECT_EQ(join("seq[2]<f32[1]>", "seq[2]<f32[2]>"), "seq[2]<f32[?]>");
  EXPECT_THROW(join("f32[2]", "f64[2]"), Error);
  EXPECT_TRUE(accepts_element(parse_element_type("f32[?, 3]"), parse_element_type("f32[n, 3]")));
  EXPECT_TRUE(accepts_element(parse_element_type("f32[*]"), parse_element_type("f32[n, 3]")));
  EXPECT_FALSE(accepts_element(parse_element_type("f32[n, 3]"), parse_element_type("f32[?, 3]")));
  EXPECT_FALSE(accepts_element(parse_element_type("f32[?]"), parse_element_type("f32[*]")));
}

TEST(ContainerType, SizesThatRunningTellsAreForgotten) {
  EXPECT_EQ(to_string(element_type({DType::f32, {Dim::symbol("@x.0"), Dim::symbol("n"), Dim::symbol("@x.0") + 1}})),
            "f32[?, n, ?]");
}

TEST(ContainerTensor, DeepEqualityAndCopies) {
  const Tensor a = Tensor::sequence({f32({2}, {1, 2}), f32({0}, {})});
  const Tensor b = Tensor::sequence({f32({2}, {1, 2}), f32({0}, {})});
  EXPECT_EQ(a.dims(), Dims{2});
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.copy(), a);
  EXPECT_NE(a, Tensor::sequence({f32({2}, {1, 3}), f32({0}, {})}));
  EXPECT_NE(a, Tensor::sequence({f32({2}, {1, 2})}));
  EXPECT_EQ(Tensor::optional(a), Tensor::optional(b));
  EXPECT_NE(Tensor::optional(a), Tensor::optional(Tensor()));
  EXPECT_EQ(Tensor::optional(Tensor()), Tensor::optional(Tensor()));
}

TEST(ContainerTensor, ElementsOwnTheirBytes) {
  std::vector<float> memory{1, 2};
  const Tensor view(DType::f32, {2}, std::as_bytes(std::span(memory)), nullptr);
  const Tensor sequence = Tensor::sequence({view});
  memory[0] = 9;
  EXPECT_EQ(sequence.element(0), f32({2}, {1, 2}));
}

TEST(ContainerTensor, ElementsAreCheckedAgainstTheirType) {
  const TensorType type = parse_element_type("seq[?]<f32[?, 3]>");
  EXPECT_NO_THROW(check_elements(Tensor::sequence({f32({1, 3}, {1, 2, 3}), f32({0, 3}, {})}), type, "x"));
  EXPECT_THROW(check_elements(Tensor::sequence({f32({3}, {1, 2, 3})}), type, "x"), Error);
  EXPECT_THROW(check_elements(Tensor::sequence({f32({1, 2}, {1, 2})}), type, "x"), Error);
  EXPECT_THROW(check_elements(Tensor::sequence({Tensor::from_ints({1})}), type, "x"), Error);
  EXPECT_THROW(check_elements(Tensor::sequence({Tensor()}), type, "x"), Error);
  const TensorType map = map_of(DType::i64, DType::f32);
  EXPECT_NO_THROW(check_elements(Tensor::map(Tensor::from_ints({1}), f32({1}, {2})), map, "x"));
  EXPECT_THROW(check_elements(Tensor::map(Tensor::from_ints({1, 2}), f32({1}, {2})), map, "x"), Error);
}

}  // namespace
}  // namespace camshaft::container_type_test
