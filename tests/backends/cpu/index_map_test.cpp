// Index maps as kernels, against the reference.
#include "backends/cpu/kernels/move/indexed_copy.h"
#include "backends/cpu/run_node.h"
#include "reference/random_index_map.h"

namespace camshaft::cpu::index_map_test {
namespace {

constexpr DType widths[] = {DType::u8, DType::f16, DType::f32, DType::i64};

TEST(IndexMap, RandomMaps) {
  Random random = test_random();
  for (int round = 0; round < 400; ++round) {
    const DType dtype = widths[round % 4];
    const RandomIndexMap made = random_index_map(random, dtype, 20);
    std::vector<Tensor> inputs{made.x};
    if (random.integer(0, 1) == 0) inputs.push_back(random_tensor(random, dtype, {}));
    NodeTest(made.op, inputs, {}, "index_map").check(1 + round % 3);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(IndexMap, LargeEnoughForAllThreads) {
  Random random = test_random();
  const Tensor x = random_tensor(random, DType::f32, {2, 40, 96});
  for (const int threads : {1, 2, 3}) {
    // Windows of rows, the row's elements last and in between; a padding alone; a roll.
    NodeTest({ops::IndexMap{{2, 40, 9, 96}, {0, 1, 1, 2}, {1, 1, 1, 1}, {0, -4, 0}}}, {x}, {}, "index_map")
        .check(threads);
    NodeTest({ops::IndexMap{{2, 40, 96, 9}, {0, 1, 2, 1}, {1, 1, 1, 1}, {0, -4, 0}}}, {x}, {}, "index_map")
        .check(threads);
    NodeTest({ops::IndexMap{{100, 130}, {1, 2}, {1, 1}, {1, -30, -7}}}, {x}, {}, "index_map").check(threads);
    NodeTest({ops::IndexMap{{96, 40, 2}, {2, 1, 0}, {1, 1, 1}, {1, 17, -50}, true}}, {x}, {}, "index_map")
        .check(threads);
  }
}

TEST(IndexMap, NanInfinityAndNegativeZeroStay) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::of(DType::f32, {4}, std::vector<float>{nan, infinity, -infinity, -0.0f});
  NodeTest({ops::IndexMap{{4, 3}, {0, 0}, {1, 1}, {-1}}}, {x, Tensor::scalar(DType::f32, -0.0)}, {}, "index_map")
      .check(1);
}

// Each index is cut off in its own way: more ways than are prepared.
TEST(IndexMap, WindowsAsLargeAsTheImage) {
  Random random = test_random();
  const Tensor x = random_tensor(random, DType::u8, {41, 37});
  NodeTest({ops::IndexMap{{41, 37, 41, 37}, {0, 1, 0, 1}, {1, 1, 1, 1}, {-20, -18}}}, {x}, {}, "index_map").check(2);
}

// Each time round would be a segment of its own, and each pair of segments a copy.
TEST(IndexMap, ManyTimesRound) {
  Random random = test_random();
  for (const Dims& dims : {Dims{1, 1}, Dims{3, 2}}) {
    const Tensor x = random_tensor(random, DType::u8, dims);
    NodeTest({ops::IndexMap{{1500, 700}, {0, 1}, {1, 1}, {0, -3}, true}}, {x}, {}, "index_map").check(2);
    NodeTest({ops::IndexMap{{5000}, {0}, {-1}, {0, 1}, true}}, {x}, {}, "index_map").check(2);
  }
}

// Windows of two: the longer axis stays inside.
TEST(IndexMap, ShortAxesAtManyPositions) {
  Random random = test_random();
  const Tensor x = random_tensor(random, DType::u8, {70'000});
  NodeTest({ops::IndexMap{{70'001, 2}, {0, 0}, {1, 1}, {-1}}}, {x}, {}, "index_map").check(2);
}

TEST(IndexMap, RefusesToWalkManyPositions) {
  const std::vector<IndexedCopy::Axis> axes{{.size = (1 << 24) + 1, .along = 0, .step = 1, .out_stride = 1}};
  const std::vector<IndexedCopy::Source> sources{{.start = 0, .length = 1, .stride = 1, .leaves = true}};
  EXPECT_THROW(IndexedCopy(1, axes, sources, true), Error);
}

TEST(IndexMap, RefusesToLeaveManyAxes) {
  const std::vector<IndexedCopy::Axis> axes(IndexedCopy::most_left + 1);
  const std::vector<IndexedCopy::Source> sources(IndexedCopy::most_left + 1, {.start = 1, .leaves = true});
  EXPECT_THROW(IndexedCopy(4, axes, sources, false), Error);
}

}  // namespace
}  // namespace camshaft::cpu::index_map_test
