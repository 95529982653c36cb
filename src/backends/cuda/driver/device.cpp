#include "backends/cuda/driver/device.h"

#include <fmt/format.h>

#include "backends/cuda/driver/check.h"
#include "base/error.h"

namespace camshaft::cuda {

namespace {

int attribute(const api::Driver& driver, api::Device device, api::DeviceAttribute which) {
  int value = 0;
  check(driver, driver.cuDeviceGetAttribute(&value, which, device), "asking a device what it is");
  return value;
}

DeviceFacts facts_of(const api::Driver& driver, int ordinal) {
  api::Device device = 0;
  check(driver, driver.cuDeviceGet(&device, ordinal), fmt::format("looking for device {}", ordinal));
  DeviceFacts facts;
  facts.ordinal = ordinal;
  char name[256] = {};
  check(driver, driver.cuDeviceGetName(name, sizeof name - 1, device), "asking a device its name");
  facts.name = name;
  char bus_id[32] = {};
  check(driver, driver.cuDeviceGetPCIBusId(bus_id, sizeof bus_id - 1, device), "asking a device where it is");
  facts.bus_id = bus_id;
  size_t bytes = 0;
  check(driver, driver.cuDeviceTotalMem_v2(&bytes, device), "asking a device its memory");
  facts.memory_bytes = static_cast<int64_t>(bytes);
  facts.features = features_of(10 * attribute(driver, device, api::capability_major) +
                               attribute(driver, device, api::capability_minor));
  facts.multiprocessors = attribute(driver, device, api::multiprocessors);
  // CUDA calls clocks deprecated: a driver may not say them. Memory makes two transfers in each of its own.
  const auto if_known = [&](api::DeviceAttribute which) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, device) == api::success ? value : 0;
  };
  facts.hertz = 1e3 * if_known(api::kilohertz);
  facts.memory_bytes_per_second = 2e3 * if_known(api::memory_kilohertz) * if_known(api::memory_bus_bits) / 8;
  facts.l2_bytes = attribute(driver, device, api::l2_bytes);
  facts.shared_bytes_per_block = attribute(driver, device, api::shared_bytes_per_block);
  return facts;
}

std::string listed(const std::vector<DeviceFacts>& devices) {
  std::string text;
  for (const DeviceFacts& facts : devices) text += (text.empty() ? "" : "; ") + describe(facts);
  return text.empty() ? "none" : text;
}

}  // namespace

std::string describe(const DeviceFacts& facts) {
  return fmt::format("GPU {}, {}", facts.ordinal, facts.name);
}

std::vector<DeviceFacts> list_devices(const api::Driver& driver) {
  const api::Result started = driver.cuInit(0);
  if (started == api::error_no_device) return {};
  check(driver, started, "starting the driver");
  int count = 0;
  check(driver, driver.cuDeviceGetCount(&count), "counting devices");
  std::vector<DeviceFacts> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) devices.push_back(facts_of(driver, ordinal));
  return devices;
}

std::optional<int> current_ordinal(const api::Driver& driver) {
  api::Device device = 0;
  if (driver.cuInit(0) != api::success || driver.cuCtxGetDevice(&device) != api::success) return std::nullopt;
  return device;
}

Device::Device(const api::Driver& driver, int ordinal) : driver_(driver) {
  refuse_in_forked_child();
  const std::vector<DeviceFacts> devices = list_devices(driver);
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size())
    throw Error(ErrorCode::unsupported,
                fmt::format("there is no GPU {}; this machine has {}", ordinal, listed(devices)));
  facts_ = devices[static_cast<size_t>(ordinal)];
  if (!facts_.features.is_supported)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}, has compute capability {}.{}; {}.{} or newer is needed", describe(facts_),
                            facts_.features.capability / 10, facts_.features.capability % 10, oldest_capability / 10,
                            oldest_capability % 10));
  check(driver, driver.cuDevicePrimaryCtxRetain(&context_, ordinal), fmt::format("opening GPU {}", ordinal));
  note_use_of_gpu();
}

Device::~Device() {
  if (is_forked_child()) return;
  driver_.cuDevicePrimaryCtxRelease_v2(facts_.ordinal);
}

int64_t Device::free_bytes() const {
  const Current current(*this);
  size_t free = 0, total = 0;
  check(driver_, driver_.cuMemGetInfo_v2(&free, &total), "asking for free memory");
  return static_cast<int64_t>(free);
}

Current::Current(const Device& device) : driver_(device.driver()) {
  refuse_in_forked_child();
  check(driver_, driver_.cuCtxPushCurrent_v2(device.context()), "entering a device's context");
}

Current::~Current() {
  api::Handle popped = nullptr;
  driver_.cuCtxPopCurrent_v2(&popped);
}

}  // namespace camshaft::cuda
