// Kernels made of one launch: the usual case on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "backends/cuda/driver/queue.h"
#include "compile/kernel.h"

namespace camshaft::cuda {

/// What a kernel allows for its operands.
struct OperandUse {
  size_t sliced_inputs = 0;       ///< the first so many may be slices of wider rows
  bool sliced_output = false;     ///< outputs may be
  size_t in_place = 0;            ///< so many outputs may be written over the inputs of their numbers
  size_t read_inputs = SIZE_MAX;  ///< the first so many are looked at
};

/// A kernel on the device whose prepare() is `make(shapes)`, which returns its Launch.
template <class Make>
class DeviceKernel final : public Kernel {
 public:
  DeviceKernel(Make make, OperandUse use) : make_(std::move(make)), use_(use) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override { return make_(shapes); }
  bool can_run_in_place(size_t i, size_t o) const override { return i < use_.in_place && i == o; }
  bool reads_slices(size_t i) const override { return i < use_.sliced_inputs; }
  bool writes_slices(size_t) const override { return use_.sliced_output; }
  bool reads_input(size_t i) const override { return i < use_.read_inputs; }

 private:
  Make make_;
  OperandUse use_;
};

template <class Make>
std::shared_ptr<const Kernel> device_kernel(Make make, OperandUse use) {
  return std::make_shared<DeviceKernel<Make>>(std::move(make), use);
}
/// `in_place`: output 0 may be written over input 0.
template <class Make>
std::shared_ptr<const Kernel> device_kernel(Make make, bool in_place = false) {
  return device_kernel(std::move(make), OperandUse{.in_place = in_place ? size_t{1} : 0});
}

/// A launch that calls `run(arguments, queue)`.
template <class Run>
class FunctionLaunch final : public Launch {
 public:
  explicit FunctionLaunch(Run run) : run_(std::move(run)) {}
  void run(const LaunchArguments& arguments) override { run_(arguments, *static_cast<Queue*>(arguments.queue)); }

 private:
  Run run_;
};
template <class Run>
std::unique_ptr<Launch> function_launch(Run run) {
  return std::make_unique<FunctionLaunch<Run>>(std::move(run));
}

/// The queue of a run, and its stream.
inline const Queue& queue_of(const LaunchArguments& arguments) {
  return *static_cast<const Queue*>(arguments.queue);
}
inline const Stream& stream_of(const LaunchArguments& arguments) {
  return queue_of(arguments).stream();
}

/// Input `i`; null where it is omitted.
inline const std::byte* input_of(const LaunchArguments& arguments, size_t i) {
  return i < arguments.inputs.size() ? arguments.inputs[i] : nullptr;
}

inline bool is_aligned(const std::byte* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

}  // namespace camshaft::cuda
