#include "optimize/precision/lower_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ir/ops/attention.h"
#include "ir/ops/collective.h"
#include "ir/ops/contraction.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/region.h"
#include "ir/region_editor.h"
#include "ir/replaceable.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

enum class Role : uint8_t {
  plain,      ///< stays f32
  narrow,     ///< one operator that takes the narrow type and gives it
  contract,   ///< a region whose contraction takes it, with a pointwise epilogue
  pointwise,  ///< a region, or one operator, that takes and gives either
  reduce,     ///< a region that takes either, and gives f32
};

// Squares and products leave f16's range long before their operands do: a norm of 1e-4 is the root of what f16 has as
// 0.
bool leaves_range(const ops::Reduce& reduce) {
  return reduce.kind == ops::ReduceKind::prod || reduce.kind == ops::ReduceKind::sum_squares;
}

// The reduction that a node or region begins with, if it does.
const ops::Reduce* first_reduction(const Node& node) {
  const bool is_region = node.op.as<ops::Region>() && !node.bodies[0].nodes.empty();
  return (is_region ? node.bodies[0].nodes[0] : node).op.as<ops::Reduce>();
}

// A region whose contraction is of bytes: what it reads and gives beside them may be either.
bool sums_bytes(const Node& node) {
  return node.op.as<ops::Region>() && !node.bodies[0].nodes.empty() &&
         ops::is_byte_contraction(node.bodies[0].nodes[0].op);
}

Role role_of(const Node& node) {
  if (const auto* collective = node.op.as<ops::Collective>();
      collective && collective->reduces() && collective->reduction == ops::CollectiveReduction::prod)
    return Role::plain;
  if (const auto* reduce = first_reduction(node); reduce && leaves_range(*reduce)) return Role::plain;
  const auto* region = node.op.as<ops::Region>();
  if (!region) {
    if (node.op.traits().narrowed_operands == 0) return Role::plain;
    return node.op.traits().kind == OpKind::pointwise ? Role::pointwise : Role::narrow;
  }
  if (region->kind == ops::RegionKind::pointwise) return Role::pointwise;
  if (region->kind == ops::RegionKind::reduce) return Role::reduce;
  return region->kind == ops::RegionKind::contract ? Role::contract : Role::plain;
}

// So many operands are narrowed: behind them are masks of attention, and tables of rotary embeddings, which stay f32.
size_t narrowed_inputs(const Node& node) {
  if (node.op.as<ops::Region>()) return node.inputs.size();
  return std::min<size_t>(node.op.traits().narrowed_operands, node.inputs.size());
}

// Whether small results of an operator that takes the narrow type come of small elements of its first operand: sums of
// products are small without.
bool passes_on_size(const Node& node) {
  const Traits& traits = node.op.traits();
  return traits.narrowed_operands > 0 && traits.kind != OpKind::pointwise && traits.kind != OpKind::contraction;
}

class Lowering {
 public:
  Lowering(Graph& graph, const PassContext& context)
      : old_(std::move(graph)),
        graph_(graph),
        context_(context),
        uses_(old_),
        divisors_(old_.values.size()),
        angles_(old_.values.size()),
        wide_(old_.values.size(), no_value),
        narrow_(old_.values.size(), no_value) {}

  void run() {
    graph_ = Graph();
    graph_.name = old_.name;
    for (const ValueId id : old_.inputs) wide_[at(id)] = graph_.add_input(old_.value(id).name, old_.type(id));
    for (size_t n = old_.nodes.size(); n-- > 0;) {
      mark_divisors(old_.nodes[n]);
      mark_angles(old_.nodes[n]);
    }
    for (const Node& node : old_.nodes) roles_.push_back(role(node));
    for (size_t n = 0; n < old_.nodes.size(); ++n) {
      const Node& node = old_.nodes[n];
      if (converts(node)) continue;
      switch (roles_[n]) {
        case Role::plain:
          copy(node, false);
          break;
        case Role::narrow:
          copy(node, true);
          break;
        case Role::contract:
        case Role::pointwise:
        case Role::reduce:
          rebuild(node, roles_[n]);
          break;
      }
    }
    for (size_t o = 0; o < old_.outputs.size(); ++o) graph_.add_output(old_.output_names[o], wide(old_.outputs[o]));
    remove_dead(graph_);
  }

 private:
  static size_t at(ValueId id) { return static_cast<size_t>(id); }
  bool is_f32(ValueId id) const { return id != no_value && old_.type(id).dtype == DType::f32; }

  Role role(const Node& node) const {
    const Role role = role_of(node);
    if (role == Role::plain) return role;
    const auto storage = context_.storage == DType::f16 ? LayerPrecision::fp16 : LayerPrecision::bf16;
    // What stores no floating-point number, as what makes bytes of one, may read any that are narrow already.
    const bool stores = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return is_floating(old_.type(id).dtype); });
    const bool is_free = role == Role::pointwise && !stores;
    if (!is_free && context_.rules && !context_.rules->allows(node.sources, storage)) return Role::plain;
    for (const ValueId id : node.outputs)
      if (role == Role::narrow && (divisors_[at(id)] || angles_[at(id)])) return Role::plain;
    for (const ValueId id : node.outputs)
      if (context_.keep_f32 && context_.keep_f32->contains(old_.value(id).name)) return Role::plain;
    // What is computed for a reduction alone may be squares: they leave f16's range long before what they are of.
    const int32_t before = node.inputs.empty() || node.inputs[0] == no_value ? -1 : uses_.producer[at(node.inputs[0])];
    if (const auto* reduce = first_reduction(node); reduce && before >= 0) {
      const Role computed = role_of(old_.nodes[static_cast<size_t>(before)]);
      if (computed == Role::pointwise || computed == Role::reduce ||
          (computed == Role::contract && reduce->kind == ops::ReduceKind::sum))
        return Role::plain;
    }
    // An operator that touches no f32 has nothing to gain.
    const bool touches = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return is_f32(id); });
    const bool takes_either =
        role == Role::pointwise || role == Role::reduce || (role == Role::contract && sums_bytes(node));
    if (!touches && !takes_either) return Role::plain;
    for (size_t i = 0; i < narrowed_inputs(node) && !takes_either; ++i)
      if (is_f32(node.inputs[i]) && !fits(node.inputs[i]) && (role == Role::narrow || is_anchor_input(node, i))) {
        if (context_.kept_constants && old_.is_constant(node.inputs[i]))
          context_.kept_constants->insert(old_.value(node.inputs[i]).name);
        return Role::plain;
      }
    return role;
  }

  // Marks what the node divides by, and what that is made of: a small divisor, as the 1e-12 that a norm is bounded by,
  // would become 0 in f16.
  void mark_divisors(const Node& node) {
    const auto* region = node.op.as<ops::Region>();
    if (!region) {
      const bool divides = mark_of(node, divisors_);
      if (!divides && passes_on_size(node) && !node.inputs.empty() && node.inputs[0] != no_value &&
          divisors_[at(node.outputs[0])])
        divisors_[at(node.inputs[0])] = true;
      return;
    }
    const Graph& body = node.bodies[0];
    std::vector<bool> marked(body.values.size());
    for (size_t n = body.nodes.size(); n-- > 0;) {
      const Node& inner = body.nodes[n];
      mark_of(inner, marked);
      if ((inner.op.as<ops::Pointwise>() || inner.op.as<ops::Reduce>()) && marked[at(inner.outputs[0])])
        for (const ValueId id : inner.inputs) marked[at(id)] = true;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (marked[at(body.inputs[i])]) divisors_[at(node.inputs[i])] = true;
  }

  static bool mark_of(const Node& node, std::vector<bool>& marked) {
    const auto* pointwise = node.op.as<ops::Pointwise>();
    if (!pointwise) return false;
    if (pointwise->function == ScalarFunction::div) marked[at(node.inputs[1])] = true;
    if (pointwise->function == ScalarFunction::reciprocal) marked[at(node.inputs[0])] = true;
    return true;
  }

  // Marks what sines and cosines are taken of, and what that is made of: f16 has the 4,097th position of a text as the
  // 4,096th, and half of a radian is lost from 512 on.
  void mark_angles(const Node& node) {
    const auto mark = [](const Node& n, std::vector<bool>& marked) {
      const auto* pointwise = n.op.as<ops::Pointwise>();
      const bool turns =
          pointwise && (pointwise->function == ScalarFunction::sin || pointwise->function == ScalarFunction::cos);
      const bool passes_on = (pointwise || passes_on_size(n)) && marked[at(n.outputs[0])];
      if (!turns && !passes_on) return;
      for (const ValueId id : n.inputs)
        if (id != no_value) marked[at(id)] = true;
    };
    if (!node.op.as<ops::Region>()) return mark(node, angles_);
    const Graph& body = node.bodies[0];
    std::vector<bool> marked(body.values.size());
    for (size_t o = 0; o < node.outputs.size(); ++o) marked[at(body.outputs[o])] = angles_[at(node.outputs[o])];
    for (size_t n = body.nodes.size(); n-- > 0;) mark(body.nodes[n], marked);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != no_value && marked[at(body.inputs[i])]) angles_[at(node.inputs[i])] = true;
  }

  // Whether the contraction of a region reads the region's input i as one of the operands that it takes narrow.
  static bool is_anchor_input(const Node& node, size_t i) {
    const Graph& body = node.bodies[0];
    return narrows(body.nodes[0], body.inputs[i]);
  }
  static bool narrows(const Node& anchor, ValueId id) {
    const auto end = anchor.inputs.begin() +
                     static_cast<int64_t>(std::min<size_t>(anchor.op.traits().narrowed_operands, anchor.inputs.size()));
    return std::find(anchor.inputs.begin(), end, id) != end;
  }

  // Of the narrow type: bf16 has not all that f32 has, whose least number masks add.
  float largest_number() const { return context_.storage == DType::f16 ? 65504 : 0x1.FEp127F; }

  // Whether the narrow type holds all elements of a value, as far as anyone knows.
  bool fits(ValueId id) const {
    if (context_.keep_f32 && context_.keep_f32->contains(old_.value(id).name)) return false;
    const Tensor* constant = old_.value(id).constant.get();
    if (!constant) return true;
    // Below 2^-14 f16 has fixed steps: of weights that are all below 2^-11 little would be left.
    const float largest = largest_number(), least = context_.storage == DType::f16 ? 0x1p-11F : 0;
    const auto* x = constant->as<float>();
    float most = 0;
    for (int64_t i = 0; i < constant->size(); ++i)
      if (std::isfinite(x[i])) most = std::max(most, std::fabs(x[i]));
    // Nothing is decided by numbers that a refit replaces.
    if (may_be_replaced(old_.value(id).provenance)) {
      if (most <= largest || context_.storage != DType::f16) return true;
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("the constant '{}' has numbers beyond 65504, the largest of fp16, which an engine that can "
                      "be refitted stores it in: build with bf16 or tf32, or without refit",
                      old_.value(id).name));
    }
    return most <= largest && (most == 0 || most >= least);
  }

  // Whether somebody reads the value better in the narrow type, and nobody divides by it.
  bool wanted_narrow(ValueId id) const {
    if (divisors_[at(id)] || angles_[at(id)]) return false;
    const auto& readers = uses_.readers[at(id)];
    return std::any_of(readers.begin(), readers.end(),
                       [&](int32_t n) { return roles_[static_cast<size_t>(n)] != Role::plain; });
  }

  ValueId add_cast(ValueId from, DType to, const std::string& name) {
    return graph_.add(ops::Cast{.to = to}, {from}, name);
  }

  // The value of the new graph, in its own type, …
  ValueId wide(ValueId id) {
    ValueId& made = wide_[at(id)];
    if (made != no_value) return made;
    const Value& value = old_.value(id);
    made = value.constant ? graph_.add_constant(value.name, old_.constant(id))
                          : add_cast(narrow_[at(id)], value.type.dtype, value.name);
    return made;
  }

  // … and in the narrow one.
  ValueId narrow(ValueId id) {
    ValueId& made = narrow_[at(id)];
    if (made != no_value) return made;
    const Value& value = old_.value(id);
    return made = value.constant
                      ? graph_.add_constant(value.name, derive_converted(old_.constant(id), context_.storage))
                      : add_cast(wide(id), context_.storage, value.name);
  }

  std::vector<std::string> names(const Node& node) const {
    std::vector<std::string> list;
    for (const ValueId id : node.outputs) list.push_back(old_.value(id).name);
    return list;
  }

  void take_outputs(const Node& node, const std::vector<ValueId>& made) {
    for (size_t o = 0; o < made.size(); ++o) {
      const bool same = graph_.type(made[o]).dtype == old_.type(node.outputs[o]).dtype;
      (same ? wide_ : narrow_)[at(node.outputs[o])] = made[o];
    }
  }

  // A mask of scores in the narrow type. Its numbers may be as large as f32 has them and mean "never": they become the
  // largest that the narrow type has, and infinities stay: where all scores of a row were infinite, it would be NaN.
  ValueId narrow_mask(ValueId id) {
    if (narrow_[at(id)] != no_value) return narrow(id);
    const auto [it, is_new] = masks_.emplace(id, no_value);
    if (is_new) it->second = narrowed_mask(id);
    return it->second;
  }

  ValueId narrowed_mask(ValueId id) {
    if (old_.is_constant(id)) {
      const Constant x = old_.constant(id);
      const auto number = [](float limit) { return literal(Tensor::scalar(DType::f32, limit)); };
      const auto apply = [&](ScalarFunction f, const std::vector<Constant>& operands) {
        return derive(f, operands, context_.pool);
      };
      const Constant never = apply(ScalarFunction::equal, {x, number(-std::numeric_limits<float>::infinity())});
      const Constant bounded =
          apply(ScalarFunction::select, {never, x, apply(ScalarFunction::max, {x, number(-largest_number())})});
      return graph_.add_constant(old_.value(id).name, derive_converted(bounded, context_.storage));
    }
    RegionEditor made(graph_, ops::RegionKind::pointwise);
    const ValueId x = made.add_operand(wide(id), old_.value(id).name);
    const auto number = [&](float limit) { return made.add_constant("limit", Tensor::scalar(DType::f32, limit)); };
    const auto apply = [&](ScalarFunction f, std::vector<ValueId> operands) {
      return made.add(ops::Pointwise{f}, std::move(operands), "mask");
    };
    const ValueId never = apply(ScalarFunction::equal, {x, number(-std::numeric_limits<float>::infinity())});
    const ValueId bounded =
        apply(ScalarFunction::select, {never, x, apply(ScalarFunction::max, {x, number(-largest_number())})});
    made.add_new_result(old_.value(id).name, made.add(ops::Cast{.to = context_.storage}, {bounded}, "mask"), "mask");
    return made.append()[0];
  }

  void copy(const Node& node, bool narrowed) {
    const bool masks = node.op.as<ops::Attention>() != nullptr;
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      inputs.push_back(id == no_value              ? no_value
                       : !narrowed || !is_f32(id)  ? wide(id)
                       : i < narrowed_inputs(node) ? narrow(id)
                       : masks                     ? narrow_mask(id)
                                                   : wide(id));
    }
    take_outputs(node, graph_.add_node(node.op, inputs, names(node), node.sources, node.bodies));
  }

  // A model's own conversion between f32 and the narrow type is what narrow() and wide() make where it is wanted.
  bool converts(const Node& node) {
    const auto* cast = node.op.as<ops::Cast>();
    if (!cast) return false;
    const ValueId from = node.inputs[0], result = node.outputs[0];
    const DType has = old_.type(from).dtype;
    if (old_.is_constant(from)) return false;
    if (has == context_.storage && cast->to == DType::f32)
      narrow_[at(result)] = wide(from);
    else if (has == DType::f32 && cast->to == context_.storage)
      wide_[at(result)] = narrow(from);
    else
      return false;
    return true;
  }

  // A region, or a pointwise operator as one, that casts what it reads and stores.
  void rebuild(const Node& node, Role role) {
    const bool is_contract = role == Role::contract;
    const bool is_region = node.op.as<ops::Region>() != nullptr;
    const Graph* body = is_region ? &node.bodies[0] : nullptr;
    RegionEditor made(graph_, is_region ? node.op.as<ops::Region>()->kind : ops::RegionKind::pointwise);
    std::map<ValueId, ValueId> renamed;  // of the old body (of the old graph, without one) to the new
    std::vector<std::pair<ValueId, ValueId>> to_widen;
    const auto is_anchor_input = [&](ValueId id) { return is_contract && narrows(body->nodes[0], id); };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId outer = node.inputs[i], inner = is_region ? body->inputs[i] : outer;
      // One element is copied into the body, as fuse() does.
      const bool is_number = !is_region && old_.is_constant(outer) && old_.value(outer).constant->size() == 1;
      if (outer == no_value || renamed.contains(inner) || is_number) {
        if (is_region) throw Error(ErrorCode::internal, "a region reads nothing, or one value twice");
        continue;
      }
      const bool narrowed = is_f32(outer) && (is_anchor_input(inner) || narrow_[at(outer)] != no_value);
      const ValueId id = made.add_operand(narrowed ? narrow(outer) : wide(outer), old_.value(outer).name);
      renamed[inner] = id;
      if (narrowed) to_widen.emplace_back(inner, id);
    }
    const auto widen = [&] {
      for (const auto& [inner, id] : to_widen)
        renamed[inner] = made.add(ops::Cast{.to = DType::f32}, {id}, made.body().value(id).name);
      to_widen.clear();
    };
    const auto add = [&](const Node& inner_node, const Graph& from) {
      const std::vector<ValueId> outputs = made.copy_node(from, inner_node, renamed);
      for (size_t o = 0; o < outputs.size(); ++o)
        if (made.body().type(outputs[o]).dtype != from.type(inner_node.outputs[o]).dtype)
          to_widen.emplace_back(inner_node.outputs[o], outputs[o]);
    };
    if (is_region) {
      for (size_t n = 0; n < body->nodes.size(); ++n) {
        if (n > 0 || !is_contract) widen();  // the contraction comes first, and reads the narrow type
        add(body->nodes[n], *body);
      }
    } else {
      widen();
      add(node, old_);
    }
    widen();
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId outer = node.outputs[o];
      ValueId result = renamed.at(is_region ? body->outputs[o] : outer);
      const bool is_output = uses_.is_output[at(outer)];
      if (is_f32(outer) && !is_output && role != Role::reduce && wanted_narrow(outer))
        result = made.add(ops::Cast{.to = context_.storage}, {result}, old_.value(outer).name);
      made.add_new_result(old_.value(outer).name, result, is_region ? body->output_names[o] : "");
    }
    made.remove_dead();
    const bool unchanged = !is_region && made.body().nodes.size() == 1;
    if (unchanged) return copy(node, false);
    made.set_sources(node.sources);
    take_outputs(node, made.append());
  }

  const Graph old_;
  Graph& graph_;
  const PassContext& context_;
  const Uses uses_;
  std::vector<Role> roles_;
  std::vector<bool> divisors_;          // by old value
  std::vector<bool> angles_;            // likewise
  std::vector<ValueId> wide_, narrow_;  // of each old value, in the new graph
  std::map<ValueId, ValueId> masks_;    // the same of masks, which are bounded
};

}  // namespace

void lower_precision(Graph& graph, const PassContext& context) {
  if (context.storage != DType::f32) Lowering(graph, context).run();
}

}  // namespace camshaft
