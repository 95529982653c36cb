#include "compile/plan/alive_memory.h"

#include <algorithm>

#include "compile/plan/bound_plan.h"

namespace camshaft {

AliveMemory::AliveMemory(const Plan& plan, const SymbolBindings& symbols)
    : lifetimes_(plan.values.size()), alive_(plan.steps.size(), 0) {
  const auto life_of = [&](int32_t id) -> Lifetime* {
    const int32_t root = id < 0 ? -1 : plan.root(id);
    const bool counts = root >= 0 && plan.values[static_cast<size_t>(root)].storage == Storage::arena;
    return counts ? &lifetimes_[static_cast<size_t>(root)] : nullptr;
  };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const int32_t id : plan.steps[s].inputs)
      if (Lifetime* life = life_of(id)) life->last = std::max(life->last, s);
    for (const int32_t id : plan.steps[s].outputs)
      if (Lifetime* life = life_of(id)) {
        life->first = std::min(life->first, s);
        life->last = std::max(life->last, s);
      }
  }
  for (size_t v = 0; v < plan.values.size(); ++v) {
    Lifetime& life = lifetimes_[v];
    if (life.first == SIZE_MAX) continue;
    try {
      Dims dims;
      for (const Dim& d : plan.values[v].type.shape) dims.push_back(d.evaluate(symbols));
      // A profile may name any sizes; sums over all values must fit.
      constexpr size_t most = size_t{1} << 40;
      life.bytes = static_cast<int64_t>(std::min(operand_bytes(plan.values[v].type.dtype, dims), most));
    } catch (const Error&) {
      life.bytes = 0;
    }
    count(life, life.bytes);
  }
  peak_ = alive_.empty() ? 0 : *std::max_element(alive_.begin(), alive_.end());
}

void AliveMemory::count(const Lifetime& life, int64_t bytes) {
  for (size_t s = life.first; s < alive_.size() && s <= life.last; ++s) alive_[s] += bytes;
}

bool AliveMemory::merge(int32_t part, int32_t whole, bool counted) {
  Lifetime& inner = lifetimes_[static_cast<size_t>(part)];
  Lifetime& outer = lifetimes_[static_cast<size_t>(whole)];
  const Lifetime before = outer;
  count(inner, -inner.bytes);
  if (counted) {
    count(outer, -outer.bytes);
    outer.first = std::min(outer.first, inner.first);
    outer.last = std::max(outer.last, inner.last);
    count(outer, outer.bytes);
  }
  const auto from = static_cast<int64_t>(std::min(outer.first, alive_.size()));
  const auto to = static_cast<int64_t>(std::min(outer.last + 1, alive_.size()));
  const auto most = std::max_element(alive_.begin() + from, alive_.begin() + std::max(from, to));
  if (counted && from<to&& * most> peak_) {
    count(outer, -outer.bytes);
    outer = before;
    count(outer, outer.bytes);
    count(inner, inner.bytes);
    return false;
  }
  inner = {};
  return true;
}

}  // namespace camshaft
