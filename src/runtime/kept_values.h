// What a context keeps from run to run beside a bound plan.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/aligned_buffer.h"
#include "base/device_id.h"

namespace camshaft {

/// The memory for what hoisted steps compute (BoundPlan::is_kept), on each device. Of one bound plan of one context,
/// and shared with nobody.
struct KeptValues {
  AlignedBuffer on_host;
  std::map<DeviceId, std::shared_ptr<std::byte>> on_gpus;
  int64_t bytes = 0;  ///< of all
  /// When they were computed, as the executor counts its failures; -1: not yet. An error that a GPU finds in the data
  /// is known only later: what was computed before it is computed again.
  int64_t computed_at = -1;
};

}  // namespace camshaft
