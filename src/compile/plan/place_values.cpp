#include "compile/plan/place_values.h"

#include <fmt/format.h>

#include <map>

namespace camshaft {

namespace {

class TransferLaunch final : public Launch {
 public:
  TransferLaunch(Place to, size_t bytes) : to_(to), bytes_(bytes) {}
  void run(const LaunchArguments& arguments) override {
    if (to_ == Place::device) {
      arguments.queue->copy_to_device(arguments.outputs[0], {arguments.inputs[0], bytes_});
    } else {
      arguments.queue->copy_to_host({arguments.outputs[0], bytes_}, arguments.inputs[0]);
    }
  }

 private:
  Place to_;
  size_t bytes_;
};

/// Between host and device: the device's work, in its order.
class TransferKernel final : public Kernel {
 public:
  explicit TransferKernel(Place to) : to_(to) {}
  Place place() const override { return Place::device; }
  bool can_be_recorded() const override { return false; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<TransferLaunch>(to_,
                                            byte_size(shapes.inputs[0].dtype, element_count(shapes.inputs[0].dims)));
  }

 private:
  Place to_;
};

class Placer {
 public:
  explicit Placer(Plan& plan) : plan_(plan) {}

  void run() {
    // Parts of a concatenation are where that is, before it is there.
    for (const PlanStep& step : plan_.steps)
      if (step.kernel->place() == Place::device)
        for (const int32_t output : step.outputs) move(plan_.root(output));
    for (PlanStep& step : plan_.steps) {
      const Place place = step.kernel->place();
      for (size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i] >= 0 && step.kernel->reads_input(i)) step.inputs[i] = at(place, step.inputs[i]);
      if (place == Place::device)
        for (int32_t& output : step.outputs) output = at(place, output);
      steps_.push_back(std::move(step));
    }
    while (!outputs_.empty()) bring(outputs_.begin()->first);
    plan_.steps = std::move(steps_);
  }

 private:
  PlanValue& value(int32_t id) { return plan_.values[static_cast<size_t>(id)]; }

  Place place_of(int32_t id) { return value(plan_.root(id)).place; }

  int32_t add_value(PlanValue made) {
    plan_.values.push_back(std::move(made));
    return static_cast<int32_t>(plan_.values.size()) - 1;
  }

  // Makes room on the device for what steps there write.
  void move(int32_t id) {
    if (outputs_.count(id) != 0) return;
    if (value(id).storage == Storage::arena) {
      value(id).place = Place::device;
      return;
    }
    if (value(id).storage != Storage::output)
      throw Error(ErrorCode::internal, fmt::format("'{}' cannot be computed on the device", value(id).name));
    PlanValue computed = value(id);
    computed.name += " (on the device)";
    computed.storage = Storage::arena;
    computed.index = -1;
    computed.place = Place::device;
    computed.copy_of = id;
    const int32_t twin = add_value(std::move(computed));
    outputs_[id] = twin;
    twins_[{id, Place::device}] = twin;
  }

  // Makes the copy that the caller gets of an output that the device computes: at the end, or when it is read before.
  void bring(int32_t output) {
    const auto it = outputs_.find(output);
    if (it == outputs_.end()) return;
    const int32_t computed = it->second;
    outputs_.erase(it);
    add_copy(computed, output, Place::host);
  }

  // The same value in the memory of `place`.
  int32_t at(Place place, int32_t id) {
    if (const auto it = twins_.find({id, place}); it != twins_.end()) return it->second;
    if (value(id).storage == Storage::alias || value(id).storage == Storage::slice) {
      const int32_t inner = at(place, value(id).index);
      if (inner == value(id).index) return id;
      PlanValue view = value(id);
      view.name += suffix(place);
      view.index = inner;
      view.copy_of = id;
      return twins_[{id, place}] = add_value(std::move(view));
    }
    if (place_of(id) == place) {
      bring(id);
      return id;
    }
    if (value(id).storage == Storage::dynamic)
      throw Error(ErrorCode::internal, fmt::format("'{}' cannot be copied to the device", value(id).name));
    PlanValue copy = value(id);
    copy.name += suffix(place);
    copy.place = place;
    copy.copy_of = id;
    if (copy.storage != Storage::constant) {
      copy.storage = Storage::arena;
      copy.index = -1;
    }
    const bool is_constant = copy.storage == Storage::constant;
    const int32_t twin = add_value(std::move(copy));
    if (!is_constant) add_copy(id, twin, place);
    return twins_[{id, place}] = twin;
  }

  static std::string suffix(Place place) { return place == Place::device ? " (on the device)" : " (on the host)"; }

  void add_copy(int32_t from, int32_t to, Place place) {
    PlanStep step;
    step.name = value(to).name;
    step.op = "copy";
    step.tactic = step.description = place == Place::device ? "copy_to_device" : "copy_to_host";
    step.kernel = std::make_shared<const TransferKernel>(place);
    step.inputs = {from};
    step.outputs = {to};
    steps_.push_back(std::move(step));
  }

  Plan& plan_;
  std::vector<PlanStep> steps_;
  std::map<std::pair<int32_t, Place>, int32_t> twins_;
  std::map<int32_t, int32_t> outputs_;  // of the caller, not copied yet, and what the device computes for them
};

}  // namespace

void place_values(Plan& plan) {
  Placer(plan).run();
}

void upload_constants(Plan& plan, DeviceQueue& queue) {
  constexpr size_t alignment = 256;
  size_t bytes = 0;
  const auto is_wanted = [](const PlanValue& value) {
    return value.storage == Storage::constant && value.place == Place::device && value.constant->bytes() > 0;
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
