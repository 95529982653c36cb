// Matrix products through a tactic of the GPU backend, against the reference.
#pragma once

#include "backends/cuda/run_node.h"
#include "ir/ops/contract.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda {

/// Of results of products, as a part of their scale.
inline double tolerance(DType dtype) {
  return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 2e-3 : 1.6e-2;
}

struct Product {
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false, constant = false;
  Dims a_batch = {}, b_batch = {};
};

/// The dims of an operand, as it is stored.
inline Dims matrix(Dims batch, int64_t rows, int64_t columns, bool transposed) {
  batch.push_back(transposed ? columns : rows);
  batch.push_back(transposed ? rows : columns);
  return batch;
}

/// Of those of operands rounded to TF32: half a step of each.
constexpr double tolerance_of_tf32 = 2e-3;

/// `variant`: see NodeTest; one that says "tf32=…" is of a product that allows that.
inline void check_product(const Product& p, DType dtype, Random& random, const std::string& tactic, bool misaligned,
                          const std::string& variant) {
  const bool allowed = variant.find("tf32=") != std::string::npos, rounds = variant.find("tf32=1") != std::string::npos;
  NodeTest test(ops::MatMul{p.transpose_a, p.transpose_b, allowed ? ops::Rounding::tf32 : ops::Rounding::none},
                {random_tensor(random, dtype, matrix(p.a_batch, p.m, p.k, p.transpose_a)),
                 random_tensor(random, dtype, matrix(p.b_batch, p.k, p.n, p.transpose_b))},
                tactic, rounds ? tolerance_of_tf32 : tolerance(dtype));
  if (p.constant) test.constants = {1};
  test.misaligned = misaligned;
  test.variant = variant;
  test.check();
}

}  // namespace camshaft::cuda
