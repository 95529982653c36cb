// Runs a test body with each way that this machine has of multiplying pairs of bf16, and with tiles in plain C++.
#pragma once

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/kernels/gemm/matrix_unit.h"

namespace camshaft::cpu {

/// Runs the body on every instruction set by tiles in plain C++, and as it is where it has products of pairs.
template <class Body>
void for_each_product_of_pairs(Body&& body) {
  for_each_target([&] {
    if (has_bf16_products()) body();
    SCOPED_TRACE("portable tiles");
    set_matrix_unit_for_test(MatrixUnit::portable);
    body();
    set_matrix_unit_for_test(MatrixUnit::none);
    if (has_bf16_products()) body();
    reset_matrix_unit_for_test();
  });
}

}  // namespace camshaft::cpu
