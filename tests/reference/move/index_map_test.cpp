#include "ir/ops/index_map.h"

#include "ir/ops/move.h"
#include "reference/random_index_map.h"
#include "reference/single_op.h"

namespace camshaft::ops::index_map_test {
namespace {

TEST(IndexMap, WindowsWithPaddingAroundThem) {
  // y[i, k] = x[i + k - 1]
  const IndexMap windows{{3, 3}, {0, 0}, {1, 1}, {-1}};
  EXPECT_EQ(run_op(windows, {f32({3}, {1, 2, 3})})[0], f32({3, 3}, {0, 1, 2, 1, 2, 3, 2, 3, 0}));
  EXPECT_EQ(run_op(windows, {f32({3}, {1, 2, 3}), f32({}, {7})})[0], f32({3, 3}, {7, 1, 2, 1, 2, 3, 2, 3, 7}));
}

TEST(IndexMap, RollsAndTurns) {
  // y[j, i] = x[(i + 1) mod 2, (j - 1) mod 3]
  const IndexMap map{{3, 2}, {1, 0}, {1, 1}, {1, -1}, true};
  EXPECT_EQ(run_op(map, {f32({2, 3}, {1, 2, 3, 4, 5, 6})})[0], f32({3, 2}, {6, 3, 4, 1, 5, 2}));
}

TEST(IndexMap, RepeatsAndGoesBackwards) {
  const IndexMap map{{2, 2}, {-1, 0}, {5, -2}, {2}};
  EXPECT_EQ(run_op(map, {f32({3}, {1, 2, 3})})[0], f32({2, 2}, {3, 1, 3, 1}));
  EXPECT_EQ(run_op(IndexMap{{}, {}, {}, {1}}, {f32({2}, {1, 2})})[0], f32({}, {2}));
  EXPECT_EQ(run_op(IndexMap{{2}, {-1}, {0}, {}}, {f32({}, {4})})[0], f32({2}, {4, 4}));
}

TEST(IndexMap, OfEmptyTensors) {
  EXPECT_EQ(run_op(IndexMap{{2}, {0}, {1}, {0}}, {f32({0}, {})})[0], f32({2}, {0, 0}));
  EXPECT_EQ(run_op(IndexMap{{2, 0}, {0, -1}, {1, 0}, {0}}, {f32({1}, {5})})[0].dims(), (Dims{2, 0}));
}

TEST(IndexMap, SymbolsAndEveryKindOfElement) {
  const Dim n = Dim::symbol("n");
  const IndexMap map{{n + 1}, {0}, {1}, {n - 2}};
  EXPECT_EQ(run_op(map, {i64({3}, {1, 2, 3})}, {{"n", 2}})[0], i64({3}, {1, 2, 3}));
  Tensor words(DType::string, {2});
  words.as_mutable<std::string>()[0] = "a";
  words.as_mutable<std::string>()[1] = "b";
  const Tensor out = run_op(IndexMap{{3}, {0}, {1}, {-1}}, {words})[0];
  EXPECT_EQ(out.as<std::string>()[0], "");
  EXPECT_EQ(out.as<std::string>()[1], "a");
  EXPECT_EQ(out.as<std::string>()[2], "b");
  const auto nibbles = [](const std::vector<uint8_t>& bytes) { return Tensor::of(DType::i4, {3}, bytes); };
  EXPECT_EQ(run_op(IndexMap{{3}, {0}, {-1}, {2}}, {nibbles({0xe1, 0x03})})[0], nibbles({0xe3, 0x01}));
}

TEST(IndexMap, Errors) {
  const Tensor x(DType::f32, {2, 3});
  const auto error = [&](const IndexMap& map, const std::vector<Tensor>& inputs) {
    return error_of([&] { run_op(map, inputs); });
  };
  EXPECT_NE(error({{2}, {0, 1}, {1}, {0, 0}}, {x}).find("do not fit"), std::string::npos);
  EXPECT_NE(error({{2}, {0}, {1}, {0}}, {x}).find("do not fit"), std::string::npos);
  EXPECT_NE(error({{2}, {2}, {1}, {0, 0}}, {x}).find("axis 2"), std::string::npos);
  EXPECT_NE(error({{-2}, {0}, {1}, {0, 0}}, {x}).find("size -2"), std::string::npos);
  EXPECT_NE(error({{2}, {0}, {1}, {0, 0}}, {x, i64({}, {1})}).find("i64"), std::string::npos);
  EXPECT_NE(error({{2}, {0}, {1}, {0, 0}}, {x, f32({1}, {1})}).find("scalar"), std::string::npos);
  constexpr int64_t far = int64_t{1} << 62;
  EXPECT_NE(error({{2}, {0}, {1}, {far, 0}}, {x}).find("index map"), std::string::npos);
  EXPECT_NE(error({{3}, {0}, {far}, {0, 0}}, {x}).find("index map"), std::string::npos);
  EXPECT_NE(error({{2}, {0}, {1}, {0}, true}, {f32({0}, {})}).find("no elements"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::index_map_test
