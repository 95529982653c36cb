// Machine code on a device.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/driver/stream.h"

namespace camshaft::cuda {

/// Blocks and threads of a launch.
struct LaunchSize {
  unsigned blocks = 1, blocks_y = 1, blocks_z = 1;
  unsigned threads = 1, threads_y = 1, threads_z = 1;
  unsigned shared_bytes = 0;  ///< of dynamic shared memory; at most DeviceFacts::shared_bytes_per_block
  unsigned cluster_y = 1;     ///< so many blocks along y can read each other's shared memory: DeviceFeatures::clusters
  /// The blocks may start while the launch before in the stream is ending, where the device
  /// has overlapping_launches; elsewhere it means nothing. All of them call wait_for_previous() (take_turn() does)
  /// before they touch what other kernels write or read.
  bool may_start_early = true;
};

class LoadedModules;

/// One kernel of a module, which it keeps loaded.
class Function {
 public:
  /// Puts it into the stream. `arguments` are addresses of the parameters' values, which are copied.
  void launch(const Stream& stream, const LaunchSize& size, std::span<void* const> arguments) const;
  /// How many of its clusters the device has room for at once; 0 where a cluster is too large.
  unsigned clusters_at_once(const LaunchSize& size) const;
  /// The bytes of each of its parameters; nullopt where the driver does not tell.
  std::optional<std::vector<size_t>> parameter_bytes() const;
  const std::string& name() const { return name_; }

 private:
  friend class Module;
  friend class LoadedModules;
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
  /// will be launched with. `large_clusters`: that may be in clusters of more than 8 blocks, as which not all devices
  /// can run it: see clusters_at_once().
  Function function(const std::string& name, unsigned shared_bytes = 0, bool large_clusters = false) const;

 private:
  friend class LoadedModules;
  explicit Module(std::shared_ptr<const Function::Loaded> loaded) : loaded_(std::move(loaded)) {}
  std::shared_ptr<const Function::Loaded> loaded_;
};

/// Modules by the texts that they were made of: kernels of the same text share one as long as somebody uses it. Safe to
/// use from several threads, which wait for one that another makes.
class LoadedModules {
 public:
  /// The module of `text`; where there is none, it is loaded from what `make` gives.
  Module get(const Device& device, const std::string& text, const std::function<std::vector<std::byte>()>& make);

 private:
  std::mutex mutex_;
  std::condition_variable made_;
  std::set<std::string, std::less<>> being_made_;
  std::map<std::string, std::weak_ptr<const Function::Loaded>> modules_;
};

}  // namespace camshaft::cuda
