// What the tactics of matrix products have in common.
#pragma once

#include "backends/cpu/tactic.h"
#include "backends/cpu/tactics/contract_epilogue.h"
#include "ir/ops/contract.h"

namespace camshaft::cpu {

struct MatMulView {
  ContractView contract;
  ContractEpilogue epilogue;
  ops::MatMul op;
  int32_t a = -1, b = -1;  ///< region inputs
  bool rounded_a = false;  ///< A is bf16, and B f32
};

/// nullopt unless the region is a matrix product with operands and an epilogue that kernels know.
std::optional<MatMulView> view_matmul(const RegionView& region, const ContractTakes& takes = {});

/// Whether B is one constant matrix of f32.
bool has_constant_matrix(const RegionView& region, const MatMulView& view);

/// Multiplications and additions at the optimum shapes.
double matmul_flops(const RegionView& region, const MatMulView& view);

}  // namespace camshaft::cpu
