// What competes in a contest, and what it is run on.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "compile/backend.h"

namespace camshaft {

/// A candidate that is ready to run.
struct Contestant {
  std::unique_ptr<PackedConstants> packed;  ///< weights that the kernel has views of
  std::shared_ptr<const Kernel> kernel;
  std::unique_ptr<Launch> launch;  ///< null: it cannot be measured
};

/// Compiles a candidate and prepares it for the optimum. Any error means that it does not compete: the sizes that were
/// guessed may not fit, say. `threads`: that it will run on. Safe to call from several threads.
Contestant make_contestant(const Backend& backend, const RegionView& region, const Tactic& tactic, int threads);

/// Concrete operands at the optimum. nullopt when the region cannot be measured: its sizes are not known before
/// running, or it has operands that are no plain tensors, or empty ones.
std::optional<KernelShapes> measured_shapes(const RegionView& region, int threads);

/// Ordinary values in [-1, 1): none that a processor is slow on, and no zeros, on which one may be fast. Types that are
/// no floats stay as they are: zeros are valid indices too. `bytes`: a whole number of elements.
void fill_operand(DType dtype, std::byte* at, size_t bytes);

/// What operand `i` of a region, of this shape, is measured with where ordinary values would say nothing: zeros are
/// sequences without tokens to what reads caches in blocks. There are as many tokens in each, and as many keys as its
/// table has room for; rows go to slots of their own. nullopt: see fill_operand().
std::optional<Tensor> measured_operand(const RegionView& region, const OperandShape& shape, size_t i);

/// Operands of more than that are not worth the memory: such layers take long enough for the cost model.
constexpr size_t most_measured_bytes = size_t{2} << 30;

}  // namespace camshaft
