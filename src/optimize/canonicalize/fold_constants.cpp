#include "optimize/canonicalize/fold_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/work_scope.h"
#include "ir/ops/collective.h"
#include "ir/ops/cost.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/quantize.h"
#include "ir/ops/random.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "ir/symbols.h"
#include "optimize/analysis/match.h"
#include "optimize/edit/sparse_constant.h"
#include "optimize/edit/substitute_symbols.h"
#include "reference/element_io.h"
#include "reference/evaluate.h"
#include "reference/operations.h"

namespace camshaft {

namespace {

// Results up to this size are always worth having. Larger ones may be a few times as large as what they are made of: a
// cast of f16 or dequantised i4 weights is wanted, a broadcast of one row to a whole feature map is not. Beside large
// weights nobody notices a few more (the masks of Swin's shifted windows, 25 times their operands and 0.6 MB beside
// 114, took 0.3 % of each run).
constexpr size_t always_fold_bytes = 64 << 10;
constexpr size_t max_growth = 8;
constexpr size_t unnoticed_share = 128;
// All results of one run of the pass together, so that a chain in which every link is only a few times as large as the
// one before ends: this much, and a multiple of the constants that the graph came with.
constexpr size_t always_fold_total = 64 << 20;
constexpr size_t max_total_growth = 32;
// What has grown more than that is made only where something that is no constant reads it: BEiT's biases by position
// are gathered from tables a fiftieth of their size, through indices that seven scatters write. As much of it is stored
// as makes no engine file much larger; the rest stays a step, which runs once for each set of shapes. So does what only
// repeats a constant, as it would be read from memory either way.
constexpr size_t always_store_grown = 16 << 20;
constexpr size_t grown_share = 4;
// The reference evaluation takes seconds for more than that (in multiplications and additions); a kernel that runs once
// does not.
constexpr double most_flops = 4e9;

bool is_folded_content(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.content && value.type.shape.size() <= 1 && is_static(value.type.shape);
}

Tensor tensor_of(const TensorType& type, const std::vector<Dim>& content) {
  Dims dims;
  for (const Dim& d : type.shape) dims.push_back(d.value());
  std::vector<int64_t> elements;
  for (const Dim& d : content) elements.push_back(d.value());
  Tensor tensor(type.dtype, dims);
  if (tensor.size() != static_cast<int64_t>(elements.size()))
    throw Error(ErrorCode::internal, "the recorded elements of a value are not as many as its shape says");
  ops::store_elements(type.dtype, tensor.mutable_data(), 0, 1, tensor.size(), elements.data());
  return tensor;
}

class ConstantFolder {
 public:
  ConstantFolder(Graph& graph, const PassContext& context) : graph_(graph), context_(context), rewriter_(graph) {
    size_t constants = 0;
    for (const Value& value : graph.values)
      if (value.constant) constants += value.constant->bytes();
    budget_ = always_fold_total + max_total_growth * constants;
    small_ = std::max(always_fold_bytes, constants / unnoticed_share);
    grown_budget_ = std::max(always_store_grown, constants / grown_share);
    transient_budget_ = always_fold_total + constants;
  }

  void run() {
    for (Node& node : rewriter_.nodes()) {
      rewriter_.resolve(node);
      if (!known_sizes_.empty()) substitute_in_node(node, known_sizes_);
      for (Graph& body : node.bodies) fold_body(body);
      learn_sizes(node);
      if (fold_content(node) || fold(node) || fold_with_sizes(node)) continue;
      if (!defer(node))
        for (const ValueId id : node.inputs) store_grown(id);
      rewriter_.keep(std::move(node));
    }
    store_outputs();
    // Deferred nodes may have been kept before what they read was stored.
    if (!deferred_.empty())
      for (Node& node : graph_.nodes) rewriter_.resolve(node);
    rewriter_.finish();
  }

 private:
  // What fails on constants may be in a branch that is never taken: such a body stays as it is.
  void fold_body(Graph& body) const {
    Graph folded = body;
    try {
      ConstantFolder(folded, context_).run();
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled) throw;
      return;
    }
    remove_dead(folded);
    body = std::move(folded);
  }

  // A node whose sizes depend on data (a range of computed numbers) has sizes when its inputs have become constants.
  void learn_sizes(const Node& node) {
    const auto is_open = [&](ValueId id) {
      return std::any_of(graph_.shape(id).begin(), graph_.shape(id).end(),
                         [&](const Dim& d) { return own_symbol(id, d).has_value(); });
    };
    // A rule may also refuse an element or a size that it sees only now; the message is then about the model.
    const bool sees_more = !known_sizes_.empty() || std::any_of(node.inputs.begin(), node.inputs.end(),
                                                                [&](ValueId id) { return folded_.contains(id); });
    const auto holds_elements = [&](ValueId id) { return is_container(graph_.type(id).dtype); };
    if (!sees_more && std::none_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId id) { return is_open(id) || holds_elements(id); }))
      return;
    const std::vector<Inferred> inferred = infer(graph_, node);
    // Sizes of elements that nobody knew have no symbols to be replaced.
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (holds_elements(node.outputs[o])) graph_.value(node.outputs[o]).type.elements = inferred[o].type.elements;
    std::vector<Shape> shapes;
    for (const Inferred& result : inferred) shapes.push_back(result.type.shape);
    if (learn(node, shapes))
      for (size_t o = 0; o < node.outputs.size(); ++o) graph_.value(node.outputs[o]).content = inferred[o].content;
  }

  // Puts the sizes of results, as they are found to be, in the place of the node's own symbols.
  bool learn(const Node& node, const std::vector<Shape>& shapes) {
    SymbolReplacements learned;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Shape &before = graph_.shape(node.outputs[o]), &after = shapes[o];
      for (size_t i = 0; i < before.size() && before.size() == after.size(); ++i)
        if (const auto symbol = own_symbol(node.outputs[o], before[i]); symbol && !(before[i] == after[i]))
          learned.emplace(*symbol, after[i]);
    }
    if (learned.empty()) return false;
    substitute_in_values(graph_, learned);
    known_sizes_.merge(learned);
    return true;
  }

  // The symbol that a node has made for a size that only its evaluation tells.
  std::optional<std::string> own_symbol(ValueId id, const Dim& d) const {
    auto symbol = d.as_symbol();
    return symbol && symbol->starts_with("@" + graph_.value(id).name + ".") ? symbol : std::nullopt;
  }

  bool fold_content(const Node& node) {
    if (node.outputs.size() != 1 || !node.bodies.empty()) return false;
    const ValueId out = node.outputs[0];
    if (!is_folded_content(graph_, out)) return false;
    const std::vector<Dim> content = *graph_.value(out).content;
    const TensorType type = graph_.type(out);
    const std::string name = graph_.value(out).name;
    if (is_static(content)) {
      rewriter_.replace(out, graph_.add_constant(name, content_constant(node, tensor_of(type, content))));
      return true;
    }
    const bool dtype_fits = type.dtype == DType::i64 || type.dtype == DType::i32 || type.dtype == DType::boolean;
    if (!dtype_fits || node.op.as<ops::DimsTensor>() || names_run_time_sizes(content)) return false;
    rewriter_.replace(out,
                      graph_.add(ops::DimsTensor{content, type.dtype, type.shape.empty()}, {}, name, node.sources));
    return true;
  }

  // What a shape rule has found to be numbers: of constants it is what the operator gives. Sizes of other values are
  // settled, but what is done to them may be told by a constant.
  Constant content_constant(const Node& node, Tensor tensor) const {
    std::vector<Constant> operands;
    bool is_constant = !has_symbolic_field(node.op);
    for (const ValueId id : node.inputs) {
      operands.push_back(graph_.constant(id));
      is_constant = is_constant && (id == no_value || graph_.is_constant(id));
    }
    Constant constant = literal(std::move(tensor));
    if (is_constant) {
      constant.provenance = Provenance::transform(node.op, operands);
    } else if (std::any_of(operands.begin(), operands.end(), [](const Constant& c) { return c.provenance; })) {
      constant.provenance = Provenance::unknown("a list of sizes that constants have a part in", operands);
    }
    return constant;
  }

  /// A node on constants, or on results of such nodes, that is not evaluated yet.
  struct Deferred {
    Op op;
    std::vector<ValueId> inputs, outputs;
    size_t origin_bytes = 0;  // of the constants that it stems from
    size_t bytes = 0;         // of its results
    bool only_repeats = false;
    bool is_stored = false;              // a constant has taken its place for what comes later
    std::vector<Constant> results = {};  // once something has needed them
  };

  Deferred* deferred(ValueId id) {
    const auto at = deferred_of_.find(id);
    return at == deferred_of_.end() ? nullptr : &deferred_[at->second];
  }

  // The node with its sizes; nullopt where it is not one that is ever evaluated here.
  std::optional<Deferred> foldable(const Node& node) {
    if (!node.bodies.empty() || has_symbolic_field(node.op)) return std::nullopt;
    if (node.op.as<ops::Collective>()) return std::nullopt;  // other ranks have constants of their own
    if (node.inputs.empty() && !node.op.as<ops::RandomTensor>()) return std::nullopt;
    // Weights stay as narrow as they are until something decides otherwise: see expand_quantization.
    if (node.op.as<ops::Dequantize>()) return std::nullopt;
    Deferred found{.op = node.op, .inputs = node.inputs, .outputs = node.outputs};
    bool repeats_all = !node.inputs.empty();  // what only repeats constants
    for (const ValueId id : node.inputs) {
      if (id == no_value) continue;
      const Deferred* before = deferred(id);
      if (!before && (!graph_.is_constant(id) || graph_.value(id).constant->is_elided())) return std::nullopt;
      found.origin_bytes += before ? before->origin_bytes : graph_.value(id).constant->bytes();
      repeats_all = repeats_all && before && before->only_repeats;
    }
    for (const ValueId id : node.outputs) {
      if (!is_static(graph_.shape(id)) || is_container(graph_.type(id).dtype)) return std::nullopt;
      Dims dims;
      for (const Dim& d : graph_.shape(id)) dims.push_back(d.value());
      found.bytes += graph_.type(id).dtype == DType::string ? 0 : byte_size(graph_.type(id).dtype, element_count(dims));
    }
    found.only_repeats = node.op.as<ops::Expand>() || (repeats_all && node.op.traits().kind == OpKind::move);
    const std::optional<ops::Cost> cost = ops::cost(graph_, node, {});
    return cost && cost->flops > most_flops ? std::nullopt : std::optional(std::move(found));
  }

  bool fold(const Node& node) {
    std::optional<Deferred> found = foldable(node);
    if (!found || found->bytes > budget_ ||
        (found->bytes > small_ && found->bytes > max_growth * found->origin_bytes) || !provide(found->inputs))
      return false;
    evaluate_now(*found);
    budget_ -= found->bytes;
    for (size_t i = 0; i < node.outputs.size(); ++i) replace(node.outputs[i], found->results[i]);
    return true;
  }

  // A node on constants whose elements tell how large its results are: the places of those that are not 0.
  bool fold_with_sizes(const Node& node) {
    if (node.inputs.empty() || !node.bodies.empty() || has_symbolic_field(node.op)) return false;
    Deferred found{.op = node.op, .inputs = node.inputs, .outputs = node.outputs};
    for (const ValueId id : node.inputs) {
      if (id == no_value) continue;
      if (!graph_.is_constant(id) || graph_.value(id).constant->is_elided()) return false;
      found.origin_bytes += graph_.value(id).constant->bytes();
    }
    bool tells_sizes = false;
    for (const ValueId id : node.outputs) {
      if (is_container(graph_.type(id).dtype)) return false;
      for (const Dim& d : graph_.shape(id)) {
        if (!d.is_constant() && !own_symbol(id, d)) return false;
        tells_sizes = tells_sizes || !d.is_constant();
      }
    }
    if (!tells_sizes || max_growth * found.origin_bytes > budget_) return false;
    for (const ValueId id : node.inputs) fix_numbers(graph_, id, "as many elements as it tells");
    try {
      found.results = results_of(found);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled) throw;
      return false;  // running says what is wrong
    }
    std::vector<Shape> shapes;
    std::vector<Constant> operands;
    for (const ValueId id : node.inputs) operands.push_back(graph_.constant(id));
    for (Constant& result : found.results) {
      // Other numbers would make it larger or smaller, and so all that is made of it.
      if (result.provenance) result.provenance = Provenance::unknown("a tensor as large as constants tell", operands);
      shapes.emplace_back(result.tensor->dims().begin(), result.tensor->dims().end());
      budget_ -= std::min(budget_, result.tensor->bytes());
    }
    learn(node, shapes);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (shapes[i] != graph_.shape(node.outputs[i]))
        throw Error(ErrorCode::internal, fmt::format("the sizes of '{}' are not those that its operator has named",
                                                     graph_.value(node.outputs[i]).name));
      replace(node.outputs[i], found.results[i]);
    }
    return true;
  }

  // Its results, and what they take of the budget.
  std::vector<Tensor> evaluated(const Deferred& node, const std::vector<Tensor>& inputs) const {
    std::vector<TensorType> types;
    for (const ValueId id : node.outputs) types.push_back(graph_.type(id));
    const std::shared_ptr<Budget> budget = current_budget();
    try {
      if (budget) budget->take_operations(operations_of(graph_, {node.op, node.inputs, node.outputs, {}, {}}, {}));
      return evaluate(node.op, EvalContext{inputs, types, SymbolBindings{}, {}, context_.pool, &context_.cancellation});
    } catch (const Error& e) {
      if (e.code() != ErrorCode::unsupported && e.code() != ErrorCode::out_of_memory) throw;
      throw Error(e.code(), fmt::format("folding the constant '{}': {}", graph_.value(node.outputs[0]).name, e.what()));
    }
  }

  bool defer(const Node& node) {
    std::optional<Deferred> found = foldable(node);
    if (!found) return false;
    for (const ValueId id : found->outputs) deferred_of_[id] = deferred_.size();
    deferred_.push_back(*std::move(found));
    return true;
  }

  // Makes a constant of a deferred result that something reads in each run.
  void store_grown(ValueId id) {
    Deferred* const found = id == no_value ? nullptr : deferred(id);
    if (!found || found->is_stored || found->only_repeats || found->bytes > grown_budget_ || !provide({id})) return;
    grown_budget_ -= found->bytes;
    found->is_stored = true;
    for (size_t i = 0; i < found->outputs.size(); ++i) replace(found->outputs[i], found->results[i]);
  }

  // Outputs of the graph that are one element but for few stay steps: these write memory, where a copy of a constant
  // reads as much besides. The identity of 1000 x 1000 took 1.6 times as long as a constant.
  void store_outputs() {
    for (const ValueId output : std::vector<ValueId>(graph_.outputs)) {
      const ValueId id = rewriter_.resolve(output);
      if (!sparse_output(id)) store_grown(id);
    }
  }

  bool sparse_output(ValueId id) {
    Deferred* const found = deferred(id);
    if (!found || found->is_stored || found->outputs.size() != 1) return false;
    const Uses uses(graph_);
    if (!uses.readers[static_cast<size_t>(id)].empty()) return false;
    if (is_sparse_constant(graph_, uses, id)) return true;
    if (found->only_repeats || !provide({id})) return false;
    const Constant& made = found->results[0];
    const std::optional<SparseConstant> sparse = made.provenance ? std::nullopt : sparse_constant(*made.tensor);
    if (!sparse) return false;
    const std::vector<std::string> sources =
        graph_.nodes[static_cast<size_t>(uses.producer[static_cast<size_t>(id)])].sources;
    rewriter_.replace(id, add_sparse_constant(graph_, *sparse, graph_.shape(id), graph_.value(id).name, sources));
    return true;
  }

  // Evaluates what is deferred of these; false, with nothing done, where it takes too much memory.
  bool provide(const std::vector<ValueId>& ids) {
    std::set<size_t> missing;
    std::vector<ValueId> open = ids;
    size_t bytes = 0;
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const auto at = id == no_value ? deferred_of_.end() : deferred_of_.find(id);
      if (at == deferred_of_.end()) continue;
      const Deferred& before = deferred_[at->second];
      if (!before.results.empty() || !missing.insert(at->second).second) continue;
      bytes += std::min(before.bytes, transient_budget_ + 1);
      if (bytes > transient_budget_) return false;
      open.insert(open.end(), before.inputs.begin(), before.inputs.end());
    }
    transient_budget_ -= bytes;
    for (const size_t index : missing) evaluate_now(deferred_[index]);  // each after those that it reads
    return true;
  }

  void evaluate_now(Deferred& node) {
    node.results = results_of(node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Dims& dims = node.results[i].tensor->dims();
      const TensorType& type = graph_.type(node.outputs[i]);
      if (Shape(dims.begin(), dims.end()) != type.shape)
        throw Error(ErrorCode::invalid_model,
                    fmt::format("'{}' is {}, but its elements are of shape {}", graph_.value(node.outputs[i]).name,
                                to_string(type), to_string(dims)));
    }
  }

  std::vector<Constant> results_of(const Deferred& node) {
    context_.cancellation.check("folding constants");
    std::vector<Tensor> inputs;
    std::vector<Constant> operands;
    for (const ValueId id : node.inputs) {
      const Deferred* const before = id == no_value ? nullptr : deferred(id);
      const auto result = [&] { return std::find(before->outputs.begin(), before->outputs.end(), id); };
      operands.push_back(before ? before->results[static_cast<size_t>(result() - before->outputs.begin())]
                                : graph_.constant(id));
      inputs.push_back(operands.back().tensor ? *operands.back().tensor : Tensor());
    }
    const std::vector<Tensor> tensors = evaluated(node, inputs);
    std::vector<Constant> results;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      results.push_back({std::make_shared<const Tensor>(tensors.at(i)),
                         Provenance::transform(node.op, operands, i, node.outputs.size())});
    return results;
  }

  void replace(ValueId id, const Constant& constant) {
    const ValueId made = graph_.add_constant(graph_.value(id).name, constant);
    rewriter_.replace(id, made);
    folded_.insert(made);
  }

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
  size_t budget_ = 0;            // bytes that may still be made
  size_t small_ = 0;             // a result that is always worth having
  size_t grown_budget_ = 0;      // bytes of grown results that may still be stored
  size_t transient_budget_ = 0;  // … and evaluated on the way to others
  std::vector<Deferred> deferred_;
  std::unordered_map<ValueId, size_t> deferred_of_;
  SymbolReplacements known_sizes_;
  std::unordered_set<ValueId> folded_;  // constants made here
};

}  // namespace

void fold_constants(Graph& graph, const PassContext& context) {
  ConstantFolder(graph, context).run();
}

}  // namespace camshaft
