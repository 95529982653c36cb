#include "compile/plan/bound_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/out_of_memory.h"
#include "compile/plan/memory_planner.h"
#include "ir/symbols.h"

namespace camshaft {

namespace {

// 0 when it cannot be told.
size_t machine_memory_bytes() {
  static const size_t bytes = [] {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : size_t{0};
  }();
  return bytes;
}

// In elements: where in its root a value begins, and how far apart its rows are.
struct Position {
  int64_t offset = 0, pitch = 1;
};

Position place(const Plan& plan, int32_t id, const SymbolBindings& symbols) {
  const auto value = [&](int32_t v) -> const PlanValue& { return plan.values[static_cast<size_t>(v)]; };
  const auto columns = [&](int32_t v) {
    return value(v).type.shape.empty() ? 1 : value(v).type.shape.back().evaluate(symbols);
  };
  std::vector<int32_t> inside;  // from the value outwards; a chain of views may be long
  for (; value(id).storage == Storage::alias || value(id).storage == Storage::slice; id = value(id).index)
    inside.push_back(id);
  Position at{0, columns(id)};
  for (size_t i = inside.size(); i-- > 0;) {
    const PlanValue& v = value(inside[i]);
    // Whether it lies inside is looked at later: rows and columns may be any numbers, and Dim's arithmetic is checked.
    if (v.storage == Storage::slice)
      at.offset =
          (Dim(at.offset) + Dim(v.row.evaluate(symbols)) * Dim(at.pitch) + Dim(v.column.evaluate(symbols))).value();
    if (plan.is_dense(inside[i])) at.pitch = columns(inside[i]);
  }
  return at;
}

}  // namespace

size_t operand_bytes(DType dtype, const Dims& dims) {
  return storage_bytes(dtype, element_count(dims));
}

KernelShapes kernel_shapes(const Plan& plan, const PlanStep& step, const SymbolBindings& symbols, int threads) {
  KernelShapes shapes;
  shapes.symbols = &symbols;
  shapes.threads = threads;
  const auto concrete = [&](int32_t id) {
    OperandShape operand;
    if (id < 0) return operand;
    const TensorType& type = plan.values[static_cast<size_t>(id)].type;
    operand.dtype = type.dtype;
    for (const Dim& d : type.shape) operand.dims.push_back(d.evaluate(symbols));
    if (!plan.is_dense(id)) operand.row_stride = place(plan, id, symbols).pitch;
    return operand;
  };
  for (const int32_t id : step.inputs) shapes.inputs.push_back(concrete(id));
  for (const int32_t id : step.outputs) shapes.outputs.push_back(concrete(id));
  return shapes;
}

BoundPlan::BoundPlan(const Plan& plan, SymbolBindings symbols, int threads) : symbols_(std::move(symbols)) {
  const auto message = [] { return "out of memory while preparing the kernels for these input shapes"; };
  name_out_of_memory(message, [&] {
    bind_values(plan);
    bind_slices(plan);
    prepare_steps(plan, threads);
    hoist(plan);
    offsets_.assign(plan.values.size(), 0);
    workspace_offsets_.assign(plan.steps.size(), 0);
    for (const DeviceId device : plan.devices()) plan_arena(plan, device);
  });
}

void BoundPlan::bind_values(const Plan& plan) {
  dims_.resize(plan.values.size());
  known_.assign(plan.values.size(), false);
  bytes_.assign(plan.values.size(), 0);
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const PlanValue& value = plan.values[v];
    if (value.storage == Storage::none || !is_bound(value.type.shape, symbols_)) continue;
    try {
      for (const Dim& d : value.type.shape) dims_[v].push_back(d.evaluate(symbols_));
      bytes_[v] = operand_bytes(value.type.dtype, dims_[v]);
      // Tables are as long as an axis even where another axis is empty.
      Dims not_empty = dims_[v];
      for (int64_t& d : not_empty) d = std::max<int64_t>(d, 1);
      const size_t most = operand_bytes(value.type.dtype, not_empty), memory = machine_memory_bytes();
      if (memory > 0 && most > memory)
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{} needs {} bytes, this machine has {}", to_string(dims_[v]), most, memory));
    } catch (const Error& e) {
      throw Error(e.code() == ErrorCode::out_of_memory ? e.code() : ErrorCode::invalid_argument,
                  fmt::format("the input shapes do not fit this model: tensor '{}' of shape {}: {}", value.name,
                              to_string(value.type), e.what()));
    }
    known_[v] = true;
  }
  for (size_t v = 0; v < plan.values.size(); ++v) {
    if (plan.values[v].storage != Storage::alias || !known_[v]) continue;
    const auto of = static_cast<size_t>(plan.values[v].index);
    if (known_[of] && bytes_[of] != bytes_[v])
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the input shapes do not fit this model: tensor '{}' is {} and cannot be seen as '{}' of "
                              "shape {}",
                              plan.values[of].name, to_string(dims_[of]), plan.values[v].name, to_string(dims_[v])));
  }
}

void BoundPlan::bind_slices(const Plan& plan) {
  shifts_.assign(plan.values.size(), 0);
  row_strides_.assign(plan.values.size(), 0);
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const PlanValue& value = plan.values[v];
    const auto id = static_cast<int32_t>(v);
    if (!known_[v] || bytes_[v] == 0 || !known_[static_cast<size_t>(plan.root(id))] ||
        (value.storage != Storage::alias && value.storage != Storage::slice))
      continue;
    const Position at = place(plan, id, symbols_);
    shifts_[v] = (Dim(at.offset) * Dim(static_cast<int64_t>(operand_bytes(value.type.dtype, {})))).value();
    if (!plan.is_dense(id)) row_strides_[v] = at.pitch;
    if (value.storage != Storage::slice) continue;
    const Dims& whole = dims_[static_cast<size_t>(value.index)];
    const int64_t rows = element_count(dims_[v]) / dims_[v].back(), row = value.row.evaluate(symbols_);
    const int64_t column = value.column.evaluate(symbols_), last = whole.back();
    const int64_t whole_rows = last == 0 ? 0 : element_count(whole) / last;
    if (row < 0 || column < 0 || row > whole_rows - rows || column > last - dims_[v].back())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the input shapes do not fit this model: tensor '{}' of shape {} is no part of '{}' of "
                              "shape {} at row {}, column {}",
                              value.name, to_string(dims_[v]), plan.values[static_cast<size_t>(value.index)].name,
                              to_string(whole), row, column));
  }
}

void BoundPlan::prepare_steps(const Plan& plan, int threads) {
  launches_.resize(plan.steps.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    if (step.kernel->has_dynamic_outputs()) continue;
    const auto ready = [&](int32_t id) { return id < 0 || known(id); };
    if (!std::all_of(step.inputs.begin(), step.inputs.end(), ready) ||
        !std::all_of(step.outputs.begin(), step.outputs.end(), ready) ||
        !std::all_of(step.late_symbols.begin(), step.late_symbols.end(),
                     [&](const std::string& name) { return symbols_.count(name) != 0; }))
      continue;
    try {
      launches_[s] = step.kernel->prepare(kernel_shapes(plan, step, symbols_, threads));
    } catch (const Error& e) {
      throw Error(
          e.code(),
          fmt::format("layer '{}'{}: {}", step.name,
                      step.sources.empty() ? "" : fmt::format(" (from node '{}')", step.sources.front()), e.what()));
    }
  }
}

// A hoisted step reads constants and what hoisted ones have written, and writes what these alone write.
void BoundPlan::settle_hoisted(const Plan& plan) {
  std::vector<bool> is_invariant(plan.values.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    const auto each_output = [&](size_t s, bool value) {
      for (const int32_t id : plan.steps[s].outputs) is_invariant[static_cast<size_t>(plan.root(id))] = value;
    };
    for (size_t s = 0; s < plan.steps.size(); ++s)
      if (is_hoisted_[s]) each_output(s, true);
    for (size_t s = 0; s < plan.steps.size(); ++s)
      if (!is_hoisted_[s]) each_output(s, false);
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const auto is_there = [&](int32_t id) {
        const int32_t root = id < 0 ? -1 : plan.root(id);
        return root < 0 || is_invariant[static_cast<size_t>(root)] ||
               plan.values[static_cast<size_t>(root)].storage == Storage::constant;
      };
      const PlanStep& step = plan.steps[s];
      if (!is_hoisted_[s] || (std::all_of(step.inputs.begin(), step.inputs.end(), is_there) &&
                              std::all_of(step.outputs.begin(), step.outputs.end(), is_there)))
        continue;
      is_hoisted_[s] = false;
      changed = true;
    }
  }
}

std::vector<int32_t> BoundPlan::values_to_keep(const Plan& plan) const {
  std::vector<bool> is_hoisted(plan.values.size(), false);
  for (size_t s = 0; s < plan.steps.size(); ++s)
    if (is_hoisted_[s])
      for (const int32_t id : plan.steps[s].outputs) is_hoisted[static_cast<size_t>(plan.root(id))] = true;
  std::vector<int32_t> found;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (is_hoisted_[s]) continue;
    for (const int32_t id : plan.steps[s].inputs) {
      const int32_t root = id < 0 ? -1 : plan.root(id);
      if (root < 0 || !is_hoisted[static_cast<size_t>(root)]) continue;
      is_hoisted[static_cast<size_t>(root)] = false;  // each once
      found.push_back(root);
    }
  }
  return found;
}

void BoundPlan::hoist(const Plan& plan) {
  is_hoisted_.assign(plan.steps.size(), false);
  is_kept_.assign(plan.values.size(), false);
  for (size_t s = 0; s < plan.steps.size(); ++s) is_hoisted_[s] = plan.steps[s].is_invariant && launches_[s];
  std::vector<int32_t> kept;
  for (;;) {
    settle_hoisted(plan);
    kept = values_to_keep(plan);
    int64_t bytes = 0;
    for (const int32_t id : kept) bytes += static_cast<int64_t>(bytes_[static_cast<size_t>(id)]);
    if (bytes <= most_kept_bytes) break;
    const int32_t largest = *std::max_element(kept.begin(), kept.end(), [&](int32_t a, int32_t b) {
      return bytes_[static_cast<size_t>(a)] < bytes_[static_cast<size_t>(b)];
    });
    for (size_t s = 0; s < plan.steps.size(); ++s)
      for (const int32_t id : plan.steps[s].outputs)
        if (plan.root(id) == largest) is_hoisted_[s] = false;
  }
  for (const int32_t id : kept) is_kept_[static_cast<size_t>(id)] = true;
  hoists_ = std::find(is_hoisted_.begin(), is_hoisted_.end(), true) != is_hoisted_.end();
}

int64_t BoundPlan::kept_bytes() const {
  int64_t bytes = 0;
  for (const auto& [device, arena] : arenas_) bytes += arena.kept;
  return bytes;
}

void BoundPlan::plan_arena(const Plan& plan, DeviceId device) {
  // Values that run in place share one buffer: the first of the chain stands for all.
  std::vector<int32_t> buffer(plan.values.size(), -1);
  std::vector<BufferLifetime> lifetimes;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const int32_t id : plan.steps[s].outputs) {
      const PlanValue& value = plan.values[static_cast<size_t>(id)];
      if (value.storage != Storage::arena || value.device != device || is_kept(id) || value.is_apart) continue;
      const auto v = static_cast<size_t>(id);
      if (value.in_place_of >= 0 && launches_[s] && !is_kept(value.in_place_of) &&
          !plan.values[static_cast<size_t>(value.in_place_of)].is_apart) {
        buffer[v] = buffer[static_cast<size_t>(value.in_place_of)];
        BufferLifetime& shared = lifetimes[static_cast<size_t>(buffer[v])];
        shared.last = std::max(shared.last, value.last_step);
      } else {
        buffer[v] = static_cast<int32_t>(lifetimes.size());
        lifetimes.push_back({static_cast<int64_t>(bytes_[v]), value.first_step, value.last_step});
      }
    }
  }
  std::vector<std::pair<size_t, size_t>> workspaces;  // steps and buffers
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].device != device) continue;
    workspaces.emplace_back(s, lifetimes.size());
    const int64_t bytes = launches_[s] ? static_cast<int64_t>(launches_[s]->workspace_bytes()) : 0;
    lifetimes.push_back({bytes, static_cast<int32_t>(s), static_cast<int32_t>(s)});
  }
  const int64_t alignment = device.is_host() ? 64 : 256;
  const MemoryPlan memory = plan_memory(lifetimes, alignment);
  for (size_t v = 0; v < plan.values.size(); ++v)
    if (buffer[v] >= 0) offsets_[v] = memory.offsets[static_cast<size_t>(buffer[v])];
  for (const auto& [step, b] : workspaces) workspace_offsets_[step] = memory.offsets[b];
  int64_t kept = 0;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    if (!is_kept_[v] || plan.values[v].device != device) continue;
    offsets_[v] = kept;
    kept += (static_cast<int64_t>(bytes_[v]) + alignment - 1) / alignment * alignment;
  }
  arenas_[device] = {memory.peak, memory.lower_bound, kept};
}

}  // namespace camshaft
