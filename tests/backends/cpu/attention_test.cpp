// Attention against a triple loop in double: tails, strides, masks, every instruction set, several thread counts.
#include "backends/cpu/kernels/attention/attention.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/kernel_test_util.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "base/thread_pool.h"

namespace camshaft::cpu::attention_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = -77.0f;

enum class Masks { none, added, kept, both, two_added };

struct Case {
  int64_t outer, queries, keys, size, value_size;
  Masks masks = Masks::none;
  bool side_by_side = false;                 // heads lie in the rows of one matrix
  bool columns_apart = false;                // the elements of a query, key, value and result are not neighbours
  bool shared_keys = false;                  // all problems have the same keys and values
  bool shuffled = false;                     // rows, and the columns of masks, are in no order
  bool one_row = false, one_column = false;  // of masks: all queries, or all keys, share an element
  bool zero_undefined = false;
  float scale = 0.3f;
  float softcap = 0;
  bool rounds = false;  // probabilities, and operands, which are bf16 already
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.outer << " x " << c.queries << " x " << c.keys << " of " << c.size << "/" << c.value_size << " masks "
             << static_cast<int>(c.masks) << " side by side " << c.side_by_side << " columns apart " << c.columns_apart
             << " shared " << c.shared_keys << " shuffled " << c.shuffled << " one row/column " << c.one_row
             << c.one_column << " zero " << c.zero_undefined << " scale " << c.scale << " cap " << c.softcap
             << " rounds " << c.rounds;
}

// Offsets of an operand that is as large as it must be.
struct Layout {
  std::vector<int64_t> outer, rows;
  int64_t column = 1, floats = 0;

  Layout(const Case& c, int64_t rows_count, int64_t size, bool shared, RandomData& random) {
    const int64_t problems = shared ? 1 : c.outer, all = problems * size;
    for (int64_t o = 0; o < c.outer; ++o)
      outer.push_back(shared ? 0 : c.side_by_side ? o * size : o * size * rows_count);
    for (int64_t r = 0; r < rows_count; ++r) rows.push_back(r * (c.side_by_side ? all : size));
    if (c.columns_apart) {
      column = c.side_by_side ? rows_count * problems : rows_count;
      for (int64_t& at : outer) at = c.side_by_side ? at / size : at;
      for (int64_t& at : rows) at = c.side_by_side ? at / size : at / std::max<int64_t>(size, 1);
    }
    if (c.shuffled)
      for (size_t i = rows.size(); i > 1; --i)
        std::swap(rows[i - 1], rows[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i) - 1))]);
    floats = problems * rows_count * size;
  }
  AttentionOperand operand(const float* data) const {
    int64_t step = rows.size() < 2 ? 1 : rows[1] - rows[0];
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] != rows[0] + static_cast<int64_t>(i) * step) step = 0;
    return {data, outer.data(), rows.data(), column, std::max<int64_t>(step, 0)};
  }
  size_t at(int64_t o, int64_t r, int64_t c) const {
    return static_cast<size_t>(outer[static_cast<size_t>(o)] + rows[static_cast<size_t>(r)] + c * column);
  }
};

struct MaskData {
  std::vector<float> added;
  std::vector<uint8_t> kept;
  std::vector<int64_t> outer, rows, columns;
  AttentionMask mask;

  MaskData(const Case& c, bool bools, bool finite, RandomData& random) {
    const int64_t width = c.one_column ? 1 : c.keys, height = c.one_row ? 1 : c.queries;
    for (int64_t o = 0; o < c.outer; ++o) outer.push_back(o % 2 * width * height);
    for (int64_t q = 0; q < c.queries; ++q) rows.push_back(c.one_row ? 0 : q * width);
    for (int64_t k = 0; k < c.keys; ++k) columns.push_back(c.one_column ? 0 : k);
    if (c.shuffled) std::reverse(columns.begin(), columns.end());
    const float lowest = random.coin() ? -kInfinity : -std::numeric_limits<float>::max();  // as exporters write it
    for (int64_t i = 0; i < 2 * width * height; ++i) {
      const bool out = !finite && (random.integer(0, 3) == 0 || c.one_column);
      added.push_back(out ? lowest : random.real());
      kept.push_back(out ? 0 : static_cast<uint8_t>(random.integer(1, 255)));
    }
    mask.added = bools ? nullptr : added.data();
    mask.kept = bools ? kept.data() : nullptr;
    mask.masked = random.coin() ? lowest : -3;
    mask.outer = outer.data();
    mask.rows = rows.data();
    mask.columns = columns.data();
    mask.one_column = c.one_column;
    mask.neighbours = !c.one_column && !c.shuffled;
  }
  double apply(double score, int64_t o, int64_t q, int64_t k) const {
    const auto at = static_cast<size_t>(outer[static_cast<size_t>(o)] + rows[static_cast<size_t>(q)] +
                                        columns[static_cast<size_t>(k)]);
    if (mask.added) return score + added[at];
    return kept[at] ? score : mask.masked;
  }
};

void check(const Case& c, RandomData& random, ThreadPool& pool, float poison = 0) {
  SCOPED_TRACE(testing::Message() << c << " threads " << pool.size());
  const Layout query(c, c.queries, c.size, false, random), key(c, c.keys, c.size, c.shared_keys, random),
      value(c, c.keys, c.value_size, c.shared_keys, random), result(c, c.queries, c.value_size, false, random);
  std::vector<float> q = random.vector(query.floats), k = random.vector(key.floats), v = random.vector(value.floats);
  if (c.rounds)
    for (std::vector<float>* operand : {&q, &k, &v})
      for (float& x : *operand) x = to_float(to_bfloat(x));
  if (poison != 0) {
    q[static_cast<size_t>(random.integer(0, query.floats - 1))] = poison;
    k[static_cast<size_t>(random.integer(0, key.floats - 1))] = poison;
  }
  std::vector<float> y(static_cast<size_t>(result.floats) + 16, kGuard);
  std::vector<MaskData> data;
  if (c.masks == Masks::two_added) data.emplace_back(c, false, true, random);
  if (c.masks != Masks::none && c.masks != Masks::kept) data.emplace_back(c, false, false, random);
  if (c.masks == Masks::kept || c.masks == Masks::both) data.emplace_back(c, true, false, random);
  std::vector<AttentionMask> masks;
  for (MaskData& m : data) {
    m.mask.added = m.mask.added ? m.added.data() : nullptr;
    masks.push_back(m.mask);
  }
  AttentionArgs args;
  args.outer = c.outer;
  args.queries = c.queries;
  args.keys = c.keys;
  args.size = c.size;
  args.value_size = c.value_size;
  args.scale = c.scale;
  args.softcap = c.softcap;
  args.zero_undefined = c.zero_undefined;
  args.rounds = c.rounds;
  args.query = query.operand(q.data());
  args.key = key.operand(k.data());
  args.value = value.operand(v.data());
  args.result = y.data();
  args.result_place = result.operand(nullptr);
  args.masks = masks.data();
  args.mask_count = static_cast<int64_t>(masks.size());
  Workspace workspace(attention_workspace_bytes(args, pool.size()));
  attention(args, pool, workspace.get());

  for (size_t i = static_cast<size_t>(result.floats); i < y.size(); ++i) ASSERT_EQ(y[i], kGuard);
  // An exponential multiplies the rounding of its score, which is in proportion to the score.
  const auto terms = static_cast<int64_t>((1 + std::abs(c.scale)) * static_cast<float>(c.size)) + 16;
  std::vector<double> p(static_cast<size_t>(c.keys));
  for (int64_t o = 0; o < c.outer; ++o) {
    for (int64_t i = 0; i < c.queries; ++i) {
      double top = -kInfinity, sum = 0;
      for (int64_t j = 0; j < c.keys; ++j) {
        double score = 0;
        for (int64_t d = 0; d < c.size; ++d) score += double{q[query.at(o, i, d)]} * double{k[key.at(o, j, d)]};
        score *= double{c.scale};
        if (c.softcap > 0) score = double{c.softcap} * std::tanh(score / double{c.softcap});
        for (const MaskData& m : data) score = m.apply(score, o, i, j);
        p[static_cast<size_t>(j)] = score;
        top = top != top || top > score ? top : score;
      }
      for (double& x : p) sum += x = std::exp(x - top);
      for (int64_t e = 0; e < c.value_size; ++e) {
        double expected = 0;
        for (int64_t j = 0; j < c.keys; ++j) expected += p[static_cast<size_t>(j)] / sum * double{v[value.at(o, j, e)]};
        if (c.keys == 0 || (c.zero_undefined && sum != sum)) expected = 0;
        const float actual = y[result.at(o, i, e)];
        const bool rounded = c.rounds && std::abs(actual - expected) <= 0x1p-8;  // 2^-9 of values up to 1, and margin
        ASSERT_TRUE(rounded || close_enough(actual, expected, 1, terms))
            << "problem " << o << " query " << i << " element " << e << ": " << actual << " for " << expected;
      }
    }
  }
}

TEST(Attention, RandomCases) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    for (int round = 0; round < 150; ++round) {
      ThreadPool pool(1 + round % 3);
      Case c{random.integer(1, 5), random.integer(1, 80), random.integer(1, 150), random.integer(1, 40),
             random.integer(1, 70)};
      if (round % 5 == 0) c.queries = random.integer(1, 7);
      if (random.coin()) c.value_size = random.integer(1, 6) * 16;
      if (round % 15 == 0) c.keys = random.integer(500, 1300);
      c.masks = static_cast<Masks>(random.integer(0, 4));
      c.side_by_side = random.coin();
      c.columns_apart = random.integer(0, 3) == 0;
      c.shared_keys = random.integer(0, 3) == 0;
      c.shuffled = random.integer(0, 3) == 0;
      c.one_row = random.integer(0, 3) == 0;
      c.one_column = random.integer(0, 3) == 0;
      c.zero_undefined = random.coin();
      if (random.integer(0, 4) == 0) c.scale = -0.5f;
      if (random.integer(0, 2) == 0) c.softcap = random.coin() ? 0.5f : 30.0f;
      c.rounds = has_bf16_pairs() && random.coin();
      check(c, random, pool);
      if (HasFatalFailure()) return;
    }
  });
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    ThreadPool pool(2);
    for (const int64_t keys : {20, 700})
      check({2, 30, keys, 8, 8, Masks::none, false, false, false, false, false, false, false, 200.0f}, random, pool);
  });
}

// Probabilities below the smallest normal number are 0: subnormal ones would be added up here, and take ten times as
// long wherever they are.
TEST(Attention, MasksLeaveNoSubnormalNumbers) {
  constexpr int64_t keys = 96, size = 16;
  for_each_target([&] {
    ThreadPool pool(1);
    for (const bool rounds : {false, true})
      for (const int64_t queries : {1, 6, 30}) {
        SCOPED_TRACE(testing::Message() << queries << " queries, rounds " << rounds);
        const std::vector<float> zeros(static_cast<size_t>(keys * size));
        std::vector<float> values(zeros), added(static_cast<size_t>(keys)),
            y(static_cast<size_t>(queries * size), kGuard);
        std::fill(values.begin() + keys / 2 * size, values.end(), 1.0f);
        for (int64_t k = keys / 2; k < keys; ++k)
          added[static_cast<size_t>(k)] = k % 3 == 0 ? -100.0f : k % 3 == 1 ? -88.0f : -1e9f;
        const std::vector<int64_t> none(static_cast<size_t>(std::max(keys, queries)));
        std::vector<int64_t> rows(none), columns(none);
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i) * size;
        std::iota(columns.begin(), columns.end(), 0);
        AttentionMask mask;
        mask.added = added.data();
        mask.outer = mask.rows = none.data();
        mask.columns = columns.data();
        mask.neighbours = true;
        AttentionArgs args;
        args.outer = 1;
        args.queries = queries;
        args.keys = keys;
        args.size = args.value_size = size;
        args.scale = 1;
        args.rounds = rounds;
        args.query = args.key = {zeros.data(), none.data(), rows.data(), 1, size};
        args.value = {values.data(), none.data(), rows.data(), 1, size};
        args.result = y.data();
        args.result_place = {nullptr, none.data(), rows.data(), 1, size};
        args.masks = &mask;
        args.mask_count = 1;
        Workspace workspace(attention_workspace_bytes(args, pool.size()));
        attention(args, pool, workspace.get());
        for (const float x : y) ASSERT_EQ(x, 0);
      }
  });
}

// Few queries are cut along the keys, on any number of threads.
TEST(Attention, FewQueriesOfManyKeys) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    for (const int threads : {1, 7}) {
      ThreadPool pool(threads);
      for (const int64_t queries : {1, 6})
        for (const int64_t keys : {256, 1100})
          for (const Masks masks : {Masks::none, Masks::added, Masks::both}) {
            Case c{3, queries, keys, 64, 64, masks, random.coin()};
            c.zero_undefined = random.coin();
            c.shared_keys = random.coin();
            check(c, random, pool);
          }
    }
  });
}

// Many problems, whose next operands are fetched ahead; the last has none after it.
TEST(Attention, ManyProblems) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    ThreadPool pool(3);
    for (const Masks masks : {Masks::added, Masks::two_added, Masks::none})
      for (const bool rounds : {false, true}) {
        Case c{120, 49, 49, 32, 33, masks, true};
        c.rounds = rounds && has_bf16_pairs();
        check(c, random, pool);
      }
  });
}

// A score times the scale is beyond the largest float, and yet the only one that counts.
TEST(Attention, ScaledScoresBeyondFloats) {
  for_each_target([] {
    ThreadPool pool(1);
    const std::vector<int64_t> outer{0}, rows{0, 1, 2, 3, 4, 5, 6, 7};
    std::vector<float> q(8, 1e30f), k{1e8f, 2e8f, -1e8f, 0, 1, 3e8f, 5, 2e8f}, v{1, 2, 3, 4, 5, 6, 7, 8}, y(8);
    AttentionArgs args;
    args.outer = 1, args.queries = args.keys = 8, args.size = args.value_size = 1, args.scale = 10;
    args.query = {q.data(), outer.data(), rows.data(), 1, 1};
    args.key = {k.data(), outer.data(), rows.data(), 1, 1};
    args.value = {v.data(), outer.data(), rows.data(), 1, 1};
    args.result = y.data();
    args.result_place = {nullptr, outer.data(), rows.data(), 1, 1};
    Workspace workspace(attention_workspace_bytes(args, 1));
    attention(args, pool, workspace.get());
    for (const float x : y) EXPECT_EQ(x, 6);
  });
}

// Scores far beyond the distances between them: an exponent that is rounded before the largest is subtracted would be
// off by more than floats have.
TEST(Attention, ScoresOfAnyMagnitude) {
  for_each_target([] {
    ThreadPool pool(1);
    const int64_t keys = 1100;  // several blocks
    const std::vector<int64_t> outer{0};
    std::vector<int64_t> rows(keys);
    std::iota(rows.begin(), rows.end(), 0);
    for (const float magnitude : {1e3f, 1e6f, 1e9f, 3e12f, 1e20f, 1e37f})
      for (const float sign : {1.0f, -1.0f}) {
        SCOPED_TRACE(testing::Message() << sign * magnitude);
        std::vector<float> q(12, magnitude), k(keys, sign), v(keys, 3), y(12);
        AttentionArgs args;
        args.outer = 1, args.queries = 12, args.keys = keys, args.size = args.value_size = 1, args.scale = 0.3f;
        args.query = {q.data(), outer.data(), rows.data(), 1, 1};
        args.key = {k.data(), outer.data(), rows.data(), 1, 1};
        args.value = {v.data(), outer.data(), rows.data(), 1, 1};
        args.result = y.data();
        args.result_place = {nullptr, outer.data(), rows.data(), 1, 1};
        Workspace workspace(attention_workspace_bytes(args, 1));
        attention(args, pool, workspace.get());
        for (const float x : y) ASSERT_NEAR(x, 3, 1e-4);
      }
  });
}

TEST(Attention, NanAndInfinity) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    ThreadPool pool(2);
    for (const float poison : {kNan, kInfinity, -kInfinity})
      for (const Masks masks : {Masks::none, Masks::added, Masks::both})
        for (const bool zero : {false, true})
          for (const int64_t keys : {1, 33, 1100}) {
            for (const float softcap : {0.0f, 5.0f}) {
              Case c{2, 14, keys, 7, 9, masks};
              c.zero_undefined = zero;
              c.softcap = softcap;
              for (const bool rounds : {false, true}) {
                c.rounds = rounds && has_bf16_pairs();
                check(c, random, pool, poison);
                if (HasFatalFailure()) return;
              }
            }
          }
  });
}

TEST(Attention, Empty) {
  const uint64_t seed = test_seed();
  for_each_target([&] {
    RandomData random(seed);
    ThreadPool pool(2);
    for (const Masks masks : {Masks::none, Masks::both}) {
      check({2, 3, 0, 4, 5, masks}, random, pool);
      check({2, 0, 3, 4, 5, masks}, random, pool);
      check({0, 2, 3, 4, 5, masks}, random, pool);
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::attention_test
