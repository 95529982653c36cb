// The caller's memory for a run, and which copies between host and device a plan can do without in it.
#pragma once

#include <vector>

#include "compile/plan/plan.h"

namespace camshaft {

/// Memory that the caller gives for an input or an output.
struct CallerBuffer {
  std::byte* data = nullptr;  ///< of an input never written; of an output null where the context keeps it
  size_t bytes = 0;
  DeviceId device = DeviceId::host;  ///< whose memory it is, or is to be
};

/// Of a run: in the plan's order.
struct CallerMemory {
  std::vector<CallerBuffer> inputs, outputs;
};

/// How a plan gets an input to its GPU, or an output from there. Plans are made for memory of the host; where the
/// caller's is on that GPU, steps there use it instead of what the copy would have read or written.
struct Transfer {
  int32_t step = -1;          ///< that makes the copy; -1: there is none
  int32_t device_value = -1;  ///< what the copy writes, or reads, there
  bool on_host = false;       ///< other steps use the host's side, on the host
};

/// The transfers of all inputs and outputs of a plan.
struct Transfers {
  explicit Transfers(const Plan& plan);
  std::vector<Transfer> inputs, outputs;
};

}  // namespace camshaft
