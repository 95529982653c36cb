#include "compile/place_slices.h"

#include <algorithm>
#include <optional>

#include "compile/bound_plan.h"
#include "ops/move.h"

namespace camshaft {

namespace {

bool is_one(const Dim& d) {
  return d == Dim(1);
}

// How many leading axes have size 1.
size_t leading_ones(const Shape& shape) {
  return static_cast<size_t>(std::find_if_not(shape.begin(), shape.end(), is_one) - shape.begin());
}

// Rows from one index of `axis` to the next, the last axis being the row.
Dim rows_of(const Shape& shape, size_t axis) {
  Dim rows = 1;
  for (size_t d = axis + 1; d + 1 < shape.size(); ++d) rows = rows * shape[d];
  return rows;
}

class Placer {
 public:
  Placer(Plan& plan, const Graph& graph, const SymbolBindings& symbols)
      : plan_(plan), graph_(graph), symbols_(symbols), uses_(plan.values.size()) {
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      for (size_t i = 0; i < plan.steps[s].inputs.size(); ++i)
        if (const int32_t id = plan.steps[s].inputs[i]; id >= 0) use(id).readers.push_back({s, i});
      for (size_t o = 0; o < plan.steps[s].outputs.size(); ++o) use(plan.steps[s].outputs[o]).writer = {s, o};
    }
    for (size_t v = 0; v < plan.values.size(); ++v)
      if (plan.values[v].storage == Storage::alias)
        use(plan.values[v].index).seen_as.push_back(static_cast<int32_t>(v));
    for (const ValueId id : graph.outputs) use(id).is_output = true;
    measure_memory();
  }

  void run() {
    std::vector<bool> removed(plan_.steps.size(), false);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      if (step.node < 0 || !is_settled(step)) continue;
      const Node& node = graph_.nodes[static_cast<size_t>(step.node)];
      if (const auto* op = node.op.as<ops::Concat>()) place_parts(*op, step);
      if (const auto* op = node.op.as<ops::Slice>()) removed[s] = place_slice(*op, step);
    }
    std::vector<PlanStep> kept;
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      if (!removed[s]) kept.push_back(std::move(plan_.steps[s]));
    plan_.steps = std::move(kept);
  }

 private:
  struct Operand {
    size_t step = SIZE_MAX, index = 0;
  };
  struct Use {
    std::vector<Operand> readers;
    Operand writer;
    std::vector<int32_t> seen_as;  // aliases and slices of this value
    bool is_output = false;
  };
  struct Lifetime {
    int64_t bytes = 0;
    size_t first = SIZE_MAX, last = 0;
  };

  Use& use(int32_t id) { return uses_[static_cast<size_t>(id)]; }
  const Use& use(int32_t id) const { return uses_[static_cast<size_t>(id)]; }
  PlanValue& value(int32_t id) { return plan_.values[static_cast<size_t>(id)]; }
  const PlanValue& value(int32_t id) const { return plan_.values[static_cast<size_t>(id)]; }
  const Shape& shape(int32_t id) const { return value(id).type.shape; }

  // Its launch is prepared with the plan.
  bool is_settled(const PlanStep& step) const {
    const auto known = [&](int32_t id) { return id < 0 || value(plan_.root(id)).storage != Storage::dynamic; };
    return !step.kernel->has_dynamic_outputs() && step.late_symbols.empty() &&
           std::all_of(step.inputs.begin(), step.inputs.end(), known) &&
           std::all_of(step.outputs.begin(), step.outputs.end(), known);
  }

  // Whether a value, and all that is seen in it, may lie in another one; `gaps`: with gaps between its rows; `place`:
  // where those that write and read it must run, as a copy for the other place would be one of all that it lies in.
  bool may_move(int32_t id, bool gaps, std::optional<Place> place, int depth = 0) const {
    constexpr int deepest = 100;  // of views of views
    const Use& u = use(id);
    if (u.is_output || depth > deepest) return false;
    if (u.writer.step != SIZE_MAX) {
      const PlanStep& step = plan_.steps[u.writer.step];
      if ((place && step.kernel->place() != *place) || !is_settled(step) ||
          (gaps && !step.kernel->writes_slices(u.writer.index)))
        return false;
    }
    for (const Operand& reader : u.readers) {
      const PlanStep& step = plan_.steps[reader.step];
      if ((place && step.kernel->place() != *place) || !is_settled(step) ||
          (gaps && !step.kernel->reads_slices(reader.index)))
        return false;
    }
    return std::all_of(u.seen_as.begin(), u.seen_as.end(), [&](int32_t part) {
      const bool same_rows = !shape(part).empty() && shape(part).back() == shape(id).back();
      return (!gaps || same_rows || value(part).storage == Storage::slice) && may_move(part, gaps, place, depth + 1);
    });
  }

  // Whether all of `root` is seen as `id`, and not a slice of it.
  bool sees_all(int32_t id, int32_t root) const {
    for (; id != root; id = value(id).index)
      if (value(id).storage == Storage::slice) return false;
    return true;
  }

  static bool has_bytes(const PlanValue& v) { return !holds_objects(v.type.dtype) && bit_width(v.type.dtype) >= 8; }

  void place_parts(const ops::Concat& op, const PlanStep& step) {
    const int32_t whole = step.outputs[0];
    const auto axis = static_cast<size_t>(op.axis);
    const size_t rank = shape(whole).size();
    const bool columns = axis + 1 == rank;
    if (!has_bytes(value(whole)) || !step.kernel->writes_slices(0) || (!columns && leading_ones(shape(whole)) < axis))
      return;
    const bool gaps = !plan_.is_dense(whole) || (columns && leading_ones(shape(whole)) + 1 < rank);
    Dim at = 0;
    for (const int32_t id : step.inputs) {
      const Dim begin = at;
      at = at + shape(id)[axis];
      const int32_t part = plan_.root(id);
      // An alias must have the rows that the concatenation sees, and be all of what it is an alias of.
      if (value(part).storage != Storage::arena || !sees_all(id, part) || shape(part).empty() ||
          !(shape(part).back() == shape(id).back()) || !may_move(part, gaps, step.kernel->place()) ||
          !merge_memory(part, whole))
        continue;
      value(part).storage = Storage::slice;
      value(part).index = whole;
      value(part).row = columns ? Dim(0) : begin * rows_of(shape(whole), axis);
      value(part).column = columns ? begin : Dim(0);
      use(whole).seen_as.push_back(part);
    }
  }

  bool place_slice(const ops::Slice& op, const PlanStep& step) {
    const int32_t part = step.outputs[0], whole = step.inputs[0];
    const Storage root = value(plan_.root(whole)).storage;
    const size_t rank = shape(whole).size();
    if (!has_bytes(value(part)) || rank == 0 || root == Storage::dynamic || value(part).storage != Storage::arena)
      return false;
    Dim row = 0, column = 0;
    bool gaps = !plan_.is_dense(whole);
    for (size_t i = 0; i < op.axes.size(); ++i) {
      const auto axis = static_cast<size_t>(op.axes[i]);
      if (op.starts[i] == Dim(0) && op.counts[i] == shape(whole)[axis]) continue;
      if (op.steps[i] != 1) return false;
      if (axis + 1 == rank) {
        column = op.starts[i];
        gaps = gaps || leading_ones(shape(part)) + 1 < rank;
      } else if (leading_ones(shape(whole)) >= axis) {
        row = op.starts[i] * rows_of(shape(whole), axis);
      } else {
        return false;
      }
    }
    const Operand writer = use(part).writer;
    use(part).writer = {};  // the step goes
    // What is a part of a concatenation that comes later must be so for all that see it.
    const Operand written = use(plan_.root(whole)).writer;
    const bool incomplete = written.step != SIZE_MAX && &plan_.steps[written.step] > &step;
    const auto place = incomplete ? std::optional(plan_.steps[written.step].kernel->place()) : std::optional<Place>();
    if (!may_move(part, gaps, place) || !merge_memory(part, plan_.root(whole))) {
      use(part).writer = writer;
      return false;
    }
    value(part).storage = Storage::slice;
    value(part).index = whole;
    value(part).row = row;
    value(part).column = column;
    use(whole).seen_as.push_back(part);
    std::erase_if(use(whole).readers, [&](const Operand& r) { return &plan_.steps[r.step] == &step; });
    return true;
  }

  // --- memory ---

  void measure_memory() {
    lifetimes_.resize(plan_.values.size());
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlanValue& root = value(plan_.root(static_cast<int32_t>(v)));
      Lifetime& life = lifetimes_[static_cast<size_t>(plan_.root(static_cast<int32_t>(v)))];
      if (root.storage != Storage::arena) continue;
      for (const Operand& r : uses_[v].readers) life.last = std::max(life.last, r.step);
      if (uses_[v].writer.step == SIZE_MAX) continue;
      life.first = uses_[v].writer.step;
      life.last = std::max(life.last, life.first);
      try {
        Dims dims;
        for (const Dim& d : root.type.shape) dims.push_back(d.evaluate(symbols_));
        // A profile may name any sizes; sums over all values must fit.
        constexpr size_t most = size_t{1} << 40;
        life.bytes = static_cast<int64_t>(std::min(operand_bytes(root.type.dtype, dims), most));
      } catch (const Error&) {
        life.bytes = 0;  // sizes without a value do not decide
      }
    }
    alive_.assign(plan_.steps.size(), 0);
    for (const Lifetime& life : lifetimes_) count(life, life.bytes);
    peak_ = alive_.empty() ? 0 : *std::max_element(alive_.begin(), alive_.end());
  }

  void count(const Lifetime& life, int64_t bytes) {
    for (size_t s = life.first; s < alive_.size() && s <= life.last; ++s) alive_[s] += bytes;
  }

  // Accounts for `part` lying in `whole`; false, with nothing changed, if the peak would grow.
  bool merge_memory(int32_t part, int32_t whole) {
    Lifetime& inner = lifetimes_[static_cast<size_t>(part)];
    Lifetime& outer = lifetimes_[static_cast<size_t>(plan_.root(whole))];
    const Lifetime before = outer;
    const bool counted = value(plan_.root(whole)).storage == Storage::arena;
    count(inner, -inner.bytes);
    if (counted) {
      count(outer, -outer.bytes);
      outer.first = std::min(outer.first, inner.first);
      outer.last = std::max(outer.last, inner.last);
      count(outer, outer.bytes);
    }
    const auto from = static_cast<int64_t>(std::min(outer.first, alive_.size()));
    const auto to = static_cast<int64_t>(std::min(outer.last + 1, alive_.size()));
    if (counted && from<to&& * std::max_element(alive_.begin() + from, alive_.begin() + to)> peak_) {
      count(outer, -outer.bytes);
      outer = before;
      count(outer, outer.bytes);
      count(inner, inner.bytes);
      return false;
    }
    inner = {};
    return true;
  }

  Plan& plan_;
  const Graph& graph_;
  const SymbolBindings& symbols_;
  std::vector<Use> uses_;
  std::vector<Lifetime> lifetimes_;  // of roots in the arena
  std::vector<int64_t> alive_;       // bytes at each step
  int64_t peak_ = 0;
};

}  // namespace

void place_slices(Plan& plan, const Graph& graph, const SymbolBindings& symbols) {
  Placer(plan, graph, symbols).run();
}

}  // namespace camshaft
