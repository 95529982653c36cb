// The kernels of our own for products, as others may need them.
#pragma once

#include "cuda/memory.h"
#include "cuda/product_view.h"
#include "cuda/tactic.h"

namespace camshaft::cuda {

/// A kernel for the product of view_product(), in the tile that the cost model finds best: nothing is compiled before
/// shapes are prepared. `weights`: the rows of a constant b on the device, as pack_weight_rows() lays them out.
std::shared_ptr<const Kernel> product_kernel(const RegionView& region, ProductView view, const Workshop& workshop,
                                             std::shared_ptr<const DeviceBuffer> weights);

}  // namespace camshaft::cuda
