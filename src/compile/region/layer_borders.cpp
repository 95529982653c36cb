#include "compile/region/layer_borders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace camshaft {

namespace {

constexpr size_t most_names = 3;

bool is_any_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

bool is_product(std::string_view op) {
  return is_any_of(op, {"conv", "matmul", "conv_transpose", "attention", "linear_attention", "recurrent", "chain"});
}

bool is_elementwise(std::string_view op) {
  return is_any_of(op, {"pointwise", "cast"});
}

bool needs_all(std::string_view op) {
  return is_any_of(op, {"layer_norm", "group_norm", "softmax", "reduce", "arg_reduce", "top_k"});
}

// Empty where fuse() has the say: a pointwise operator behind a product, a reduction or another one.
std::string reason(const PlanStep& step, const PlanStep& reader) {
  if (step.tactic == "reference") return "it runs through the reference evaluation";
  if (!is_product(step.op) && !is_elementwise(step.op) && step.op != "reduce")
    return fmt::format("no kernel for {} computes more behind it", step.op);
  if (is_elementwise(reader.op)) return "";
  if (is_product(reader.op)) return fmt::format("{} begins a kernel: it reads what it takes many times", reader.op);
  if (needs_all(reader.op)) return fmt::format("{} needs many results before it can give its first", reader.op);
  return fmt::format("{} has a kernel of its own", reader.op);
}

const std::string& name_of(const PlanStep& step) {
  return step.sources.empty() ? step.name : step.sources.front();
}

bool is_named(const PlanStep& step, const std::vector<std::string>& notes) {
  const auto is_in_notes = [&](const std::string& name) {
    const std::string quoted = fmt::format("'{}'", name);
    return std::any_of(notes.begin(), notes.end(),
                       [&](const std::string& note) { return note.find(quoted) != std::string::npos; });
  };
  return is_in_notes(step.name) || std::any_of(step.sources.begin(), step.sources.end(), is_in_notes);
}

// The steps that read each value, through reshapes too. Operands that lie in a concatenation's result already are not
// read by it.
std::vector<std::vector<int32_t>> readers_of(const Plan& plan) {
  std::vector<std::vector<int32_t>> readers(plan.values.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    if (step.node < 0) continue;
    for (int32_t id : step.inputs) {
      if (id < 0) continue;
      if (step.op == "concat" && plan.root(id) == plan.root(step.outputs.front())) continue;
      while (plan.values[static_cast<size_t>(id)].storage == Storage::alias)
        id = plan.values[static_cast<size_t>(id)].index;
      std::vector<int32_t>& list = readers[static_cast<size_t>(id)];
      if (list.empty() || list.back() != static_cast<int32_t>(s)) list.push_back(static_cast<int32_t>(s));
    }
  }
  return readers;
}

}  // namespace

void note_borders(const Plan& plan, std::vector<LayerExplanation>& explanations) {
  const std::vector<std::vector<int32_t>> readers = readers_of(plan);
  for (const PlanStep& step : plan.steps) {
    if (step.node < 0) continue;
    std::vector<std::string>& notes = explanations[static_cast<size_t>(step.node)].notes;
    const std::vector<std::string> before = notes;
    std::vector<std::pair<std::string, std::vector<std::string>>> told;  // reasons and readers
    for (const int32_t id : step.outputs) {
      if (id < 0) continue;
      for (const int32_t r : readers[static_cast<size_t>(id)]) {
        const PlanStep& reader = plan.steps[static_cast<size_t>(r)];
        const std::string why = reason(step, reader);
        if (why.empty() || is_named(reader, before)) continue;
        auto at = std::find_if(told.begin(), told.end(), [&](const auto& pair) { return pair.first == why; });
        if (at == told.end()) at = told.insert(told.end(), {why, {}});
        at->second.push_back(fmt::format("'{}'", name_of(reader)));
      }
    }
    for (auto& [why, names] : told) {
      const size_t more = names.size() > most_names ? names.size() - most_names : 0;
      names.resize(names.size() - more);
      notes.push_back(fmt::format("not fused with {}{}: {}", fmt::join(names, ", "),
                                  more > 0 ? fmt::format(" and {} more", more) : "", why));
    }
  }
}

}  // namespace camshaft
