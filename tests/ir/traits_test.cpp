// What an operator struct must state to be one.
#include "ir/traits.h"

#include <gtest/gtest.h>

#include "ir/ops/small_tensors.h"
#include "test_ops.h"

namespace camshaft::traits_test {
namespace {

constexpr Traits with(OpKind kind, Layout layout, size_t layout_operands, Answer fields) {
  return {.kind = kind,
          .layout = layout,
          .layout_operands = layout_operands,
          .narrowed_operands = 0,
          .widening = Widening::none,
          .products = Products::none,
          .picks = fields,
          .selects = fields,
          .reads_slices = fields,
          .strided_operands = 0};
}

struct Untold {
  static constexpr std::string_view name = "untold";
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const Untold&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};
struct Opaque : Untold {
  static constexpr Traits traits = opaque_traits;
  bool operator==(const Opaque&) const = default;
};
struct Uncounted : Untold {
  static constexpr Traits traits = with(OpKind::contraction, Layout::fixed, 0, Answer::no);
  bool operator==(const Uncounted&) const = default;
};
struct Counted : Uncounted {
  bool operator==(const Counted&) const = default;
  double flops(const SizeContext& sizes) const { return 2 * sizes.elements(sizes.operand(0)); }
};
struct Undecided : Untold {
  static constexpr Traits traits = with(OpKind::other, Layout::fixed, 0, Answer::depends);
  bool operator==(const Undecided&) const = default;
};
struct Unpermuted : Untold {
  static constexpr Traits traits = with(OpKind::other, Layout::follows, 1, Answer::no);
  bool operator==(const Unpermuted&) const = default;
};
struct OfNoOperand : Untold {
  static constexpr Traits traits = with(OpKind::other, Layout::regroups, 0, Answer::no);
  bool operator==(const OfNoOperand&) const = default;
};

static_assert(!Operator<Untold>, "an operator states its traits");
static_assert(Operator<Opaque>);
static_assert(!Operator<Uncounted>, "a contraction has flops");
static_assert(Operator<Counted>);
static_assert(!Operator<Undecided>, "what depends on the fields has a member");
static_assert(!Operator<Unpermuted>, "what follows a layout says how");
static_assert(!Operator<OfNoOperand>, "a layout is that of operands");
static_assert(!std::is_default_constructible_v<Traits>, "no question is answered by being forgotten");

TEST(Traits, AreThoseOfTheStruct) {
  const Op op = test_ops::Add{};
  EXPECT_EQ(op.traits().kind, OpKind::other);
  EXPECT_FALSE(op.picks());
  EXPECT_FALSE(op.selects());
  EXPECT_EQ(op.sliced_operands({2}), 0U);
  EXPECT_FALSE(op.permuted({1, 0}));
}

TEST(SizeContext, CountsElements) {
  const Shape weights{8, Dim::symbol("n"), 3}, empty{0, 4};
  const SymbolBindings symbols{{"n", 5}};
  const SizeContext sizes({&weights, nullptr}, {&empty}, symbols);
  EXPECT_EQ(sizes.elements(sizes.operand(0)), 120);
  EXPECT_EQ(sizes.elements_per_index(weights), 15);
  EXPECT_EQ(sizes.elements_per_index(sizes.result(0)), 0);
  EXPECT_NE(error_of([&] { sizes.operand(1); }).find("input 1 is missing"), std::string::npos);
  EXPECT_NE(error_of([&] { sizes.operand(2); }).find("input 2 is missing"), std::string::npos);
  EXPECT_THROW(sizes.size(Dim::symbol("m")), Error);
}

}  // namespace
}  // namespace camshaft::traits_test
