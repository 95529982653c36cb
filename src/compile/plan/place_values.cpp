#include "compile/plan/place_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compile/plan/aliased_inputs.h"

namespace camshaft {

namespace {

class TransferLaunch final : public Launch {
 public:
  TransferLaunch(DeviceId from, DeviceId to, size_t bytes) : from_(from), to_(to), bytes_(bytes) {}
  void run(const LaunchArguments& arguments) override {
    if (to_.is_host()) {
      arguments.queue->copy_to_host({arguments.outputs[0], bytes_}, arguments.inputs[0]);
    } else if (from_.is_host()) {
      arguments.queue->copy_to_device(arguments.outputs[0], {arguments.inputs[0], bytes_});
    } else {
      arguments.queue->copy_from(arguments.outputs[0], {arguments.inputs[0], bytes_}, *arguments.source);
    }
  }

 private:
  DeviceId from_, to_;
  size_t bytes_;
};

/// Between the host and a GPU, or two GPUs: the work of the one that is copied to, or from, in its order.
class TransferKernel final : public Kernel {
 public:
  TransferKernel(DeviceId from, DeviceId to) : from_(from), to_(to) {}
  Place place() const override { return Place::device; }
  bool can_be_recorded() const override { return false; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<TransferLaunch>(from_, to_,
                                            byte_size(shapes.inputs[0].dtype, element_count(shapes.inputs[0].dims)));
  }

 private:
  DeviceId from_, to_;
};

class ValuePlacer {
 public:
  explicit ValuePlacer(Plan& plan) : plan_(plan), has_several_gpus_(plan.devices().size() > 2) {}

  void run() {
    // Parts of a concatenation are where that is, before it is there.
    for (const PlanStep& step : plan_.steps)
      if (step.device.is_gpu())
        for (const int32_t output : step.outputs) move(plan_.root(output), step.device);
    for (PlanStep& step : plan_.steps) {
      const DeviceId device = step.device;
      for (size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i] >= 0 && step.kernel->reads_input(i)) step.inputs[i] = at(device, step.inputs[i]);
      if (device.is_gpu())
        for (int32_t& output : step.outputs) output = at(device, output);
      steps_.push_back(std::move(step));
    }
    while (!outputs_.empty()) bring(outputs_.begin()->first);
    plan_.steps = std::move(steps_);
    bring_inputs_first();
  }

 private:
  PlanValue& value(int32_t id) { return plan_.values[static_cast<size_t>(id)]; }

  DeviceId device_of(int32_t id) { return value(plan_.root(id)).device; }

  int32_t add_value(PlanValue made) {
    plan_.values.push_back(std::move(made));
    return static_cast<int32_t>(plan_.values.size()) - 1;
  }

  // Makes room on a GPU for what steps there write.
  void move(int32_t id, DeviceId device) {
    if (computed_.count(id) != 0) return;
    if (value(id).storage == Storage::arena) {
      value(id).device = device;
      return;
    }
    if (value(id).storage != Storage::output)
      throw Error(ErrorCode::internal, fmt::format("'{}' cannot be computed on a GPU", value(id).name));
    PlanValue computed = value(id);
    computed.name += suffix(device);
    computed.storage = Storage::arena;
    computed.index = -1;
    computed.device = device;
    computed.copy_of = id;
    const int32_t twin = add_value(std::move(computed));
    outputs_[id] = computed_[id] = twin;
    twins_[{id, device}] = twin;
  }

  // Makes the copy that the caller gets of an output that a GPU computes: at the end, or when the host reads it before.
  void bring(int32_t output) {
    const auto it = outputs_.find(output);
    if (it == outputs_.end()) return;
    const int32_t computed = it->second;
    outputs_.erase(it);
    add_copy(computed, output);
  }

  // The same value in the memory of `device`.
  int32_t at(DeviceId device, int32_t id) {
    if (const auto it = twins_.find({id, device}); it != twins_.end()) return it->second;
    if (value(id).storage == Storage::alias || value(id).storage == Storage::slice) {
      const int32_t inner = at(device, value(id).index);
      if (inner == value(id).index) return id;
      PlanValue view = value(id);
      view.name += suffix(device);
      view.index = inner;
      view.copy_of = id;
      return twins_[{id, device}] = add_value(std::move(view));
    }
    if (device_of(id) == device) {
      bring(id);
      return id;
    }
    if (value(id).storage == Storage::dynamic)
      throw Error(ErrorCode::internal, fmt::format("'{}' cannot be copied to a GPU", value(id).name));
    PlanValue copy = value(id);
    copy.name += suffix(device);
    copy.device = device;
    copy.copy_of = id;
    if (copy.storage != Storage::constant) {
      copy.storage = Storage::arena;
      copy.index = -1;
    }
    const bool is_constant = copy.storage == Storage::constant;
    const int32_t twin = add_value(std::move(copy));
    const auto computed = computed_.find(id);
    if (!is_constant) add_copy(computed == computed_.end() ? id : computed->second, twin);
    return twins_[{id, device}] = twin;
  }

  // Copies of inputs between other steps would cut what is recorded of these: a decoder's step has six of some numbers.
  void bring_inputs_first() {
    const auto is_of_input = [&](const PlanStep& step) {
      return step.node < 0 && step.device.is_gpu() && step.inputs.size() == 1 &&
             value(plan_.root(step.inputs[0])).storage == Storage::input;
    };
    const auto first =
        std::find_if(plan_.steps.begin(), plan_.steps.end(), [](const PlanStep& s) { return s.device.is_gpu(); });
    std::stable_partition(first, plan_.steps.end(), is_of_input);
  }

  std::string suffix(DeviceId device) const {
    if (device.is_host()) return " (on the host)";
    return has_several_gpus_ ? fmt::format(" (on {})", to_string(device)) : " (on the device)";
  }

  void add_copy(int32_t from, int32_t to) {
    const DeviceId source = device_of(from), target = device_of(to);
    PlanStep step;
    step.name = value(to).name;
    step.op = "copy";
    step.tactic = step.description = target.is_host()   ? "copy_to_host"
                                     : source.is_host() ? "copy_to_device"
                                                        : "copy_between_devices";
    step.kernel = std::make_shared<const TransferKernel>(source, target);
    step.device = target.is_host() ? source : target;
    step.inputs = {from};
    step.outputs = {to};
    steps_.push_back(std::move(step));
  }

  Plan& plan_;
  const bool has_several_gpus_;
  std::vector<PlanStep> steps_;
  std::map<std::pair<int32_t, DeviceId>, int32_t> twins_;
  std::map<int32_t, int32_t> computed_;  // of the caller's outputs: what a GPU computes for them …
  std::map<int32_t, int32_t> outputs_;   // … which is not copied yet
};

// What a step on a GPU updates in place, and what it makes of it, has the caller's memory or the executor's for it (see
// PlanValue::is_apart). That knows of one copy on a GPU for each input and output: where there are more, or the step
// runs elsewhere, they stay in the arena.
void set_apart(Plan& plan, int32_t input, int32_t output) {
  const auto only_copy = [&](int32_t of) {
    int32_t found = -1;
    for (size_t v = 0; v < plan.values.size(); ++v) {
      if (plan.values[v].storage != Storage::arena || plan.values[v].copy_of != of) continue;
      if (found >= 0) return -1;
      found = static_cast<int32_t>(v);
    }
    return found;
  };
  const int32_t read = only_copy(input), written = only_copy(output);
  const auto has = [&](const std::vector<int32_t>& ids, int32_t root) {
    return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && plan.root(id) == root; });
  };
  if (read < 0 || written < 0 || std::none_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
        return has(step.inputs, read) && has(step.outputs, written);
      }))
    return;
  for (const int32_t id : {read, written}) plan.values[static_cast<size_t>(id)].is_apart = true;
}

}  // namespace

void place_values(Plan& plan) {
  ValuePlacer(plan).run();
  const std::vector<int32_t> aliased = aliased_inputs(plan);
  for (size_t o = 0; o < aliased.size(); ++o)
    if (aliased[o] >= 0) set_apart(plan, plan.inputs[static_cast<size_t>(aliased[o])], plan.root(plan.outputs[o]));
}

void upload_constants(Plan& plan, DeviceQueue& queue) {
  constexpr size_t alignment = 256;
  size_t bytes = 0;
  const auto is_wanted = [&](const PlanValue& value) {
    return value.storage == Storage::constant && value.device == queue.device() && value.constant->bytes() > 0;
  };
  for (const PlanValue& value : plan.values)
    if (is_wanted(value)) bytes += (value.constant->bytes() + alignment - 1) / alignment * alignment;
  if (bytes == 0) return;
  const std::shared_ptr<std::byte> memory = queue.allocate(bytes, "the weights of an engine");
  size_t at = 0;
  for (PlanValue& value : plan.values) {
    if (!is_wanted(value)) continue;
    value.uploaded = std::shared_ptr<std::byte>(memory, memory.get() + at);
    queue.copy_to_device(value.uploaded.get(), {value.constant->data(), value.constant->bytes()});
    at += (value.constant->bytes() + alignment - 1) / alignment * alignment;
  }
  queue.synchronize();
}

}  // namespace camshaft
