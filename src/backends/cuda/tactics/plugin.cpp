#include "backends/cuda/tactics/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "backends/cuda/tactics/device_kernel.h"
#include "compile/plugin_kernel.h"
#include "ir/compiled_plugin.h"
#include "ir/ops/plugin.h"
#include "reference/plugin_guards.h"

namespace camshaft::cuda {

PluginDevice plugin_facts(const Workshop& workshop) {
  const DeviceFacts& facts = workshop.device()->facts();
  PluginDevice device;
  device.ordinal = facts.ordinal;
  device.capability = facts.features.capability;
  device.multiprocessors = facts.multiprocessors;
  return device;
}

namespace {

/// The kernels of a plugin's text, by name.
class PluginKernels {
 public:
  explicit PluginKernels(Module module) : module_(std::move(module)) {}

  /// With `shared_bytes` as the most that it was launched with so far.
  const Function& get(const std::string& name, unsigned shared_bytes) {
    const std::lock_guard lock(mutex_);
    const auto it = functions_.find({name, shared_bytes});
    if (it != functions_.end()) return it->second;
    check_kernel_name(name);
    return functions_.emplace(std::pair(name, shared_bytes), module_.function(name, shared_bytes)).first->second;
  }

  /// Null where the driver does not tell.
  const std::vector<size_t>* parameters(const std::string& name) {
    const std::lock_guard lock(mutex_);
    auto it = parameters_.find(name);
    if (it == parameters_.end()) it = parameters_.emplace(name, module_.function(name).parameter_bytes()).first;
    return it->second ? &*it->second : nullptr;
  }

 private:
  Module module_;
  std::mutex mutex_;
  std::map<std::pair<std::string, unsigned>, Function> functions_;
  std::map<std::string, std::optional<std::vector<size_t>>> parameters_;
};

/// Null for an operator that has none of its own, only a stream to put work into.
std::shared_ptr<PluginKernels> kernels_of(const PluginInstance& instance, size_t tactic, const std::string& who,
                                          const Workshop& workshop) {
  const std::string text = instance.device_text(tactic);
  const std::span<const std::byte> machine_code = instance.device_module(tactic);
  if (!machine_code.empty()) try {
      // PTX ends with a zero; other modules say how long they are.
      std::vector<std::byte> bytes(machine_code.begin(), machine_code.end());
      bytes.push_back(std::byte{0});
      return std::make_shared<PluginKernels>(Module(*workshop.device(), bytes));
    } catch (const Error& e) {
      throw Error(e.code(), who + ": its module of kernels is not for this GPU, or damaged");
    }
  if (!text.empty()) try {
      return std::make_shared<PluginKernels>(workshop.module("plugin", text));
    } catch (const Error& e) {
      if (e.code() != ErrorCode::internal) throw;
      throw Error(ErrorCode::invalid_argument, who + ": " + e.what());
    }
  return nullptr;
}

/// What puts an operator's work into the stream.
PluginDevice device_of(PluginDevice facts, PluginKernels* kernels, const Stream& stream) {
  facts.stream = stream.handle();
  facts.launch = [kernels, &stream](const std::string& name, const PluginGrid& grid, void* const* parameters) {
    if (!kernels)
      throw Error(ErrorCode::invalid_argument, "the operator has no cuda_text and no cuda_module to launch kernels of");
    LaunchSize size;
    size.blocks = grid.blocks[0];
    size.blocks_y = grid.blocks[1];
    size.blocks_z = grid.blocks[2];
    size.threads = grid.threads[0];
    size.threads_y = grid.threads[1];
    size.threads_z = grid.threads[2];
    size.shared_bytes = grid.shared_bytes;
    size.may_start_early = false;
    // How many there are only the kernel knows.
    kernels->get(name, grid.shared_bytes).launch(stream, size, std::span<void* const>(parameters, size_t{0}));
  };
  facts.copy = [&stream](std::byte* to, std::span<const std::byte> from) {
    stream.copy_from(to, from, stream.device());
  };
  if (kernels) facts.parameters = [kernels](const std::string& name) { return kernels->parameters(name); };
  return facts;
}

std::vector<TacticOffer> offers_of_plugin(const RegionView& region, const Workshop& workshop) {
  const PluginDevice device = plugin_facts(workshop);
  std::vector<TacticOffer> offers = plugin_offers(region, seconds_per_byte, &device);
  for (TacticOffer& offer : offers) offer.seconds += seconds_per_launch;
  return offers;
}

std::shared_ptr<const Kernel> compile_plugin_on_device(const RegionView& region, const TacticParameters& parameters,
                                                       const Workshop& workshop, PackedConstants&) {
  const auto& op = *region.node.op.as<ops::Plugin>();
  const std::shared_ptr<PluginKernels> kernels = kernels_of(
      *op.instance(), plugin_tactic_of(parameters), "the plugin " + op.operator_name + " (" + op.file + ")", workshop);
  const PluginDevice facts = plugin_facts(workshop);
  const auto on_device = [kernels, facts, device = workshop.device()](
                             const LaunchArguments& arguments, const std::function<void(const PluginDevice&)>& call) {
    const Current current(*device);
    call(device_of(facts, kernels.get(), stream_of(arguments)));
  };
  return make_device_plugin_kernel(region, parameters, facts, on_device);
}

/// Memory of the device between two guard zones.
class GuardedBuffer {
 public:
  GuardedBuffer(const Device& device, const Stream& stream, std::string what, std::vector<std::byte> content)
      : what_(std::move(what)),
        content_(std::move(content)),
        image_(2 * guard_zone_bytes + content_.size(), guard_mark),
        buffer_(device, image_.size(), "a plugin's operand and its guard zones") {
    std::copy(content_.begin(), content_.end(), image_.begin() + guard_zone_bytes);
    stream.copy_to_device(buffer_.data(), image_);
    stream.synchronize();  // what is copied is pageable, and read back into the same place
  }
  std::byte* data() const { return buffer_.data() + guard_zone_bytes; }

  /// What is there once the stream has come so far.
  std::span<const std::byte> read_back(const Stream& stream) {
    stream.copy_to_host(image_, buffer_.data());
    stream.synchronize();
    return std::span(image_).subspan(guard_zone_bytes, content_.size());
  }
  void check_zones(const std::string& who) const { check_guard_zones(who, what_, image_); }
  void check_is_as_before(const std::string& who) const {
    if (!std::equal(content_.begin(), content_.end(), image_.begin() + guard_zone_bytes))
      throw PluginViolation(who + " wrote to its " + what_);
  }

 private:
  std::string what_;
  std::vector<std::byte> content_, image_;
  DeviceBuffer buffer_;
};

}  // namespace

void run_plugin_alone(const PluginInstance& instance, const std::string& who, const PluginCall& call, std::byte fill,
                      const Workshop& workshop) {
  const Device& device = *workshop.device();
  const Current current(device);
  const Stream stream(device);
  const std::shared_ptr<PluginKernels> kernels = kernels_of(instance, call.tactic, who, workshop);
  std::vector<PluginOperand> inputs(call.inputs.begin(), call.inputs.end());
  std::vector<PluginOperand> outputs(call.outputs.begin(), call.outputs.end());
  for (auto* list : {&inputs, &outputs})
    for (PluginOperand& operand : *list) operand.data = nullptr;
  const PluginDevice on_device = device_of(plugin_facts(workshop), kernels.get(), stream);
  PluginCall there{inputs, outputs, call.tactic};
  there.device = &on_device;
  there.cancellation = call.cancellation;
  GuardedBuffer workspace(device, stream, "its workspace",
                          std::vector<std::byte>(instance.workspace_bytes(there), fill));
  std::vector<std::unique_ptr<GuardedBuffer>> given, made;
  // Outputs are brought there, too: what a kernel leaves as it was is seen to be so.
  const auto bring = [&](std::span<const PluginOperand> from, std::vector<PluginOperand>& to, const char* name,
                         auto& buffers) {
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t bytes = from[i].present ? byte_size(from[i].dtype, element_count(from[i].dims)) : 0;
      std::vector<std::byte> content(from[i].data, from[i].data + bytes);
      buffers.push_back(
          std::make_unique<GuardedBuffer>(device, stream, fmt::format("{} {}", name, i), std::move(content)));
      if (from[i].present) to[i].data = buffers.back()->data();
    }
  };
  bring(call.inputs, inputs, "input", given);
  bring(call.outputs, outputs, "output", made);
  there.workspace = workspace.data();
  instance.run_on_device(there);
  try {
    stream.synchronize();
  } catch (const Error& e) {
    throw Error(e.code(), who + ": " + e.what());
  }
  for (size_t o = 0; o < made.size(); ++o) {
    const std::span<const std::byte> content = made[o]->read_back(stream);
    std::copy(content.begin(), content.end(), call.outputs[o].data);
  }
  for (const auto& input : given) input->read_back(stream);
  workspace.read_back(stream);
  for (auto* buffers : {&given, &made})
    for (const auto& buffer : *buffers) buffer->check_zones(who);
  workspace.check_zones(who);
  for (const auto& input : given) input->check_is_as_before(who);
}

const CudaTactic plugin_tactic{"cuda_plugin", offers_of_plugin, compile_plugin_on_device};

}  // namespace camshaft::cuda
