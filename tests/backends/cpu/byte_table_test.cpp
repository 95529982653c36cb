// Functions of a byte, looked up: every byte, every type of result, tails, threads.
#include <gtest/gtest.h>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "reference/element_io.h"

namespace camshaft::cpu::byte_table_test {
namespace {

using F = ScalarFunction;

NodeTest activation(const Tensor& x, DType to) {
  Graph body;
  const ValueId in = body.add_input("x", {x.dtype(), Shape(x.dims().begin(), x.dims().end())});
  const auto number = [&](double n) { return body.add_constant("c", Tensor::scalar(DType::f32, n)); };
  const auto apply = [&](F f, std::vector<ValueId> inputs) {
    return body.add(ops::Pointwise{f}, std::move(inputs), "v");
  };
  const ValueId real =
      apply(F::mul, {apply(F::sub, {body.add(ops::Cast{DType::f32}, {in}, "r"), number(3)}), number(0.25)});
  ValueId y = apply(F::mul, {real, apply(F::tanh, {real})});
  if (to != DType::f32) y = body.add(ops::Cast{to}, {apply(F::round, {apply(F::div, {y, number(0.125)})})}, "q");
  body.add_output("y", y);
  NodeTest test(ops::Region{ops::RegionKind::pointwise}, {x}, {}, "byte_table", 1e-6);
  test.bodies = {body};
  return test;
}

TEST(ByteTable, LikeTheReference) {
  RandomData random;
  for_each_target([&] {
    for (const DType from : {DType::u8, DType::i8})
      for (const DType to : {DType::u8, DType::i8, DType::i32, DType::f32})
        for (const Dims& dims : {Dims{}, Dims{0}, Dims{256}, Dims{3, 7}, Dims{40, 1023}}) {
          Tensor x(from, dims);
          for (int64_t i = 0; i < x.size(); ++i)
            x.as_mutable<uint8_t>()[i] = static_cast<uint8_t>(x.size() == 256 ? i : random.integer(0, 255));
          const NodeTest test = activation(x, to);
          test.check(1);
          test.check(3);
        }
  });
}

}  // namespace
}  // namespace camshaft::cpu::byte_table_test
