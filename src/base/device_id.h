// Which device: the host, or one of the machine's GPUs.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace camshaft {

/// Whose memory something is in, and where something runs: the host, or a GPU by its number. Numbers are CUDA's, from 0
/// on among the GPUs that this process sees (CUDA_VISIBLE_DEVICES). A plain value: copy and compare it as you like.
/// The public interface has camshaft_device in its place: {1, 0} is the host, {2, 1} the GPU of number 1. Its texts are
/// those of to_string() below.
class DeviceId {
 public:
  /// The host.
  constexpr DeviceId() = default;
  static const DeviceId host;
  /// `ordinal` is 0 or more.
  static constexpr DeviceId gpu(int ordinal) { return DeviceId(ordinal); }

  constexpr bool is_host() const { return ordinal_ < 0; }
  constexpr bool is_gpu() const { return ordinal_ >= 0; }
  /// The number of a GPU; -1 for the host.
  constexpr int ordinal() const { return ordinal_; }
  constexpr auto operator<=>(const DeviceId&) const = default;

 private:
  explicit constexpr DeviceId(int ordinal) : ordinal_(ordinal) {}
  int32_t ordinal_ = -1;
};

inline constexpr DeviceId DeviceId::host{};

/// "cpu", "cuda:0", "cuda:1", …
std::string to_string(DeviceId device);
/// The reverse, and "cuda", which is "cuda:0". Throws Error(invalid_argument) for anything else.
DeviceId parse_device_id(std::string_view text);

}  // namespace camshaft
