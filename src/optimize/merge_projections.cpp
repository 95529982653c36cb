#include "optimize/merge_projections.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "graph/rewriter.h"
#include "ops/attention.h"
#include "ops/contract.h"
#include "ops/pointwise.h"
#include "optimize/access_space.h"
#include "optimize/match.h"

namespace camshaft {

namespace {

constexpr size_t operands = 3;  // query, key and value

// One product, and what it is part of.
struct Projection {
  int32_t product = -1;
  ValueId weights = no_value, bias = no_value;
  ValueId result = no_value;     // behind the bias
  int64_t width = 0, first = 0;  // its columns of the common result
};

struct Group {
  std::vector<Projection> members;
  ValueId result = no_value;
};

// Products are merged that have the same left-hand side, and weights stored alike.
struct Key {
  ValueId x;
  bool transposed;
  auto operator<=>(const Key&) const = default;
};

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph), uses_(graph) {}

  void run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (const auto p = as_projection(static_cast<int32_t>(n))) {
        const Node& node = graph_.nodes[n];
        groups_[{node.inputs[0], node.op.as<ops::MatMul>()->transpose_b}].members.push_back(*p);
      }
    std::erase_if(groups_, [](const auto& entry) { return entry.second.members.size() < 2; });
    if (!groups_.empty()) rebuild();
  }

 private:
  const Node& reader(ValueId id) const {
    return graph_.nodes[static_cast<size_t>(uses_.readers[static_cast<size_t>(id)][0])];
  }

  std::optional<Projection> as_projection(int32_t n) const {
    const Node& node = graph_.nodes[static_cast<size_t>(n)];
    const auto* op = node.op.as<ops::MatMul>();
    if (!op || op->transpose_a) return std::nullopt;
    Projection p{n, node.inputs[1], no_value, node.outputs[0]};
    const TensorType& type = graph_.type(p.result);
    if (type.dtype != DType::f32 || !is_readable_constant(graph_, p.weights) || graph_.shape(p.weights).size() != 2 ||
        uses_.readers[static_cast<size_t>(p.weights)].size() != 1)
      return std::nullopt;
    p.width = type.shape.back().value();
    if (p.width == 0 || graph_.value(p.weights).constant->size() == 0) return std::nullopt;
    take_bias(p);
    const auto& readers = uses_.readers[static_cast<size_t>(p.result)];
    if (readers.empty() || uses_.is_output[static_cast<size_t>(p.result)]) return std::nullopt;
    for (const int32_t r : readers) {
      const Node& attention = graph_.nodes[static_cast<size_t>(r)];
      if (!attention.op.as<ops::Attention>()) return std::nullopt;
      for (size_t i = 0; i < attention.inputs.size(); ++i)
        if (attention.inputs[i] == p.result && (i >= operands || !moved(attention, i, p, p.width))) return std::nullopt;
    }
    return p;
  }

  void take_bias(Projection& p) const {
    if (!uses_.single(p.result)) return;
    const Node& add = reader(p.result);
    const auto* op = add.op.as<ops::Pointwise>();
    if (!op || op->function != ScalarFunction::add || graph_.type(add.outputs[0]) != graph_.type(p.result)) return;
    const ValueId bias = add.inputs[add.inputs[0] == p.result ? 1 : 0];
    if (!is_readable_constant(graph_, bias)) return;
    const Tensor& t = *graph_.value(bias).constant;
    if (t.size() != p.width || t.dims().empty() || t.dims().back() != p.width) return;
    p.bias = bias;
    p.result = add.outputs[0];
  }

  // The access of an operand when the rows of its tensor have become `width` long and it starts at column p.first.
  static std::optional<Shape> moved(const Node& node, size_t operand, const Projection& p, int64_t width) {
    const auto& op = *node.op.as<ops::Attention>();
    const Shape& old = operand == 0 ? op.query : operand == 1 ? op.key : op.value;
    Shape sizes = op.outer;
    const Shape& rows = operand == 0 ? op.queries : op.keys;
    sizes.insert(sizes.end(), rows.begin(), rows.end());
    sizes.emplace_back(operand == 2 ? op.value_size : op.size);
    try {
      const Dim row = floor_div(old[0], p.width), column = old[0] - row * Dim(p.width);
      Shape access{row * Dim(width) + column + Dim(p.first)};
      Dim last = column;  // what the axes reach within a row
      for (size_t i = 0; i < sizes.size(); ++i) {
        const auto whole = divide(old[1 + i], p.width);
        access.push_back(whole ? *whole * Dim(width) : old[1 + i]);
        if (!whole && !(sizes[i] == Dim(1))) last = last + (sizes[i] - Dim(1)) * old[1 + i];
      }
      if (!provably_at_most(last + Dim(1), p.width)) return std::nullopt;
      return access;
    } catch (const Error&) {  // beyond 64 bits
      return std::nullopt;
    }
  }

  // Rows of the weights one behind the other, or their columns side by side.
  Tensor join_weights(const Group& group, bool transposed, int64_t width) const {
    const Dims& first = graph_.value(group.members[0].weights).constant->dims();
    const int64_t depth = first[transposed ? 1 : 0];
    Tensor joined(DType::f32, transposed ? Dims{width, depth} : Dims{depth, width});
    float* to = joined.as_mutable<float>();
    for (const Projection& p : group.members) {
      const float* from = graph_.value(p.weights).constant->as<float>();
      if (transposed) {
        std::copy_n(from, p.width * depth, to + p.first * depth);
      } else {
        for (int64_t k = 0; k < depth; ++k) std::copy_n(from + k * p.width, p.width, to + k * width + p.first);
      }
    }
    return joined;
  }

  Tensor join_biases(const Group& group, int64_t width) const {
    Tensor joined(DType::f32, {width});
    float* to = joined.as_mutable<float>();
    for (const Projection& p : group.members) {
      if (p.bias == no_value) {
        std::fill_n(to + p.first, p.width, 0.0f);
      } else {
        std::copy_n(graph_.value(p.bias).constant->as<float>(), p.width, to + p.first);
      }
    }
    return joined;
  }

  void emit(Group& group, const Key& key, const Rewriter& rewriter, const std::vector<Node>& nodes) {
    int64_t width = 0;
    bool biased = false;
    std::vector<std::string> sources;
    for (Projection& p : group.members) {
      p.first = width;
      width += p.width;
      biased = biased || p.bias != no_value;
      sources = merged_sources(sources, nodes[static_cast<size_t>(p.product)].sources);
    }
    width_[&group] = width;
    const std::string name = graph_.value(group.members[0].result).name;
    const ValueId weights =
        graph_.add_constant(graph_.value(group.members[0].weights).name, join_weights(group, key.transposed, width));
    group.result = graph_.add(ops::MatMul{false, key.transposed}, {rewriter.resolve(key.x), weights}, name, sources);
    if (!biased) return;
    const ValueId bias = graph_.add_constant(name + ".bias", join_biases(group, width));
    group.result = graph_.add(ops::Pointwise{ScalarFunction::add}, {group.result, bias}, name, sources);
  }

  void rebuild() {
    std::map<int32_t, std::pair<const Key, Group>*> starts;
    std::map<ValueId, std::pair<const Group*, const Projection*>> merged;
    for (auto& entry : groups_) {
      starts[entry.second.members[0].product] = &entry;
      for (const Projection& p : entry.second.members) merged[p.result] = {&entry.second, &p};
    }
    Rewriter rewriter(graph_);
    for (size_t n = 0; n < rewriter.nodes().size(); ++n) {
      if (const auto start = starts.find(static_cast<int32_t>(n)); start != starts.end())
        emit(start->second->second, start->second->first, rewriter, rewriter.nodes());
      Node& node = rewriter.nodes()[n];
      if (const auto* attention = node.op.as<ops::Attention>()) {
        ops::Attention op = *attention;
        for (size_t i = 0; i < operands; ++i) {
          const auto at = merged.find(node.inputs[i]);
          if (at == merged.end()) continue;
          const auto& [group, p] = at->second;
          const auto access = moved(node, i, *p, width_.at(group));
          if (!access) throw Error(ErrorCode::invalid_model, "attention over rows of more than 2^63 elements");
          (i == 0 ? op.query : i == 1 ? op.key : op.value) = *access;
          node.inputs[i] = group->result;
        }
        node.op = std::move(op);
      }
      rewriter.keep(std::move(node));
    }
    rewriter.finish();
    remove_dead(graph_);
  }

  Graph& graph_;
  Uses uses_;
  std::map<Key, Group> groups_;
  std::map<const Group*, int64_t> width_;
};

}  // namespace

void merge_projections(Graph& graph, const PassContext&) {
  Merger(graph).run();
}

}  // namespace camshaft
