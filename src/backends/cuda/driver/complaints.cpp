#include "backends/cuda/driver/complaints.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "backends/cuda/driver/check.h"
#include "base/error.h"

namespace camshaft::cuda {

// In the host's memory: kernels touch it only when something is wrong, and the host reads it without a copy.
Complaints::Complaints(const Device& device) : device_(device) {
  const Current current(device);
  void* memory = nullptr;
  cuda::check(device.driver(), device.driver().cuMemAllocHost_v2(&memory, sizeof(ComplaintReport)),
              "allocating memory that host and device share");
  report_ = new (memory) ComplaintReport;
}

Complaints::~Complaints() {
  release_on(device_, [&](const api::Driver& driver) { driver.cuMemFreeHost(report_); });
}

Complaint Complaints::of(const std::string& layer) {
  const auto it = numbers_.try_emplace(layer, numbers_.size() + 1).first;
  return {report_, it->second};
}

void Complaints::check() {
  const ComplaintReport report = std::exchange(*report_, ComplaintReport());
  if (report.layer == 0) return;
  const auto it =
      std::find_if(numbers_.begin(), numbers_.end(), [&](const auto& n) { return n.second == report.layer; });
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: index {} is out of range for axis {} of size {}",
                          it == numbers_.end() ? "a layer" : it->first, report.index, report.axis, report.size));
}

}  // namespace camshaft::cuda
