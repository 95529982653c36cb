// Products and convolutions of bytes on a GPU, and what is fused behind them, against the reference: equal to the last
// bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cuda/run_node.h"
#include "compile/tactic.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/ops/region.h"
#include "test_random.h"

namespace camshaft::cuda::byte_product_test {
namespace {

using F = ScalarFunction;

#define SKIP_WITHOUT_BYTES() \
  SKIP_WITHOUT_GPU();        \
  if (!gpu_features().int8_products) GTEST_SKIP() << "this GPU has no products of bytes"

// Bytes of the whole range, the lowest and the highest more often.
Tensor bytes(Random& random, DType dtype, const Dims& dims) {
  Tensor t(dtype, dims);
  for (size_t i = 0; i < t.bytes(); ++i) {
    const int64_t kind = random.integer(0, 9);
    const int64_t extreme = dtype == DType::i8 ? 127 + (kind == 0) : kind == 0 ? 0 : 255;  // 128 is -128
    t.mutable_data()[i] = static_cast<std::byte>(kind < 2 ? extreme : random.integer(0, 255));
  }
  return t;
}

Tensor number(DType dtype, int64_t value) {
  return Tensor::scalar(dtype, static_cast<double>(value));
}

// Zero points of each kind: none, the least, the highest, another.
std::vector<std::optional<int64_t>> zero_points(DType dtype) {
  if (dtype == DType::i8) return {std::nullopt, -128, 3};
  return {std::nullopt, 128, 255};
}

struct Matrices {
  int64_t m = 1, n = 1, k = 16;
  DType dtype = DType::i8;
  std::optional<int64_t> zero = {};
};

NodeTest product(const Matrices& c, Random& random) {
  NodeTest test(ops::IntegerMatMul{},
                {bytes(random, c.dtype, {c.m, c.k}), bytes(random, DType::i8, {c.k, c.n}),
                 c.zero ? number(c.dtype, *c.zero) : Tensor()},
                "cuda_contract");
  test.constants = {1, 2};
  return test;
}

TEST(CudaByteProduct, SizesAndZeroPoints) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  for (const DType dtype : {DType::i8, DType::u8})
    for (const auto& zero : zero_points(dtype))
      for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
               {1, 1, 1}, {5, 3, 7}, {64, 64, 128}, {33, 72, 144}, {130, 40, 272}, {1, 200, 96}, {0, 8, 16}})
        for (const bool misaligned : {false, true}) {
          NodeTest test = product({m, n, k, dtype, zero}, random);
          test.misaligned = misaligned;
          test.check();
        }
}

TEST(CudaByteProduct, EveryVariant) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  for (const DType dtype : {DType::i8, DType::u8}) {
    // Tiles that hang over on both sides, and slices that are not as many in each part.
    NodeTest test = product({40, 72, 3 * 128 + 16, dtype, 5}, random);
    const std::vector<std::string> variants = test.variants();
    EXPECT_GT(variants.size(), 10u);
    for (const std::string& variant : variants) {
      SCOPED_TRACE(variant);
      test.variant = variant;
      test.check();
    }
  }
}

// Whose operands threads copy, or tensor copies: of whole parts of 32 columns.
TEST(CudaByteProduct, BlocksThatStay) {
  SKIP_WITHOUT_BYTES();
  if (!gpu_features().warpgroup_products) GTEST_SKIP() << "this GPU has no wgmma";
  Random random = test_random();
  for (const auto& [dtype, n] : {std::pair(DType::i8, int64_t{72}), {DType::u8, 160}}) {
    NodeTest test = product({600, n, 4 * 128 + 16, dtype, 5}, random);
    for (const char* tile : {"m=128,n=128,stages=6,persistent=1", "m=64,n=192,stages=6,persistent=1"}) {
      test.variant = tile;
      test.check();
    }
  }
}

TEST(CudaByteProduct, LeavesOtherOperandsToOthers) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  const Tensor a = bytes(random, DType::u8, {4, 16});
  NodeTest variable(ops::IntegerMatMul{}, {a, bytes(random, DType::i8, {16, 8})}, "cuda_contract");
  EXPECT_TRUE(variable.variants().empty());  // weights that are no constant
  NodeTest wide(ops::IntegerMatMul{}, {a, bytes(random, DType::u8, {16, 8})}, "cuda_contract");
  wide.constants = {1};
  EXPECT_TRUE(wide.variants().empty());
  NodeTest moved(ops::IntegerMatMul{}, {a, bytes(random, DType::i8, {16, 8}), {}, number(DType::i8, 2)},
                 "cuda_contract");
  moved.constants = {1, 3};
  EXPECT_TRUE(moved.variants().empty());
}

struct Image {
  Dims x;  // channels last
  int64_t out = 8, groups = 1;
  Dims kernel = {3, 3}, strides = {1, 1}, dilations = {1, 1};
  Dims pads = {1, 1, 1, 1};
  bool bias = true;
};

NodeTest convolution(const Image& c, DType dtype, std::optional<int64_t> zero, Random& random) {
  ops::IntegerConv op;
  op.strides = c.strides;
  op.dilations = c.dilations;
  op.pads = Shape(c.pads.begin(), c.pads.end());
  op.groups = c.groups;
  op.channels_last = true;
  Dims weights = {c.out, c.x.back() / c.groups};
  weights.insert(weights.end(), c.kernel.begin(), c.kernel.end());
  Tensor bias;
  if (c.bias) {
    bias = Tensor(DType::i32, {c.out});
    for (int64_t i = 0; i < c.out; ++i)
      bias.as_mutable<int32_t>()[i] = static_cast<int32_t>(random.integer(-5000, 5000));
  }
  NodeTest test(op,
                {bytes(random, dtype, c.x), bytes(random, DType::i8, weights), zero ? number(dtype, *zero) : Tensor(),
                 Tensor(), bias},
                "cuda_contract");
  test.constants = {1, 2, 4};
  return test;
}

TEST(CudaByteConv, WindowsAndBorders) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  const std::vector<Image> images = {
      {.x = {1, 9, 7, 16}},
      {.x = {2, 10, 11, 32}, .out = 24, .strides = {2, 2}},
      {.x = {1, 12, 9, 3}, .out = 20, .kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}},
      {.x = {2, 5, 6, 48}, .out = 33, .kernel = {1, 1}, .pads = {0, 0, 0, 0}, .bias = false},
      {.x = {1, 6, 5, 16}, .out = 8, .kernel = {1, 1}, .strides = {2, 2}, .pads = {1, 1, 0, 0}},
      {.x = {1, 9, 8, 16}, .out = 5, .dilations = {2, 3}, .pads = {2, 3, 1, 0}},
      {.x = {1, 6, 6, 160}, .out = 16, .kernel = {2, 3}, .strides = {1, 2}, .pads = {0, 2, 1, 1}},
      {.x = {1, 6, 5, 64}, .out = 48, .groups = 4},
      {.x = {1, 6, 5, 12}, .out = 6, .groups = 3},
      {.x = {2, 21, 16}, .out = 16, .kernel = {5}, .strides = {2}, .dilations = {1}, .pads = {2, 1}},
      {.x = {0, 5, 4, 16}}};
  for (const Image& image : images)
    for (const DType dtype : {DType::i8, DType::u8})
      for (const auto& zero : zero_points(dtype)) convolution(image, dtype, zero, random).check();
  NodeTest misaligned = convolution(images[0], DType::u8, 7, random);
  misaligned.misaligned = true;
  misaligned.check();
}

TEST(CudaByteConv, TilesOfWarpgroups) {
  SKIP_WITHOUT_BYTES();
  if (!gpu_features().warpgroup_products) GTEST_SKIP() << "this GPU has no wgmma";
  Random random = test_random();
  NodeTest test = convolution({.x = {2, 9, 11, 32}, .out = 40}, DType::u8, 100, random);
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

// What follows the sums. Scales are powers of two, so that no step depends on how f32 rounds.
class Epilogue {
 public:
  Epilogue(const NodeTest& sums, int64_t columns, Random& random) : columns_(columns), random_(random) {
    std::vector<ValueId> ids;
    for (const Tensor& t : sums.inputs) ids.push_back(t.defined() ? take(t) : no_value);
    for (const size_t i : sums.constants)
      if (sums.inputs[i].defined()) constants_.push_back(static_cast<size_t>(ids[i]));
    value_ = body_.add(sums.op, ids, "sums");
    value_ = body_.add(ops::Cast{DType::f32}, {value_}, "real");
  }

  Epilogue& scaled(bool by_column) {
    Tensor scale(DType::f32, by_column ? Dims{columns_} : Dims{});
    for (int64_t i = 0; i < scale.size(); ++i)
      scale.as_mutable<float>()[i] = std::ldexp(1.0F, static_cast<int>(random_.integer(-11, -9)));
    return apply(F::mul, take(scale, true));
  }
  Epilogue& biased() {
    Tensor bias(DType::f32, {columns_});
    for (int64_t i = 0; i < columns_; ++i)
      bias.as_mutable<float>()[i] = static_cast<float>(random_.integer(-40, 40)) / 4;
    return apply(F::add, take(bias, true));
  }
  // By up to 2, of each column another.
  Epilogue& evened() {
    Tensor factors(DType::f32, {columns_});
    for (int64_t i = 0; i < columns_; ++i)
      factors.as_mutable<float>()[i] = static_cast<float>(random_.uniform(0.25, 2));
    return apply(F::mul, take(factors, true));
  }
  Epilogue& bounded() { return apply(F::max, body_.add_constant("least", Tensor::scalar(DType::f32, 0))); }
  Epilogue& times(double factor) { return apply(F::mul, number_of(factor)); }
  Epilogue& gelu() {
    const ValueId x = value_;
    times(std::sqrt(0.5));
    value_ = body_.add(ops::Pointwise{F::erf}, {value_}, "erf");
    return apply(F::add, number_of(1)).apply(F::mul, x).times(0.5);
  }
  // Steps of 1/4 or, of a NaN, nothing.
  Epilogue& with_residual(const Tensor& steps) {
    ValueId other = body_.add(ops::Cast{DType::f32}, {take(steps)}, "other");
    const ValueId size = body_.add_constant("size", Tensor::scalar(DType::f32, 0.25));
    other = body_.add(ops::Pointwise{F::mul}, {other, size}, "scaled_other");
    return apply(F::add, other);
  }
  Epilogue& apply(F function, ValueId other) {
    value_ = body_.add(ops::Pointwise{function}, {value_, other}, "step");
    return *this;
  }
  NodeTest to_steps(DType dtype, int64_t zero) {
    value_ = body_.add(ops::Pointwise{F::round}, {value_}, "rounded");
    if (zero != 0) apply(F::add, body_.add_constant("zero", Tensor::scalar(DType::f32, static_cast<double>(zero))));
    return to(dtype);
  }
  NodeTest to(DType dtype) {
    if (dtype != DType::f32) value_ = body_.add(ops::Cast{dtype}, {value_}, "narrow");
    body_.add_output("y", value_);
    NodeTest test(ops::Region{ops::RegionKind::contract}, given_, "cuda_contract");
    test.constants = constants_;
    test.bodies = {body_};
    return test;
  }
  ValueId take(const Tensor& t, bool is_constant = false) {
    given_.push_back(t);
    if (is_constant) constants_.push_back(given_.size() - 1);
    return body_.add_input("x" + std::to_string(given_.size()), {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
  }

 private:
  ValueId number_of(double number) { return body_.add_constant("number", Tensor::scalar(DType::f32, number)); }

  Graph body_;
  int64_t columns_;
  Random& random_;
  std::vector<Tensor> given_;
  std::vector<size_t> constants_;
  ValueId value_ = no_value;
};

TEST(CudaByteProduct, StepsOfSums) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  for (const DType dtype : {DType::i8, DType::u8})
    for (const auto& [m, n, k] :
         std::vector<std::tuple<int64_t, int64_t, int64_t>>{{70, 72, 144}, {3, 20, 48}, {1, 8, 2048}})
      for (const auto& [to, zero] :
           std::vector<std::pair<DType, int64_t>>{{DType::i8, 0}, {DType::i8, -7}, {DType::u8, 0}, {DType::u8, 128}})
        for (const bool by_column : dtype == DType::i8 ? std::vector{false, true} : std::vector{true}) {
          const NodeTest sums = product({m, n, k, dtype, 3}, random);
          Epilogue(sums, n, random).scaled(by_column).biased().to_steps(to, zero).check();
          Epilogue(sums, n, random)
              .scaled(by_column)
              .with_residual(bytes(random, to, {m, n}))
              .bounded()
              .to_steps(to, zero)
              .check();
        }
}

// Tiles that hang over on both sides, with residuals of 8 and of 16 bits in turn.
TEST(CudaByteProduct, EpiloguesOfWarpgroups) {
  SKIP_WITHOUT_BYTES();
  if (!gpu_features().warpgroup_products) GTEST_SKIP() << "this GPU has no wgmma";
  Random random = test_random();
  constexpr int64_t m = 75, n = 216, k = 144;
  const NodeTest sums = product({m, n, k, DType::u8, 3}, random);
  NodeTest to_steps = Epilogue(sums, n, random)
                          .scaled(true)
                          .with_residual(bytes(random, DType::u8, {m, n}))
                          .bounded()
                          .to_steps(DType::u8, 5);
  Tensor halves(DType::f16, {m, n});
  std::vector<double> numbers(static_cast<size_t>(halves.size()));
  for (double& number : numbers) number = static_cast<double>(random.integer(-64, 64)) / 8;
  ops::store_elements(DType::f16, halves.mutable_data(), 0, 1, halves.size(), numbers.data());
  NodeTest to_halves = Epilogue(sums, n, random).scaled(true).biased().with_residual(halves).to(DType::f16);
  size_t count = 0;
  for (const std::string& variant : to_steps.variants()) {
    if (variant.find("wgmma=1") == std::string::npos || variant.find("splits=1)") == std::string::npos) continue;
    SCOPED_TRACE(variant);
    NodeTest& test = ++count % 2 == 0 ? to_steps : to_halves;
    test.variant = variant;
    test.check();
  }
}

// Sums that have more bits than f32: they are rounded once.
TEST(CudaByteProduct, SumsOfMoreThan24Bits) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  constexpr int64_t m = 5, n = 16, k = 8192;
  NodeTest sums = product({m, n, k, DType::u8, std::nullopt}, random);
  for (int64_t i = 0; i < m * k; ++i)
    sums.inputs[0].as_mutable<uint8_t>()[i] = static_cast<uint8_t>(random.integer(200, 255));
  for (int64_t i = 0; i < n * k; ++i)
    sums.inputs[1].as_mutable<int8_t>()[i] = static_cast<int8_t>(random.integer(i % 2 ? 90 : -128, i % 2 ? 127 : -90));
  Epilogue(sums, n, random).to(DType::f32).check();
}

// GELU before steps is an approximation where these are no finer than it: values are a step off near the edges between
// two steps alone.
TEST(CudaByteProduct, GeluIsAStepOffNearEdgesAlone) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  ThreadPool pool(2);
  const auto wanted_of = [&](const NodeTest& test) {
    const std::vector<TensorType> types{test.bodies[0].type(test.bodies[0].outputs[0])};
    return evaluate(test.op, {test.inputs, types, {}, test.bodies, pool})[0].to_doubles();
  };
  for (const double reach : {0.01, 0.1, 1.0})
    for (const double steps : {25.0, 120.0, 260.0, 2000.0})
      for (const bool evened : {false, true}) {
        const NodeTest sums = product({70, 72, 144, DType::i8, std::nullopt}, random);
        const auto gelu = [&](Random from) {
          Epilogue made = Epilogue(sums, 72, from).scaled(true).times(reach).gelu().times(evened ? steps / 2 : steps);
          if (evened) made.evened();
          return made;
        };
        const std::vector<double> unrounded = wanted_of(gelu(random).to(DType::f32));
        NodeTest test = evened ? gelu(random).to_steps(DType::i8, -100) : gelu(random).to_steps(DType::u8, 9);
        const std::vector<double> wanted = wanted_of(test);
        const bool is_approximate = steps < 269;
        for (const bool misaligned : {false, true}) {
          test.misaligned = misaligned;
          const std::vector<double> got = test.run().to_doubles();
          size_t others = 0;
          for (size_t i = 0; i < wanted.size(); ++i) {
            if (got[i] == wanted[i]) continue;
            ++others;
            ASSERT_NEAR(got[i], wanted[i], 1) << "at " << i;
            // An exact one is a rounding of about 1e-6 off.
            const double allowed = is_approximate ? moved_by_steps : 2e-6 * steps;
            const double beyond = std::abs(unrounded[i] - std::nearbyint(unrounded[i]));
            ASSERT_LE(0.5 - beyond, allowed) << "at " << i << ": " << unrounded[i];
          }
          EXPECT_LT(others, wanted.size() / 20);
        }
      }
}

// Of what is no number 0, of infinity the last step.
TEST(CudaByteProduct, GeluOfWhatIsNoNumber) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  constexpr int64_t m = 70, n = 72;
  const NodeTest sums = product({m, n, 144, DType::u8, 3}, random);
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor others(DType::f32, {m, n});
  for (int64_t i = 0; i < others.size(); ++i)
    others.as_mutable<float>()[i] = i % 5 == 0 ? nan : i % 5 == 1 ? inf : i % 5 == 2 ? -1e30F : i % 5 == 3 ? 1e30F : 0;
  Epilogue(sums, n, random).times(0x1p-60).with_residual(others).gelu().times(25).to_steps(DType::u8, 9).check();
}

TEST(CudaByteProduct, RealResults) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  for (const DType to : {DType::f32, DType::f16, DType::i32}) {
    const NodeTest sums = product({70, 72, 144, DType::i8, std::nullopt}, random);
    Epilogue(sums, 72, random).scaled(true).biased().to(to).check();
  }
}

// A NaN becomes a step of 0, whatever the zero point; infinities the last steps.
TEST(CudaByteProduct, NaNAndInfinity) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [to, zero] :
       std::vector<std::pair<DType, int64_t>>{{DType::u8, 0}, {DType::u8, 100}, {DType::i8, 0}, {DType::i8, -7}}) {
    const NodeTest sums = product({9, 8, 32, DType::i8, std::nullopt}, random);
    Epilogue epilogue(sums, 8, random);
    epilogue.scaled(true);
    Tensor bias(DType::f32, {8});
    const float numbers[] = {nan, infinity, -infinity, 1, 3e38F, -3e38F, 0.5F, 2.5F};
    std::copy(std::begin(numbers), std::end(numbers), bias.as_mutable<float>());
    epilogue.apply(F::add, epilogue.take(bias, true)).to_steps(to, zero).check();
  }
}

TEST(CudaByteConv, StepsOfSums) {
  SKIP_WITHOUT_BYTES();
  Random random = test_random();
  for (const auto& [from, to, zero] : std::vector<std::tuple<DType, DType, int64_t>>{
           {DType::i8, DType::i8, 0}, {DType::u8, DType::u8, 0}, {DType::u8, DType::i8, 12}}) {
    const NodeTest sums = convolution({.x = {2, 9, 11, 32}, .out = 40}, from, from == DType::i8 ? 0 : 128, random);
    Epilogue(sums, 40, random).scaled(true).bounded().to_steps(to, zero).check();
    Epilogue(sums, 40, random)
        .scaled(true)
        .with_residual(bytes(random, DType::i8, {2, 9, 11, 40}))
        .bounded()
        .to_steps(to, zero)
        .check();
  }
}

}  // namespace
}  // namespace camshaft::cuda::byte_product_test
