#include "runtime/backends.h"

#include <fmt/format.h>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"

namespace camshaft {

namespace {

std::shared_ptr<const Backend> backend_for(DeviceId device) {
  return device.is_host() ? cpu::backend() : cuda::backend(device.ordinal(), cpu::backend());
}

}  // namespace

std::shared_ptr<const Backend> find_backend(const std::string& device) {
  return backend_for(parse_device_id(device));
}

std::shared_ptr<const Backend> find_backend_of_kind(const std::string& kind, const std::string& device) {
  const bool is_gpu = kind == "cuda";
  if (!is_gpu && kind != "cpu")
    throw Error(ErrorCode::unsupported, fmt::format("this build has no device of kind '{}'; it has: cpu, cuda", kind));
  if (device.empty()) return backend_for(is_gpu ? DeviceId::gpu(cuda::current_ordinal()) : DeviceId::host);
  const DeviceId id = parse_device_id(device);
  if (id.is_gpu() != is_gpu)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("this engine was built for {}, and cannot run on {}: build it again for that", kind, device));
  return backend_for(id);
}

}  // namespace camshaft
