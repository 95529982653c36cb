// The kernels of our own for products, as others may need them.
#pragma once

#include "backends/cuda/driver/memory.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/compiled_product.h"
#include "backends/cuda/tactics/product_view.h"

namespace camshaft::cuda {

/// A kernel for the product of view_product(), in the tile that the cost model finds best: nothing is compiled before
/// shapes are prepared. `weights`: the rows of a constant b on the device, as pack_weight_rows() lays them out.
std::shared_ptr<const Kernel> product_kernel(const RegionView& region, ProductView view, const Workshop& workshop,
                                             DeviceWeights weights);

/// The same of what is compiled in a tile that was chosen; its function for operands as far as they are known is made.
std::shared_ptr<const Kernel> product_kernel(const RegionView& region, ProductView view,
                                             std::unique_ptr<const CompiledProduct> compiled);

}  // namespace camshaft::cuda
