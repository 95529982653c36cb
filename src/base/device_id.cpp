#include "base/device_id.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"

namespace camshaft {

namespace {

constexpr std::string_view cpu = "cpu", cuda = "cuda";

}  // namespace

std::string to_string(DeviceId device) {
  return device.is_host() ? std::string(cpu) : fmt::format("{}:{}", cuda, device.ordinal());
}

DeviceId parse_device_id(std::string_view text) {
  if (text == cpu) return DeviceId::host;
  if (text == cuda) return DeviceId::gpu(0);
  int ordinal = -1;
  if (text.starts_with("cuda:")) {
    const std::string_view number = text.substr(cuda.size() + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
    if (error == std::errc() && end == number.data() + number.size() && ordinal >= 0) return DeviceId::gpu(ordinal);
  }
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("'{}' is no device: give cpu, cuda (the first GPU), or a GPU by its number, as cuda:1", text));
}

}  // namespace camshaft
