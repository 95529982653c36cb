// From CUDA C++ text to machine code.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/cuda/libraries/libraries.h"

namespace camshaft::cuda {

/// A cubin: machine code for one architecture.
using Cubin = std::vector<std::byte>;

/// NVRTC's name of a compute capability: "sm_90a" for 90, with the instructions that only that architecture has where
/// there are such.
std::string architecture(int capability);

/// The text and options of a kernel, from which its machine code follows.
struct KernelSource {
  std::string name;  ///< for messages
  std::string text;  ///< CUDA C++; kernels are extern "C"
  std::string architecture;
};

/// Compiles texts with NVRTC. Safe to use from several threads.
class Compiler {
 public:
  /// Throws Error(unsupported) that says how to get NVRTC where there is none.
  explicit Compiler(const Library<api::Nvrtc>& library);
  const std::string& version() const { return version_; }
  /// Throws Error(internal) with the compiler's messages when the text is wrong, Error(unsupported) when NVRTC does not
  /// know the architecture.
  Cubin compile(const KernelSource& source) const;

 private:
  const api::Nvrtc& nvrtc_;
  std::string version_;
  std::vector<int> architectures_;
};

}  // namespace camshaft::cuda
