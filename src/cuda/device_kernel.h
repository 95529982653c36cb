// Kernels made of one launch: the usual case on a device.
#pragma once

#include <memory>
#include <utility>

#include "compile/kernel.h"
#include "cuda/queue.h"

namespace camshaft::cuda {

/// A kernel on the device whose prepare() is `make(shapes)`, which returns its Launch.
template <class Make>
class DeviceKernel final : public Kernel {
 public:
  DeviceKernel(Make make, bool in_place) : make_(std::move(make)), in_place_(in_place) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override { return make_(shapes); }
  bool can_run_in_place(size_t i, size_t) const override { return in_place_ && i == 0; }

 private:
  Make make_;
  bool in_place_;
};

/// `in_place`: output 0 may be written over input 0.
template <class Make>
std::shared_ptr<const Kernel> device_kernel(Make make, bool in_place = false) {
  return std::make_shared<DeviceKernel<Make>>(std::move(make), in_place);
}

/// The stream of a run.
inline const Stream& stream_of(const LaunchArguments& arguments) {
  return static_cast<Queue*>(arguments.queue)->stream();
}

/// Input `i`; null where it is omitted.
inline const std::byte* input_of(const LaunchArguments& arguments, size_t i) {
  return i < arguments.inputs.size() ? arguments.inputs[i] : nullptr;
}

inline bool is_aligned(const std::byte* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

}  // namespace camshaft::cuda
