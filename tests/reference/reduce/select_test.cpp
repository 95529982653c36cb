#include "ir/ops/select.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "ir/ops/index.h"
#include "ir/ops/signal.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"
#include "reference/single_op.h"
#include "test_random.h"

namespace camshaft::ops::select_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(TopK, TiesAndNaN) {
  const Tensor x = f32({6}, {1, 3, nan, 3, -1, 3});
  const auto most = run_op(TopK{0, true}, {x, i64({1}, {4})});
  EXPECT_EQ(most[1], i64({4}, {2, 1, 3, 5}));
  EXPECT_TRUE(std::isnan(most[0].as<float>()[0]));
  const auto least = run_op(TopK{0, false}, {x, i64({}, {3})});
  EXPECT_EQ(least[0], f32({3}, {-1, 1, 3}));
  EXPECT_EQ(least[1], i64({3}, {4, 0, 1}));
  EXPECT_EQ(run_op(TopK{0, true}, {f32({2, 2}, {1, 5, 2, 4}), i64({1}, {1})})[1], i64({1, 2}, {1, 0}));
  EXPECT_EQ(run_op(TopK{1, true}, {f32({2, 0}, {}), i64({1}, {0})})[0].dims(), (Dims{2, 0}));
  EXPECT_NE(error_of([&] { run_op(TopK{0, true}, {x, i64({1}, {7})}); }).find("7 elements"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(TopK{0, true}, {x, i64({1}, {-1})}, {}, true); }).find("-1"), std::string::npos);
}

TEST(NonZero, CoordinatesInOrder) {
  EXPECT_EQ(run_op(NonZero{}, {f32({2, 2}, {0, nan, 2, 0})})[0], i64({2, 2}, {0, 1, 1, 0}));
  EXPECT_EQ(run_op(NonZero{}, {f32({3}, {0, 0, 0})})[0].dims(), (Dims{1, 0}));
  EXPECT_EQ(run_op(NonZero{}, {f32({}, {2})})[0].dims(), (Dims{0, 1}));
}

// Rows so short that they are gone through as one, and longer ones, beside a plain count of places.
TEST(NonZero, ShortRowsAndLongOnes) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    Dims dims;
    for (int64_t axis = random.integer(1, 5); axis > 0; --axis)
      dims.push_back(random.integer(0, 12) ? random.integer(1, axis == 1 && round % 3 == 0 ? 300 : 14) : 1);
    std::vector<float> values(static_cast<size_t>(element_count(dims)));
    for (float& v : values) v = random.integer(0, 2) ? 0.0F : 1.5F;
    std::vector<Dims> places;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0) continue;
      Dims place(dims.size());
      auto rest = static_cast<int64_t>(i);
      for (size_t axis = dims.size(); axis-- > 0; rest /= dims[axis]) place[axis] = rest % dims[axis];
      places.push_back(place);
    }
    const Tensor got = run_op(NonZero{}, {f32(dims, values)})[0];
    ASSERT_EQ(got.dims(), (Dims{std::ssize(dims), std::ssize(places)}));
    for (size_t axis = 0; axis < dims.size(); ++axis)
      for (size_t i = 0; i < places.size(); ++i)
        ASSERT_EQ(got.as<int64_t>()[axis * places.size() + i], places[i][axis]) << to_string(dims);
  }
}

TEST(Unique, SortedAndByOccurrence) {
  const Tensor x = f32({6}, {2, 1, nan, 3, nan, 1});
  const auto sorted = run_op(Unique{-1, true}, {x});
  EXPECT_EQ(sorted[1], i64({4}, {1, 0, 3, 2}));
  EXPECT_EQ(sorted[2], i64({6}, {1, 0, 3, 2, 3, 0}));
  EXPECT_EQ(sorted[3], i64({4}, {2, 1, 1, 2}));
  const auto unsorted = run_op(Unique{-1, false}, {x});
  EXPECT_EQ(unsorted[1], i64({4}, {0, 1, 2, 3}));
  EXPECT_EQ(unsorted[2], i64({6}, {0, 1, 2, 3, 2, 1}));
  const auto columns = run_op(Unique{1, true}, {f32({2, 3}, {2, 1, 2, 0, 5, 0})});
  EXPECT_EQ(columns[0], f32({2, 2}, {1, 2, 5, 0}));
  EXPECT_EQ(columns[3], i64({2}, {1, 2}));
  EXPECT_EQ(run_op(Unique{}, {f32({0}, {})})[0].dims(), (Dims{0}));
}

// NaN behind all numbers, and equal to itself.
bool comes_before(double a, double b) {
  return std::isnan(b) ? !std::isnan(a) : a < b;
}

// Numbers as elements of a type; of strings as many letters.
Tensor elements_of(DType dtype, const Dims& dims, const std::vector<double>& numbers) {
  Tensor x(dtype, dims);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == DType::string) {
      x.as_mutable<std::string>()[i] = std::string(static_cast<size_t>(numbers[i]), 'a');
    } else if (is_floating(dtype)) {
      store_elements(dtype, x.mutable_data(), static_cast<int64_t>(i), 1, 1, &numbers[i]);
    } else {
      const auto whole = static_cast<int64_t>(numbers[i]);
      store_elements(dtype, x.mutable_data(), static_cast<int64_t>(i), 1, 1, &whole);
    }
  }
  return x;
}

// Slices of every type and axis beside a sorted map of them, among which are many, equal ones, empty ones, both zeros
// and NaN.
TEST(Unique, AsASortedMapHasThem) {
  Random random = test_random();
  const double special[] = {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN(), 0.0,
                            -0.0, std::numeric_limits<double>::infinity()};
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16,     DType::i8,    DType::u16,
                          DType::i64, DType::i4,  DType::boolean, DType::string};
  for (int round = 0; round < 400; ++round) {
    const DType dtype = dtypes[round % std::size(dtypes)];
    const int64_t rank = random.integer(1, 3), axis = random.integer(-1, rank - 1);
    Dims dims;
    for (int64_t d = 0; d < rank; ++d) dims.push_back(random.integer(random.integer(0, 9) == 0 ? 0 : 1, 11));
    if (round % 8 == 0) dims[static_cast<size_t>(random.integer(0, rank - 1))] = random.integer(500, 1100);
    const int64_t most = dtype == DType::boolean ? 1 : round % 3 == 0 ? 7 : 2;
    std::vector<double> numbers(static_cast<size_t>(element_count(dims)));
    for (double& v : numbers)
      v = is_floating(dtype) && random.integer(0, 19) == 0 ? special[random.integer(0, 4)]
                                                           : static_cast<double>(random.integer(0, most));
    const auto at = static_cast<size_t>(std::max<int64_t>(axis, 0));
    const int64_t count = axis < 0 ? element_count(dims) : dims[at];
    const int64_t outer = axis < 0 ? 1 : product(dims, 0, at);
    const int64_t inner = axis < 0 ? 1 : product(dims, at + 1, dims.size());
    const auto slice = [&](int64_t s) {
      std::vector<double> elements;
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i)
          elements.push_back(numbers[static_cast<size_t>((o * count + s) * inner + i)]);
      return elements;
    };
    const auto less = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), comes_before);
    };
    std::map<std::vector<double>, std::vector<int64_t>, decltype(less)> found(less);  // slices and where they are
    for (int64_t s = 0; s < count; ++s) found[slice(s)].push_back(s);
    for (const bool sorted : {true, false}) {
      std::vector<std::vector<int64_t>> groups;
      for (const auto& [key, places] : found) groups.push_back(places);
      if (!sorted) std::sort(groups.begin(), groups.end());  // by the first of each
      std::vector<int64_t> first, inverse(static_cast<size_t>(count)), counts;
      std::vector<double> kept;
      for (size_t g = 0; g < groups.size(); ++g) {
        first.push_back(groups[g][0]);
        counts.push_back(std::ssize(groups[g]));
        for (const int64_t s : groups[g]) inverse[static_cast<size_t>(s)] = static_cast<int64_t>(g);
      }
      for (int64_t o = 0; o < outer; ++o)
        for (const int64_t s : first)
          for (int64_t i = 0; i < inner; ++i) kept.push_back(numbers[static_cast<size_t>((o * count + s) * inner + i)]);
      Dims kept_dims = axis < 0 ? Dims{std::ssize(first)} : dims;
      if (axis >= 0) kept_dims[at] = std::ssize(first);
      SCOPED_TRACE(testing::Message() << "round " << round << " axis " << axis << " sorted " << sorted);
      const auto results = run_op(Unique{axis, sorted}, {elements_of(dtype, dims, numbers)});
      ASSERT_EQ(results[0], elements_of(dtype, kept_dims, kept));
      ASSERT_EQ(results[1], Tensor::from_ints(first));
      ASSERT_EQ(results[2], Tensor::from_ints(inverse));
      ASSERT_EQ(results[3], Tensor::from_ints(counts));
    }
  }
}

// A hash of what slices begin with tells none of these apart.
TEST(Unique, SlicesThatBeginAlike) {
  constexpr int64_t count = 60, length = 700;
  for (const DType dtype : {DType::f32, DType::i64, DType::string}) {
    std::vector<double> numbers(static_cast<size_t>(count * length), 2);
    for (int64_t s = 0; s < count; ++s)
      numbers[static_cast<size_t>(s * length + 650)] = static_cast<double>(s * 7 % 40);
    const auto results = run_op(Unique{0, true}, {elements_of(dtype, {count, length}, numbers)});
    std::vector<int64_t> first(40, -1), inverse, counts(40, 0);
    for (int64_t s = 0; s < count; ++s) {
      const auto group = static_cast<size_t>(s * 7 % 40);
      if (first[group] < 0) first[group] = s;
      inverse.push_back(static_cast<int64_t>(group));
      ++counts[group];
    }
    EXPECT_EQ(results[1], Tensor::from_ints(first));
    EXPECT_EQ(results[2], Tensor::from_ints(inverse));
    EXPECT_EQ(results[3], Tensor::from_ints(counts));
  }
}

TEST(NonMaxSuppression, OverlapsScoresAndLimits) {
  const Tensor boxes = f32({1, 4, 4}, {0, 0, 1, 1, 0, 0.1F, 1, 1.1F, 0, 10, 1, 11, 0, 10, 1, 11});
  const Tensor scores = f32({1, 1, 4}, {0.9F, 0.95F, 0.5F, 0.5F});
  const auto run = [&](int64_t most, float iou, float score) {
    return run_op(NonMaxSuppression{}, {boxes, scores, i64({}, {most}), f32({}, {iou}), f32({1}, {score})})[0];
  };
  EXPECT_EQ(run(10, 0.5F, 0), i64({2, 3}, {0, 0, 1, 0, 0, 2}));
  EXPECT_EQ(run(1, 0.5F, 0), i64({1, 3}, {0, 0, 1}));
  EXPECT_EQ(run(10, 1, 0), i64({4, 3}, {0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 3}));
  EXPECT_EQ(run(10, 0.5F, 0.99F).dims(), (Dims{0, 3}));
  EXPECT_EQ(run_op(NonMaxSuppression{}, {boxes, scores})[0].dims(), (Dims{0, 3})) << "no limit given: nothing chosen";
  EXPECT_NE(error_of([&] { run(1, 1.5F, 0); }).find("IoU"), std::string::npos);
}

// Boxes that do not meet come out in the order of their scores, however many batches that takes.
TEST(NonMaxSuppression, OrderOfManyBoxes) {
  Random random = test_random();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (int round = 0; round < 30; ++round) {
    const int64_t count = random.integer(1, round % 3 ? 300 : 6000), most = random.integer(1, round % 2 ? 40 : count);
    Tensor boxes(DType::f32, {1, count, 4}), scores(DType::f32, {1, 1, count});
    for (int64_t i = 0; i < count; ++i) {
      const float at = static_cast<float>(2 * i);
      std::copy_n(std::array{at, at, at + 1, at + 1}.begin(), 4, boxes.as_mutable<float>() + 4 * i);
      const float special[] = {nan, infinity, -infinity, 0.0F, -0.0F, 0.25F};
      float score = static_cast<float>(random.integer(-1000, 1000)) * (round % 5 ? 1e-3F : 1e-9F);
      if (round % 7 == 0) score = static_cast<float>(random.integer(0, 2));  // many equal ones
      scores.as_mutable<float>()[i] = random.integer(0, 9) == 0 ? special[random.integer(0, 5)] : score;
    }
    const bool has_least = random.integer(0, 1) == 1;
    const float least = 0.1F;
    std::vector<int64_t> order;
    const float* score = scores.as<float>();
    for (int64_t i = 0; i < count; ++i)
      if (!has_least || score[i] > least) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return std::isnan(score[b]) ? !std::isnan(score[a]) : score[a] > score[b];
    });
    order.resize(std::min(order.size(), static_cast<size_t>(most)));
    std::vector<Tensor> inputs{boxes, scores, i64({}, {most}), f32({}, {0.5F})};
    if (has_least) inputs.push_back(f32({}, {least}));
    const Tensor chosen = run_op(NonMaxSuppression{}, inputs)[0];
    ASSERT_EQ(chosen.dims()[0], std::ssize(order));
    for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(chosen.as<int64_t>()[3 * i + 2], order[i]) << i;
  }
}

TEST(GatherND, BatchesAndErrors) {
  const Tensor x = f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(run_op(GatherND{0}, {x, i64({2, 2}, {0, 1, -1, 0})})[0], f32({2, 2}, {2, 3, 4, 5}));
  EXPECT_EQ(run_op(GatherND{1}, {x, i64({2, 1}, {1, 0})})[0], f32({2, 2}, {2, 3, 4, 5}));
  EXPECT_NE(error_of([&] { run_op(GatherND{0}, {x, i64({1, 1}, {2})}); }).find("index 2"), std::string::npos);
}

TEST(ScatterElements, KindsAndAxes) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6}), at = i64({2, 2}, {0, 0, -1, 0}), u = f32({2, 2}, {9, 8, 7, 6});
  EXPECT_EQ(run_op(ScatterElements{1}, {x, at, u})[0], f32({2, 3}, {8, 2, 3, 6, 5, 7}));
  EXPECT_EQ(run_op(ScatterElements{1, ScatterKind::add}, {x, at, u})[0], f32({2, 3}, {18, 2, 3, 10, 5, 13}));
  EXPECT_EQ(run_op(ScatterElements{0, ScatterKind::max}, {x, i64({1, 1}, {1}), f32({1, 1}, {40})})[0],
            f32({2, 3}, {1, 2, 3, 40, 5, 6}));
  EXPECT_NE(error_of([&] {
              run_op(ScatterElements{1}, {x, i64({1, 1}, {3}), f32({1, 1}, {0})});
            }).find("index 3"),
            std::string::npos);
}

TEST(TensorScatter, LinearAndCircular) {
  const Tensor cache = f32({2, 3, 1}, {0, 0, 0, 0, 0, 0}), update = f32({2, 2, 1}, {1, 2, 3, 4});
  EXPECT_EQ(run_op(TensorScatter{1}, {cache, update, i64({2}, {0, 1})})[0], f32({2, 3, 1}, {1, 2, 0, 0, 3, 4}));
  EXPECT_EQ(run_op(TensorScatter{1, true}, {cache, update, i64({2}, {2, 1})})[0], f32({2, 3, 1}, {2, 0, 1, 0, 3, 4}));
  EXPECT_NE(error_of([&] {
              run_op(TensorScatter{1}, {cache, update, i64({2}, {0, 2})});
            }).find("from 2"),
            std::string::npos);
}

TEST(Cumulative, DirectionsAndWrapping) {
  const Tensor x = f32({3}, {1, 2, 3});
  EXPECT_EQ(run_op(Cumulative{}, {x, i64({}, {0})})[0], f32({3}, {1, 3, 6}));
  EXPECT_EQ(run_op(Cumulative{CumulativeKind::product, true, true}, {x, i64({}, {-1})})[0], f32({3}, {6, 3, 1}));
  EXPECT_EQ(run_op(Cumulative{}, {i64({2}, {INT64_MAX, 1}), i64({}, {0})})[0], i64({2}, {INT64_MAX, INT64_MIN}));
  EXPECT_NE(error_of([&] { run_op(Cumulative{}, {x, i64({}, {1})}); }).find("axis 1"), std::string::npos);
}

TEST(ReverseSequence, EachItsLength) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_op(ReverseSequence{true}, {x, i64({2}, {2, 3})})[0], f32({2, 3}, {2, 1, 3, 6, 5, 4}));
  EXPECT_NE(error_of([&] {
              run_op(ReverseSequence{true}, {x, i64({2}, {4, 0})});
            }).find("length of 4"),
            std::string::npos);
}

// Against the definition, at lengths with and without large prime factors, and back again.
TEST(Dft, AnyLength) {
  for (const int64_t n : {1, 2, 3, 5, 7, 8, 9, 11, 12, 22, 25, 30, 49, 61, 100, 343, 400, 420, 442}) {
    Tensor x(DType::f64, {n, 2});
    for (int64_t i = 0; i < 2 * n; ++i) x.as_mutable<double>()[i] = std::sin(static_cast<double>(i * i + 1));
    const Tensor y = run_op(Dft{0}, {x})[0];
    for (int64_t k = 0; k < n; ++k) {
      double re = 0, im = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double a = -2 * M_PI * static_cast<double>(i * k) / static_cast<double>(n);
        const double p = x.as<double>()[2 * i], q = x.as<double>()[2 * i + 1];
        re += p * std::cos(a) - q * std::sin(a);
        im += p * std::sin(a) + q * std::cos(a);
      }
      EXPECT_NEAR(y.as<double>()[2 * k], re, 1e-9) << n << ", " << k;
      EXPECT_NEAR(y.as<double>()[2 * k + 1], im, 1e-9) << n << ", " << k;
    }
    const Tensor back = run_op(Dft{0, true}, {y})[0];
    for (int64_t i = 0; i < 2 * n; ++i) EXPECT_NEAR(back.as<double>()[i], x.as<double>()[i], 1e-12) << n;
  }
}

TEST(Dft, OneSidedThereAndBack) {
  const Tensor x = f32({1, 5, 1}, {1, -2, 3, 0.5F, 4});
  const Tensor half = run_op(Dft{1, false, true}, {x})[0];
  EXPECT_EQ(half.dims(), (Dims{1, 3, 2}));
  const Tensor back = run_op(Dft{1, true, true}, {half, i64({}, {5})})[0];
  ASSERT_EQ(back.dims(), (Dims{1, 5, 1}));
  for (int64_t i = 0; i < 5; ++i) EXPECT_NEAR(back.as<float>()[i], x.as<float>()[i], 1e-5);
  EXPECT_NE(error_of([&] { run_op(Dft{1}, {x, i64({}, {0})}, {}, true); }).find("length 0"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::select_test
