#include "ir/ops/sample.h"

#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/window_ops.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::sample_test {
namespace {

// Coordinates that land on borders, far outside, or nowhere.
constexpr float special[] = {-1,
                             1,
                             0,
                             std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             1e20f,
                             -1e20f};

ops::GridSample random_grid_sample(Random& random) {
  return {static_cast<ops::SampleMode>(random.integer(0, 2)), static_cast<ops::SamplePadding>(random.integer(0, 2)),
          random.integer(0, 1) == 1};
}

Tensor random_positions(Random& random, const Dims& dims) {
  Tensor at(DType::f32, dims);
  for (int64_t i = 0; i < at.size(); ++i)
    at.as_mutable<float>()[i] =
        random.integer(0, 19) ? static_cast<float>(random.uniform(-1.6, 1.6)) : special[random.integer(0, 7)];
  return at;
}

TEST(GridSample, AgreesWithTheReference) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const int64_t batch = random.integer(1, 2), spatial = random.integer(1, 3);
      Dims x{batch, random.integer(1, 4)}, grid{batch};
      for (int64_t a = 0; a < spatial; ++a) {
        x.push_back(random.integer(1, 9));
        grid.push_back(random.integer(round % 10 ? 1 : 0, spatial == 1 ? 300 : 20));
      }
      grid.push_back(spatial);
      Tensor image = random_tensor(random, DType::f32, x);
      // A pixel that nothing else may touch.
      if (round % 5 == 0) image.as_mutable<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      const ops::GridSample op = random_grid_sample(random);
      NodeTest{op, {image, random_positions(random, grid)}, {}, "grid_sample", 1e-5}.check(
          static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Beyond L2 the taps of many points are kept, and each channel is sampled at all of them.
TEST(GridSample, LargeImagesAgreeWithTheReference) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 12; ++round) {
      const int64_t batch = random.integer(1, 2), channels = random.integer(2, 5), spatial = 1 + round % 3;
      const auto side = static_cast<int64_t>(std::ceil(std::pow(140'000.0 / channels, 1.0 / spatial)));
      Dims x{batch, channels}, grid{batch, round == 8 ? 9'000 : random.integer(1, 2'000)};
      for (int64_t a = 0; a < spatial; ++a) x.push_back(side + random.integer(0, 3));
      grid.resize(grid.size() + static_cast<size_t>(spatial) - 1, 1);
      grid.push_back(spatial);
      Tensor image = random_tensor(random, DType::f32, x);
      if (round % 2) image.as_mutable<float>()[0] = std::numeric_limits<float>::infinity();
      ops::GridSample op = random_grid_sample(random);
      if (round == 8) op.mode = ops::SampleMode::cubic;  // of 64 taps: not those of all points are kept at a time
      NodeTest{op, {image, random_positions(random, grid)}, {}, "grid_sample", 1e-5}.check(
          static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(DeformConv, AgreesWithTheReference) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      ops::DeformConv op;
      op.groups = random.integer(1, 2);
      op.offset_groups = random.integer(1, 3);
      const int64_t batch = random.integer(1, 2), channels = op.groups * op.offset_groups * random.integer(1, 3);
      const int64_t outputs = op.groups * random.integer(1, round % 5 ? 4 : 40);
      const Dims image{batch, channels, random.integer(1, 20), random.integer(1, 25)};
      const Dims weights{outputs, channels / op.groups, random.integer(1, 3), random.integer(1, 3)};
      Dims out{batch, outputs};
      for (size_t a = 0; a < 2; ++a) {
        op.strides.push_back(random.integer(1, 2));
        op.dilations.push_back(random.integer(1, 2));
        op.pads.emplace_back(random.integer(0, 2));
      }
      for (size_t a = 0; a < 2; ++a) {
        op.pads.emplace_back(random.integer(0, 2));
        const int64_t room =
            image[2 + a] + op.pads[a].value() + op.pads[2 + a].value() - op.dilations[a] * (weights[2 + a] - 1) - 1;
        out.push_back(room < 0 ? 0 : room / op.strides[a] + 1);
      }
      if (out[2] * out[3] == 0) continue;
      const int64_t taps = op.offset_groups * weights[2] * weights[3];
      Tensor x = random_tensor(random, DType::f32, image);
      Tensor offsets(DType::f32, {batch, 2 * taps, out[2], out[3]});
      for (int64_t i = 0; i < offsets.size(); ++i)
        offsets.as_mutable<float>()[i] =
            random.integer(0, 9) ? static_cast<float>(random.uniform(-4, 4)) : special[random.integer(0, 7)];
      // A pixel that nothing else may touch; not the first, which the reference reads for those that are outside.
      if (round % 5 == 0) x.as_mutable<float>()[x.size() - 1] = std::numeric_limits<float>::infinity();
      if (round % 5 == 0 && image[2] * image[3] == 1) continue;
      std::vector<Tensor> inputs{x, random_tensor(random, DType::f32, weights), offsets};
      inputs.push_back(random.integer(0, 1) ? random_tensor(random, DType::f32, {outputs}) : Tensor());
      if (random.integer(0, 1)) inputs.push_back(random_tensor(random, DType::f32, {batch, taps, out[2], out[3]}));
      NodeTest{op, inputs, {}, "deform_conv", 1e-5}.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Col2Im, AgreesWithTheReference) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 300; ++round) {
      ops::Col2Im op;
      std::vector<int64_t> image, kernel;
      int64_t windows = 1;
      for (int a = 0; a < 2; ++a) {
        kernel.push_back(random.integer(1, round % 10 ? 4 : 12));
        image.push_back(random.integer(round % 20 ? 1 : 0, round % 3 ? 30 : 90));
        op.strides.push_back(random.integer(1, round % 2 ? 3 : 1));
        op.dilations.push_back(random.integer(1, 3));
      }
      for (int i = 0; i < 4; ++i) op.pads.emplace_back(random.integer(-1, 3));
      for (size_t a = 0; a < 2; ++a) {
        const int64_t room =
            image[a] + op.pads[a].value() + op.pads[2 + a].value() - (kernel[a] - 1) * op.dilations[a] - 1;
        windows *= room < 0 ? 0 : room / op.strides[a] + 1;
      }
      const Tensor x = random_tensor(random, DType::f32,
                                     {random.integer(1, 2), random.integer(1, 9) * kernel[0] * kernel[1], windows});
      NodeTest{op, {x, Tensor::from_ints(image), Tensor::from_ints(kernel)}, {1, 2}, "col2im", 1e-6}.check(
          static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::sample_test
