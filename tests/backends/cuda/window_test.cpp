// Pooling and resizing on a GPU, against the reference.
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "backends/cuda/run_node.h"
#include "ir/ops/reduce.h"
#include "ir/ops/resize.h"
#include "ir/ops/sample.h"
#include "ir/ops/window_ops.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda::window_test {
namespace {

double tolerance(DType dtype) {
  return dtype == DType::f16 ? 1e-3 : dtype == DType::bf16 ? 8e-3 : dtype == DType::f32 ? 2e-6 : 1e-12;
}

struct Window {
  std::vector<int64_t> kernel, strides;
  Dims pads;
  std::vector<int64_t> dilations;
};

const std::vector<std::pair<Dims, Window>> images = {
    {{9, 11}, {{3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}}},
    {{6, 6}, {{2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}}},
    {{10, 13}, {{5, 3}, {1, 2}, {2, 0, 3, 1}, {1, 2}}},
    {{7, 7}, {{7, 7}, {1, 1}, {0, 0, 0, 0}, {1, 1}}},
    {{4, 5}, {{9, 9}, {3, 3}, {4, 4, 4, 4}, {1, 1}}},
    {{12}, {{4}, {3}, {1, 2}, {1}}},
    {{5, 6, 7}, {{2, 3, 2}, {1, 2, 2}, {1, 0, 1, 0, 1, 0}, {1, 1, 1}}},
};

Shape shape_of(const Dims& dims) {
  return Shape(dims.begin(), dims.end());
}

TEST(CudaPool, EveryLayoutAndType) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (const auto& [size, window] : images)
      for (const bool channels_last : {false, true})
        for (const bool average : {false, true})
          for (const bool misaligned : {false, true}) {
            if (average && !is_floating(dtype)) continue;
            if (dtype != DType::f32 && size != images[0].first) continue;  // each is a text of its own to compile
            Dims dims{2};
            if (!channels_last) dims.push_back(16);
            dims.insert(dims.end(), size.begin(), size.end());
            if (channels_last) dims.push_back(16);
            ops::Pool op;
            op.kind = average ? ops::PoolKind::average : ops::PoolKind::max;
            op.kernel = window.kernel;
            op.strides = window.strides;
            op.pads = shape_of(window.pads);
            op.dilations = window.dilations;
            op.ceil_mode = random.uniform() < 0.5;
            op.count_include_pad = random.uniform() < 0.5;
            op.channels_last = channels_last;
            NodeTest test(op, {random_tensor(random, dtype, dims)}, "cuda_pool");
            test.tolerance = average ? tolerance(dtype) : 0;
            test.misaligned = misaligned;
            test.check();
          }
}

TEST(CudaPool, ManyChannelsInVectors) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  ops::Pool op;
  op.kernel = {3, 3};
  op.strides = {2, 2};
  op.pads = shape_of({1, 1, 1, 1});
  op.dilations = {1, 1};
  op.channels_last = true;
  for (const DType dtype : {DType::f32, DType::f16}) {
    NodeTest test(op, {random_tensor(random, dtype, {4, 64, 64, 32})}, "cuda_pool");
    test.check();
    test.misaligned = true;
    test.check();
  }
}

TEST(CudaPool, NothingIsNaNUnlessAllIs) {
  SKIP_WITHOUT_GPU();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  ops::Pool op;
  op.kernel = {1, 2};
  op.strides = {1, 2};
  op.pads = shape_of({0, 0, 0, 0});
  op.dilations = {1, 1};
  NodeTest(op, {tensor_of(DType::f32, {1, 1, 1, 8}, {nan, 1, -infinity, nan, nan, nan, infinity, 2})}, "cuda_pool")
      .check();
}

TEST(CudaPool, Indices) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::i8})
    for (const auto& [size, window] : images)
      for (const bool column_major : {false, true}) {
        if (dtype != DType::f32 && size != images[0].first) continue;
        Dims dims{2, 3};
        dims.insert(dims.end(), size.begin(), size.end());
        ops::MaxPoolIndices op;
        op.kernel = window.kernel;
        op.strides = window.strides;
        op.pads = shape_of(window.pads);
        op.dilations = window.dilations;
        op.column_major = column_major;
        NodeTest(op, {random_tensor(random, dtype, dims)}, "cuda_pool_indices").check();
      }
}

ops::Resize resize(ops::ResizeMode mode, ops::ResizeCoordinate coordinate, const std::vector<int64_t>& axes,
                   const Dims& sizes) {
  ops::Resize op;
  op.mode = mode;
  op.coordinate = coordinate;
  op.axes = axes;
  op.sizes = shape_of(sizes);
  op.scales.assign(axes.size(), 0);
  return op;
}

TEST(CudaResize, EveryModeAndLayout) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  using C = ops::ResizeCoordinate;
  for (const auto mode : {ops::ResizeMode::nearest, ops::ResizeMode::linear, ops::ResizeMode::cubic})
    for (const C coordinate : {C::half_pixel, C::align_corners, C::asymmetric, C::pytorch_half_pixel})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        for (const bool misaligned : {false, true}) {
          const auto check = [&](const ops::Resize& op, const Dims& dims) {
            NodeTest test(op, {random_tensor(random, dtype, dims)}, "cuda_resize");
            test.tolerance = mode == ops::ResizeMode::nearest ? 0 : tolerance(dtype) * 2;
            test.misaligned = misaligned;
            test.check();
          };
          check(resize(mode, coordinate, {2, 3}, {10, 7}), {2, 3, 5, 9});
          check(resize(mode, coordinate, {1, 2}, {3, 12}), {2, 5, 6, 16});
          check(resize(mode, coordinate, {2}, {11}), {2, 8, 4});
          check(resize(mode, coordinate, {1, 2, 3}, {3, 5, 4}), {2, 4, 4, 4, 8});
        }
}

TEST(CudaResize, AntialiasingAndCrops) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  ops::Resize smooth = resize(ops::ResizeMode::linear, ops::ResizeCoordinate::half_pixel, {2, 3}, {4, 5});
  smooth.antialias = true;
  ops::Resize crop = resize(ops::ResizeMode::linear, ops::ResizeCoordinate::tf_crop_and_resize, {2, 3}, {6, 6});
  crop.roi = {-0.3, 0.1, 0.9, 1.4};
  crop.extrapolation_value = 7.5;
  ops::Resize near = crop;
  near.mode = ops::ResizeMode::nearest;
  for (const ops::Resize& op : {smooth, crop, near}) {
    NodeTest test(op, {random_tensor(random, DType::f32, {2, 3, 17, 13})}, "cuda_resize");
    test.tolerance = 4e-6;
    test.check();
  }
  NodeTest(near, {random_tensor(random, DType::i32, {2, 3, 17, 13})}, "cuda_resize").check();
}

TEST(CudaGridSample, EveryModeAndPadding) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  using P = ops::SamplePadding;
  for (const auto mode : {ops::SampleMode::linear, ops::SampleMode::nearest, ops::SampleMode::cubic})
    for (const P padding : {P::zeros, P::border, P::reflection})
      for (const bool align : {false, true}) {
        NodeTest test(
            ops::GridSample{mode, padding, align},
            {random_tensor(random, DType::f32, {2, 11, 5, 7}), random_tensor(random, DType::f32, {2, 4, 3, 2})},
            "cuda_grid_sample", 4e-6);
        test.check();
      }
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const P padding : {P::zeros, P::border, P::reflection})
    NodeTest(ops::GridSample{ops::SampleMode::linear, padding, false},
             {random_tensor(random, DType::f32, {1, 2, 6}),
              tensor_of(DType::f32, {1, 6, 1}, {nan, infinity, -infinity, 1e30, -1e30, 0.25})},
             "cuda_grid_sample", 4e-6)
        .check();
  NodeTest(ops::GridSample{ops::SampleMode::linear, P::zeros, true},
           {random_tensor(random, DType::f16, {2, 3, 3, 4, 5}), random_tensor(random, DType::f16, {2, 2, 2, 3, 3})},
           "cuda_grid_sample", 1e-3)
      .check();
}

TEST(CudaCol2Im, WindowsOfManyShapes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const auto& [columns, image, kernel, strides, pads, dilations] :
         std::vector<std::tuple<Dims, Dims, Dims, Dims, Dims, Dims>>{
             {{2, 27, 16}, {4, 4}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
             {{1, 8, 12}, {6, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
             {{1, 6, 20}, {7, 9}, {3, 2}, {1, 2}, {1, 0, 0, 1}, {2, 1}}}) {
      NodeTest test(ops::Col2Im{strides, shape_of(pads), dilations},
                    {random_tensor(random, dtype, columns), Tensor::from_ints(image), Tensor::from_ints(kernel)},
                    "cuda_col2im", tolerance(dtype));
      test.constants = {1, 2};
      test.check();
    }
}

}  // namespace
}  // namespace camshaft::cuda::window_test
