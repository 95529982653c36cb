// Functions of the 8 bits that a product ends as.
#include "compile/region/peel_table.h"

#include <gtest/gtest.h>

#include "compile/region/epilogue_writer.h"
#include "compile/region/peel_scale.h"

namespace camshaft::peel_table_test {
namespace {

using F = ScalarFunction;
using Layout = EpilogueView::Layout;
using Writer = EpilogueWriter;

int32_t as_bytes(Writer& w, int32_t x, DType to = DType::u8) {
  return w.cast(w.apply(F::round, x), to);
}

int32_t scaled_sum(Writer& w) {
  return w.apply(F::mul, w.cast(0, DType::f32), w.load(Layout::columns));
}

// SiLU between steps, with steps of the sigmoid's own, as ONNX Runtime's quantizer writes it.
TEST(PeelTable, FunctionOfAProductsSteps) {
  Writer w(DType::i32);
  const int32_t steps = as_bytes(w, scaled_sum(w), DType::i8);
  const int32_t x = w.cast(steps, DType::f32);
  const int32_t gate = w.cast(as_bytes(w, w.apply(F::sigmoid, x)), DType::f32);
  const EpilogueView& view = w.end(as_bytes(w, w.apply(F::mul, x, gate)));
  const auto tables = peel_tables(view);
  ASSERT_EQ(tables.size(), 1U) << "the gate alone is not enough";
  EXPECT_EQ(tables[0].steps.result, DType::i8);
  EXPECT_EQ(tables[0].steps.program.outputs, std::vector<int32_t>{steps});
  const auto sums = peel_scale(tables[0].steps);
  ASSERT_TRUE(sums && sums->steps);
  EXPECT_EQ(*sums->steps, (StepsOfSum{.type = DType::i8}));
  EXPECT_EQ(to_string(tables[0].table),
            "%0:i8 = load 0\n%1:f32 = cast %0\n%2:f32 = sigmoid %1\n%3:f32 = round %2\n%4:u8 = cast %3\n"
            "%5:f32 = cast %4\n%6:f32 = mul %1 %5\n%7:f32 = round %6\n%8:u8 = cast %7\nreturn %8\n");
}

TEST(PeelTable, TheShortestFunctionFirst) {
  Writer w(DType::i32);
  const int32_t first = as_bytes(w, scaled_sum(w));
  const int32_t second = as_bytes(w, w.apply(F::tanh, w.cast(first, DType::f32)));
  const auto tables = peel_tables(w.end(as_bytes(w, w.apply(F::abs, w.cast(second, DType::f32)))));
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].steps.program.outputs, std::vector<int32_t>{second});
  EXPECT_EQ(tables[1].steps.program.outputs, std::vector<int32_t>{first});
}

TEST(PeelTable, WhatReadsMoreIsNoTable) {
  {
    Writer w(DType::i32);  // the sum too
    const int32_t sum = scaled_sum(w);
    const int32_t steps = w.cast(as_bytes(w, sum), DType::f32);
    EXPECT_TRUE(peel_tables(w.end(as_bytes(w, w.apply(F::mul, steps, sum)))).empty());
  }
  {
    Writer w(DType::i32);  // another operand
    const int32_t steps = w.cast(as_bytes(w, scaled_sum(w)), DType::f32);
    EXPECT_TRUE(peel_tables(w.end(as_bytes(w, w.apply(F::mul, steps, w.load(Layout::dense))))).empty());
  }
  {
    Writer w(DType::i32);  // to other types than bytes
    const int32_t steps = w.cast(as_bytes(w, scaled_sum(w)), DType::f32);
    EXPECT_TRUE(peel_tables(w.end(w.apply(F::abs, steps))).empty());
  }
  Writer alone(DType::i32);
  EXPECT_TRUE(peel_tables(alone.end(as_bytes(alone, scaled_sum(alone)))).empty()) << "nothing follows";
}

}  // namespace
}  // namespace camshaft::peel_table_test
