// Products with weights of few bits as products of floats: a kernel makes these first.
#pragma once

#include "backends/cuda/codegen/weight_only_text.h"
#include "backends/cuda/tactics/weight_only_view.h"

namespace camshaft::cuda {

/// The same product by a matrix of x's type, which stands where the steps did.
class ProductOfFloats {
 public:
  /// nullptr where there is no such product.
  static std::unique_ptr<const ProductOfFloats> make(const RegionView& region, const WeightOnlyView& view);
  ProductOfFloats(const ProductOfFloats&) = delete;
  ProductOfFloats& operator=(const ProductOfFloats&) = delete;
  RegionView region() const { return {graph_, graph_.nodes.back(), symbols_, threads_}; }

 private:
  explicit ProductOfFloats(const RegionView& region) : symbols_(region.symbols), threads_(region.threads) {}
  Graph graph_;
  const SymbolBindings& symbols_;
  int threads_;
};

/// What making the floats takes.
double seconds_of_expanding(const WeightOnlyView& view);

/// A kernel that makes floats in its workspace and then runs `product`, which is that of ProductOfFloats.
std::shared_ptr<const Kernel> expanded_kernel(const WeightOnlyView& view, std::shared_ptr<const DeviceSteps> steps,
                                              std::shared_ptr<const Kernel> product, const Workshop& workshop);

}  // namespace camshaft::cuda
