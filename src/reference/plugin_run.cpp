#include "reference/plugin_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/aligned_buffer.h"
#include "ir/ops/shape_rules.h"
#include "ir/plugin_detour.h"
#include "reference/plugin_guards.h"

namespace camshaft {

namespace {

std::atomic<bool> guards_on = false, verify_on = false;

// Bytes between two guard zones.
class Guarded {
 public:
  Guarded(std::string what, size_t bytes, std::byte fill)
      : what_(std::move(what)),
        bytes_(bytes),
        memory_(2 * guard_zone_bytes + bytes, "a plugin's operand and its guard zones") {
    std::memset(memory_.data(), static_cast<int>(guard_mark), memory_.size());
    if (bytes > 0) std::memset(data(), static_cast<int>(fill), bytes);
  }
  std::byte* data() { return memory_.data() + guard_zone_bytes; }
  size_t size() const { return bytes_; }

  void check(const std::string& who) const { check_guard_zones(who, what_, memory_.bytes()); }

 private:
  std::string what_;
  size_t bytes_;
  AlignedBuffer memory_;
};

}  // namespace

PluginChecks plugin_checks() {
  return {guards_on.load(std::memory_order_relaxed), verify_on.load(std::memory_order_relaxed)};
}

void set_plugin_checks(PluginChecks checks) {
  guards_on.store(checks.guards, std::memory_order_relaxed);
  verify_on.store(checks.verify, std::memory_order_relaxed);
}

std::vector<Tensor> run_plugin(const ops::Plugin& op, const PluginInstance& instance, const std::vector<Tensor>& inputs,
                               const std::vector<TensorType>& types, const std::vector<const Dims*>& dims,
                               PluginRunKind kind, ThreadPool& pool, const Cancellation* cancellation, std::byte fill) {
  std::vector<Guarded> given, made;
  std::vector<PluginOperand> operands, results;
  given.reserve(inputs.size());
  made.reserve(types.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.emplace_back(fmt::format("input {}", i), inputs[i].defined() ? inputs[i].bytes() : 0, fill);
    if (!inputs[i].defined()) {
      operands.push_back({DType::f32, {}, nullptr, false});
      continue;
    }
    if (inputs[i].bytes() > 0) std::memcpy(given[i].data(), inputs[i].data(), inputs[i].bytes());
    operands.push_back({inputs[i].dtype(), inputs[i].dims(), given[i].data()});
  }
  std::vector<Dims> sizes(types.size());
  for (size_t o = 0; o < types.size(); ++o) {
    if (dims[o]) sizes[o] = *dims[o];
    made.emplace_back(fmt::format("output {}", o), dims[o] ? byte_size(types[o].dtype, element_count(sizes[o])) : 0,
                      fill);
    results.push_back({types[o].dtype, sizes[o], dims[o] ? made[o].data() : nullptr});
  }
  PluginCall call{operands, results, kind.tactic, nullptr, &pool, cancellation};
  call.resize = [&](size_t o, Dims to) -> std::byte* {
    if (o >= types.size() || dims[o] || to.size() != types[o].shape.size()) return nullptr;
    made[o] = Guarded(fmt::format("output {}", o), byte_size(types[o].dtype, element_count(to)), fill);
    sizes[o] = std::move(to);
    return made[o].data();
  };
  std::vector<PluginOperand> sized_inputs = operands,
                             sized_outputs = results;  // while sizes are asked, no data is there
  for (auto* list : {&sized_inputs, &sized_outputs})
    for (PluginOperand& operand : *list) operand.data = nullptr;
  // On a device it is of the device's memory.
  const size_t workspace_bytes =
      kind.on_device ? 0 : instance.workspace_bytes({sized_inputs, sized_outputs, kind.tactic});
  Guarded workspace("its workspace", workspace_bytes, fill);
  call.workspace = workspace.data();
  const std::string who = "the plugin " + op.operator_name;
  if (kind.reference) {
    instance.run_reference(call);
  } else if (kind.on_device) {
    run_by_detour(instance, fmt::format("{} ({})", who, op.file), call, fill);
  } else {
    instance.run(call);
  }
  for (const auto* list : {&given, &made})
    for (const Guarded& guarded : *list) guarded.check(who);
  workspace.check(who);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].bytes() > 0 && std::memcmp(given[i].data(), inputs[i].data(), inputs[i].bytes()) != 0)
      throw PluginViolation(fmt::format("{} wrote to its input {}", who, i));
  for (size_t o = 0; o < types.size(); ++o) {
    Tensor tensor = Tensor::uncleared(types[o].dtype, sizes[o]);
    for (size_t axis = 0; !dims[o] && axis < sizes[o].size(); ++axis)
      if (ops::provably_different(types[o].shape[axis], Dim(sizes[o][axis])))
        throw PluginViolation(fmt::format("{} ({}) gave its output {} the shape {}, and its shape rule says {}", who,
                                          op.file, o, to_string(sizes[o]), to_string(types[o])));
    if (tensor.bytes() > made[o].size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} said no size of its output {}, which only running tells", who, o));
    if (tensor.bytes() > 0) std::memcpy(tensor.mutable_data(), made[o].data(), tensor.bytes());
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

}  // namespace camshaft
