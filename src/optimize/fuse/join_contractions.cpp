#include "optimize/fuse/join_contractions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/ops/contract.h"
#include "ir/ops/contraction.h"
#include "ir/ops/float8.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/ops/weight_only.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/fusion_notes.h"
#include "optimize/analysis/match.h"
#include "optimize/analysis/slice_readers.h"
#include "optimize/edit/joined_contraction.h"
#include "optimize/edit/shared_epilogue.h"

namespace camshaft {

namespace {

// Contractions with epilogues of their own that meet in one operator (SwiGLU's gate and up) are worth a step of its own
// behind the joined one from this many terms a sum on. Joined and apart, four such layers in a row on a Zen 5 core:
// 64 rows x 256 -> 512 0.88 and 0.89 ms, 512 x 768 -> 2048 85 and 89, 2 x 256 -> 512 0.060 and 0.066; but
// 4096 x 128 -> 256 15.9 and 15.4, 4096 x 32 -> 32 0.72 and 0.57.
constexpr int64_t least_depth_to_meet = 256;
// Pairs are looked at.
constexpr size_t most_to_meet = 16;

struct Candidate {
  ParallelContraction member;
  ValueId biased = no_value;  // the result with its bias
  std::string reason;         // why it stays alone
  bool joined = false;
};

class Joiner {
 public:
  Joiner(Graph& graph, const PassContext& context)
      : graph_(graph),
        pool_(context.pool),
        uses_(graph),
        notes_(context.notes),
        chains_prologues_(context.storage != DType::f32) {}

  void run() {
    std::map<ValueId, std::vector<std::vector<Candidate>>> parallel;  // by what they read: those that are alike
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (auto candidate = as_candidate(static_cast<int32_t>(n))) {
        auto& kinds = parallel[graph_.nodes[n].inputs[0]];
        const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const std::vector<Candidate>& others) {
          return are_alike(others[0].member, candidate->member);
        });
        (kind == kinds.end() ? kinds.emplace_back() : *kind).push_back(std::move(*candidate));
      }
    for (auto& [x, kinds] : parallel)
      for (std::vector<Candidate>& alike : kinds)
        if (alike.size() > 1) join_alike(alike);
    if (!groups_.empty()) rebuild();
  }

 private:
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }

  // --- what may be joined ---

  std::optional<Candidate> as_candidate(int32_t n) const {
    const Node& anchor = node(n);
    const auto* product = anchor.op.as<ops::MatMul>();
    const auto* conv = anchor.op.as<ops::Conv>();
    if (anchor.op.as<ops::IntegerMatMul>() || anchor.op.as<ops::Float8MatMul>()) return as_candidate_of_bytes(n);
    if (anchor.op.as<ops::WeightOnlyMatMul>()) return as_candidate_of_steps(n);
    if (product ? product->transpose_a : !conv || !conv->channels_last || conv->groups != 1) return std::nullopt;
    ParallelContraction m{n, anchor.inputs[1], no_value, {}, 0, 0};
    const ValueId result = anchor.outputs[0];
    const TensorType& type = graph_.type(result);
    if (!is_readable_constant(graph_, m.weights) || !uses_.single(m.weights) || !is_floating(type.dtype) ||
        graph_.type(m.weights).dtype != type.dtype || (product && graph_.shape(m.weights).size() != 2))
      return std::nullopt;
    if (graph_.value(m.weights).constant->size() == 0 || !type.shape.back().is_constant()) return std::nullopt;
    m.width = type.shape.back().value();
    ValueId biased = result;
    if (conv && anchor.inputs.size() > 2 && anchor.inputs[2] != no_value) {
      m.bias = anchor.inputs[2];
      if (!is_of_columns(graph_, m.bias, type)) return std::nullopt;
    } else if (product) {
      biased = behind_bias(result, m.bias);
    }
    m.epilogue = shared_epilogue(graph_, uses_, biased);
    return Candidate{m, biased, hindrance(m)};
  }

  // A product of bytes by a matrix without zero points, whose sums are made real: what follows them is shared.
  std::optional<Candidate> as_candidate_of_bytes(int32_t n) const {
    const Node& anchor = node(n);
    ParallelContraction m{n, anchor.inputs[1], no_value, {}, 0, 0};
    const ValueId sums = anchor.outputs[0];
    if (!is_readable_constant(graph_, m.weights) || !uses_.single(m.weights) || !uses_.single(sums) ||
        graph_.shape(m.weights).size() != 2 || graph_.value(m.weights).constant->size() == 0 ||
        (anchor.inputs.size() > 3 && anchor.inputs[3] != no_value))
      return std::nullopt;
    ValueId real = sums;
    if (graph_.type(sums).dtype != DType::f32) {
      const Node& cast = node(uses_.readers[static_cast<size_t>(sums)][0]);
      const auto* op = cast.op.as<ops::Cast>();
      if (!op || op->to != DType::f32) return std::nullopt;
      real = cast.outputs[0];
    }
    m.width = graph_.shape(m.weights).back().value();
    m.real = real;
    m.epilogue = shared_epilogue(graph_, uses_, real);
    return Candidate{m, real, hindrance(m)};
  }

  // A product with weights of few bits. Rows that are rounded to bytes are so once then.
  std::optional<Candidate> as_candidate_of_steps(int32_t n) const {
    const Node& anchor = node(n);
    ParallelContraction m{n, anchor.inputs[1], no_value, {}, 0, 0};
    m.scale = anchor.inputs[2];
    m.zero = anchor.inputs.size() > 3 ? anchor.inputs[3] : no_value;
    for (const ValueId id : {m.weights, m.scale, m.zero})
      if (id != no_value && !is_readable_constant(graph_, id)) return std::nullopt;
    const ValueId result = anchor.outputs[0];
    if (!uses_.single(m.weights) || graph_.value(m.weights).constant->size() == 0) return std::nullopt;
    m.width = graph_.shape(result).back().value();
    const ValueId biased = behind_bias(result, m.bias);
    m.epilogue = shared_epilogue(graph_, uses_, biased);
    return Candidate{m, biased, hindrance(m)};
  }

  // Whether they have zero points of one kind, and one number is the same for both.
  bool have_equal_zeros(const ParallelContraction& a, const ParallelContraction& b) const {
    if (a.zero == b.zero) return true;
    if (a.zero == no_value || b.zero == no_value) return false;
    const Value &first = graph_.value(a.zero), &second = graph_.value(b.zero);
    if (first.type.dtype != second.type.dtype || first.type.shape.size() != second.type.shape.size()) return false;
    if (!first.type.shape.empty()) return true;
    return *first.constant == *second.constant && !may_be_replaced(first.provenance) &&
           !may_be_replaced(second.provenance);
  }

  ValueId behind_bias(ValueId result, ValueId& bias) const {
    if (!uses_.single(result)) return result;
    const Node& add = node(uses_.readers[static_cast<size_t>(result)][0]);
    const auto* op = add.op.as<ops::Pointwise>();
    if (!op || op->function != ScalarFunction::add || graph_.type(add.outputs[0]) != graph_.type(result)) return result;
    const ValueId other = add.inputs[add.inputs[0] == result ? 1 : 0];
    if (!is_of_columns(graph_, other, graph_.type(result))) return result;
    bias = other;
    return add.outputs[0];
  }

  bool are_alike(const ParallelContraction& a, const ParallelContraction& b) const {
    if (!(node(a.node).op == node(b.node).op)) return false;
    if (a.real != no_value && zero_of(a) != zero_of(b)) return false;
    if (a.scale != no_value && (!have_equal_zeros(a, b) || graph_.type(a.scale).dtype != graph_.type(b.scale).dtype))
      return false;
    const auto depth = [&](const ParallelContraction& m) {  // the weights' dims but for those of columns
      Dims dims = graph_.value(m.weights).constant->dims();
      dims.erase(dims.begin() + static_cast<int64_t>(column_axis(m)));
      return dims;
    };
    return depth(a) == depth(b) && graph_.type(a.weights).dtype == graph_.type(b.weights).dtype;
  }

  // The zero point of what a product of bytes reads.
  ValueId zero_of(const ParallelContraction& m) const {
    const std::vector<ValueId>& inputs = node(m.node).inputs;
    return inputs.size() > 2 ? inputs[2] : no_value;
  }

  // The axis of the weights that is the result's last one.
  size_t column_axis(const ParallelContraction& m) const {
    if (const auto* of_steps = node(m.node).op.as<ops::WeightOnlyMatMul>()) return of_steps->transposed ? 0 : 1;
    const auto* product = node(m.node).op.as<ops::MatMul>();
    return m.real != no_value || (product && !product->transpose_b) ? 1 : 0;
  }

  void join_alike(std::vector<Candidate>& alike) {
    for (size_t i = 0; i < alike.size(); ++i) {
      if (alike[i].joined || !alike[i].reason.empty()) continue;
      std::vector<Candidate*> group;
      for (size_t j = i; j < alike.size(); ++j)
        if (!alike[j].joined && alike[j].reason.empty() &&
            alike[j].member.epilogue.steps == alike[i].member.epilogue.steps)
          group.push_back(&alike[j]);
      settle_columns(group);
      take(group);
    }
    for (size_t i = 0; i < alike.size() && alike.size() <= most_to_meet; ++i)
      for (size_t j = i + 1; j < alike.size(); ++j) {
        if (alike[i].joined || alike[j].joined || !meet(alike[i], alike[j])) continue;
        for (Candidate* c : {&alike[i], &alike[j]}) c->member.epilogue = {{}, {}, c->biased};
        take({&alike[i], &alike[j]});
      }
    for (size_t i = 0; i < alike.size(); ++i)
      if (!alike[i].joined) note(alike[i], alike[i == 0 ? 1 : 0]);
  }

  void take(const std::vector<Candidate*>& candidates) {
    if (candidates.size() < 2) return;
    ContractionGroup& group = groups_.emplace_back();
    group.axis = column_axis(candidates[0]->member);
    for (Candidate* c : candidates) {
      c->joined = true;
      c->member.first = group.width;
      group.width += c->member.width;
      group.members.push_back(c->member);
    }
  }

  int64_t depth_of(const Candidate& c) const {
    return graph_.value(c.member.weights).constant->size() / std::max<int64_t>(1, c.member.width);
  }

  // Whether pointwise operators alone read the two, and what they compute leaves one result.
  bool meet(const Candidate& a, const Candidate& b) const {
    // The epilogue of one takes the other's result: that is two kernels, too, where nothing is rounded for both, and
    // what they meet in is not computed by the product that reads it.
    const auto* of_steps = node(a.member.node).op.as<ops::WeightOnlyMatMul>();
    if (of_steps && of_steps->rounded_block == 0 && !chains_prologues_) return false;
    if (depth_of(a) < least_depth_to_meet || graph_.type(a.biased) != graph_.type(b.biased)) return false;
    std::map<ValueId, size_t> open;  // readers that are not inside
    std::set<int32_t> waiting;
    const auto add = [&](ValueId id) {
      const auto& readers = uses_.readers[static_cast<size_t>(id)];
      open[id] = readers.size();
      waiting.insert(readers.begin(), readers.end());
      return !uses_.is_output[static_cast<size_t>(id)];
    };
    if (!add(a.biased) || !add(b.biased)) return false;
    for (size_t inside = 0; !waiting.empty() && inside < max_epilogue_nodes; ++inside) {
      const Node& next = node(*waiting.begin());
      waiting.erase(waiting.begin());
      if (!next.op.as<ops::Pointwise>() || graph_.type(next.outputs[0]) != graph_.type(a.biased)) return false;
      for (const ValueId id : next.inputs)
        if (const auto at = open.find(id); at != open.end() && --at->second == 0) open.erase(at);
      const bool hidden = add(next.outputs[0]);
      if (open.size() == 1) return true;
      if (!hidden) return false;
    }
    return false;
  }

  // Brings them into the order of their columns, and leaves out those that a concatenation would have to copy from
  // there.
  void settle_columns(std::vector<Candidate*>& group) const {
    std::vector<Candidate*> open = std::move(group);
    group.clear();
    for (int64_t column = 0; !open.empty(); column += group.back()->member.width) {
      const auto wanted = [&](const Candidate* c) {
        return column_in_concat(graph_, uses_, c->member.epilogue.result);
      };
      auto next = std::find_if(open.begin(), open.end(), [&](const Candidate* c) { return wanted(c) == column; });
      if (next == open.end())
        next = std::find_if(open.begin(), open.end(), [&](const Candidate* c) { return !wanted(c); });
      if (next == open.end()) next = open.begin();
      group.push_back(*next);
      open.erase(next);
    }
    for (;;) {
      Columns columns;
      for (const Candidate* c : group) columns.joined_width += c->member.width;
      const auto copied = std::find_if(group.begin(), group.end(), [&](const Candidate* c) {
        columns.first += columns.width;
        columns.width = c->member.width;
        return !fits_concats(graph_, uses_, c->member.epilogue.result, columns);
      });
      if (copied == group.end()) return;
      (*copied)->reason = "a concatenation would have to copy it";
      group.erase(copied);
    }
  }

  // Why a slice of the common result would cost more than it saves; empty: it would not.
  std::string hindrance(const ParallelContraction& m) const {
    const ValueId result = m.epilogue.result;
    if (uses_.is_output[static_cast<size_t>(result)]) return "it is an output of the model";
    const auto& readers = uses_.readers[static_cast<size_t>(result)];
    if (readers.empty()) return "nobody reads it";
    for (const int32_t r : readers) {
      const Node& reader = node(r);
      if (is_elementwise(reader) && graph_.shape(reader.outputs[0]) == graph_.shape(result) &&
          !comes_from_later(reader, result, m.node))
        return fmt::format("'{}' is computed with it, and would be a step of its own", name(r));
      const bool in_place = reads_through_strides(reader, result)
                                ? reading_columns(reader, result, result, {m.width, 0, m.width}).has_value()
                                : reads_slices(graph_, uses_, reader, result);
      if (!in_place) return fmt::format("a slice would be copied for '{}'", name(r));
    }
    return {};
  }

  // Whether the epilogue of a contraction behind this one takes the operator.
  bool comes_from_later(const Node& reader, ValueId value, int32_t contraction) const {
    return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](ValueId id) {
      return id != value && last_contraction(id, graph_.shape(value), 0) > contraction;
    });
  }

  int32_t last_contraction(ValueId id, const Shape& shape, size_t depth) const {
    const int32_t n = id == no_value ? -1 : uses_.producer[static_cast<size_t>(id)];
    if (n < 0 || depth > max_epilogue_nodes || graph_.shape(id) != shape) return -1;
    if (ops::is_contraction(node(n).op)) return n;
    int32_t last = -1;
    if (is_elementwise(node(n)))
      for (const ValueId input : node(n).inputs) last = std::max(last, last_contraction(input, shape, depth + 1));
    return last;
  }

  std::string name(int32_t n) const {
    return node(n).sources.empty() ? graph_.value(node(n).outputs[0]).name : node(n).sources.front();
  }

  void note(const Candidate& c, const Candidate& other) const {
    if (!notes_) return;
    const std::string reason =
        c.reason.empty() ? "no other that could be joined has the same operators behind it" : c.reason;
    (*notes_)[graph_.value(c.member.epilogue.result).name].push_back(
        fmt::format("not joined with '{}', which reads the same: {}", name(other.member.node), reason));
  }

  // --- joining ---

  ValueId slice(const ContractionGroup& group, const ParallelContraction& m, const std::vector<Node>& nodes) {
    const auto axis = static_cast<int64_t>(graph_.shape(group.result).size()) - 1;
    const int32_t last = m.epilogue.nodes.empty() ? m.node : m.epilogue.nodes.back();
    return graph_.add(ops::Slice{{axis}, {Dim(m.first)}, {Dim(m.width)}, {1}}, {group.result},
                      graph_.value(m.epilogue.result).name, nodes[static_cast<size_t>(last)].sources);
  }

  void rebuild() {
    std::map<int32_t, ContractionGroup*> starts;
    std::map<ValueId, std::pair<const ContractionGroup*, const ParallelContraction*>> joined;
    for (ContractionGroup& group : groups_) {
      int32_t start = group.members[0].node;
      for (const ParallelContraction& m : group.members) {
        joined[m.epilogue.result] = {&group, &m};
        start = std::min(start, m.node);
      }
      starts[start] = &group;
    }
    Rewriter rewriter(graph_);
    for (size_t n = 0; n < rewriter.nodes().size(); ++n) {
      if (const auto start = starts.find(static_cast<int32_t>(n)); start != starts.end()) {
        ContractionGroup& group = *start->second;
        group.result = add_joined(graph_, rewriter, group, pool_);
        for (const ParallelContraction& m : group.members)
          rewriter.replace(m.epilogue.result, slice(group, m, rewriter.nodes()));
      }
      Node& old = rewriter.nodes()[n];
      for (const ValueId id : std::vector<ValueId>(old.inputs)) {
        const auto at = joined.find(id);
        if (at == joined.end() || !reads_through_strides(old, id)) continue;
        const auto& [group, m] = at->second;
        auto reader = reading_columns(old, id, group->result, {m->width, m->first, group->width});
        if (reader) old = std::move(*reader);  // nullopt: beyond 64 bits, reads the slice
      }
      rewriter.keep(std::move(old));
    }
    rewriter.finish();
    remove_dead(graph_);
  }

  Graph& graph_;
  ThreadPool& pool_;
  Uses uses_;
  PassNotes* notes_;
  bool chains_prologues_;  ///< a pointwise layer before a product is computed by that: on devices that store halves
  std::vector<ContractionGroup> groups_;
};

}  // namespace

void join_contractions(Graph& graph, const PassContext& context) {
  Joiner(graph, context).run();
}

}  // namespace camshaft
