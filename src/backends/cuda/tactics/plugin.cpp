#include "backends/cuda/tactics/plugin.h"

#include <algorithm>
#include <map>
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

}  // namespace

void run_plugin_alone(const PluginInstance& instance, const std::string& who, const PluginCall& call,
                      const Workshop& workshop) {
  const Device& device = *workshop.device();
  const Current current(device);
  const Stream stream(device);
  const std::shared_ptr<PluginKernels> kernels = kernels_of(instance, call.tactic, who, workshop);
  std::vector<DeviceBuffer> buffers;
  std::vector<PluginOperand> inputs(call.inputs.begin(), call.inputs.end());
  std::vector<PluginOperand> outputs(call.outputs.begin(), call.outputs.end());
  for (auto* list : {&inputs, &outputs})
    for (PluginOperand& operand : *list) {
      if (!operand.present) continue;
      const size_t bytes = byte_size(operand.dtype, element_count(operand.dims));
      buffers.emplace_back(device, std::max<size_t>(bytes, 1), "a plugin's operand");
      // Outputs, too: what a kernel leaves as it was is seen to be so.
      if (bytes > 0) stream.copy_to_device(buffers.back().data(), {operand.data, bytes});
      operand.data = buffers.back().data();
    }
  const PluginDevice on_device = device_of(plugin_facts(workshop), kernels.get(), stream);
  PluginCall there{inputs, outputs, call.tactic};
  there.device = &on_device;
  there.cancellation = call.cancellation;
  const DeviceBuffer workspace(device, std::max<size_t>(instance.workspace_bytes(there), 1), "a plugin's workspace");
  there.workspace = workspace.data();
  instance.run_on_device(there);
  for (size_t o = 0; o < outputs.size(); ++o) {
    const size_t bytes = byte_size(outputs[o].dtype, element_count(outputs[o].dims));
    if (bytes > 0) stream.copy_to_host({call.outputs[o].data, bytes}, outputs[o].data);
  }
  stream.synchronize();
}

const CudaTactic plugin_tactic{"cuda_plugin", offers_of_plugin, compile_plugin_on_device};

}  // namespace camshaft::cuda
