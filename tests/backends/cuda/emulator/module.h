// Compiled kernels, loaded into this process.
#pragma once

#include <memory>
#include <string>

#include "interface.h"

namespace emulator {

class Module {
 public:
  /// Null for bytes that are damaged, or no image of a compiler. Machine code of a real GPU, as NVIDIA's compiler makes
  /// it, is taken, and its kernels are found, but not run.
  static std::shared_ptr<Module> load(const void* image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Null when it has none of that name.
  const Kernel* kernel(const std::string& name) const;
  Enter enter() const { return enter_; }
  /// -1 for machine code.
  int capability() const { return capability_; }

 private:
  Module() = default;
  void* library_ = nullptr;
  std::string machine_code_;
  Enter enter_ = nullptr;
  int capability_ = 0;
};

}  // namespace emulator
