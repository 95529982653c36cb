#include "compile/plan/place_slices.h"

#include <algorithm>
#include <optional>

#include "compile/plan/alive_memory.h"
#include "compile/plan/invariant_steps.h"
#include "ir/ops/move.h"

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

class SlicePlacer {
 public:
  SlicePlacer(Plan& plan, const Graph& graph, const SymbolBindings& symbols)
      : plan_(plan),
        graph_(graph),
        uses_(plan.values.size()),
        is_invariant_(find_invariant_steps(plan).values),
        memory_(plan, symbols) {
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      for (size_t i = 0; i < plan.steps[s].inputs.size(); ++i)
        if (const int32_t id = plan.steps[s].inputs[i]; id >= 0) use(id).readers.push_back({s, i});
      for (size_t o = 0; o < plan.steps[s].outputs.size(); ++o) use(plan.steps[s].outputs[o]).writer = {s, o};
    }
    for (size_t v = 0; v < plan.values.size(); ++v)
      if (plan.values[v].storage == Storage::alias)
        use(plan.values[v].index).seen_as.push_back(static_cast<int32_t>(v));
    for (const ValueId id : graph.outputs) use(id).is_output = true;
  }

  void run() {
    std::vector<bool> removed(plan_.steps.size(), false);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      if (step.node < 0 || !is_settled(step)) continue;
      const Node& node = graph_.nodes[static_cast<size_t>(step.node)];
      if (const auto* op = node.op.as<ops::Concat>()) {
        place_parts(*op, step, place_in_operand(*op, step));
      }
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

  // Whether a value, and all that is seen in it, may lie in another one; `gaps`: with gaps between its rows; `device`:
  // where those that write and read it must run, as a copy for another device would be one of all that it lies in.
  bool may_move(int32_t id, bool gaps, std::optional<DeviceId> device, int depth = 0) const {
    constexpr int deepest = 100;  // of views of views
    const Use& u = use(id);
    if (u.is_output || depth > deepest) return false;
    if (u.writer.step != SIZE_MAX) {
      const PlanStep& step = plan_.steps[u.writer.step];
      if ((device && step.device != *device) || !is_settled(step) ||
          (gaps && !step.kernel->writes_slices(u.writer.index)))
        return false;
    }
    for (const Operand& reader : u.readers) {
      const PlanStep& step = plan_.steps[reader.step];
      if ((device && step.device != *device) || !is_settled(step) || (gaps && !step.kernel->reads_slices(reader.index)))
        return false;
    }
    return std::all_of(u.seen_as.begin(), u.seen_as.end(), [&](int32_t part) {
      const bool same_rows = !shape(part).empty() && shape(part).back() == shape(id).back();
      return (!gaps || same_rows || value(part).storage == Storage::slice) && may_move(part, gaps, device, depth + 1);
    });
  }

  // Whether all of `root` is seen as `id`, and not a slice of it.
  bool sees_all(int32_t id, int32_t root) const {
    for (; id != root; id = value(id).index)
      if (value(id).storage == Storage::slice) return false;
    return true;
  }

  // Of values that have, or had, storage of their own.
  bool are_equally_invariant(int32_t a, int32_t b) const {
    return is_invariant_[static_cast<size_t>(a)] == is_invariant_[static_cast<size_t>(b)];
  }

  static bool has_bytes(const PlanValue& v) { return !holds_objects(v.type.dtype) && bit_width(v.type.dtype) >= 8; }

  // --- a concatenation of columns in the memory of what one of its operands is a slice of ---

  // The value whose rows have this operand where those of the concatenation shall have it; -1: there is none.
  int32_t rows_around(int32_t id, const Dim& column, int32_t concat) const {
    const PlanValue& v = value(id);
    if (v.storage != Storage::slice || !(v.row == Dim(0)) || !(v.column == column)) return -1;
    const bool alike = value(v.index).storage == Storage::arena && value(v.index).type == value(concat).type;
    // Invariant steps run before all others, which may read what is written over here.
    const bool is_invariant = is_invariant_[static_cast<size_t>(v.index)];
    return alike && !is_invariant ? v.index : -1;
  }

  // Whether nobody reads these columns of a value, or of what is seen in it, from a step on. The step itself may read
  // them as an operand that its result (from.index, SIZE_MAX: none) may be written over.
  bool are_free(int32_t id, const Dim& column, const Dim& width, const Operand& from, int depth = 0) const {
    constexpr int deepest = 100;
    if (depth > deepest || use(id).is_output) return false;
    const Use& u = use(id);
    const bool same = depth == 1 && from.index != SIZE_MAX && value(id).storage == Storage::slice &&
                      value(id).row == Dim(0) && value(id).column == column && shape(id).back() == width;
    for (const Operand& reader : u.readers) {
      if (reader.step < from.step) continue;
      const PlanStep& step = plan_.steps[reader.step];
      if (reader.step > from.step || !same || !step.kernel->can_run_in_place(reader.index, from.index) ||
          std::count(step.inputs.begin(), step.inputs.end(), id) != 1)
        return false;
    }
    return std::all_of(u.seen_as.begin(), u.seen_as.end(), [&](int32_t part) {
      // Of a slice of a slice the outer one's columns count.
      const PlanValue& v = value(part);
      const bool apart = depth == 0 && v.storage == Storage::slice &&
                         (ends_before(v.column + shape(part).back(), column) || ends_before(column + width, v.column));
      return apart || are_free(part, column, width, from, depth + 1);
    });
  }

  static bool ends_before(const Dim& end, const Dim& begin) {
    return end == begin || (end.is_constant() && begin.is_constant() && end.value() <= begin.value());
  }

  // Says which operands may not be computed where the result is, but only be copied in the end.
  std::vector<bool> place_in_operand(const ops::Concat& op, const PlanStep& step) {
    const int32_t whole = step.outputs[0];
    std::vector<bool> late(step.inputs.size(), false);
    if (static_cast<size_t>(op.axis) + 1 != shape(whole).size() || !has_bytes(value(whole)) || !plan_.is_dense(whole) ||
        value(whole).storage != Storage::arena || !may_move(whole, false, step.device))
      return late;
    Dim at = 0;
    int32_t around = -1;
    for (const int32_t id : step.inputs) {
      if (around < 0) around = rows_around(id, at, whole);
      at = at + shape(id).back();
    }
    if (around < 0 || !may_move(around, false, step.device)) return late;
    at = 0;
    const auto now = static_cast<size_t>(&step - plan_.steps.data());
    std::vector<bool> in_the_end(step.inputs.size(), false);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int32_t id = step.inputs[i], part = plan_.root(id);
      const Dim begin = at;
      at = at + shape(id).back();
      if (rows_around(id, begin, whole) == around) continue;
      if (part == around || !are_free(around, begin, shape(id).back(), {now, SIZE_MAX})) return late;
      Operand from = use(part).writer;
      const size_t first = memory_.first_step(part);
      if (first != from.step) from = {first, SIZE_MAX};
      in_the_end[i] = first <= use(around).writer.step || !are_free(around, begin, shape(id).back(), from);
    }
    if (!merge_memory(whole, around)) return late;
    late = in_the_end;
    value(whole).storage = Storage::alias;
    value(whole).index = around;
    use(around).seen_as.push_back(whole);
    return late;
  }

  void place_parts(const ops::Concat& op, const PlanStep& step, const std::vector<bool>& late) {
    const int32_t whole = step.outputs[0];
    const auto axis = static_cast<size_t>(op.axis);
    const size_t rank = shape(whole).size();
    const bool columns = axis + 1 == rank;
    if (!has_bytes(value(whole)) || !step.kernel->writes_slices(0) || (!columns && leading_ones(shape(whole)) < axis))
      return;
    const bool gaps = !plan_.is_dense(whole) || (columns && leading_ones(shape(whole)) + 1 < rank);
    Dim at = 0;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int32_t id = step.inputs[i];
      const Dim begin = at;
      at = at + shape(id)[axis];
      if (late[i]) continue;
      const int32_t part = plan_.root(id);
      // An alias must have the rows that the concatenation sees, and be all of what it is an alias of.
      if (value(part).storage != Storage::arena || !sees_all(id, part) || shape(part).empty() ||
          !(shape(part).back() == shape(id).back()) || !are_equally_invariant(part, whole) ||
          !may_move(part, gaps, step.device) || !merge_memory(part, whole))
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
    const auto device = incomplete ? std::optional(plan_.steps[written.step].device) : std::optional<DeviceId>();
    if (!may_move(part, gaps, device) || !merge_memory(part, plan_.root(whole))) {
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

  bool merge_memory(int32_t part, int32_t whole) {
    const int32_t root = plan_.root(whole);
    return memory_.merge(part, root, value(root).storage == Storage::arena);
  }

  Plan& plan_;
  const Graph& graph_;
  std::vector<Use> uses_;
  const std::vector<bool> is_invariant_;  // each value, as it was before any became a part of another
  AliveMemory memory_;
};

}  // namespace

void place_slices(Plan& plan, const Graph& graph, const SymbolBindings& symbols) {
  SlicePlacer(plan, graph, symbols).run();
}

}  // namespace camshaft
