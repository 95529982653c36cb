// Which tile a contraction is computed in.
#pragma once

#include <optional>
#include <span>

#include "cuda/codegen/contract_text.h"
#include "cuda/device.h"

namespace camshaft::cuda {

/// Sizes of a contraction: `batch` products of m × k by k × n.
struct ContractSize {
  double m = 1, n = 1, k = 1, batch = 1;
};

struct TileChoice {
  ContractTile tile;
  int splits = 1;  ///< blocks that share a tile, each a part of k
  double seconds = 0;
};

/// All that this form can be computed in.
std::span<const ContractTile> contract_tiles(const ContractForm& form);

/// The best by the cost model; nullopt when the device has no room for any.
std::optional<TileChoice> choose_tile(const ContractForm& form, const ContractSize& size, const DeviceFacts& device);

/// Into how many parts to split k for one tile.
TileChoice choose_splits(const ContractForm& form, const ContractTile& tile, const ContractSize& size,
                         const DeviceFacts& device);

}  // namespace camshaft::cuda
