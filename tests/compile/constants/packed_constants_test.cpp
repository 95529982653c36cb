// The store of packed weights.
#include "compile/constants/packed_constants.h"

#include <gtest/gtest.h>

#include <cstring>

namespace camshaft::packed_constants_test {
namespace {

const Tensor weights = Tensor::of<float>(DType::f32, {2, 2}, {1, 2, 3, 4});

void reverse(const Tensor& raw, std::byte* out) {
  for (int64_t i = 0; i < raw.size(); ++i) std::memcpy(out + 4 * i, raw.data() + 4 * (raw.size() - 1 - i), 4);
}
Tensor unreverse(const PackedConstant& packed, DType dtype, const Dims& dims) {
  EXPECT_EQ(packed.layout.rfind("reversed", 0), 0u);
  Tensor out(dtype, dims);
  for (int64_t i = 0; i < out.size(); ++i)
    std::memcpy(out.mutable_data() + 4 * i, packed.bytes.data() + 4 * (out.size() - 1 - i), 4);
  return out;
}

TEST(PackedConstants, PacksOnce) {
  PackedConstants store;
  int calls = 0;
  const auto pack = [&](const Tensor& raw, std::byte* out) {
    ++calls;
    for (int i = 0; i < 20; ++i) EXPECT_EQ(out[i], std::byte{0}) << "zeroed";
    reverse(raw, out);
  };
  const auto first = store.get("w", "reversed", weights, 20, pack);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 64, 0u);
  EXPECT_EQ(first.size(), 20u);
  const auto second = store.get("w", "reversed", weights, 20, pack);
  EXPECT_EQ(first.data(), second.data());
  EXPECT_EQ(calls, 1);
  EXPECT_NE(store.get("w", "reversed again", weights, 20, pack).data(), first.data());
  EXPECT_NE(store.get("v", "reversed", weights, 20, pack).data(), first.data());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(store.total_bytes(), 60u);
  std::vector<std::string> order;
  for (const PackedConstant* p : store.all()) order.push_back(p->constant + "/" + p->layout);
  EXPECT_EQ(order, (std::vector<std::string>{"v/reversed", "w/reversed", "w/reversed again"}));
}

TEST(PackedConstants, AnotherSizeIsADamagedEngine) {
  PackedConstants store;
  store.get("w", "reversed", weights, 16, reverse);
  try {
    store.get("w", "reversed", weights, 20, reverse);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::corrupt_engine);
    EXPECT_STREQ(e.what(), "constant 'w' in layout 'reversed' has 16 bytes, expected 20");
  }
}

TEST(PackedConstants, ElidedConstantsComeBackFromWhatIsThere) {
  PackedConstants store;
  store.set_unpack(unreverse);
  store.get("w", "reversed", weights, 16, reverse);
  const Tensor elided = Tensor::elided(DType::f32, {2, 2});
  EXPECT_EQ(store.unpack("w", elided), weights);
  bool seen = false;
  store.get("w", "rows", elided, 16, [&](const Tensor& raw, std::byte*) { seen = raw == weights; });
  EXPECT_TRUE(seen) << "another layout is packed from the recovered weights";
  for (const char* name : {"v", "x", ""}) {
    try {
      store.unpack(name, elided);
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt_engine);
    }
  }
}

TEST(PackedConstants, FallbackOnesAreCheckedAndComeBack) {
  PackedConstants store;
  store.set_unpack([](const PackedConstant&, DType, const Dims&) { return Tensor(); });  // no form gives them back
  store.get("w", "mixed", weights, 24, reverse);
  int checks = 0;
  store.add({"w", std::string(fallback_layout), weights.span(), nullptr, [&] { ++checks; }});
  EXPECT_EQ(store.total_bytes(), 24u) << "what nobody reads does not count";
  const Tensor elided = Tensor::elided(DType::f32, {2, 2});
  EXPECT_EQ(store.get("w", "mixed", elided, 24, reverse).size(), 24u);
  EXPECT_EQ(checks, 0);
  EXPECT_EQ(store.unpack("w", elided), weights);
  EXPECT_EQ(checks, 1);
  for (const Tensor& other : {Tensor::elided(DType::f32, {2, 3}), Tensor::elided(DType::f64, {2, 2}),
                              Tensor::elided(DType::string, {1}), Tensor::elided(DType::f16, {4})})
    EXPECT_THROW(store.unpack("w", other), Error);
  store.add({"w", std::string(fallback_layout), weights.span(), nullptr,
             [] { throw Error(ErrorCode::corrupt_engine, "damaged"); }});
  EXPECT_THROW(store.unpack("w", elided), Error);
}

TEST(PackedConstants, BytesOfAFile) {
  PackedConstants store;
  auto bytes = std::make_shared<std::vector<std::byte>>(16);
  const std::weak_ptr<std::vector<std::byte>> alive = bytes;
  store.add({"w", "reversed", *bytes, bytes});
  bytes.reset();
  EXPECT_FALSE(alive.expired()) << "the store keeps them";
  EXPECT_EQ(store.get("w", "reversed", weights, 16, [](const Tensor&, std::byte*) { FAIL(); }).data(),
            alive.lock()->data());
}

}  // namespace
}  // namespace camshaft::packed_constants_test
