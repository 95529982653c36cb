// The compiled kernels of one product or convolution on a GPU.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "backends/cuda/driver/memory.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/epilogue.h"
#include "backends/cuda/tactics/product_view.h"
#include "backends/cuda/tactics/tile_choice.h"
#include "backends/cuda/tactics/weight_only_view.h"
#include "compile/constants/device_weights.h"

namespace camshaft::cuda {

/// What is read and written by 16 aligned bytes: nothing need be, rows of A and B, or those of results and of what
/// follows the sums, too. (Results of 50,257 columns lie anyhow, and A and B all the same as always.)
enum class Aligned : uint8_t { nothing, slices, all };

/// What one region runs. The kernel for operands that lie anyhow is made when the first such come.
class CompiledProduct {
 public:
  CompiledProduct(const Workshop& workshop, const ProductView& view, const TileChoice& choice,
                  const ContractSize& optimum, DeviceWeights weight_rows,
                  std::shared_ptr<const DeviceBuffer> begin_of_sums = nullptr);

  const Function& function(Aligned aligned) const;
  /// Whether there is one for one aligned product whose operands are copied as tensors, …
  bool can_copy_tensors() const { return tile.persistent && form_.tensor_copies; }
  /// … which this is. `aligned`: slices are.
  const Function& tensor_function(Aligned aligned) const;
  /// Of dynamic shared memory, with which a multiprocessor has room for one block: of products by warpgroups. (Tiles of
  /// single warps lose by it: the next kernel's blocks then find no room beside them, 0.8 us a layer of BERT. With
  /// convolutions it has not been tried.)
  int64_t bytes_of_few() const;
  /// Whether blocks that share a tile can be a cluster.
  bool can_be_cluster(int splits) const;
  /// As chosen at the optimum; by the cost model elsewhere.
  int splits(const ContractSize& size) const;

  std::shared_ptr<const Device> device;  // outlives the functions
  ContractTile tile;
  DeviceWeights weights;                      // none where B is no constant
  std::shared_ptr<const DeviceBuffer> begin;  // of sums of bytes: see ContractParameters
  std::shared_ptr<const DeviceSteps> steps;   // in the place of weights, where B is made of them

 private:
  int64_t most_shared_bytes() const;

  const Workshop& workshop_;  // the backend's
  ContractForm form_;
  bool is_product_;  // of matrices
  int splits_;
  ContractSize optimum_;
  EpilogueView epilogue_;
  mutable std::mutex mutex_;
  const Function& made(std::optional<Function>& function, Aligned aligned, bool tensor_copies) const;

  mutable std::array<std::optional<Function>, 3> of_aligned_, of_tensors_;  // by Aligned
};

}  // namespace camshaft::cuda
