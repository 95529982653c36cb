// Constants that are made of other constants, with the record of how: it is true because the recorded operators are
// what has made them.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "ir/ops/scalar_function.h"

namespace camshaft {

/// All `results` of an operator without bodies and without symbols in its fields on tensors; undefined ones are
/// omitted operands. Throws what its shape rule and its evaluation throw.
std::vector<Tensor> evaluate_on_constants(const Op& op, const std::vector<Tensor>& operands, size_t results,
                                          ThreadPool& pool);

/// The only result of an operator on constants. Throws as evaluate_on_constants().
Constant derive(const Op& op, const std::vector<Constant>& operands, ThreadPool& pool);
Constant derive(ScalarFunction function, const std::vector<Constant>& operands, ThreadPool& pool);
/// The same elements under other dims.
Constant derive_reshaped(const Constant& constant, const Dims& dims, ThreadPool& pool);

/// The same numbers in another type, as a cast gives them; `x` itself where it has that already.
Constant derive_cast(const Constant& x, DType to, ThreadPool& pool);

/// See derive_product().
struct ConstantProduct {
  Constant constant;
  double largest = 0;  ///< magnitude of the products before they were rounded, NaN left aside
};
/// x · factors[0] · factors[1] …, of a floating dtype, computed in f64 and rounded once to the type of x: what a cast,
/// as many products and a cast give, in one pass over memory. The factors are f64 and broadcast to the shape of x.
ConstantProduct derive_product(const Constant& x, const std::vector<Constant>& factors, ThreadPool& pool);

/// A tensor of a floating dtype in f32, f16 or bf16, as a cast gives it.
Constant derive_converted(const Constant& x, DType to);

}  // namespace camshaft
