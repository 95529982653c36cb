#include "backends/cuda/driver/module.h"

#include <fmt/format.h>

#include "backends/cuda/driver/check.h"
#include "backends/cuda/driver/kernel_cache.h"
#include "base/error.h"

namespace camshaft::cuda {

struct Function::Loaded {
  explicit Loaded(const Device& d) : device(d) {}
  ~Loaded() {
    if (module == nullptr) return;
    release_on(device, [&](const api::Driver& driver) { driver.cuModuleUnload(module); });
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  const Device& device;
  api::Handle module = nullptr;
};

Module::Module(const Device& device, std::span<const std::byte> cubin) {
  const Current current(device);
  const auto loaded = std::make_shared<Function::Loaded>(device);
  const api::Result result = device.driver().cuModuleLoadData(&loaded->module, cubin.data());
  if (result == api::error_no_binary || result == api::error_invalid_image)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("GPU {}, {}, of compute capability {}.{}, does not take a kernel's machine code, which is "
                    "{}: empty the cache of compiled kernels ({})",
                    device.facts().ordinal, device.facts().name, device.facts().features.capability / 10,
                    device.facts().features.capability % 10,
                    result == api::error_no_binary ? "another device's" : "damaged", KernelCache::default_folder()));
  check(device.driver(), result, "loading kernels");
  loaded_ = loaded;
}

Module LoadedModules::get(const Device& device, const std::string& text,
                          const std::function<std::vector<std::byte>()>& make) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto it = modules_.find(text);
    if (it != modules_.end())
      if (auto loaded = it->second.lock()) return Module(std::move(loaded));
    if (being_made_.insert(text).second) break;
    made_.wait(lock);
  }
  lock.unlock();
  const auto end = [&] {
    lock.lock();
    being_made_.erase(text);
    made_.notify_all();
  };
  try {
    Module made(device, make());
    end();
    std::erase_if(modules_, [](const auto& entry) { return entry.second.expired(); });
    modules_[text] = made.loaded_;
    return made;
  } catch (...) {
    if (!lock.owns_lock()) end();
    throw;
  }
}

Function Module::function(const std::string& name, unsigned shared_bytes, bool large_clusters) const {
  const Current current(loaded_->device);
  const api::Driver& driver = loaded_->device.driver();
  Function function;
  function.module_ = loaded_;
  function.name_ = name;
  check(driver, driver.cuModuleGetFunction(&function.function_, loaded_->module, name.c_str()),
        fmt::format("looking for the kernel '{}'", name));
  // Below 48 KB one would not have to ask, but for the static shared memory of the kernel, which counts too.
  if (shared_bytes > 0)
    check(driver,
          driver.cuFuncSetAttribute(function.function_, api::most_dynamic_shared_bytes, static_cast<int>(shared_bytes)),
          fmt::format("giving the kernel '{}' {} bytes of shared memory", name, shared_bytes));
  if (large_clusters)
    check(driver, driver.cuFuncSetAttribute(function.function_, api::large_clusters, 1),
          fmt::format("allowing the kernel '{}' clusters of more than 8 blocks", name));
  return function;
}

namespace {

/// What a launch takes, with the attributes in place: not to be copied.
struct Config {
  api::LaunchAttribute attributes[2] = {};
  api::LaunchConfig config;

  Config(const LaunchSize& size, api::Handle stream)
      : config{size.blocks,    size.blocks_y,     size.blocks_z, size.threads, size.threads_y,
               size.threads_z, size.shared_bytes, stream,        attributes,   0} {
    if (size.cluster_y <= 1) return;
    api::LaunchAttribute& cluster = add(api::LaunchAttribute::cluster);
    cluster.cluster_size[0] = cluster.cluster_size[2] = 1;
    cluster.cluster_size[1] = size.cluster_y;
  }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;
  api::LaunchAttribute& add(api::LaunchAttribute::Kind kind) {
    api::LaunchAttribute& added = attributes[config.attribute_count++];
    added.kind = kind;
    return added;
  }
};

}  // namespace

unsigned Function::clusters_at_once(const LaunchSize& size) const {
  const Current current(module_->device);
  const Config wanted(size, nullptr);
  int clusters = 0;
  const bool knows =
      module_->device.driver().cuOccupancyMaxActiveClusters(&clusters, function_, &wanted.config) == api::success;
  return knows && clusters > 0 ? static_cast<unsigned>(clusters) : 0;
}

std::optional<std::vector<size_t>> Function::parameter_bytes() const {
  const Current current(module_->device);
  const api::Driver& driver = module_->device.driver();
  if (!driver.cuFuncGetParamInfo) return std::nullopt;
  std::vector<size_t> all;
  for (size_t offset = 0, bytes = 0;; all.push_back(bytes)) {
    const api::Result result = driver.cuFuncGetParamInfo(function_, all.size(), &offset, &bytes);
    if (result == api::error_invalid_value) return all;  // there are no more
    check(driver, result, fmt::format("asking for the parameters of the kernel '{}'", name_));
  }
}

void Function::launch(const Stream& stream, const LaunchSize& size, std::span<void* const> arguments) const {
  const Current current(stream.device());
  const api::Driver& driver = stream.device().driver();
  Config launch(size, stream.handle());
  // What waits for an event, of a copy in another stream, does not start before that is over.
  const bool waits = stream.take_wait();
  if (size.may_start_early && !waits && stream.device().facts().features.overlapping_launches)
    launch.add(api::LaunchAttribute::programmatic_serialization).is_allowed = 1;
  const api::Result result =
      driver.cuLaunchKernelEx(&launch.config, function_, const_cast<void**>(arguments.data()), nullptr);
  // The words only when they are needed: a launch takes two microseconds.
  if (result != api::success)
    check(
        driver, result,
        fmt::format(
            "launching the kernel '{}' with {} x {} x {} blocks of {} x {} x {} threads and {} bytes of shared memory, "
            "in clusters of {}",
            name_, size.blocks, size.blocks_y, size.blocks_z, size.threads, size.threads_y, size.threads_z,
            size.shared_bytes, size.cluster_y));
}

}  // namespace camshaft::cuda
