// Images times one number a channel, and the 1x1 convolution behind, in one: against the reference evaluation.
#include "backends/cpu/tactics/gated_convolution.h"

#include <fmt/format.h>

#include <limits>

#include "backends/cpu/kernel_test_util.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"

namespace camshaft::cpu::gated_convolution_test {
namespace {

struct Case {
  int64_t batch = 1, h = 7, w = 7, x = 40, y = 24;
  bool gates_first = false, bias = true, adds = false, relu = false;
  float special_pixel = 0, special_gate = 0;  // put somewhere, unless 0
};

void check(const Case& c, RandomData& data, int threads) {
  SCOPED_TRACE(fmt::format("[{},{},{},{}] to {} gates first {} bias {} adds {} relu {} pixel {} gate {}", c.batch, c.h,
                           c.w, c.x, c.y, c.gates_first, c.bias, c.adds, c.relu, c.special_pixel, c.special_gate));
  std::vector<Tensor> operands;
  Graph body;
  const auto input = [&](const Dims& dims, float special = 0) {
    Tensor t(DType::f32, dims);
    const std::vector<float> values = data.floats(t.size());
    std::copy(values.begin(), values.end(), t.as_mutable<float>());
    if (special != 0 && t.size() > 0) t.as_mutable<float>()[t.size() / 3] = special;
    operands.push_back(std::move(t));
    return body.add_input("i", {DType::f32, Shape(dims.begin(), dims.end())});
  };
  const ValueId image = input({c.batch, c.h, c.w, c.x}, c.special_pixel);
  const ValueId gates = input({c.batch, 1, 1, c.x}, c.special_gate);
  const ValueId product =
      body.add(ops::Pointwise{ScalarFunction::mul},
               c.gates_first ? std::vector<ValueId>{gates, image} : std::vector<ValueId>{image, gates}, "p");
  ops::Conv conv{{1, 1}, Shape(4, 0), {1, 1}, 1};
  conv.channels_last = true;
  std::vector<ValueId> outer{product, input({c.y, c.x, 1, 1})};
  if (c.bias) outer.push_back(input({c.y}));
  std::vector<size_t> known{2};
  if (c.bias) known.push_back(3);
  if (c.adds || c.relu) {
    Graph inner;
    std::vector<ValueId> own;
    for (const ValueId id : outer) own.push_back(inner.add_input("i", body.type(id)));
    ValueId y = inner.add(conv, own, "c");
    if (c.relu) {
      const ValueId zero = inner.add_constant("k", Tensor::scalar(DType::f32, 0));
      y = inner.add(ops::Pointwise{ScalarFunction::max}, {y, zero}, "m");
    }
    if (c.adds) {
      outer.push_back(input({c.batch, c.h, c.w, c.y}));
      y = inner.add(ops::Pointwise{ScalarFunction::add}, {y, inner.add_input("r", body.type(outer.back()))}, "s");
    }
    inner.add_output("y", y);
    body.add_output("y", body.add_node(ops::Region{ops::RegionKind::contract}, outer, {"l"}, {}, {inner})[0]);
  } else {
    body.add_output("y", body.add(conv, outer, "c"));
  }
  NodeTest test(ops::Region{ops::RegionKind::chain}, operands, known, "gated", 2e-5);
  test.bodies = {body};
  test.check(threads);
}

TEST(GatedConvolution, RandomShapes) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      Case c;
      c.batch = data.integer(1, 3), c.h = data.integer(1, 20), c.w = data.integer(1, 20);
      c.x = data.integer(1, 300), c.y = data.integer(1, 150);
      c.gates_first = data.integer(0, 1) == 1, c.bias = data.integer(0, 1) == 1;
      c.adds = data.integer(0, 1) == 1, c.relu = data.integer(0, 1) == 1;
      check(c, data, static_cast<int>(data.integer(1, 4)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(GatedConvolution, NothingAtAll) {
  RandomData data;
  Case no_images;
  no_images.batch = 0;
  check(no_images, data, 2);
  Case no_pixels;
  no_pixels.h = 0;
  check(no_pixels, data, 2);
}

TEST(GatedConvolution, NaNAndInfinity) {
  RandomData data;
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for_each_target([&] {
    for (const int64_t side : {3, 12})  // fewer pixels than results, and more
      for (const float special : {nan, infinity, -infinity}) {
        Case c;
        c.h = c.w = side;
        c.special_pixel = special;
        check(c, data, 2);
        std::swap(c.special_pixel, c.special_gate);
        check(c, data, 2);
      }
  });
}

}  // namespace
}  // namespace camshaft::cpu::gated_convolution_test
