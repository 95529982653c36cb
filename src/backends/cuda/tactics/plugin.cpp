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

namespace camshaft::cuda {

namespace {

PluginDevice plugin_facts(const Workshop& workshop) {
  const DeviceFacts& facts = workshop.device()->facts();
  PluginDevice device;
  device.capability = facts.features.capability;
  device.multiprocessors = facts.multiprocessors;
  return device;
}

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

constexpr size_t zone = 4096;  // bytes before and behind
constexpr auto mark = std::byte{0xc9};

/// Memory of the device between two guard zones, filled with bytes of the host.
class GuardedBuffer {
 public:
  GuardedBuffer(const Device& device, const Stream& stream, std::string what, std::span<const std::byte> content)
      : what_(std::move(what)),
        bytes_(content.size()),
        image_(2 * zone + bytes_, mark),
        buffer_(device, image_.size(), "a plugin's operand and its guard zones") {
    std::copy(content.begin(), content.end(), image_.begin() + zone);
    stream.copy_to_device(buffer_.data(), image_);
    stream.synchronize();
  }
  std::byte* data() const { return buffer_.data() + zone; }
  void read_back(const Stream& stream) { stream.copy_to_host(image_, buffer_.data()); }
  std::span<const std::byte> content() const { return std::span(image_).subspan(zone, bytes_); }

  void check(const std::string& who) const {
    const auto is_wrong = [](std::byte b) { return b != mark; };
    const bool before = std::any_of(image_.begin(), image_.begin() + zone, is_wrong);
    if (before || std::any_of(image_.end() - zone, image_.end(), is_wrong))
      throw Error(ErrorCode::invalid_argument, fmt::format("{} wrote outside of {} ({} bytes), {}", who, what_, bytes_,
                                                           before ? "before its begin" : "beyond its end"));
  }

 private:
  std::string what_;
  size_t bytes_;
  std::vector<std::byte> image_;
  DeviceBuffer buffer_;
};

}  // namespace

void run_plugin_alone(const PluginInstance& instance, const std::string& who, const PluginCall& call,
                      const Workshop& workshop) {
  const Device& device = *workshop.device();
  const Current current(device);
  const Stream stream(device);
  const std::shared_ptr<PluginKernels> kernels = kernels_of(instance, call.tactic, who, workshop);
  std::vector<PluginOperand> inputs(call.inputs.begin(), call.inputs.end());
  std::vector<PluginOperand> outputs(call.outputs.begin(), call.outputs.end());
  std::vector<std::unique_ptr<GuardedBuffer>> given, made;
  // Outputs are brought there, too: what a kernel leaves as it was is seen to be so.
  const auto bring = [&](std::vector<PluginOperand>& operands, const char* name, auto& buffers) {
    for (PluginOperand& operand : operands) {
      const size_t bytes = operand.present ? byte_size(operand.dtype, element_count(operand.dims)) : 0;
      const std::span<const std::byte> content(operand.data, operand.data ? bytes : 0);
      buffers.push_back(
          std::make_unique<GuardedBuffer>(device, stream, fmt::format("{} {}", name, buffers.size()), content));
      operand.data = operand.present ? buffers.back()->data() : nullptr;
    }
  };
  bring(inputs, "input", given);
  bring(outputs, "output", made);
  const PluginDevice on_device = device_of(plugin_facts(workshop), kernels.get(), stream);
  PluginCall there{inputs, outputs, call.tactic};
  there.device = &on_device;
  there.cancellation = call.cancellation;
  if (call.tactic >= std::max<size_t>(instance.tactics(there), 1) || !instance.supports(there))
    throw Error(ErrorCode::unsupported, fmt::format("{} does not run these sizes by tactic {}", who, call.tactic));
  const std::vector<std::byte> room(instance.workspace_bytes(there));
  GuardedBuffer workspace(device, stream, "its workspace", room);
  there.workspace = workspace.data();
  instance.run_on_device(there);
  for (auto* buffers : {&given, &made})
    for (const auto& buffer : *buffers) buffer->read_back(stream);
  workspace.read_back(stream);
  stream.synchronize();
  for (auto* buffers : {&given, &made})
    for (const auto& buffer : *buffers) buffer->check(who);
  workspace.check(who);
  for (size_t i = 0; i < given.size(); ++i) {
    const std::span<const std::byte> content = given[i]->content();
    if (!std::equal(content.begin(), content.end(), call.inputs[i].data))
      throw Error(ErrorCode::invalid_argument, fmt::format("{} wrote to its input {}", who, i));
  }
  for (size_t o = 0; o < made.size(); ++o) {
    const std::span<const std::byte> content = made[o]->content();
    std::copy(content.begin(), content.end(), call.outputs[o].data);
  }
}

const CudaTactic plugin_tactic{"cuda_plugin", offers_of_plugin, compile_plugin_on_device};

}  // namespace camshaft::cuda
