// How kernels say that their data is wrong.
#pragma once

#include "backends/cuda/device/numbers.h"

namespace camshaft::cuda {

/// In the host's memory, which nobody touches as long as all is well. Of several complaints any one is reported.
struct ComplaintReport {
  u32 layer = 0, axis = 0;  ///< layer 0: none
  i64 index = 0, size = 0;
};

struct Complaint {
  ComplaintReport* report = nullptr;  ///< null: somebody else complains
  u64 layer = 0;
};

}  // namespace camshaft::cuda
