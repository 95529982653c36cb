// Ranges of time with names, for NVIDIA's profilers (Nsight Systems, Nsight Compute).
#pragma once

#include <string>

namespace camshaft {

/// A range of the calling thread, in the domain "camshaft". Nothing, at the price of a branch, where no profiler is
/// attached. One announces itself as NVTX 3 has it: by the environment's NVTX_INJECTION64_PATH, a library that is
/// opened when this is first asked for.
class NvtxRange {
 public:
  static bool is_attached();

  /// `name()`: called, for a string, only where a profiler is attached.
  template <class Name>
  explicit NvtxRange(const Name& name) : is_open_(is_attached()) {
    if (is_open_) push(name());
  }
  ~NvtxRange() {
    if (is_open_) pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  static void push(const std::string& name);
  static void pop();

  bool is_open_;
};

}  // namespace camshaft
