#include "ir/ops/contraction.h"

#include "ir/ops/contract.h"
#include "ir/ops/quantized.h"

namespace camshaft::ops {

bool is_float_contraction(const Op& op) {
  return op.as<MatMul>() || op.as<Conv>() || op.as<ConvTranspose>();
}

bool is_integer_contraction(const Op& op) {
  return op.as<IntegerMatMul>() || op.as<IntegerConv>();
}

}  // namespace camshaft::ops
