// Products and convolutions on a GPU, for shapes.
#pragma once

#include <memory>

#include "backends/cuda/tactics/compiled_product.h"

namespace camshaft::cuda {

/// `view` and `compiled` outlive it. Throws Error(invalid_argument) where the shapes do not fit together, and
/// Error(unsupported) where they are more than kernels count.
std::unique_ptr<Launch> product_launch(const ProductView& view, const CompiledProduct& compiled,
                                       const KernelShapes& shapes);

}  // namespace camshaft::cuda
