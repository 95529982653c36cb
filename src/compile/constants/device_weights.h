// Packed weights in the memory of a device.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace camshaft {

/// Weights that kernels read on a device, by a handle: where they are there may be decided after the kernels are
/// compiled, and before they are prepared for shapes.
class DeviceWeights {
 public:
  DeviceWeights() = default;  ///< none: data() is null
  /// `bytes`: of the engine's packed constants, on the host, where they stay as long as the engine.
  explicit DeviceWeights(std::span<const std::byte> bytes) : state_(std::make_shared<State>(State{bytes, nullptr})) {}

  std::span<const std::byte> bytes() const { return state_ ? state_->bytes : std::span<const std::byte>(); }
  /// On the device; null until they are placed.
  const std::byte* data() const { return state_ ? state_->memory.get() : nullptr; }
  /// For all copies of the handle. Who places them brings the bytes.
  void place(std::shared_ptr<std::byte> memory) const { state_->memory = std::move(memory); }

 private:
  struct State {
    std::span<const std::byte> bytes;
    std::shared_ptr<std::byte> memory;
  };
  std::shared_ptr<State> state_;
};

/// The weights that the calling thread's kernels want on a device while this lives, of which there is one at a time.
class DeviceWeightUses {
 public:
  /// `defers`: they are noted alone, and somebody else places them; else they are brought at once. `known`: what other
  /// kernels of the layer have, and `list` begins with.
  explicit DeviceWeightUses(bool defers, std::vector<DeviceWeights> known = {});
  ~DeviceWeightUses();
  DeviceWeightUses(const DeviceWeightUses&) = delete;
  DeviceWeightUses& operator=(const DeviceWeightUses&) = delete;

  /// For who brings weights: whether they are to be left where they are.
  static bool note(const DeviceWeights& weights);
  /// The handle in `list` that is of these bytes, if there is one.
  static std::optional<DeviceWeights> find(std::span<const std::byte> bytes);

  std::vector<DeviceWeights> list;

 private:
  bool defers_;
};

}  // namespace camshaft
