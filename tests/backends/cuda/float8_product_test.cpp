// Products and convolutions of 8-bit floats on a GPU, and what is fused behind them, against the reference. Numbers are
// small whole ones where results are to be equal to the last bit: Hopper keeps about 14 bits of its sums.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cuda/run_node.h"
#include "compile/tactic.h"
#include "ir/ops/float8.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "test_random.h"

namespace camshaft::cuda::float8_product_test {
namespace {

using F = ScalarFunction;

#define SKIP_WITHOUT_FLOAT8() \
  SKIP_WITHOUT_GPU();         \
  if (!gpu_features().fp8_products) GTEST_SKIP() << "this GPU has no products of 8-bit floats"

constexpr DType both_types[] = {DType::f8e4m3, DType::f8e5m2};

Tensor whole_numbers(Random& random, DType dtype, const Dims& dims) {
  std::vector<double> numbers(static_cast<size_t>(element_count(dims)));
  for (double& number : numbers) number = static_cast<double>(random.integer(-3, 3));
  return tensor_of(dtype, dims, numbers);
}

// Of every magnitude, denormals among them, but for infinities and NaN.
Tensor any_numbers(Random& random, DType dtype, const Dims& dims) {
  Tensor t(dtype, dims);
  const int64_t largest = dtype == DType::f8e4m3 ? 0x7e : 0x7b;
  for (size_t i = 0; i < t.bytes(); ++i)
    t.mutable_data()[i] = static_cast<std::byte>(random.integer(0, largest) | random.integer(0, 1) << 7);
  return t;
}

struct Matrices {
  int64_t m = 1, n = 1, k = 16;
  DType dtype = DType::f8e4m3;
};

NodeTest product(const Matrices& c, Random& random) {
  NodeTest test(ops::Float8MatMul{},
                {whole_numbers(random, c.dtype, {c.m, c.k}), whole_numbers(random, c.dtype, {c.k, c.n})},
                "cuda_contract");
  test.constants = {1};
  return test;
}

TEST(CudaFloat8Product, Sizes) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  for (const DType dtype : both_types)
    for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {1, 1, 1}, {5, 3, 7}, {64, 64, 128}, {33, 72, 144}, {130, 40, 272}, {1, 200, 96}, {0, 8, 16}})
      for (const bool misaligned : {false, true}) {
        NodeTest test = product({m, n, k, dtype}, random);
        test.misaligned = misaligned;
        test.check();
      }
}

TEST(CudaFloat8Product, EveryVariant) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  for (const DType dtype : both_types) {
    // Tiles that hang over on both sides, and slices that are not as many in each part.
    NodeTest test = product({40, 72, 3 * 128 + 16, dtype}, random);
    const std::vector<std::string> variants = test.variants();
    EXPECT_GT(variants.size(), 10u);
    for (const std::string& variant : variants) {
      SCOPED_TRACE(variant);
      test.variant = variant;
      test.check();
    }
  }
}

// By tensor copies: see CudaByteProduct.
TEST(CudaFloat8Product, BlocksThatStay) {
  SKIP_WITHOUT_FLOAT8();
  if (!gpu_features().warpgroup_products) GTEST_SKIP() << "this GPU has no wgmma";
  Random random = test_random();
  for (const DType dtype : both_types) {
    NodeTest test = product({600, 160, 4 * 128 + 16, dtype}, random);
    for (const char* tile : {"m=128,n=128,stages=6,persistent=1", "m=128,n=128,stages=6,persistent=1,cluster=2"}) {
      test.variant = tile;
      test.check();
    }
  }
}

TEST(CudaFloat8Product, NumbersOfEveryMagnitude) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  for (const DType dtype : both_types)
    for (const bool by_warpgroups : {false, true}) {
      if (by_warpgroups && !gpu_features().warpgroup_products) continue;
      NodeTest test = product({70, 72, 400, dtype}, random);
      for (Tensor& t : test.inputs) t = any_numbers(random, dtype, t.dims());
      test.variant = by_warpgroups ? "wgmma=1" : "wgmma=0";
      // 13 slices of 32, each cut to about 14 bits of the largest number in it.
      test.tolerance = 13 * 0x1p-13;
      test.check();
    }
}

// They reach the sums that they are a part of, and no other.
TEST(CudaFloat8Product, InfinityAndNaN) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  for (const DType dtype : both_types) {
    NodeTest test = product({20, 16, 48, dtype}, random);
    for (const auto& [row, code] : std::vector<std::pair<int, int>>{{3, 0x7f}, {7, 0xff}, {9, 0x7c}, {11, 0xfc}})
      test.inputs[0].mutable_data()[row * 48 + 5] = static_cast<std::byte>(code);
    test.inputs[1].mutable_data()[16 * 4 + 2] = std::byte{0x7f};
    test.check();
  }
}

TEST(CudaFloat8Product, LeavesOtherOperandsToOthers) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  NodeTest variable = product({4, 8, 16}, random);
  variable.constants = {};
  EXPECT_TRUE(variable.variants().empty());
}

struct Image {
  Dims x;  // channels last
  int64_t out = 8, groups = 1;
  Dims kernel = {3, 3}, strides = {1, 1}, dilations = {1, 1};
  Dims pads = {1, 1, 1, 1};
};

NodeTest convolution(const Image& c, DType dtype, Random& random) {
  ops::Float8Conv op;
  op.strides = c.strides;
  op.dilations = c.dilations;
  op.pads = Shape(c.pads.begin(), c.pads.end());
  op.groups = c.groups;
  op.channels_last = true;
  Dims weights = {c.out, c.x.back() / c.groups};
  weights.insert(weights.end(), c.kernel.begin(), c.kernel.end());
  NodeTest test(op, {whole_numbers(random, dtype, c.x), whole_numbers(random, dtype, weights)}, "cuda_contract");
  test.constants = {1};
  return test;
}

TEST(CudaFloat8Conv, WindowsAndBorders) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  const std::vector<Image> images = {
      {.x = {1, 9, 7, 16}},
      {.x = {2, 10, 11, 32}, .out = 24, .strides = {2, 2}},
      {.x = {1, 12, 9, 3}, .out = 20, .kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}},
      {.x = {2, 5, 6, 48}, .out = 33, .kernel = {1, 1}, .pads = {0, 0, 0, 0}},
      {.x = {1, 6, 5, 16}, .out = 8, .kernel = {1, 1}, .strides = {2, 2}, .pads = {1, 1, 0, 0}},
      {.x = {1, 9, 8, 16}, .out = 5, .dilations = {2, 3}, .pads = {2, 3, 1, 0}},
      {.x = {1, 6, 5, 64}, .out = 48, .groups = 4},
      {.x = {1, 6, 5, 12}, .out = 6, .groups = 3},
      {.x = {2, 21, 16}, .out = 16, .kernel = {5}, .strides = {2}, .dilations = {1}, .pads = {2, 1}},
      {.x = {0, 5, 4, 16}}};
  for (const Image& image : images)
    for (const DType dtype : both_types) convolution(image, dtype, random).check();
  NodeTest misaligned = convolution(images[0], DType::f8e4m3, random);
  misaligned.misaligned = true;
  misaligned.check();
}

TEST(CudaFloat8Conv, TilesOfWarpgroups) {
  SKIP_WITHOUT_FLOAT8();
  if (!gpu_features().warpgroup_products) GTEST_SKIP() << "this GPU has no wgmma";
  Random random = test_random();
  NodeTest test = convolution({.x = {2, 9, 11, 32}, .out = 40}, DType::f8e4m3, random);
  size_t count = 0;
  for (const std::string& variant : test.variants()) {
    if (variant.find("wgmma=1") == std::string::npos) continue;
    SCOPED_TRACE(variant);
    test.variant = variant;
    test.check();
    ++count;
  }
  EXPECT_GT(count, 8u);
}

// What follows the sums. Scales are powers of two, so that no number depends on how f32 rounds.
class Epilogue {
 public:
  Epilogue(const NodeTest& sums, int64_t columns, Random& random) : columns_(columns), random_(random) {
    std::vector<ValueId> ids;
    for (const Tensor& t : sums.inputs) ids.push_back(take(t));
    constants_ = {1};
    value_ = body_.add(sums.op, ids, "sums");
  }

  Epilogue& scaled() {
    Tensor scale(DType::f32, {columns_});
    for (int64_t i = 0; i < columns_; ++i)
      scale.as_mutable<float>()[i] = std::ldexp(1.0F, static_cast<int>(random_.integer(-6, 3)));
    return apply(F::mul, take(scale, true));
  }
  Epilogue& plus_columns(const std::vector<double>& numbers) {
    return apply(F::add, take(tensor_of(DType::f32, {columns_}, numbers), true));
  }
  Epilogue& times(double factor) { return apply(F::mul, number_of(factor)); }
  Epilogue& gelu() {
    const ValueId x = value_;
    times(std::sqrt(0.5));
    value_ = body_.add(ops::Pointwise{F::erf}, {value_}, "erf");
    return apply(F::add, number_of(1)).apply(F::mul, x).times(0.5);
  }
  Epilogue& bounded() { return apply(F::max, body_.add_constant("least", Tensor::scalar(DType::f32, 0))); }
  Epilogue& with_residual(const Tensor& other) {
    ValueId wide = take(other);
    if (other.dtype() != DType::f32) wide = body_.add(ops::Cast{DType::f32}, {wide}, "other");
    return apply(F::add, wide);
  }
  Epilogue& apply(F function, ValueId other) {
    value_ = body_.add(ops::Pointwise{function}, {value_, other}, "step");
    return *this;
  }
  NodeTest to(DType dtype) {
    if (dtype != DType::f32) value_ = body_.add(ops::Cast{dtype}, {value_}, "narrow");
    body_.add_output("y", value_);
    NodeTest test(ops::Region{ops::RegionKind::contract}, given_, "cuda_contract");
    test.constants = constants_;
    test.bodies = {body_};
    return test;
  }

 private:
  ValueId number_of(double number) { return body_.add_constant("number", Tensor::scalar(DType::f32, number)); }
  ValueId take(const Tensor& t, bool is_constant = false) {
    given_.push_back(t);
    if (is_constant) constants_.push_back(given_.size() - 1);
    return body_.add_input("x" + std::to_string(given_.size()), {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
  }

  Graph body_;
  int64_t columns_;
  Random& random_;
  std::vector<Tensor> given_;
  std::vector<size_t> constants_;
  ValueId value_ = no_value;
};

TEST(CudaFloat8Product, ScalesResidualsAndBounds) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  for (const DType dtype : both_types)
    for (const auto& [m, n, k] :
         std::vector<std::tuple<int64_t, int64_t, int64_t>>{{70, 72, 144}, {3, 20, 48}, {1, 8, 400}})
      for (const DType to : {DType::f8e4m3, DType::f8e5m2, DType::f16, DType::f32}) {
        const NodeTest sums = product({m, n, k, dtype}, random);
        Epilogue(sums, n, random).scaled().to(to).check();
        Epilogue(sums, n, random).scaled().with_residual(whole_numbers(random, dtype, {m, n})).bounded().to(to).check();
      }
}

TEST(CudaFloat8Product, EpiloguesOfWarpgroups) {
  SKIP_WITHOUT_FLOAT8();
  if (!gpu_features().warpgroup_products) GTEST_SKIP() << "this GPU has no wgmma";
  Random random = test_random();
  constexpr int64_t m = 75, n = 216, k = 144;
  const NodeTest sums = product({m, n, k}, random);
  NodeTest narrow = Epilogue(sums, n, random)
                        .scaled()
                        .with_residual(whole_numbers(random, DType::f8e4m3, {m, n}))
                        .bounded()
                        .to(DType::f8e4m3);
  NodeTest halves =
      Epilogue(sums, n, random).scaled().with_residual(whole_numbers(random, DType::f16, {m, n})).to(DType::f16);
  size_t count = 0;
  for (const std::string& variant : narrow.variants()) {
    if (variant.find("wgmma=1") == std::string::npos || variant.find("splits=1)") == std::string::npos) continue;
    SCOPED_TRACE(variant);
    NodeTest& test = ++count % 2 == 0 ? narrow : halves;
    test.variant = variant;
    test.check();
  }
}

// What is too large becomes the largest number, as QuantizeLinear's `saturate` has it; NaN stays NaN.
TEST(CudaFloat8Product, ResultsSaturate) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType to : both_types) {
    const NodeTest sums = product({9, 8, 32}, random);
    Epilogue(sums, 8, random).scaled().plus_columns({nan, inf, -inf, 1e6, -3e38, 0x1p-16, 450, 1e-40}).to(to).check();
  }
}

// GELU is an approximation there, off by moved_by_steps at most before it is rounded.
TEST(CudaFloat8Product, GeluIsOffNearEdgesAlone) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  ThreadPool pool(2);
  const auto wanted_of = [&](const NodeTest& test) {
    const std::vector<TensorType> types{test.bodies[0].type(test.bodies[0].outputs[0])};
    return evaluate(test.op, {test.inputs, types, {}, test.bodies, pool})[0].to_doubles();
  };
  for (const double steps : {25.0, 120.0, 260.0, 2000.0}) {
    const NodeTest sums = product({70, 72, 144}, random);
    const auto gelu = [&](Random from) { return Epilogue(sums, 72, from).times(0x1p-4).gelu().times(steps); };
    const std::vector<double> unrounded = wanted_of(gelu(random).to(DType::f32));
    const std::vector<double> got = gelu(random).to(DType::f8e4m3).run().to_doubles();
    ASSERT_EQ(got.size(), unrounded.size());
    for (size_t i = 0; i < got.size(); ++i) {
      // The nearest number, but for what the approximation moves.
      const double exact = std::clamp(unrounded[i], -448.0, 448.0);
      const double half_step = std::max(std::ldexp(1.0, std::ilogb(std::max(std::abs(exact), 0x1p-6)) - 4), 0x1p-10);
      const double moved = (steps < 269 ? moved_by_steps : 0) + 2e-6 * std::abs(exact);
      ASSERT_LE(std::abs(got[i] - exact), half_step + moved) << "at " << i << ": " << exact;
    }
  }
}

// Of what cuBLASLt has scales for, from version 12.9 on.
TEST(CudaFloat8Blas, ScalesBiasesAndResiduals) {
  SKIP_WITHOUT_FLOAT8();
  Random random = test_random();
  size_t count = 0;
  for (const auto& [m, n, k] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{70, 80, 144}, {1, 16, 16}, {40, 48, 400}})
    for (const bool misaligned : {false, true}) {
      const NodeTest sums = product({m, n, k}, random);
      std::vector<double> bias(static_cast<size_t>(n));
      for (double& b : bias) b = static_cast<double>(random.integer(-40, 40)) / 4;
      for (NodeTest test : {Epilogue(sums, n, random).scaled().to(DType::f16),
                            Epilogue(sums, n, random).times(0x1p-3).plus_columns(bias).to(DType::f16),
                            Epilogue(sums, n, random).scaled().plus_columns(bias).to(DType::f16),
                            Epilogue(sums, n, random)
                                .scaled()
                                .plus_columns(bias)
                                .with_residual(whole_numbers(random, DType::f16, {m, n}))
                                .to(DType::f16)}) {
        test.tactic = "cuda_float8_blas";
        test.misaligned = misaligned;
        test.tolerance = 2e-3;
        for (const std::string& variant : test.variants()) {
          SCOPED_TRACE(variant);
          test.variant = variant;
          test.check();
          ++count;
        }
      }
    }
  if (count == 0) GTEST_SKIP() << "no cuBLASLt that scales columns";
}

Tensor all_codes(DType dtype) {
  Tensor t(dtype, {256});
  for (size_t i = 0; i < 256; ++i) t.mutable_data()[i] = static_cast<std::byte>(i);
  return t;
}

TEST(CudaFloat8, IsWidened) {
  SKIP_WITHOUT_GPU();
  for (const DType dtype : both_types)
    for (const DType to : {DType::f32, DType::f16})
      NodeTest(ops::Cast{to}, {all_codes(dtype)}, "cuda_pointwise").check();
}

// Around every number, and on the edges between two.
TEST(CudaFloat8, IsRounded) {
  SKIP_WITHOUT_GPU();
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : both_types) {
    std::vector<double> numbers{inf, -inf, std::numeric_limits<double>::quiet_NaN(), 1e-45, -1e-45, 3e38, 0.0, -0.0};
    std::vector<double> codes = all_codes(dtype).to_doubles();
    std::erase_if(codes, [](double x) { return !std::isfinite(x); });
    std::sort(codes.begin(), codes.end());
    for (size_t i = 0; i + 1 < codes.size(); ++i) {
      const auto edge = static_cast<float>((codes[i] + codes[i + 1]) / 2);
      for (const float x :
           {static_cast<float>(codes[i]), edge, std::nextafter(edge, 1e30F), std::nextafter(edge, -1e30F)})
        numbers.push_back(static_cast<double>(x));
    }
    for (const double beyond : {1.02, 1.07, 2.0}) numbers.push_back(codes.back() * beyond);
    const auto count = static_cast<int64_t>(numbers.size());
    NodeTest(ops::Cast{dtype}, {tensor_of(DType::f32, {count}, numbers)}, "cuda_pointwise").check();
  }
}

// What does not saturate is left to the host.
TEST(CudaFloat8, OverflowThatDoesNotSaturateIsLeft) {
  SKIP_WITHOUT_GPU();
  const NodeTest test(ops::Cast{DType::f8e4m3, false}, {tensor_of(DType::f32, {2}, {1, 500})}, "cuda_pointwise");
  EXPECT_TRUE(test.variants().empty());
}

}  // namespace
}  // namespace camshaft::cuda::float8_product_test
