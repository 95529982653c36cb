// What group norm in channels-last form is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

struct GroupColumnsParameters {
  u32 positions = 0, channels = 0, groups = 1, width = 1;  ///< width: channels of a group
  u32 tile_groups = 1;                                     ///< of a block of the first kernel
  u32 pieces = 1, piece_width = 1;  ///< of each group, which has a block of its own each; channels
  u32 lanes = 1;                    ///< its chunks beside each other, a power of two
  u32 per_split = 1;                ///< positions of blockIdx.y
  u32 splits = 1;
  u32 joined = 1;                        ///< channels of a chunk beside each other that are of one group
  u32 group_lanes = 1, split_lanes = 1;  ///< that merge what threads found of a group; its parts: powers of two, ≤ 32
  Divisor tiles;                         ///< of groups, or of pieces, in an image
  Divisor blocks;                        ///< of the second kernel for an image
  Divisor chunks;                        ///< of a position, in the second kernel
  f64 epsilon = 0;
};

}  // namespace camshaft::cuda
