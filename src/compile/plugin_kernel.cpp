#include "compile/plugin_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "compile/device_queue.h"
#include "compile/optimum.h"
#include "ir/plugin_detour.h"
#include "ir/symbols.h"
#include "reference/plugin_run.h"

namespace camshaft {

namespace {

constexpr const char* plugin_variant = "variant";  // the parameter of plugins that have several tactics

PluginOperand operand_at_optimum(const RegionView& region, ValueId id) {
  if (id == no_value) return {DType::f32, {}, nullptr, false};
  PluginOperand operand{region.graph.type(id).dtype, {}};
  for (const Dim& d : region.graph.shape(id)) operand.dims.push_back(static_cast<int64_t>(size_at_optimum(region, d)));
  return operand;
}

/// The constants that a shape rule may look at, by operand.
std::vector<std::shared_ptr<const Tensor>> small_constants(const RegionView& region) {
  std::vector<std::shared_ptr<const Tensor>> constants;
  for (const ValueId id : region.node.inputs) {
    const bool is_known = region.graph.is_constant(id) && !region.graph.value(id).constant->is_elided() &&
                          region.graph.value(id).constant->rank() <= 1;
    constants.push_back(is_known ? region.graph.value(id).constant : nullptr);
  }
  return constants;
}

Tensor view_of_operand(const PluginOperand& operand, const std::byte* data) {
  if (!operand.present) return {};
  return Tensor(operand.dtype, operand.dims, {data, byte_size(operand.dtype, element_count(operand.dims))}, nullptr);
}

TensorType type_of_operand(const PluginOperand& operand) {
  return {operand.dtype, Shape(operand.dims.begin(), operand.dims.end())};
}

/// Whether the node's own rule knows the elements of an operand before running that is no constant: shape arithmetic.
bool looks_at_sizes(const RegionView& region) {
  return std::any_of(region.node.inputs.begin(), region.node.inputs.end(), [&](ValueId id) {
    return id != no_value && !region.graph.is_constant(id) && region.graph.value(id).content.has_value();
  });
}

class PluginLaunch final : public Launch {
 public:
  /// `facts` and `on_device`: of a device; null on the host. `is_guarded`: it runs between guard zones there.
  PluginLaunch(const ops::Plugin& op, const PluginInstance& instance, size_t tactic, const std::vector<bool>& present,
               const KernelShapes& shapes, const PluginDevice* facts, const OnPluginDevice* on_device, bool is_guarded)
      : op_(op), instance_(instance), tactic_(tactic), facts_(facts), on_device_(on_device), is_guarded_(is_guarded) {
    for (size_t i = 0; i < shapes.inputs.size(); ++i)
      inputs_.push_back({shapes.inputs[i].dtype, shapes.inputs[i].dims, nullptr, present[i]});
    for (const OperandShape& output : shapes.outputs) outputs_.push_back({output.dtype, output.dims});
    if (!instance.supports(call())) take_other_tactic();
    workspace_bytes_ = instance.workspace_bytes(call());
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  const std::vector<PluginOperand>& inputs() const { return inputs_; }
  const std::vector<PluginOperand>& outputs() const { return outputs_; }

  void run(const LaunchArguments& arguments) override {
    if (is_guarded_ || (!facts_ && plugin_checks().guards)) return run_guarded(arguments);
    for (size_t i = 0; i < inputs_.size(); ++i)
      inputs_[i].data = inputs_[i].present ? const_cast<std::byte*>(arguments.inputs[i]) : nullptr;
    for (size_t o = 0; o < outputs_.size(); ++o) outputs_[o].data = arguments.outputs[o];
    PluginCall call = this->call();
    call.workspace = arguments.workspace;
    call.pool = &arguments.pool;
    call.cancellation = arguments.cancellation;
    if (!facts_) return instance_.run(call);
    (*on_device_)(arguments, [&](const PluginDevice& device) {
      call.device = &device;
      instance_.run_on_device(call);
    });
  }

 private:
  PluginCall call() const {
    PluginCall call{inputs_, outputs_, tactic_};
    call.device = facts_;
    return call;
  }

  /// The first one that takes these shapes, as all compute the same: the one that was measured took the profile's
  /// optimum.
  void take_other_tactic() {
    const size_t tuned = tactic_, count = instance_.tactics(call());
    for (tactic_ = 0; tactic_ < count; ++tactic_)
      if (instance_.supports(call())) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the plugin {} was tuned to run its tactic {}, and none takes these shapes",
                            op_.operator_name, tuned));
  }

  void run_guarded(const LaunchArguments& arguments) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!is_guarded_ || !inputs_[i].present) {
        inputs.push_back(view_of_operand(inputs_[i], arguments.inputs[i]));
        continue;
      }
      inputs.push_back(Tensor::uncleared(inputs_[i].dtype, inputs_[i].dims));
      arguments.queue->copy_to_host({inputs[i].mutable_data(), inputs[i].bytes()}, arguments.inputs[i]);
    }
    if (is_guarded_) arguments.queue->synchronize();
    const PluginDeviceScope there(is_guarded_ ? DeviceId::gpu(facts_->ordinal) : DeviceId::host);
    std::vector<TensorType> types;
    std::vector<const Dims*> dims;
    for (const PluginOperand& output : outputs_) {
      types.push_back(type_of_operand(output));
      dims.push_back(&output.dims);
    }
    const std::vector<Tensor> results = run_plugin(op_, instance_, inputs, types, dims, {false, tactic_, is_guarded_},
                                                   arguments.pool, arguments.cancellation);
    for (size_t o = 0; o < results.size(); ++o) {
      if (results[o].bytes() == 0) continue;
      if (is_guarded_) {
        arguments.queue->copy_to_device(arguments.outputs[o], {results[o].data(), results[o].bytes()});
      } else {
        std::memcpy(arguments.outputs[o], results[o].data(), results[o].bytes());
      }
    }
    if (is_guarded_) arguments.queue->synchronize();
  }

  const ops::Plugin& op_;
  const PluginInstance& instance_;
  size_t tactic_;
  const PluginDevice* facts_;
  const OnPluginDevice* on_device_;
  bool is_guarded_;  // on a device: by way of the host
  std::vector<PluginOperand> inputs_, outputs_;
  size_t workspace_bytes_ = 0;
};

class PluginKernel final : public Kernel {
 public:
  PluginKernel(const RegionView& region, size_t tactic, std::optional<PluginDevice> facts = {},
               OnPluginDevice on_device = {})
      : op_(*region.node.op.as<ops::Plugin>()),
        instance_(op_.instance()),
        tactic_(tactic),
        facts_(std::move(facts)),
        on_device_(std::move(on_device)),
        is_guarded_(facts_ && plugin_checks().guards),
        constants_(small_constants(region)),
        checks_rule_(!looks_at_sizes(region)) {
    for (const ValueId id : region.node.inputs) present_.push_back(id != no_value);
    for (const ValueId id : region.node.outputs) {
      const Value& value = region.graph.value(id);
      types_.push_back(value.type);
      own_sizes_.push_back(names_sizes_of(value.name, value.type.shape));
      is_dynamic_ = is_dynamic_ || own_sizes_.back();
    }
  }

  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    auto launch = std::make_unique<PluginLaunch>(op_, *instance_, tactic_, present_, shapes,
                                                 facts_ ? &*facts_ : nullptr, &on_device_, is_guarded_);
    if (checks_rule_) {
      std::vector<TensorType> inputs, outputs;
      for (const PluginOperand& operand : launch->inputs()) inputs.push_back(type_of_operand(operand));
      for (const PluginOperand& operand : launch->outputs()) outputs.push_back(type_of_operand(operand));
      check_rule(op_, inputs, present_, constants_, outputs);
    }
    return launch;
  }

  Place place() const override { return facts_ ? Place::device : Place::host; }
  bool can_be_recorded() const override { return facts_ && !is_guarded_ && instance_->is_recorded(); }
  bool has_dynamic_outputs() const override { return is_dynamic_; }
  std::vector<Tensor> run_dynamic(const std::vector<Tensor>& inputs, const SymbolBindings& symbols, ThreadPool& pool,
                                  const Cancellation* cancellation) const override {
    std::vector<Dims> sizes(types_.size());
    std::vector<const Dims*> known;
    for (size_t o = 0; o < types_.size(); ++o) {
      known.push_back(own_sizes_[o] ? nullptr : &sizes[o]);
      if (own_sizes_[o]) continue;
      for (const Dim& d : types_[o].shape) sizes[o].push_back(d.evaluate(symbols));
    }
    return run_plugin(op_, *instance_, inputs, types_, known, {false, tactic_}, pool, cancellation);
  }

 private:
  ops::Plugin op_;
  std::shared_ptr<const PluginInstance> instance_;
  size_t tactic_;
  std::optional<PluginDevice> facts_;  // of the device that it runs on
  OnPluginDevice on_device_;
  bool is_guarded_;
  std::vector<std::shared_ptr<const Tensor>> constants_;
  std::vector<bool> present_, own_sizes_;
  std::vector<TensorType> types_;
  bool checks_rule_ = true, is_dynamic_ = false;
};

}  // namespace

size_t plugin_tactic_of(const TacticParameters& parameters) {
  return parameters.empty() ? 0 : static_cast<size_t>(parameters[plugin_variant]);
}

std::vector<TacticOffer> plugin_offers(const RegionView& region, double seconds_per_byte, const PluginDevice* device) {
  const auto* op = region.node.op.as<ops::Plugin>();
  if (!op) return {};
  const std::shared_ptr<const PluginInstance> instance = op->instance();
  if (!(device ? instance->has_device() : instance->has_host())) return {};
  std::vector<PluginOperand> inputs, outputs;
  for (const ValueId id : region.node.inputs) inputs.push_back(operand_at_optimum(region, id));
  for (const ValueId id : region.node.outputs) {
    const Value& value = region.graph.value(id);
    // Only on the host results may have sizes that running tells.
    if (device && names_sizes_of(value.name, value.type.shape)) return {};
    outputs.push_back(operand_at_optimum(region, id));
  }
  std::vector<TacticOffer> offers;
  PluginCall call{inputs, outputs};
  call.device = device;
  const size_t tactics = instance->tactics(call);
  for (call.tactic = 0; call.tactic < tactics; ++call.tactic) {
    if (!instance->supports(call)) continue;
    TacticOffer offer;
    if (tactics > 1) offer.parameters = {{plugin_variant, static_cast<int64_t>(call.tactic)}};
    const double own = instance->seconds(call);
    offer.seconds = own >= 0 ? own : bytes_at_optimum(region) * seconds_per_byte;
    offers.push_back(std::move(offer));
  }
  return offers;
}

std::shared_ptr<const Kernel> make_plugin_kernel(const RegionView& region, const TacticParameters& parameters) {
  return std::make_shared<PluginKernel>(region, plugin_tactic_of(parameters));
}

std::shared_ptr<const Kernel> make_device_plugin_kernel(const RegionView& region, const TacticParameters& parameters,
                                                        const PluginDevice& facts, OnPluginDevice on_device) {
  return std::make_shared<PluginKernel>(region, plugin_tactic_of(parameters), facts, std::move(on_device));
}

}  // namespace camshaft
