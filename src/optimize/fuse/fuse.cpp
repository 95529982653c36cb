#include "optimize/fuse/fuse.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ir/ops/contraction.h"
#include "ir/ops/float8.h"
#include "ir/region_editor.h"
#include "optimize/analysis/fusion_notes.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph), uses_(graph), unit_of_(graph.nodes.size(), -1) {}

  void run(PassNotes* notes) {
    for (auto n = static_cast<int32_t>(graph_.nodes.size()); n-- > 0;)
      if (ops::is_contraction(node(n).op)) claim_contraction(n);
    for (auto n = static_cast<int32_t>(graph_.nodes.size()); n-- > 0;)
      if (takes_steps(graph_, node(n))) claim_reduction(n);
    make_pointwise_groups();
    if (notes) note_partings(graph_, uses_, units_, unit_of_, *notes);
    rebuild();
  }

 private:
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const std::vector<int32_t>& readers(ValueId id) const { return uses_.readers[static_cast<size_t>(id)]; }
  int32_t producer(ValueId id) const { return id == no_value ? -1 : uses_.producer[static_cast<size_t>(id)]; }

  void add_unit(FusionUnit unit) {
    for (const int32_t n : unit.nodes) unit_of_[static_cast<size_t>(n)] = static_cast<int32_t>(units_.size());
    units_.push_back(std::move(unit));
  }

  // --- contractions and reductions ---

  void claim_contraction(int32_t anchor) {
    const TensorType& result = graph_.type(node(anchor).outputs[0]);
    std::vector<int32_t> inside{anchor};
    if (is_floating(result.dtype) || ops::is_byte_contraction(node(anchor).op)) inside = with_epilogue(anchor);
    const ops::RegionKind kind = inside.size() > 1 ? ops::RegionKind::contract : ops::RegionKind::opaque;
    add_unit({std::move(inside), kind});
  }

  void claim_reduction(int32_t anchor) {
    std::vector<int32_t> inside = prologue(anchor);
    std::vector<int32_t> rest = with_epilogue(anchor);
    std::set<ValueId> operands;
    for (size_t i = 1; i < rest.size(); ++i)
      for (const ValueId id : node(rest[i]).inputs)
        if (!is_immediate(id)) operands.insert(id);
    if (operands.size() > max_reduced_operands) rest.resize(1);  // the results inside count too: nobody has so many
    inside.insert(inside.end(), rest.begin(), rest.end());
    const ops::RegionKind kind = inside.size() > 1 ? ops::RegionKind::reduce : ops::RegionKind::opaque;
    add_unit({std::move(inside), kind});
  }

  // The steps that compute, element by element, what a reduction alone reads. From the last to the first, so that all
  // readers of a step are decided on before it.
  std::vector<int32_t> prologue(int32_t anchor) const {
    const ValueId reduced = node(anchor).inputs[0];
    std::set<int32_t> inside, waiting{producer(reduced)};
    std::set<ValueId> operands{reduced};
    while (!waiting.empty() && inside.size() < max_group_nodes) {
      const int32_t n = *waiting.rbegin();
      waiting.erase(n);
      if (n < 0 || unit_of_[static_cast<size_t>(n)] >= 0 || !can_group(node(n))) continue;
      const ValueId out = node(n).outputs[0];
      const bool leaves = uses_.is_output[static_cast<size_t>(out)] ||
                          std::any_of(readers(out).begin(), readers(out).end(),
                                      [&](int32_t reader) { return reader != anchor && !inside.contains(reader); });
      if (leaves || graph_.shape(out) != graph_.shape(reduced)) continue;
      // A kernel that cannot compute a step would not be there for the reduction either.
      if (!may_be_step(graph_, node(n))) continue;
      std::set<ValueId> with_it = operands;
      with_it.erase(out);
      for (const ValueId id : node(n).inputs)
        if (!is_immediate(id)) with_it.insert(id);
      if (with_it.size() > max_reduced_operands) continue;
      operands = std::move(with_it);
      inside.insert(n);
      for (const ValueId id : node(n).inputs) waiting.insert(producer(id));
    }
    return {inside.begin(), inside.end()};
  }

  bool can_join(int32_t n, int32_t anchor, const TensorType& result) const {
    const Node& candidate = node(n);
    if (!is_elementwise(candidate) || unit_of_[static_cast<size_t>(n)] >= 0) return false;
    const auto fits = [&](DType dtype) { return may_stand_behind(node(anchor), result.dtype, dtype); };
    if (!fits(graph_.type(candidate.outputs[0]).dtype)) return false;
    if (graph_.shape(candidate.outputs[0]) != result.shape) return false;
    return std::all_of(candidate.inputs.begin(), candidate.inputs.end(),
                       [&](ValueId id) { return fits(graph_.type(id).dtype); });
  }

  // The steps that make f32 of 8 bits, for one reader: inside of it the narrow tensor is read, and not one of four
  // times its size. Empty where the value is made otherwise.
  std::vector<int32_t> widened(ValueId id, int32_t anchor, const TensorType& result) const {
    constexpr size_t most = 4;  // a cast, a zero point, a scale, and one more
    std::vector<int32_t> steps;
    while (steps.size() < most && uses_.single(id)) {
      const int32_t n = producer(id);
      if (n < 0 || !can_join(n, anchor, result)) return {};
      steps.insert(steps.begin(), n);
      ValueId operand = no_value;
      for (const ValueId input : node(n).inputs) {
        if (is_immediate(input)) continue;
        if (operand != no_value) return {};
        operand = input;
      }
      if (operand == no_value) return {};
      const DType dtype = graph_.type(operand).dtype;
      if (is_byte(dtype) || ops::is_float8(dtype)) return steps;
      id = operand;
    }
    return {};
  }

  // Takes in readers of what is computed so far, in node order, and remembers the last state in which one value alone
  // was open, that is, read by nodes that are not inside. Once a value must stay open, going on cannot help: every
  // node taken in leaves another one open. Behind integers, what else such a node reads may be widened inside.
  std::vector<int32_t> with_epilogue(int32_t anchor) const {
    const TensorType& result = graph_.type(node(anchor).outputs[0]);
    const bool is_bytes = ops::is_byte_contraction(node(anchor).op);
    std::vector<int32_t> inside{anchor};
    size_t good = 1;
    std::map<ValueId, size_t> open;  // readers that are not inside
    std::set<int32_t> waiting;
    const auto take = [&](int32_t n) {
      const ValueId out = node(n).outputs[0];
      open[out] = readers(out).size();
      waiting.insert(readers(out).begin(), readers(out).end());
      return !uses_.is_output[static_cast<size_t>(out)];
    };
    bool growing = take(anchor);
    while (growing && !waiting.empty() && inside.size() < max_epilogue_nodes) {
      const int32_t n = *waiting.begin();
      waiting.erase(waiting.begin());
      if (!can_join(n, anchor, result)) break;
      for (const ValueId id : node(n).inputs) {
        const auto at = open.find(id);
        if (at == open.end()) {
          const std::vector<int32_t> steps = is_bytes ? widened(id, anchor, result) : std::vector<int32_t>();
          inside.insert(inside.end(), steps.begin(), steps.end());
        } else if (--at->second == 0) {
          open.erase(at);
        }
      }
      inside.push_back(n);
      growing = take(n);
      const DType dtype = graph_.type(node(n).outputs[0]).dtype;
      if (open.size() == 1 && (dtype == result.dtype || (is_bytes && dtype != DType::boolean))) good = inside.size();
    }
    inside.resize(good);
    if (is_bytes) leave_widening_to_reduction(inside);
    return inside;
  }

  // A reduction makes f32 of 8 bits itself: it reads a quarter of the bytes.
  void leave_widening_to_reduction(std::vector<int32_t>& inside) const {
    const ValueId result = node(inside.back()).outputs[0];
    if (!uses_.single(result) || !takes_steps(graph_, node(readers(result)[0]))) return;
    for (size_t i = inside.size(); i-- > 1;) {
      const ValueId out = node(inside[i]).outputs[0];
      const DType dtype = graph_.type(out).dtype;
      if (dtype == DType::u8 || dtype == DType::i8) return inside.resize(i + 1);
      if (!uses_.single(out) ||
          !std::all_of(node(inside[i]).inputs.begin(), node(inside[i]).inputs.end(), [&](ValueId id) {
            return is_immediate(id) || (id != no_value && producer(id) == inside[i - 1]);
          }))
        return;
    }
  }

  // --- pointwise groups ---

  bool can_group(const Node& candidate) const {
    const auto fits = [&](ValueId id) { return !holds_objects(graph_.type(id).dtype); };
    // A region's shape rule tells no elements: a range of as many as these are could not be loaded again.
    if (graph_.value(candidate.outputs[0]).content) return false;
    return is_elementwise(candidate) && fits(candidate.outputs[0]) &&
           std::all_of(candidate.inputs.begin(), candidate.inputs.end(), fits);
  }

  // One-element constants become part of the body. 64-bit naturals do not fit the immediates of scalar programs.
  bool is_immediate(ValueId id) const { return is_one_element(graph_, id) && graph_.type(id).dtype != DType::u64; }

  // How far a group of these nodes goes from `begin` within the limits of nodes and of operands. The operands are
  // counted after each node, as results that are used up inside make room again.
  size_t end_of_group(const std::vector<int32_t>& nodes, size_t begin) const {
    std::set<ValueId> outer;         // inputs
    std::map<ValueId, size_t> open;  // results that must leave the group so far: uses that are not inside
    size_t end = begin + 1;
    for (size_t i = begin; i < std::min(begin + max_group_nodes, nodes.size()); ++i) {
      for (const ValueId id : node(nodes[i]).inputs) {
        const int32_t p = producer(id);
        if (p >= 0 && std::binary_search(nodes.begin() + static_cast<int64_t>(begin),
                                         nodes.begin() + static_cast<int64_t>(i), p)) {
          if (--open[id] == 0) open.erase(id);
        } else if (id != no_value && !is_immediate(id)) {
          outer.insert(id);
        }
      }
      const ValueId out = node(nodes[i]).outputs[0];
      open[out] = readers(out).size() + (uses_.is_output[static_cast<size_t>(out)] ? 1 : 0);
      if (outer.size() + open.size() <= max_group_operands) end = i + 1;
    }
    return end;
  }

  // Groups are joined only among nodes of equal depth, the number of steps through other operators that lead to a
  // node. So no path leaves a group through another operator and comes back: it would come back deeper. Nor through a
  // pointwise operator of another shape, since shapes only ever grow by broadcasting. Whole connected components are
  // cut into pieces in node order, which again only leads forward.
  void make_pointwise_groups() {
    const auto count = static_cast<int32_t>(graph_.nodes.size());
    // The last node of a contract or reduce region computes its result, so units are in topological order by their last
    // node.
    std::vector<int32_t> unit_depth(units_.size(), 0);
    std::vector<int32_t> depth(static_cast<size_t>(count), 0);
    std::vector<int32_t> parent(static_cast<size_t>(count));
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](int32_t n) {
      while (parent[static_cast<size_t>(n)] != n) {
        parent[static_cast<size_t>(n)] = parent[static_cast<size_t>(parent[static_cast<size_t>(n)])];
        n = parent[static_cast<size_t>(n)];
      }
      return n;
    };
    std::vector<bool> groupable(static_cast<size_t>(count), false);
    for (int32_t n = 0; n < count; ++n) {
      const auto i = static_cast<size_t>(n);
      const int32_t unit = unit_of_[i];
      groupable[i] = unit < 0 && can_group(node(n));
      int32_t deepest = unit >= 0 ? unit_depth[static_cast<size_t>(unit)] : 0;
      for (const ValueId id : node(n).inputs) {
        const int32_t p = producer(id);
        if (p < 0 || (unit >= 0 && unit_of_[static_cast<size_t>(p)] == unit)) continue;
        const bool same_side = groupable[i] && groupable[static_cast<size_t>(p)];
        deepest = std::max(deepest, depth[static_cast<size_t>(p)] + (same_side ? 0 : 1));
      }
      depth[i] = deepest;
      if (unit >= 0) unit_depth[static_cast<size_t>(unit)] = deepest;
      if (!groupable[i]) continue;
      for (const ValueId id : node(n).inputs) {
        const int32_t p = producer(id);
        if (p < 0 || !groupable[static_cast<size_t>(p)] || depth[static_cast<size_t>(p)] != depth[i]) continue;
        if (graph_.shape(id) == graph_.shape(node(n).outputs[0])) parent[static_cast<size_t>(root(n))] = root(p);
      }
    }
    std::map<int32_t, std::vector<int32_t>> components;
    for (int32_t n = 0; n < count; ++n)
      if (groupable[static_cast<size_t>(n)]) components[root(n)].push_back(n);
    for (const auto& [first, nodes] : components)
      for (size_t begin = 0, end = 0; begin < nodes.size(); begin = end) {
        end = end_of_group(nodes, begin);
        FusionUnit unit{{nodes.begin() + static_cast<int64_t>(begin), nodes.begin() + static_cast<int64_t>(end)}};
        unit.full = end < nodes.size();
        if (unit.nodes.size() > 1) unit.kind = ops::RegionKind::pointwise;
        add_unit(std::move(unit));
      }
    for (int32_t n = 0; n < count; ++n)
      if (unit_of_[static_cast<size_t>(n)] < 0) add_unit({{n}});
  }

  // --- the new node list ---

  void rebuild() {
    std::vector<int32_t> order;  // units by their last node: close to the old order
    for (auto n = int32_t{0}; n < static_cast<int32_t>(graph_.nodes.size()); ++n) {
      const int32_t unit = unit_of_[static_cast<size_t>(n)];
      if (units_[static_cast<size_t>(unit)].nodes.back() == n) order.push_back(unit);
    }
    std::vector<Node> nodes;
    std::vector<uint8_t> state(units_.size(), 0);  // 1: its operands are being emitted, 2: emitted
    std::vector<int32_t> stack;
    for (const int32_t first : order) {
      stack.push_back(first);
      while (!stack.empty()) {
        const int32_t unit = stack.back();
        uint8_t& s = state[static_cast<size_t>(unit)];
        if (s == 2) {
          stack.pop_back();
        } else if (s == 1) {
          s = 2;
          stack.pop_back();
          nodes.push_back(make_node(units_[static_cast<size_t>(unit)]));
        } else {
          s = 1;
          push_operands(unit, state, stack);
        }
      }
    }
    graph_.nodes = std::move(nodes);
    remove_dead(graph_);
  }

  void push_operands(int32_t unit, const std::vector<uint8_t>& state, std::vector<int32_t>& stack) const {
    for (const int32_t n : units_[static_cast<size_t>(unit)].nodes)
      for (const ValueId id : node(n).inputs) {
        if (producer(id) < 0) continue;
        const int32_t other = unit_of_[static_cast<size_t>(producer(id))];
        if (other == unit) continue;
        if (state[static_cast<size_t>(other)] == 1)
          throw Error(ErrorCode::internal, "fuse made regions that depend on each other");
        if (state[static_cast<size_t>(other)] == 0) stack.push_back(other);
      }
  }

  Node make_node(const FusionUnit& unit) {
    if (unit.kind == ops::RegionKind::opaque) return std::move(graph_.nodes[static_cast<size_t>(unit.nodes[0])]);
    RegionEditor region(graph_, unit.kind);
    std::map<ValueId, ValueId> inner;  // of the graph → of the body
    const auto name_of = [&](ValueId id) { return graph_.value(id).name; };
    const auto operand = [&](ValueId id, bool as_input) {
      if (id == no_value) return no_value;
      if (const auto known = inner.find(id); known != inner.end()) return known->second;
      if (!as_input && is_immediate(id)) return inner[id] = region.add_constant(name_of(id), graph_.constant(id));
      return inner[id] = region.add_operand(id);
    };
    std::vector<std::string> sources;
    for (const int32_t n : unit.nodes) {
      const Node& old = node(n);
      std::vector<ValueId> inputs;
      for (const ValueId id : old.inputs) inputs.push_back(operand(id, !is_elementwise(old)));
      inner[old.outputs[0]] = region.add(old.op, inputs, name_of(old.outputs[0]), old.sources);
      sources = merged_sources(sources, old.sources);
    }
    for (const int32_t n : unit.nodes) {
      const ValueId out = node(n).outputs[0];
      const bool leaves = uses_.is_output[static_cast<size_t>(out)] ||
                          std::any_of(readers(out).begin(), readers(out).end(), [&](int32_t reader) {
                            return unit_of_[static_cast<size_t>(reader)] != unit_of_[static_cast<size_t>(n)];
                          });
      if (leaves) region.add_result(out, inner[out]);
    }
    region.set_sources(std::move(sources));
    return region.finish();
  }

  Graph& graph_;
  Uses uses_;
  std::vector<int32_t> unit_of_;  // of each node; -1: none yet
  std::vector<FusionUnit> units_;
};

}  // namespace

void fuse(Graph& graph, const PassContext& context) {
  remove_dead(graph);
  Fuser(graph).run(context.notes);
}

}  // namespace camshaft
