// Blocks that share the columns of a product of few rows with weights of few bits: how their sums meet
// (device/row_sums.cuh).
#pragma once

#include <vector>

#include "backends/cuda/device/contract_parameters.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/module.h"
#include "backends/cuda/tactics/epilogue.h"
#include "base/divide_up.h"

namespace camshaft::cuda {

/// Of one launch: in the shared memory of a cluster where the device has such, else in memory.
class SplitSums {
 public:
  /// Completes `size`, of which blocks_y share columns, and what `parameters` say of them. `columns`: of a block.
  template <class Parameters>
  void prepare(const Device& device, uint32_t columns, LaunchSize& size, Parameters& parameters) {
    if (size.blocks_y <= 1) return;
    constexpr unsigned most_of_a_cluster = 8;
    constexpr int64_t alignment = 16;
    const size_t block_bytes = size_t{parameters.rows} * columns * sizeof(float);
    const int64_t own = round_up(size.shared_bytes, alignment) + cluster_barrier_bytes,
                  all = own + static_cast<int64_t>(size.blocks_y * block_bytes);
    if (device.facts().features.clusters && size.blocks_y <= most_of_a_cluster &&
        all + most_epilogue_shared_bytes <= device.facts().shared_bytes_per_block) {
      parameters.is_cluster = 1;
      parameters.parts = static_cast<uint32_t>(own);
      size.shared_bytes = static_cast<unsigned>(all);
      size.cluster_y = size.blocks_y;
      return;
    }
    const size_t shares = size_t{size.blocks} * size.blocks_z;
    counters_ = upload(device, std::vector<std::byte>(shares * sizeof(uint32_t)), "a layer's counters");
    parameters.counters = reinterpret_cast<uint32_t*>(counters_.data());
    workspace_bytes_ = shares * size.blocks_y * block_bytes;
  }
  /// Of the launch's, for Parameters::partial.
  size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  DeviceBuffer counters_;
  size_t workspace_bytes_ = 0;
};

}  // namespace camshaft::cuda
