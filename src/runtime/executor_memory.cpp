// The memory that a run uses: the executor's own, and the caller's.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/first_touch.h"
#include "runtime/executor.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

// Where operands without elements lie: kernels do arithmetic on addresses, and take null for an omitted operand.
alignas(64) constinit std::byte nothing[64] = {};

}  // namespace

bool Executor::has_room(const BoundPlan& bound) const {
  return (arenas_ || arena_.size() >= static_cast<size_t>(bound.arena_bytes(DeviceId::host))) &&
         std::all_of(gpus_.begin(), gpus_.end(), [&](const auto& gpu) {
           return gpu.second.arena_bytes >= static_cast<size_t>(bound.arena_bytes(gpu.first));
         });
}

AlignedBuffer Executor::new_arena(size_t bytes) {
  AlignedBuffer arena(bytes, "the intermediate tensors of a context");
  if (memory_nodes() > 1) {
    const ThreadPool::Session session(pool_);
    touch_pages(pool_, arena.bytes());
  }
  return arena;
}

void Executor::reserve(const BoundPlan& bound) {
  constexpr const char* purpose = "the intermediate tensors of a context";
  const auto needed = [&](DeviceId device) { return static_cast<size_t>(bound.arena_bytes(device)); };
  if (!has_room(bound)) wait_for_runs();
  if (!arenas_ && arena_.size() < needed(DeviceId::host)) {
    arena_ = AlignedBuffer();  // give the old one back before asking for more
    arena_ = new_arena(needed(DeviceId::host));
  }
  for (auto& [id, gpu] : gpus_) {
    if (gpu.arena_bytes >= needed(id)) continue;
    if (keeps_memory_) kept_for_caller_.push_back(gpu.arena);
    gpu.arena.reset();
    gpu.arena_bytes = 0;
    gpu.arena = gpu.queue->allocate(needed(id), purpose);
    gpu.arena_bytes = needed(id);
  }
  size_t operands = 0;
  for (const PlanStep& step : plan_->steps) operands = std::max({operands, step.inputs.size(), step.outputs.size()});
  step_inputs_.reserve(operands);
  step_outputs_.reserve(operands);
}

// Memory of the context's own for an output.
std::byte* Executor::host_output(size_t o, size_t bytes) {
  AlignedBuffer& own = own_outputs_[o].on_host;
  if (own.size() < bytes || own.data() == nullptr) {
    wait_for_gpus();
    own = AlignedBuffer(std::max<size_t>(bytes, 64), "an output");
  }
  return own.data();
}

std::byte* Executor::on_device(OwnMemory& own, size_t bytes, const char* what) {
  if (own.device_bytes < bytes) {
    wait_for_gpus();
    if (keeps_memory_) kept_for_caller_.push_back(own.on_device);
    own.on_device.reset();
    own.device_bytes = 0;
    own.on_device = main_->queue->allocate(bytes, what);
    own.device_bytes = bytes;
  }
  return own.on_device.get();
}

void Executor::bind_apart(const BoundPlan& bound, const CallerMemory& memory) {
  const auto is_ours = [&](const Transfer& transfer, const CallerBuffer& buffer) {
    return transfer.device_value >= 0 && plan_->values[static_cast<size_t>(transfer.device_value)].is_apart &&
           buffer.device.is_host();
  };
  for (size_t i = 0; i < memory.inputs.size(); ++i) {
    const int32_t value = transfers_.inputs[i].device_value;
    if (is_ours(transfers_.inputs[i], memory.inputs[i]))
      pointers_[static_cast<size_t>(value)] =
          on_device(own_inputs_[i], bound.bytes(value), "an input that is updated in place");
  }
  for (size_t o = 0; o < memory.outputs.size(); ++o) {
    const int32_t value = transfers_.outputs[o].device_value;
    if (is_ours(transfers_.outputs[o], memory.outputs[o]))
      pointers_[static_cast<size_t>(value)] = device_output(o, bound.bytes(value));
  }
}

// An input in the GPU's memory: the steps there read it where it is.
void Executor::bind_input(const BoundPlan& bound, size_t i, const CallerBuffer& buffer) {
  const Transfer& transfer = transfers_.inputs[i];
  if (transfer.step >= 0) {
    left_out_[static_cast<size_t>(transfer.step)] = true;
    if (buffer.data) pointers_[static_cast<size_t>(transfer.device_value)] = buffer.data;
  }
  if (!transfer.on_host) return;
  const size_t bytes = bound.bytes(plan_->inputs[i]);
  if (staged_[i].size() < bytes || staged_[i].data() == nullptr) {
    wait_for_gpus();
    staged_[i] = AlignedBuffer(std::max<size_t>(bytes, 64), "an input that is on the device and read on the host");
  }
  main_->queue->copy_to_host({staged_[i].data(), bytes}, buffer.data);
  main_->is_busy = true;
  pointers_[static_cast<size_t>(plan_->inputs[i])] = staged_[i].data();
}

// An output in the GPU's memory: the step that computes it writes it there. Where that is one of the host, or one
// reads it, the host has memory of its own for it.
void Executor::bind_output(const BoundPlan& bound, size_t o, const CallerBuffer& buffer) {
  const Transfer& transfer = transfers_.outputs[o];
  const int32_t value = plan_->root(plan_->outputs[o]);
  if (transfer.step < 0) return;
  const size_t bytes = bound.bytes(value);
  std::byte* const memory = buffer.data ? buffer.data : device_output(o, bytes);
  if (memory) pointers_[static_cast<size_t>(transfer.device_value)] = memory;
  left_out_[static_cast<size_t>(transfer.step)] = !needs_host_side(o, buffer);
}

bool Executor::needs_host_side(size_t o, const CallerBuffer& buffer) const {
  const Transfer& transfer = transfers_.outputs[o];
  return buffer.device.is_host() || transfer.step < 0 || transfer.on_host || !taps.empty();
}

KeptValues Executor::make_kept_values(const BoundPlan& bound) {
  constexpr const char* purpose = "the tensors that a context keeps for these input shapes";
  KeptValues kept;
  kept.bytes = bound.kept_bytes();
  kept.on_host = AlignedBuffer(static_cast<size_t>(bound.kept_bytes(DeviceId::host)), purpose);
  for (auto& [id, gpu] : gpus_)
    kept.on_gpus[id] = gpu.queue->allocate(static_cast<size_t>(bound.kept_bytes(id)), purpose);
  return kept;
}

void Executor::bind(const BoundPlan& bound, const KeptValues& kept, const CallerMemory& memory) {
  const auto kept_on = [&](DeviceId device) {
    return device.is_host() ? const_cast<std::byte*>(kept.on_host.data()) : kept.on_gpus.at(device).get();
  };
  for (size_t v = 0; v < plan_->values.size(); ++v) {
    const PlanValue& value = plan_->values[v];
    switch (value.storage) {
      case Storage::input:
        pointers_[v] = memory.inputs[static_cast<size_t>(value.index)].data;
        break;
      case Storage::constant:
        pointers_[v] = value.device.is_host() ? const_cast<std::byte*>(value.constant->data()) : value.uploaded.get();
        break;
      case Storage::arena:
        pointers_[v] = (bound.is_kept(static_cast<int32_t>(v)) ? kept_on(value.device) : arena(value.device)) +
                       bound.offset(static_cast<int32_t>(v));
        break;
      case Storage::output: {
        const auto o = static_cast<size_t>(value.index);
        const size_t bytes = bound.bytes(static_cast<int32_t>(v));
        const CallerBuffer& buffer = memory.outputs[o];
        if (buffer.data && buffer.bytes < bytes)
          throw Error(ErrorCode::invalid_argument, fmt::format("output '{}' needs {} bytes, {} are bound",
                                                               plan_->output_names[o], bytes, buffer.bytes));
        pointers_[v] = !needs_host_side(o, buffer)              ? nothing
                       : buffer.data && buffer.device.is_host() ? buffer.data
                                                                : host_output(o, bytes);
        break;
      }
      default:
        break;
    }
    if (!pointers_[v] && bound.bytes(static_cast<int32_t>(v)) == 0) pointers_[v] = nothing;
  }
  left_out_.assign(left_out_.size(), false);
  for (size_t i = 0; i < memory.inputs.size(); ++i)
    if (memory.inputs[i].device.is_gpu()) bind_input(bound, i, memory.inputs[i]);
  for (size_t o = 0; o < memory.outputs.size(); ++o)
    if (memory.outputs[o].device.is_gpu()) bind_output(bound, o, memory.outputs[o]);
  bind_apart(bound, memory);
}

void Executor::finish_outputs(const BoundPlan& bound, const CallerMemory& memory) {
  for (size_t o = 0; o < plan_->outputs.size(); ++o) {
    const int32_t id = plan_->outputs[o];
    const int32_t root = plan_->root(id);
    TensorView& result = results_[o];
    const CallerBuffer& buffer = memory.outputs[o];
    if (plan_->values[static_cast<size_t>(root)].storage != Storage::dynamic) {
      result.dtype = plan_->values[static_cast<size_t>(id)].type.dtype;
      if (result.dims != bound.dims(id)) result.dims = bound.dims(id);
      result.data = pointers_[static_cast<size_t>(root)];
      result.bytes = bound.bytes(root);
      result.device = buffer.device;
      if (buffer.device.is_gpu()) {
        std::byte* const there = buffer.data ? buffer.data : device_output(o, result.bytes);
        if (transfers_.outputs[o].step < 0)
          bring_to_device(there, {pointers_[static_cast<size_t>(root)], result.bytes});
        result.data = there;
      }
      continue;
    }
    const Tensor t = tensor(bound, id);
    result = view_of(t);
    if (!buffer.data && buffer.device.is_host()) continue;
    if (holds_objects(t.dtype()))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("output '{}' holds {} and cannot be bound to memory", plan_->output_names[o],
                              t.dtype() == DType::string ? "strings" : "tensors"));
    if (buffer.data && buffer.bytes < t.bytes())
      throw Error(ErrorCode::invalid_argument, fmt::format("output '{}' needs {} bytes, {} are bound",
                                                           plan_->output_names[o], t.bytes(), buffer.bytes));
    std::byte* const there = buffer.data ? buffer.data : device_output(o, t.bytes());
    result.device = buffer.device;
    if (buffer.device.is_gpu()) {
      bring_to_device(there, {t.data(), t.bytes()});
    } else if (t.bytes() > 0) {
      std::memcpy(there, t.data(), t.bytes());
    }
    result.data = there;
  }
}

// What a step of the host computed.
void Executor::bring_to_device(std::byte* to, std::span<const std::byte> from) {
  main_->queue->copy_to_device(to, from);
  main_->is_busy = true;
}

void Executor::stage_small(const BoundPlan& bound) {
  small_inputs_.clear();
  small_outputs_.clear();
  small_results_.clear();
  if (!main_ || gpus_.size() > 1 || !waits_ || profiler || !taps.empty() || weights_ || traces_layers_) return;
  const size_t most = main_->queue->most_small_copies();
  if (most == 0) return;
  const auto slot = [&](size_t number) { return pinned_.get() + number * most_small_bytes; };
  const auto copied_bytes = [&](const Transfer& transfer) -> size_t {
    if (transfer.step < 0 || left_out_[static_cast<size_t>(transfer.step)]) return 0;
    const PlanStep& step = plan_->steps[static_cast<size_t>(transfer.step)];
    if (!bound.launch(static_cast<size_t>(transfer.step)) || !bound.known(step.inputs[0])) return 0;
    const size_t bytes =
        operand_bytes(plan_->values[static_cast<size_t>(step.inputs[0])].type.dtype, bound.dims(step.inputs[0]));
    return bytes <= most_small_bytes ? bytes : 0;
  };
  const auto take = [&](const Transfer& transfer) -> const PlanStep& {
    if (!pinned_) pinned_ = main_->queue->allocate_pinned(2 * most * most_small_bytes, "small inputs and outputs");
    left_out_[static_cast<size_t>(transfer.step)] = true;
    return plan_->steps[static_cast<size_t>(transfer.step)];
  };
  for (const Transfer& transfer : transfers_.inputs) {
    const size_t bytes = copied_bytes(transfer), number = small_inputs_.size();
    if (bytes == 0 || number == most) continue;
    const PlanStep& step = take(transfer);
    // A copy in the queue would be made behind what is in it.
    if (std::exchange(may_write_host_, false)) main_->queue->synchronize();
    std::memcpy(slot(number), pointer(bound, step.inputs[0]), bytes);
    small_inputs_.push_back({pointer(bound, step.outputs[0]), slot(number), bytes});
  }
  for (const Transfer& transfer : transfers_.outputs) {
    const size_t bytes = transfer.on_host ? 0 : copied_bytes(transfer), number = small_outputs_.size();
    if (bytes == 0 || number == most) continue;
    const PlanStep& step = take(transfer);
    small_outputs_.push_back({slot(most + number), pointer(bound, step.inputs[0]), bytes});
    small_results_.push_back({pointer(bound, step.outputs[0]), slot(most + number), bytes});
  }
}

void Executor::copy_small(std::span<const SmallCopy> copies) {
  if (copies.empty()) return;
  main_->queue->copy_small(copies);
  main_->is_busy = true;
}

void Executor::deliver_small_outputs() {
  for (const SmallCopy& result : small_results_) std::memcpy(result.to, result.from, result.bytes);
}

size_t Executor::memory_bytes() const {
  size_t total = arena_.size() + late_workspace_.size() + dynamic_room_.bytes();
  for (const auto* all : {&own_inputs_, &own_outputs_})
    for (const OwnMemory& own : *all) total += own.on_host.size() + own.device_bytes;
  for (const AlignedBuffer& buffer : staged_) total += buffer.size();
  for (const auto& [id, gpu] : gpus_) total += gpu.arena_bytes;
  return total;
}

}  // namespace camshaft
