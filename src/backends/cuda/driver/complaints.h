// What kernels find wrong with the data that they are given.
#pragma once

#include <map>
#include <string>

#include "backends/cuda/device/complaint_parameters.h"
#include "backends/cuda/driver/device.h"
#include "compile/backend.h"

namespace camshaft::cuda {

/// Where the kernels of one stream complain of indices that are out of range. Such a kernel takes zeros instead and
/// goes on; the host finds the report when it waits. Must not outlive the device.
class Complaints {
 public:
  explicit Complaints(const Device& device);
  ~Complaints();
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  /// What a kernel of `layer` ("layer 'ids'") is launched with.
  Complaint of(const std::string& layer);
  /// Throws Error(invalid_argument) for a report that came since the last call. No kernel may be running.
  void check();

 private:
  const Device& device_;
  ComplaintReport* report_ = nullptr;
  std::map<std::string, uint64_t, std::less<>> numbers_;
};

}  // namespace camshaft::cuda
