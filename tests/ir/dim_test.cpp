// Symbolic dims: the normal form, what is simplified, and that no simplification changes a value.
#include "ir/dim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "test_random.h"

namespace camshaft::dim_test {
namespace {

const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq"), h = Dim::symbol("h"), w = Dim::symbol("w");
constexpr int64_t largest = std::numeric_limits<int64_t>::max(), smallest = std::numeric_limits<int64_t>::min();

TEST(Dim, NormalForm) {
  EXPECT_EQ(batch + seq, seq + batch);
  EXPECT_EQ((batch + 1) * (batch - 1), batch * batch - 1);
  EXPECT_EQ((2 * batch * seq + h - 1).str(), "2*batch*seq + h - 1");
  EXPECT_EQ((Dim(0) - batch).str(), "-batch");
  EXPECT_EQ((Dim(-3) * batch - seq + 4).str(), "-3*batch - seq + 4");
  EXPECT_TRUE((batch - batch).is_constant());
  EXPECT_EQ(batch - batch, Dim(0));
  EXPECT_EQ(batch * 0, Dim(0));
  EXPECT_FALSE(batch == seq);
  EXPECT_FALSE(batch == batch + 1);
  EXPECT_EQ(batch.as_symbol(), "batch");
  EXPECT_EQ((batch + 1).as_symbol(), std::nullopt);
  EXPECT_EQ(Dim(7).as_constant(), 7);
  EXPECT_THROW((void)batch.value(), Error);
}

TEST(Dim, ExactDivision) {
  EXPECT_EQ(floor_div(batch * seq * 768, batch * 768), seq);
  EXPECT_EQ(floor_div(batch * seq + batch, seq + 1), batch);
  EXPECT_EQ(floor_div((batch + seq) * (h + 2) * 3, batch + seq), 3 * h + 6);
  EXPECT_EQ(floor_div(batch, batch), Dim(1));
  EXPECT_EQ(floor_div(Dim(0), batch), Dim(0));
  EXPECT_EQ(floor_div(12 * batch + 6, 3), 4 * batch + 2);
  EXPECT_EQ(floor_div(Dim(0) - batch * seq, Dim(0) - seq), batch);
}

TEST(Dim, ReshapeToTheRest) {
  // reshape [batch, seq, 768] to [batch, seq, 12, -1], [-1, 768], [batch, -1]; windows of 7 x 7.
  const Dim all = batch * seq * 768;
  EXPECT_EQ(floor_div(all, batch * seq * 12), Dim(64));
  EXPECT_EQ(floor_div(all, 768), batch * seq);
  EXPECT_EQ(floor_div(all, batch), 768 * seq);
  EXPECT_EQ(floor_div(batch * h * w * 96, batch * 96 * 49), floor_div(h * w, 49));
  EXPECT_EQ(floor_div(batch * (h + 1), batch * 2), floor_div(h + 1, 2));
}

TEST(Dim, DivisionByConstants) {
  EXPECT_EQ(floor_div(4 * batch + 7, 4), batch + 1);
  EXPECT_EQ(floor_div(6 * h + 3, 4).str(), "floor_div(h + 1, 2) + h");
  EXPECT_EQ(floor_div(4 * h + 6, 8), floor_div(2 * h + 3, 4));
  EXPECT_EQ(floor_div(floor_div(h, 2), 3), floor_div(h, 6));
  EXPECT_EQ(ceil_div(ceil_div(h, 2), 2), ceil_div(h, 4)) << "strided windows in a row";
  EXPECT_EQ(floor_div(h - 3, 2) + 1, floor_div(h - 1, 2));
  EXPECT_EQ(floor_div(h, 1), h);
  EXPECT_EQ(floor_div(h, -1), Dim(0) - h);
  EXPECT_EQ(floor_div(h, -2), floor_div(Dim(0) - h, 2));
  EXPECT_EQ(floor_div(Dim(-7), 2), Dim(-4));
  EXPECT_EQ(floor_div(Dim(7), -2), Dim(-4));
  EXPECT_EQ(floor_div(min(h, Dim(6)), 7), Dim(0)) << "the bounds decide";
}

TEST(Dim, DivisionBySymbols) {
  EXPECT_EQ(ceil_div(batch * seq, seq), batch);
  EXPECT_EQ(floor_div(batch * seq + h, seq), batch + floor_div(h, seq));
  EXPECT_EQ(floor_div(h, h + 1), Dim(0));
  EXPECT_EQ(floor_div(h, w).str(), "floor_div(h, w)");
  EXPECT_EQ(mod(h, w), h - w * floor_div(h, w));
  EXPECT_EQ(mod(batch * seq, seq), Dim(0));
}

TEST(Dim, PaddingToAMultiple) {
  // However a model spells it.
  const Dim padded = 8 * ceil_div(h, 8);
  EXPECT_EQ(h + mod(Dim(0) - h, 8), padded);
  EXPECT_EQ(h + mod(8 - mod(h, 8), 8), padded);
  EXPECT_EQ(max(padded - h, 0), padded - h) << "never negative";
  EXPECT_EQ((padded - h).upper_bound(), 7);
}

TEST(Dim, MinAndMax) {
  EXPECT_EQ(min(Dim(3), Dim(5)), Dim(3));
  EXPECT_EQ(max(Dim(3), Dim(5)), Dim(5));
  EXPECT_EQ(min(h, h + 1), h);
  EXPECT_EQ(max(h, h + 1), h + 1);
  EXPECT_EQ(max(h, 0), h);
  EXPECT_EQ(min(h, 0), Dim(0));
  EXPECT_EQ(min(h, -2), Dim(-2));
  EXPECT_EQ(min(h, w), min(w, h));
  EXPECT_EQ(min(min(h, w), seq), min(h, min(seq, w)));
  EXPECT_EQ(min(min(h, w), h), min(h, w));
  EXPECT_EQ(min(min(h, 7), 5), min(h, 5));
  EXPECT_EQ(max(h - min(h, w), 0), h - min(h, w));
  EXPECT_EQ(min(h, largest), h) << "slices end at the largest integer";
  EXPECT_EQ(max(h, smallest), h);
  EXPECT_EQ(max(Dim(smallest), h - 5), h - 5);
  EXPECT_EQ(min(h, smallest), Dim(smallest));
  EXPECT_NO_THROW(min(h + largest, w - 5));
}

TEST(Dim, Broadcast) {
  EXPECT_EQ(broadcast(1, h), h);
  EXPECT_EQ(broadcast(h, 1), h);
  EXPECT_EQ(broadcast(h, h), h);
  EXPECT_EQ(broadcast(h, 5), Dim(5));
  EXPECT_EQ(broadcast(Dim(0), 1), Dim(0));
  EXPECT_EQ(broadcast(h, w), broadcast(w, h));
  EXPECT_EQ(broadcast(broadcast(h, w), h), broadcast(h, w));
  EXPECT_EQ(broadcast(broadcast(h, w), seq), broadcast(h, broadcast(seq, w)));
  EXPECT_EQ(broadcast(min(seq, 512), seq), seq);
  EXPECT_EQ(broadcast(seq, min(seq, 512)), seq);
  EXPECT_FALSE(broadcast(min(seq, 1), seq) == seq);
  EXPECT_THROW(broadcast(Dim(2), 3), Error);
  EXPECT_EQ(broadcast(h, w).evaluate({{"h", 1}, {"w", 4}}), 4);
  EXPECT_EQ(broadcast(h, w).evaluate({{"h", 4}, {"w", 1}}), 4);
  EXPECT_EQ(broadcast(h, w).evaluate({{"h", 0}, {"w", 1}}), 0);
  EXPECT_THROW((void)broadcast(h, w).evaluate({{"h", 2}, {"w", 4}}), Error);
}

TEST(Dim, Bounds) {
  const auto expect = [](const Dim& d, std::optional<int64_t> low, std::optional<int64_t> high) {
    EXPECT_EQ(d.lower_bound(), low) << d.str();
    EXPECT_EQ(d.upper_bound(), high) << d.str();
  };
  expect(5, 5, 5);
  expect(h, 0, {});
  expect(3 - h, {}, 3);
  expect(h * w + 2, 2, {});
  expect(h - w, {}, {});
  expect(min(h, 5), 0, 5);
  expect(3 * min(h, 5) - 20, -20, -5);
  expect(max(h, 5), 5, {});
  expect(mod(h, 8), 0, 7);
  expect(h - floor_div(h, 2), 0, {});
  expect(min(h, 5) - min(h, 3), 0, 2);
  expect(min(h, 5) * min(w, 4) - 2, -2, 18);
  expect((min(h, 5) - 9) * (min(w, 4) - 2 * w), {}, {});
  expect(floor_div(min(h, 5) - 3, 2), -2, 1);
  expect(floor_div(h, w), 0, {});
  expect(floor_div(-1 - h, w), {}, -1);
}

TEST(Dim, ErrorsWhenEvaluated) {
  EXPECT_THROW((void)h.evaluate({}), Error);
  EXPECT_THROW((void)floor_div(w, h).evaluate({{"h", 0}, {"w", 3}}), Error);
  EXPECT_THROW((void)(h * w).evaluate({{"h", largest}, {"w", 2}}), Error);
  EXPECT_THROW((void)(h + 1).evaluate({{"h", largest}}), Error);
  EXPECT_THROW(Dim(largest) + 1, Error);
  EXPECT_THROW(Dim(largest) * 2, Error);
  EXPECT_THROW((Dim(largest) * h) * 2, Error);
  EXPECT_THROW(floor_div(Dim(smallest), -1), Error);
  EXPECT_THROW(floor_div(h, 0), Error);
  EXPECT_THROW(floor_div(Dim(1), 0), Error);
  EXPECT_EQ(Dim(-1) - Dim(smallest), Dim(largest));
  // Large terms that cancel are no overflow.
  const Dim d = (h - w) * h;
  EXPECT_EQ(d.evaluate({{"h", int64_t{1} << 40}, {"w", int64_t{1} << 40}}), 0);
}

TEST(Dim, Substitute) {
  EXPECT_EQ((2 * h + w).substitute({{"h", w}}), 3 * w);
  EXPECT_EQ(floor_div(h, 2).substitute({{"h", 2 * w}}), w);
  EXPECT_EQ(broadcast(h, w).substitute({{"h", 1}}), w);
  EXPECT_EQ((h * w + min(h, w)).substitute({{"h", 3}, {"w", 4}}), Dim(15));
  EXPECT_EQ((h + w).substitute({{"h", w}, {"w", h}}), h + w) << "all at once";
  std::vector<std::string> names;
  (h + floor_div(w, seq) * h).collect_symbols(names);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"h", "seq", "w"}));
}

TEST(Dim, ParseRoundTrip) {
  const Dim odd[] = {Dim::symbol("past length + 1"),
                     Dim::symbol("it's a \\ name"),
                     Dim::symbol("@/layer.0/NonZero.1"),
                     Dim::symbol(""),
                     Dim::symbol("min"),
                     Dim::symbol("3d"),
                     Dim::symbol("\xc3\xa9t\xc3\xa9"),
                     Dim::symbol("min(a, b)"),
                     Dim::symbol("a::b.c")};
  for (const Dim& s : odd)
    for (const Dim& d : {s, 2 * s - 1, floor_div(s, h), min(s, w) * s}) EXPECT_EQ(Dim::parse(d.str()), d) << d.str();
  for (const int64_t c : {int64_t{0}, int64_t{-1}, largest, smallest}) {
    EXPECT_EQ(Dim::parse(Dim(c).str()), Dim(c));
    EXPECT_EQ(Dim::parse((h + c).str()), h + c);
    EXPECT_EQ(Dim::parse((h * c).str()), h * c);
  }
  EXPECT_EQ(Dim::parse(" 2 * ( h + w ) - mod(h, 8) "), 2 * h + 2 * w - mod(h, 8));
  EXPECT_EQ(Dim::parse("ceil_div(h, 2)"), ceil_div(h, 2));
}

TEST(Dim, ParseErrors) {
  for (const char* text : {"", " ", "h +", "* h", "h w", "(h", "h)", "min(h)", "min(h, w", "min(h, w, 3)", "foo(h, w)",
                           "'h", "9223372036854775808", "99999999999999999999", "h / 2", "floor_div(h, 0)", "--h"})
    EXPECT_THROW(Dim::parse(text), Error) << text;
}

// Text from an engine file must be refused in bounded time, whatever it is.
TEST(Dim, ParseHostileText) {
  const auto repeat = [](const std::string& s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  EXPECT_THROW(Dim::parse(repeat("(", 100000) + "a" + repeat(")", 100000)), Error);
  EXPECT_THROW(Dim::parse(repeat("(", 20000) + "a" + repeat(")", 20000)), Error);
  EXPECT_THROW(Dim::parse(repeat("min(a,", 5000) + "b" + repeat(")", 5000)), Error);
  EXPECT_THROW(Dim::parse(repeat("a+", 100000) + "a"), Error);
  EXPECT_EQ(Dim::parse(repeat("a+", 30000) + "a"), 30001 * Dim::symbol("a"));
  std::string terms = "0", product = "1", divisions = "0", nested = "a";
  for (int i = 0; i < 2000; ++i) terms += "+a" + std::to_string(i);
  for (int i = 0; i < 60; ++i) product += "*(a" + std::to_string(i) + "+b" + std::to_string(i) + ")";
  for (int i = 0; i < 400; ++i) divisions += "+floor_div(a" + std::to_string(i) + ",3)*2";
  for (int i = 0; i < 60; ++i) nested = "floor_div(" + nested + "*w+" + nested.substr(0, 300) + ",h)";
  EXPECT_THROW(Dim::parse(terms), Error);
  EXPECT_THROW(Dim::parse(product), Error);
  EXPECT_THROW(Dim::parse(divisions), Error);
  EXPECT_THROW(Dim::parse(nested), Error);
  EXPECT_THROW(Dim::parse(repeat("a*", 30000) + "a"), Error);
  EXPECT_THROW(Dim::parse(repeat("(a+b+c+d)*", 500) + "a"), Error);
  EXPECT_THROW(Dim::symbol(std::string(100000, 'x')), Error);
  Dim d = Dim::symbol("a");
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) d = floor_div(d + 1, d + Dim::symbol("b"));
      },
      Error);
}

// An expression as a tree, evaluated without any simplification.
struct Tree {
  enum Kind { constant, symbol, add, subtract, multiply, divide, divide_up, remainder, minimum, maximum, meet } kind;
  int64_t number = 0;
  std::vector<Tree> operands;
};

const char* const names[] = {"a", "b", "c"};

Tree random_tree(Random& random, int depth) {
  if (depth == 0 || random.integer(0, 5) == 0)
    return random.integer(0, 1) ? Tree{Tree::symbol, random.integer(0, 2), {}}
                                : Tree{Tree::constant, random.integer(-9, 12), {}};
  const auto kind = static_cast<Tree::Kind>(random.integer(Tree::add, Tree::meet));
  Tree t{kind, 0, {}};
  t.operands.push_back(random_tree(random, depth - 1));
  t.operands.push_back(random_tree(random, depth - 1));
  // Most divisors in models are positive constants.
  if ((kind == Tree::divide || kind == Tree::divide_up || kind == Tree::remainder) && random.integer(0, 2) != 0)
    t.operands[1] = Tree{Tree::constant, random.integer(1, 8), {}};
  return t;
}

Dim to_dim(const Tree& t) {
  if (t.kind == Tree::constant) return t.number;
  if (t.kind == Tree::symbol) return Dim::symbol(names[t.number]);
  const Dim a = to_dim(t.operands[0]), b = to_dim(t.operands[1]);
  switch (t.kind) {
    case Tree::add:
      return a + b;
    case Tree::subtract:
      return a - b;
    case Tree::multiply:
      return a * b;
    case Tree::divide:
      return floor_div(a, b);
    case Tree::divide_up:
      return ceil_div(a, b);
    case Tree::remainder:
      return mod(a, b);
    case Tree::minimum:
      return min(a, b);
    case Tree::maximum:
      return max(a, b);
    default:
      return broadcast(a, b);
  }
}

// nullopt where the expression has no value: division by zero, sizes that do not meet, overflow.
std::optional<int64_t> value(const Tree& t, const SymbolBindings& bindings) {
  if (t.kind == Tree::constant) return t.number;
  if (t.kind == Tree::symbol) return bindings.find(names[t.number])->second;
  const auto a = value(t.operands[0], bindings), b = value(t.operands[1], bindings);
  if (!a || !b || *a > 1000000000 || *a < -1000000000 || *b > 1000000000 || *b < -1000000000) return std::nullopt;
  // Exact: both are far below 2^53.
  const auto floor = [](int64_t x, int64_t y) {
    return static_cast<int64_t>(std::floor(static_cast<double>(x) / static_cast<double>(y)));
  };
  switch (t.kind) {
    case Tree::add:
      return *a + *b;
    case Tree::subtract:
      return *a - *b;
    case Tree::multiply:
      return *a * *b;
    case Tree::divide:
      if (*b == 0) return std::nullopt;
      return floor(*a, *b);
    case Tree::divide_up:
      if (*b == 0) return std::nullopt;
      return floor(*a + *b - 1, *b);
    case Tree::remainder:
      if (*b == 0) return std::nullopt;
      return *a - *b * floor(*a, *b);
    case Tree::minimum:
      return std::min(*a, *b);
    case Tree::maximum:
      return std::max(*a, *b);
    default:
      // Sizes: a simplification may count on there being no negative ones.
      if ((*a != *b && *a != 1 && *b != 1) || *a < 0 || *b < 0) return std::nullopt;
      return *a == 1 ? *b : *a;
  }
}

TEST(Dim, RandomExpressionsKeepTheirValue) {
  Random random = test_random();
  int compared = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const Tree tree = random_tree(random, static_cast<int>(random.integer(1, 4)));
    Dim d, renamed;
    try {
      d = to_dim(tree);
      // Another order of the atoms.
      renamed = d.substitute({{"a", Dim::symbol("z")}}).substitute({{"z", Dim::symbol("a")}});
    } catch (const Error& e) {
      // Too large, or else a division by zero or a mismatch whatever the symbols are.
      ++refused;
      if (std::string_view(e.what()).find("too large") != std::string_view::npos) continue;
      for (int64_t a = 0; a < 3; ++a) ASSERT_EQ(value(tree, {{"a", a}, {"b", 2}, {"c", 5}}), std::nullopt) << e.what();
      continue;
    }
    ASSERT_EQ(Dim::parse(d.str()), d) << d.str();
    const auto low = d.lower_bound(), high = d.upper_bound();
    for (int j = 0; j < 12; ++j) {
      const SymbolBindings bindings{
          {"a", random.integer(0, 20)}, {"b", random.integer(0, 5)}, {"c", random.integer(0, 2)}};
      const auto expected = value(tree, bindings);
      if (!expected) continue;
      ASSERT_EQ(renamed.evaluate(bindings), *expected) << d.str();
      ASSERT_EQ(d.evaluate(bindings), *expected)
          << d.str() << " at a=" << bindings.find("a")->second << " b=" << bindings.find("b")->second
          << " c=" << bindings.find("c")->second;
      ASSERT_GE(*expected, low.value_or(smallest)) << d.str();
      ASSERT_LE(*expected, high.value_or(largest)) << d.str();
      ++compared;
    }
  }
  EXPECT_GT(compared, 10000);
  EXPECT_LT(refused, 2000);
}

}  // namespace
}  // namespace camshaft::dim_test
