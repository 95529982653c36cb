#include "ir/ops/index.h"

#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/lookup.h"
#include "ir/ops/move.h"
#include "ir/ops/region.h"
#include "ir/ops/select.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::index_test {
namespace {

constexpr DType types[] = {DType::f32, DType::i64, DType::i32, DType::u8, DType::i8, DType::f64};

Dims random_dims(Random& random, int64_t rank, int64_t most) {
  Dims dims;
  for (int64_t i = 0; i < rank; ++i) dims.push_back(random.integer(random.integer(0, 15) ? 1 : 0, most));
  return dims;
}

/// Indices of positions in [0, size), some counted from the end; of either type.
Tensor indices_into(Random& random, Dims dims, const std::vector<int64_t>& sizes) {
  Tensor t(random.integer(0, 1) ? DType::i64 : DType::i32, std::move(dims));
  std::byte* data = t.mutable_data();
  for (int64_t i = 0; i < t.size(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i) % sizes.size()];
    const int64_t v = random.integer(random.integer(0, 3) ? 0 : -size, std::max<int64_t>(size - 1, 0));
    ops::store_elements(t.dtype(), data, i, 1, 1, &v);
  }
  return t;
}

TEST(Scatter, SlicesAndElements) {
  Random random = test_random();
  for (int round = 0; round < 400; ++round) {
    const bool large = round % 20 == 0;
    const int64_t rank = random.integer(1, 4);
    Dims x = random_dims(random, rank, large ? 30 : 6);
    for (int64_t& size : x) size = std::max<int64_t>(size, 1);
    const auto kind = static_cast<ops::ScatterKind>(random.integer(0, 4));
    const bool sums = kind == ops::ScatterKind::add || kind == ops::ScatterKind::mul;
    const DType half = round % 2 ? DType::f16 : DType::bf16;
    const DType dtype = !sums && round % 3 == 0 ? half : types[random.integer(0, 5)];
    const auto threads = static_cast<int>(random.integer(1, 3));
    if (round % 2) {
      const int64_t depth = random.integer(0, rank);
      Dims indices = random_dims(random, random.integer(0, 2), large ? 40 : 5);
      Dims updates = indices;
      updates.insert(updates.end(), x.begin() + depth, x.end());
      indices.push_back(depth);
      const Tensor at = indices_into(
          random, indices, depth ? std::vector<int64_t>(x.begin(), x.begin() + depth) : std::vector<int64_t>{1});
      NodeTest{ops::ScatterND{kind},
               {random_tensor(random, dtype, x), at, random_tensor(random, dtype, updates)},
               {},
               "scatter_nd",
               1e-5}
          .check(threads);
    } else {
      const int64_t axis = random.integer(0, rank - 1);
      Dims counts;
      for (int64_t d = 0; d < rank; ++d)
        counts.push_back(random.integer(random.integer(0, 15) ? 1 : 0, d == axis ? 9 : x[static_cast<size_t>(d)]));
      NodeTest{ops::ScatterElements{axis, kind},
               {random_tensor(random, dtype, x), indices_into(random, counts, {x[static_cast<size_t>(axis)]}),
                random_tensor(random, dtype, counts)},
               {},
               "scatter_elements",
               1e-5}
          .check(threads);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

// A chain: an expand of one element, which is an input or known, and the scatter behind it.
NodeTest filled_scatter(const Op& scatter, const Dims& x, const std::vector<Tensor>& inputs, bool is_known,
                        std::string tactic) {
  Graph body;
  std::vector<ValueId> ids;
  for (const Tensor& t : inputs)
    ids.push_back(
        body.add_input("i" + std::to_string(ids.size()), {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
  const ValueId fill = body.add(ops::Expand{Shape(x.begin(), x.end())}, {ids[0]}, "fill");
  body.add_output("y", body.add(scatter, {fill, ids[1], ids[2]}, "y"));
  const std::vector<size_t> known = is_known ? std::vector<size_t>{0} : std::vector<size_t>{};
  NodeTest test{ops::Region{ops::RegionKind::chain}, inputs, known, std::move(tactic)};
  test.bodies = {body};
  return test;
}

TEST(Scatter, IntoOneElementRepeated) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      const bool large = round % 20 == 0, is_known = random.integer(0, 1) == 1;
      const int64_t rank = random.integer(1, 3);
      Dims x = random_dims(random, rank, large ? 60 : 6);
      for (int64_t& size : x) size = std::max<int64_t>(size, 1);
      const DType dtype = round % 3 == 0 ? DType::f16 : types[random.integer(0, 5)];
      const Tensor element = random_tensor(random, dtype, Dims(static_cast<size_t>(random.integer(0, rank)), 1));
      const auto threads = static_cast<int>(random.integer(1, 3));
      if (round % 2) {
        const int64_t depth = random.integer(1, rank);
        Dims indices = random_dims(random, random.integer(0, 2), large ? 40 : 5), updates = indices;
        updates.insert(updates.end(), x.begin() + depth, x.end());
        indices.push_back(depth);
        const Tensor at = indices_into(random, indices, std::vector<int64_t>(x.begin(), x.begin() + depth));
        filled_scatter(ops::ScatterND{}, x, {element, at, random_tensor(random, dtype, updates)}, is_known,
                       "scatter_nd")
            .check(threads);
      } else {
        const int64_t axis = random.integer(0, rank - 1);
        Dims counts;
        for (int64_t d = 0; d < rank; ++d)
          counts.push_back(random.integer(random.integer(0, 15) ? 1 : 0, d == axis ? 9 : x[static_cast<size_t>(d)]));
        const Tensor at = indices_into(random, counts, {x[static_cast<size_t>(axis)]});
        filled_scatter(ops::ScatterElements{axis}, x, {element, at, random_tensor(random, dtype, counts)}, is_known,
                       "scatter_elements")
            .check(threads);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Gather, SlicesOfSeveralAxes) {
  Random random = test_random();
  for (int round = 0; round < 200; ++round) {
    const int64_t rank = random.integer(1, 4), batch_dims = random.integer(0, std::min<int64_t>(rank - 1, 2));
    Dims x = random_dims(random, rank, 7);
    for (int64_t& size : x) size = std::max<int64_t>(size, 1);
    const int64_t depth = random.integer(1, rank - batch_dims);
    Dims indices(x.begin(), x.begin() + batch_dims);
    for (const int64_t size : random_dims(random, random.integer(0, 2), round % 20 ? 9 : 60)) indices.push_back(size);
    indices.push_back(depth);
    const Tensor at =
        indices_into(random, indices, std::vector<int64_t>(x.begin() + batch_dims, x.begin() + batch_dims + depth));
    NodeTest{
        ops::GatherND{batch_dims}, {random_tensor(random, round % 2 ? DType::f32 : DType::u8, x), at}, {}, "gather_nd"}
        .check(static_cast<int>(random.integer(1, 3)));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Index, OutOfRangeIsRefused) {
  const Tensor x(DType::f32, {3, 4}), at = Tensor::of<int64_t>(DType::i64, {1, 1}, {3}),
                                      low = Tensor::of<int64_t>(DType::i64, {1, 1}, {-5});
  EXPECT_THROW((NodeTest{ops::ScatterND{}, {x, at, Tensor(DType::f32, {1, 4})}, {}, "scatter_nd"}.run(1)), Error);
  EXPECT_THROW((NodeTest{ops::GatherND{}, {x, at}, {}, "gather_nd"}.run(1)), Error);
  EXPECT_THROW((NodeTest{ops::ScatterElements{1}, {x, low, Tensor(DType::f32, {1, 1})}, {}, "scatter_elements"}.run(2)),
               Error);
}

TEST(Cumulative, SumsAndProducts) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const int64_t rank = random.integer(1, 3);
      const DType dtype = types[random.integer(0, 5)];
      const Dims dims = random_dims(random, rank, round % 15 ? 9 : 300);
      if (element_count(dims) > 200000) continue;
      const ops::Cumulative op{round % 5 ? ops::CumulativeKind::sum : ops::CumulativeKind::product,
                               random.integer(0, 1) == 1, random.integer(0, 1) == 1};
      const Tensor axis = Tensor::of<int64_t>(DType::i64, {}, {random.integer(-rank, rank - 1)});
      NodeTest{op, {random_tensor(random, dtype, dims), axis}, {1}, "cumulative", 1e-6}.check(
          static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Rows are added several at a time, to totals in double: over many rows no digit is lost, and what is not finite stays
// in its column.
TEST(Cumulative, RowsBeyondL2) {
  Random random = test_random();
  for_each_target([&] {
    for (const DType dtype : {DType::f64, DType::i64, DType::i32}) {
      const ops::Cumulative op{ops::CumulativeKind::sum, random.integer(0, 1) == 1, random.integer(0, 1) == 1};
      const Tensor x = random_tensor(random, dtype, {2000, random.integer(66, 90)});
      NodeTest{op, {x, Tensor::of<int64_t>(DType::i64, {}, {0})}, {1}, "cumulative", 1e-12}.check(1);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Short rows of many are added some at a time, with a part of a vector at their ends.
TEST(Cumulative, ManyShortRows) {
  Random random = test_random();
  for_each_target([&] {
    for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::i32})
      for (const bool reverse : {false, true}) {
        const ops::Cumulative op{ops::CumulativeKind::sum, random.integer(0, 1) == 1, reverse};
        const Tensor x = random_tensor(random, dtype, {2, random.integer(9000, 9100), random.integer(9, 40)});
        NodeTest{op, {x, Tensor::of<int64_t>(DType::i64, {}, {1})}, {1}, "cumulative", 1e-5}.check(1);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

// Lines of consecutive elements are added by vectors: tails, sums over an operand, what is not finite, no digit lost.
TEST(Cumulative, Lines) {
  Random random = test_random();
  for_each_target([&] {
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u32, DType::u64})
      for (const int64_t columns : {2, 15, 16, 17, 31, 32, 33, 64, 100, 1000, 2003}) {
        Tensor x = random_tensor(random, dtype, {random.integer(1, 9), columns});
        constexpr double infinity = std::numeric_limits<double>::infinity();
        if (dtype == DType::f64)
          for (const double special : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()})
            if (random.integer(0, 2) == 0) x.as_mutable<double>()[random.integer(0, x.size() - 1)] = special;
        for (const bool reverse : {false, true})
          for (const bool exclusive : {false, true}) {
            const ops::Cumulative op{ops::CumulativeKind::sum, exclusive, reverse};
            NodeTest test{op, {x, Tensor::of<int64_t>(DType::i64, {}, {1})}, {1}, "cumulative", 1e-6};
            test.check(1);
            test.check(3);
            test.over = 0;
            test.check(2);
            if (testing::Test::HasFatalFailure()) return;
          }
      }
  });
}

TEST(Cumulative, ManyRows) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 12; ++round) {
      const int64_t rows = random.integer(1, round % 2 ? 20 : 3000), columns = random.integer(2, 45);
      Tensor x(DType::f32, {rows, columns});
      for (int64_t i = 0; i < x.size(); ++i) x.as_mutable<float>()[i] = static_cast<float>(random.uniform(0, 1));
      constexpr float infinity = std::numeric_limits<float>::infinity();
      if (round % 3 == 0)
        for (const float special : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
          x.as_mutable<float>()[random.integer(0, x.size() - 1)] = special;
      const ops::Cumulative op{ops::CumulativeKind::sum, random.integer(0, 1) == 1, random.integer(0, 1) == 1};
      NodeTest{op, {x, Tensor::of<int64_t>(DType::i64, {}, {0})}, {1}, "cumulative", 3e-7}.check(
          static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(TopK, AgreesWithTheReference) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 200; ++round) {
      Dims dims = random_dims(random, random.integer(1, 3), round % 10 ? 40 : 900);
      if (element_count(dims) > 300000) dims.resize(1);
      const int64_t axis = random.integer(0, static_cast<int64_t>(dims.size()) - 1);
      if (round % 20 == 7) dims[static_cast<size_t>(axis)] = 1;  // where there is nothing to choose
      const int64_t size = dims[static_cast<size_t>(axis)];
      Tensor x(DType::f32, dims);
      float* to = x.as_mutable<float>();
      constexpr float special[] = {0.0f,
                                   -0.0f,
                                   std::numeric_limits<float>::infinity(),
                                   -std::numeric_limits<float>::infinity(),
                                   std::numeric_limits<float>::quiet_NaN(),
                                   1e-42f,
                                   -1e-42f};
      for (int64_t i = 0; i < x.size(); ++i) {
        // With equals, rising lines, and whatever has no place among the numbers.
        to[i] = round % 4 == 0   ? static_cast<float>(random.integer(-5, 5))
                : round % 4 == 1 ? static_cast<float>(i)
                                 : static_cast<float>(random.uniform(-1, 1));
        if (round % 3 == 0 && random.integer(0, 9) == 0) to[i] = special[random.integer(0, 6)];
      }
      const int64_t k = random.integer(0, 1) ? random.integer(0, size) : std::min<int64_t>(size, random.integer(0, 9));
      NodeTest test{ops::TopK{axis, random.integer(0, 1) == 1}, {x, Tensor::from_ints({k})}, {1}, "top_k"};
      if (random.integer(0, 2) == 0) test.constants.clear();  // only running tells k
      test.outputs = static_cast<size_t>(random.integer(1, 2));
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Of columns that are looked through in several parts, with equals and NaN, and as many as lie side by side or one
// more.
TEST(TopK, LongColumns) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 12; ++round) {
      const int64_t rows = random.integer(1000, 3000), columns = random.integer(14, 300);
      Tensor x(DType::f32, {rows, columns});
      for (int64_t i = 0; i < x.size(); ++i)
        x.as_mutable<float>()[i] = random.integer(0, 999) == 0 ? std::numeric_limits<float>::quiet_NaN()
                                   : round % 2                 ? static_cast<float>(random.integer(-200, 200))
                                                               : static_cast<float>(random.uniform(-1, 1));
      const int64_t k = round % 3 == 0 ? 32 + random.integer(0, 1) : random.integer(1, 20);
      NodeTest test{ops::TopK{0, random.integer(0, 1) == 1}, {x, Tensor::from_ints({k})}, {1}, "top_k"};
      test.outputs = 2;
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Keys close together, which are places in a table, and far apart; what is none of them.
TEST(FindKeys, AgreesWithTheReference) {
  Random random = test_random();
  constexpr DType key_types[] = {DType::i64, DType::u64, DType::i32, DType::u32, DType::i16,
                                 DType::u16, DType::i8,  DType::u8,  DType::f32, DType::f64};
  for (int round = 0; round < 100; ++round) {
    const DType dtype = key_types[round % 10];
    const int64_t count = random.integer(0, 9), far = round % 3 == 0 && bit_width(dtype) >= 32 ? 100000 : 1;
    Tensor keys(dtype, {count}), x(dtype, random_dims(random, random.integer(0, 3), 9));
    for (int64_t k = 0, key = is_signed(dtype) ? -5 : 0; k < count; ++k) {
      key += random.integer(1, 3) * far;
      ops::store_elements(dtype, keys.mutable_data(), k, 1, 1, &key);
    }
    const bool must_find = count > 0 && random.integer(0, 1) == 1;
    for (int64_t i = 0; i < x.size(); ++i) {
      int64_t value = random.integer(is_signed(dtype) ? -9 : 0, 20) * far;
      if (must_find) ops::load_elements(dtype, keys.data(), random.integer(0, count - 1), 1, 1, &value);
      ops::store_elements(dtype, x.mutable_data(), i, 1, 1, &value);
    }
    NodeTest(ops::FindKeys{must_find}, {x, keys}, {}, "find_keys").check(static_cast<int>(random.integer(1, 3)));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(FindKeys, NamesWhatMustBeFound) {
  const NodeTest test(ops::FindKeys{true}, {Tensor::from_ints({3, 8}), Tensor::from_ints({1, 3})}, {}, "find_keys");
  try {
    test.run(1);
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("8 is none of the 2 values"), std::string::npos) << error.what();
  }
}

// Lines of 16 bits of which many are wanted: as long as those whose places are counted for each element, and a little
// longer.
TEST(TopK, ShortLinesOf16Bits) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t size = random.integer(33, round % 3 ? 170 : 1100), lines = random.integer(1, 5);
      Tensor x(round % 2 ? DType::i16 : DType::u16, {lines, size});
      auto* to = reinterpret_cast<uint16_t*>(x.mutable_data());
      constexpr uint16_t ends[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
      for (int64_t i = 0; i < x.size(); ++i)
        to[i] = random.integer(0, 3) ? static_cast<uint16_t>(random.integer(0, 0xffff)) : ends[random.integer(0, 5)];
      NodeTest test{
          ops::TopK{1, random.integer(0, 1) == 1}, {x, Tensor::from_ints({random.integer(33, size)})}, {1}, "top_k"};
      test.outputs = 2;
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// The same of 32 and 64 bits: the best are found by halves, of which the last ones may be equal, or all the lowest.
TEST(TopK, ShortLinesOfWords) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      constexpr DType types[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u32, DType::u64};
      const int64_t size = random.integer(33, 170), lines = random.integer(1, 5);
      Tensor x(types[round % 6], {lines, size});
      auto* to = reinterpret_cast<uint8_t*>(x.mutable_data());
      const auto width = static_cast<int64_t>(x.bytes()) / x.size();
      const int64_t distinct = round % 4 == 0 ? 1 : random.integer(1, 200);
      for (int64_t i = 0; i < x.size(); ++i) {
        // Any bits, of which some are the lowest and the highest numbers, and few of narrow ranges.
        const auto low = static_cast<uint8_t>(random.integer(0, distinct - 1));
        const bool any = random.integer(0, 4) == 0;
        for (int64_t b = 0; b < width; ++b)
          to[i * width + b] = any ? static_cast<uint8_t>(255 * random.integer(0, 1)) : b == 0 ? low : 0;
      }
      NodeTest test{
          ops::TopK{1, random.integer(0, 1) == 1}, {x, Tensor::from_ints({random.integer(33, size)})}, {1}, "top_k"};
      test.outputs = 2;
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Much of longer lines, which are sorted by digits: of narrow ranges around zero, any numbers, such as differ in their
// highest or in their lowest bits alone, and equals.
TEST(TopK, LongerLinesOfWords) {
  Random random = test_random();
  for (int round = 0; round < 240; ++round) {
    constexpr DType types[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u32, DType::u64};
    const int64_t size = random.integer(161, round % 20 ? 1200 : 40'000), lines = random.integer(1, 3);
    Tensor x(types[round % 6], {lines, size});
    auto* to = reinterpret_cast<uint8_t*>(x.mutable_data());
    const auto width = static_cast<int64_t>(x.bytes()) / x.size();
    const int64_t first = random.integer(0, width - 1), last = random.integer(first, width - 1);
    const bool is_narrow = round % 4 == 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      const bool is_negative = is_narrow && random.integer(0, 1) == 1;
      for (int64_t b = 0; b < width; ++b) {
        const bool varies = is_narrow ? b == 0 : b >= first && b <= last;
        to[i * width + b] = static_cast<uint8_t>(varies ? random.integer(0, 255) : is_negative ? 255 : 0);
      }
    }
    const int64_t k = random.integer(size / 4 + 1, size);
    NodeTest test{ops::TopK{1, random.integer(0, 1) == 1}, {x, Tensor::from_ints({k})}, {1}, "top_k"};
    test.outputs = 2;
    test.check(static_cast<int>(random.integer(1, 3)));
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Few of short lines that lie side by side: as many as a vector has lanes, more and fewer.
TEST(TopK, ShortLinesSideBySide) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      constexpr DType types[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u32, DType::u64};
      const int64_t size = random.integer(2, 70), inner = random.integer(1, 40);
      Tensor x = random_tensor(random, types[round % 6], {random.integer(1, 5), size, inner});
      if (round % 6 == 0)
        for (int i = 0; i < 4; ++i)
          x.as_mutable<float>()[static_cast<size_t>(random.integer(0, x.size() - 1))] =
              i % 2 ? std::nanf("") : INFINITY;
      const int64_t k = random.integer(1, std::min<int64_t>(size, 17));
      NodeTest test{ops::TopK{1, random.integer(0, 1) == 1}, {x, Tensor::from_ints({k})}, {1}, "top_k"};
      test.outputs = 2;
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(TopK, EveryType) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 180; ++round) {
      constexpr DType types[] = {DType::f64, DType::i64, DType::u64, DType::i32, DType::u32,
                                 DType::i16, DType::u16, DType::i8,  DType::u8};
      const DType dtype = types[round % 9];
      Dims dims = random_dims(random, random.integer(1, 3), round % 5 ? 40 : 700);
      if (element_count(dims) > 100000) dims.resize(1);
      const int64_t axis = random.integer(0, static_cast<int64_t>(dims.size()) - 1),
                    size = dims[static_cast<size_t>(axis)];
      Tensor x(dtype, dims);
      // Any bits: the lowest and the highest numbers, infinities and NaN, and equals of narrow types.
      auto* to = reinterpret_cast<uint8_t*>(x.mutable_data());
      for (size_t i = 0; i < x.bytes(); ++i)
        to[i] = static_cast<uint8_t>(round % 2 ? random.integer(0, 255) : 255 * random.integer(0, 1));
      const int64_t k = random.integer(0, 1) ? random.integer(0, size) : std::min<int64_t>(size, random.integer(0, 9));
      NodeTest test{ops::TopK{axis, random.integer(0, 1) == 1}, {x, Tensor::from_ints({k})}, {1}, "top_k"};
      if (random.integer(0, 2) == 0) test.constants.clear();  // only running tells k
      test.outputs = static_cast<size_t>(random.integer(1, 2));
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Few of lines of few, one behind the other and side by side, in more blocks than one, with equals and what is no
// number.
TEST(TopK, ShortLines) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 200; ++round) {
      constexpr DType types[] = {DType::f32, DType::f64, DType::i64, DType::u64, DType::i32,
                                 DType::u32, DType::i16, DType::u16, DType::i8,  DType::u8};
      const int64_t size = random.integer(1, round % 3 ? 14 : 140), lines = random.integer(1, round % 4 ? 40 : 1500);
      const bool beside = random.integer(0, 1) == 1, any_bits = random.integer(0, 1) == 1;
      Tensor x(types[round % 10], beside ? Dims{random.integer(1, 3), size, lines} : Dims{lines, size});
      auto* to = reinterpret_cast<uint8_t*>(x.mutable_data());
      for (size_t i = 0; i < x.bytes(); ++i)
        to[i] = static_cast<uint8_t>(any_bits ? random.integer(0, 255) : 255 * random.integer(0, 1));
      const int64_t k = random.integer(0, 4) == 0 ? 1 : random.integer(0, std::min<int64_t>(size, 9));
      NodeTest test{ops::TopK{1, random.integer(0, 1) == 1}, {x, Tensor::from_ints({k})}, {1}, "top_k"};
      test.outputs = static_cast<size_t>(random.integer(1, 2));
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(TensorScatter, AgreesWithTheReference) {
  Random random = test_random();
  for (int round = 0; round < 200; ++round) {
    const ops::TensorScatter op{random.integer(1, 2), random.integer(0, 1) == 1};
    const auto at = static_cast<size_t>(op.axis);
    Dims cache = random_dims(random, random.integer(op.axis + 1, 4), 6);
    cache[0] = std::max<int64_t>(cache[0], 1), cache[at] = random.integer(1, 9);
    Dims update = cache;
    update[at] = random.integer(round % 10 ? 1 : 0, cache[at]);
    Tensor starts(random.integer(0, 1) ? DType::i64 : DType::i32, {cache[0]});
    for (int64_t i = 0; i < cache[0]; ++i) {
      const int64_t start = random.integer(0, op.circular ? 20 : cache[at] - update[at]);
      ops::store_elements(starts.dtype(), starts.mutable_data(), i, 1, 1, &start);
    }
    const DType dtype = types[round % 6];
    std::vector<Tensor> inputs{random_tensor(random, dtype, cache), random_tensor(random, dtype, update)};
    if (random.integer(0, 3)) inputs.push_back(starts);
    NodeTest{op, inputs, {}, "tensor_scatter"}.check(static_cast<int>(random.integer(1, 3)));
    if (testing::Test::HasFatalFailure()) return;
  }
  const Tensor cache(DType::f32, {1, 4, 2}), update(DType::f32, {1, 2, 2});
  const Tensor beyond = Tensor::from_ints({3});
  EXPECT_THROW((NodeTest{ops::TensorScatter{1}, {cache, update, beyond}, {}, "tensor_scatter"}.run(1)), Error);
}

TEST(ReverseSequence, AgreesWithTheReference) {
  Random random = test_random();
  for (int round = 0; round < 200; ++round) {
    const ops::ReverseSequence op{random.integer(0, 1) == 1};
    const Dims dims = random_dims(random, random.integer(2, 4), 9);
    const int64_t batch = dims[op.batch_first ? 0 : 1], time = dims[op.batch_first ? 1 : 0];
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < batch; ++b) lengths.push_back(random.integer(0, time));
    NodeTest{op, {random_tensor(random, types[round % 6], dims), Tensor::from_ints(lengths)}, {}, "reverse_sequence"}
        .check(static_cast<int>(random.integer(1, 3)));
    if (testing::Test::HasFatalFailure()) return;
  }
  // Steps of one element, in rows that threads share.
  for (int round = 0; round < 12; ++round) {
    const ops::ReverseSequence op{round % 2 == 1};
    const Dims dims{random.integer(1, 400), random.integer(1, 400)};
    const int64_t batch = dims[op.batch_first ? 0 : 1], time = dims[op.batch_first ? 1 : 0];
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < batch; ++b) lengths.push_back(random.integer(0, time));
    NodeTest{op, {random_tensor(random, types[round % 6], dims), Tensor::from_ints(lengths)}, {}, "reverse_sequence"}
        .check(static_cast<int>(random.integer(1, 3)));
    if (testing::Test::HasFatalFailure()) return;
  }
  const Tensor x(DType::f32, {3, 1, 2});
  EXPECT_THROW((NodeTest{ops::ReverseSequence{}, {x, Tensor::from_ints({4})}, {}, "reverse_sequence"}.run(1)), Error);
}

}  // namespace
}  // namespace camshaft::cpu::index_test
