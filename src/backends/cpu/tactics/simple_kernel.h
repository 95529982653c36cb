// Kernels made of one function: the usual case where preparing means filling in a struct.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "compile/kernel.h"
#include "compile/region/move_view.h"

namespace camshaft::cpu {

/// A launch that calls `run(arguments)` on a prepared value.
template <class Run>
class SimpleLaunch final : public Launch {
 public:
  explicit SimpleLaunch(Run run) : run_(std::move(run)) {}
  void run(const LaunchArguments& arguments) override { run_(arguments); }

 private:
  Run run_;
};

/// Which operands of a kernel may be slices of wider rows.
struct SliceUse {
  size_t inputs = 0;  ///< the first so many
  bool output = false;
};

/// A kernel whose prepare() is `make(shapes)`, which returns the callable that runs.
template <class Make>
class SimpleKernel final : public Kernel {
 public:
  SimpleKernel(Make make, bool in_place, SliceUse slices)
      : make_(std::move(make)), in_place_(in_place), slices_(slices) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<SimpleLaunch<decltype(make_(shapes))>>(make_(shapes));
  }
  bool can_run_in_place(size_t i, size_t) const override { return in_place_ && i == 0; }
  bool reads_slices(size_t i) const override { return i < slices_.inputs; }
  bool writes_slices(size_t) const override { return slices_.output; }

 private:
  Make make_;
  bool in_place_;
  SliceUse slices_;
};

/// `in_place`: output 0 may be written over input 0.
template <class Make>
std::shared_ptr<const Kernel> simple_kernel(Make make, bool in_place = false, SliceUse slices = {}) {
  return std::make_shared<SimpleKernel<Make>>(std::move(make), in_place, slices);
}

template <class T>
const T* input(const LaunchArguments& arguments, size_t i) {
  return i < arguments.inputs.size() ? reinterpret_cast<const T*>(arguments.inputs[i]) : nullptr;
}
template <class T>
T* output(const LaunchArguments& arguments, size_t i) {
  return i < arguments.outputs.size() ? reinterpret_cast<T*>(arguments.outputs[i]) : nullptr;
}

}  // namespace camshaft::cpu
