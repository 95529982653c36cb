// The ways of computing a contraction in tiles, and what they are expected to cost.
#pragma once

#include <vector>

#include "backends/cuda/codegen/contract_text.h"
#include "backends/cuda/driver/device.h"
#include "compile/tactic.h"

namespace camshaft::cuda {

/// Sizes of a contraction: `batch` products of m × k by k × n.
struct ContractSize {
  double m = 1, n = 1, k = 1, batch = 1;

  /// Whether the same is to be done, be it as one product or as several.
  bool is_same_work(const ContractSize& other) const {
    return m * batch == other.m * other.batch && n == other.n && k == other.k;
  }
};

struct TileChoice {
  ContractTile tile;
  int splits = 1;  ///< blocks that share a tile, each a part of k
  double seconds = 0;

  /// "m=64,n=32,warps=8,stages=4,wgmma=0,splits=2", or with "tf32=1" instead of wgmma, or
  /// "rows=8,n=64,warps=8,patch=1", or "m=128,n=128,stages=6,persistent=1,cluster=2" (1: none is said): unique among
  /// the choices for a form.
  TacticParameters parameters() const;
};

/// All tiles that this form can be computed in on devices with these features.
std::vector<ContractTile> contract_tiles(const ContractForm& form, const DeviceFeatures& features);

/// Every tile that the device has room for, with every useful number of splits; the best by the cost model first.
std::vector<TileChoice> tile_choices(const ContractForm& form, const ContractSize& size, const DeviceFacts& device);

/// The best number of splits for a tile, by the cost model.
TileChoice choose_splits(const ContractForm& form, const ContractTile& tile, const ContractSize& size,
                         const DeviceFacts& device);

}  // namespace camshaft::cuda
