// Machine code on a device.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cuda/stream.h"

namespace camshaft::cuda {

/// Blocks and threads of a launch.
struct LaunchSize {
  unsigned blocks = 1, blocks_y = 1, blocks_z = 1;
  unsigned threads = 1, threads_y = 1;
  unsigned shared_bytes = 0;  ///< of dynamic shared memory; at most DeviceFacts::shared_bytes_per_block
};

/// One kernel of a module, which it keeps loaded.
class Function {
 public:
  /// Puts it into the stream. `arguments` are addresses of the parameters' values, which are copied.
  void launch(const Stream& stream, const LaunchSize& size, std::span<void* const> arguments) const;
  const std::string& name() const { return name_; }

 private:
  friend class Module;
  struct Loaded;
  std::shared_ptr<const Loaded> module_;
  api::Handle function_ = nullptr;
  std::string name_;
};

/// A cubin that a device has loaded. Unloaded with the last function of it. Must not outlive the device.
class Module {
 public:
  /// Throws Error when the driver refuses it: it is for another architecture, or damaged.
  Module(const Device& device, std::span<const std::byte> cubin);
  /// Throws Error(internal) when the module has no such kernel. `shared_bytes`: the most dynamic shared memory that it
  /// will be launched with.
  Function function(const std::string& name, unsigned shared_bytes = 0) const;

 private:
  std::shared_ptr<const Function::Loaded> loaded_;
};

}  // namespace camshaft::cuda
