// The GPU's passes, in order.
#pragma once

#include "optimize/pass_list.h"

namespace camshaft::cuda {

/// `storage`: of what passes between regions, f32, f16 or bf16. `rounding`: what products of f32 may do to their
/// operands. `has_byte_products`, `has_float8_products`: see DeviceFeatures::int8_products and fp8_products.
BackendPasses passes(DType storage, ops::Rounding rounding, bool has_byte_products, bool has_float8_products = false);

}  // namespace camshaft::cuda
