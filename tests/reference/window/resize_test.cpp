#include "ir/ops/resize.h"

#include <algorithm>
#include <cmath>

#include "reference/single_op.h"
#include "reference/window/resize.h"
#include "reference/window/resize_expected.h"

namespace camshaft::ops::resize_test {
namespace {

Tensor picture() {
  std::vector<float> values;
  for (int i = 0; i < 20; ++i) values.push_back(static_cast<float>(i * 7 % 23 - 5));
  return f32({4, 5}, values);
}

TEST(Resize, AgreesWithOnnxReference) {
  for (const ResizeCase& c : resize_cases) {
    SCOPED_TRACE(c.name);
    const std::vector<double> got = run_op(c.op, {picture()})[0].to_doubles();
    ASSERT_EQ(got.size(), c.expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], c.expected[i], 5e-7 * (2 + std::abs(c.expected[i])));
  }
}

// The table that kernels use must say the same as the reference evaluation.
TEST(Resize, AxisTablesGiveTheSameAsEvaluation) {
  for (const ResizeCase& c : resize_cases) {
    SCOPED_TRACE(c.name);
    const Tensor x = picture();
    const Tensor y = run_op(c.op, {x})[0];
    ResizeAxis axes[2];
    for (int64_t a = 0; a < 2; ++a) {
      const int64_t in = x.dims()[static_cast<size_t>(a)];
      Resize whole = c.op;
      const auto at = std::find(c.op.axes.begin(), c.op.axes.end(), a);
      if (at == c.op.axes.end()) {
        whole = Resize{.axes = {a}, .sizes = {in}};
        axes[a] = resize_axis(whole, 0, in, in);
      } else {
        axes[a] = resize_axis(whole, static_cast<size_t>(at - c.op.axes.begin()), in, y.dims()[static_cast<size_t>(a)]);
      }
    }
    for (int64_t r = 0; r < y.dims()[0]; ++r)
      for (int64_t k = 0; k < y.dims()[1]; ++k) {
        double sum = 0;
        for (int64_t s = 0; s < axes[0].taps; ++s)
          for (int64_t t = 0; t < axes[1].taps; ++t) {
            const auto i = static_cast<size_t>(r * axes[0].taps + s), j = static_cast<size_t>(k * axes[1].taps + t);
            const int64_t row = axes[0].indices[i], column = axes[1].indices[j];
            const double value = row < 0 || column < 0 ? c.op.extrapolation_value : x.as<float>()[row * 5 + column];
            sum += value * axes[0].weights[i] * axes[1].weights[j];
          }
        EXPECT_NEAR(y.as<float>()[r * y.dims()[1] + k], sum, 1e-5);
      }
  }
}

TEST(Resize, OtherDtypesRoundAndClamp) {
  const Resize cubic{.mode = ResizeMode::cubic, .axes = {0}, .sizes = {6}};
  const Tensor bytes = Tensor::of<uint8_t>(DType::u8, {3}, {0, 255, 255});
  const Tensor floats = f32({3}, {0, 255, 255});
  const std::vector<double> exact = run_op(cubic, {floats})[0].to_doubles();
  const std::vector<double> got = run_op(cubic, {bytes})[0].to_doubles();
  bool overshoots = false;
  for (size_t i = 0; i < 6; ++i) {
    overshoots = overshoots || exact[i] > 255 || exact[i] < 0;
    EXPECT_EQ(got[i], std::clamp(std::nearbyint(exact[i]), 0.0, 255.0));
  }
  EXPECT_TRUE(overshoots) << "the case is too tame to show clamping";
  const Tensor strings = Tensor::of<std::string>(DType::string, {2}, {"a", "b"});
  const Resize twice{.axes = {0}, .sizes = {4}};
  EXPECT_EQ(run_op(twice, {strings})[0], Tensor::of<std::string>(DType::string, {4}, {"a", "a", "b", "b"}));
}

TEST(Resize, Errors) {
  EXPECT_NE(error_of([] {
              run_op(Resize{.axes = {0}, .sizes = {4, 4}}, {picture()});
            }).find("do not fit"),
            std::string::npos);
  EXPECT_NE(error_of([] { run_op(Resize{.axes = {2}, .sizes = {4}}, {picture()}); }).find("axis 2"), std::string::npos);
  EXPECT_NE(error_of([] { run_op(Resize{.axes = {0}, .sizes = {4}, .scales = {3.0}}, {picture()}); }).find("scale"),
            std::string::npos);
  EXPECT_NE(error_of([] { run_op(Resize{.axes = {0}, .sizes = {4}}, {f32({0}, {})}); }).find("no element"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              run_op(Resize{.axes = {0}, .sizes = {2}, .scales = {1e-12}, .antialias = true}, {f32({1}, {1})});
            }).size(),
            0u);
}

// Found by fuzzing: a kernel's tables were made before anything asked how large they would be.
TEST(Resize, TablesThatNoMemoryHolds) {
  const Resize op{.mode = ResizeMode::nearest, .axes = {0}, .sizes = {int64_t{1} << 50}};
  EXPECT_NE(error_of([&] { resize_axis(op, 0, 2, int64_t{1} << 50); }).find("out of memory"), std::string::npos);
}

// Empty, but with an axis so long that its table would not fit into memory.
TEST(Resize, EmptyResultsNeedNoTables) {
  const Resize op{.mode = ResizeMode::cubic, .axes = {0, 1}, .sizes = {0, int64_t{1} << 50}};
  EXPECT_EQ(run_op(op, {picture()})[0].dims(), (Dims{0, int64_t{1} << 50}));
}

}  // namespace
}  // namespace camshaft::ops::resize_test
