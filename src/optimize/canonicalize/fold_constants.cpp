#include "optimize/canonicalize/fold_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/ops/generate.h"
#include "ir/ops/quantize.h"
#include "ir/rewriter.h"
#include "ir/symbols.h"
#include "optimize/analysis/match.h"
#include "optimize/edit/substitute_symbols.h"
#include "reference/element_io.h"
#include "reference/evaluate.h"

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

class Folder {
 public:
  Folder(Graph& graph, const PassContext& context) : graph_(graph), context_(context), rewriter_(graph) {
    size_t constants = 0;
    for (const Value& value : graph.values)
      if (value.constant) constants += value.constant->bytes();
    budget_ = always_fold_total + max_total_growth * constants;
    small_ = std::max(always_fold_bytes, constants / unnoticed_share);
  }

  void run() {
    for (Node& node : rewriter_.nodes()) {
      rewriter_.resolve(node);
      if (!known_sizes_.empty()) substitute_in_node(node, known_sizes_);
      for (Graph& body : node.bodies) fold_body(body);
      learn_sizes(node);
      if (fold_content(node)) continue;
      if (is_foldable(node)) {
        context_.cancellation.check("folding constants");
        fold(node);
      } else {
        rewriter_.keep(std::move(node));
      }
    }
    rewriter_.finish();
  }

 private:
  // What fails on constants may be in a branch that is never taken: such a body stays as it is.
  void fold_body(Graph& body) const {
    Graph folded = body;
    try {
      Folder(folded, context_).run();
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled) throw;
      return;
    }
    remove_dead(folded);
    body = std::move(folded);
  }

  // A node whose sizes depend on data (a range of computed numbers) has sizes when its inputs have become constants.
  void learn_sizes(const Node& node) {
    const auto own_symbol = [&](ValueId id, const Dim& d) -> std::optional<std::string> {
      auto symbol = d.as_symbol();
      return symbol && symbol->starts_with("@" + graph_.value(id).name + ".") ? symbol : std::nullopt;
    };
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
    SymbolReplacements learned;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Shape &before = graph_.shape(node.outputs[o]), &after = inferred[o].type.shape;
      for (size_t i = 0; i < before.size() && before.size() == after.size(); ++i)
        if (const auto symbol = own_symbol(node.outputs[o], before[i]); symbol && !(before[i] == after[i]))
          learned.emplace(*symbol, after[i]);
    }
    if (learned.empty()) return;
    substitute_in_values(graph_, learned);
    for (size_t o = 0; o < node.outputs.size(); ++o) graph_.value(node.outputs[o]).content = inferred[o].content;
    known_sizes_.merge(learned);
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

  bool is_foldable(const Node& node) const {
    if (node.inputs.empty() || !node.bodies.empty()) return false;
    // Weights stay as narrow as they are until something decides otherwise: see expand_quantization.
    if (node.op.as<ops::Dequantize>()) return false;
    size_t in_bytes = 0, out_bytes = 0;
    for (const ValueId id : node.inputs) {
      if (id == no_value) continue;
      if (!graph_.is_constant(id) || graph_.value(id).constant->is_elided()) return false;
      in_bytes += graph_.value(id).constant->bytes();
    }
    for (const ValueId id : node.outputs) {
      if (!is_static(graph_.shape(id)) || is_container(graph_.type(id).dtype)) return false;
      Dims dims;
      for (const Dim& d : graph_.shape(id)) dims.push_back(d.value());
      out_bytes += graph_.type(id).dtype == DType::string ? 0 : byte_size(graph_.type(id).dtype, element_count(dims));
    }
    if (out_bytes > small_ && out_bytes > max_growth * in_bytes) return false;
    if (out_bytes > budget_) return false;
    return !has_symbolic_field(node.op);
  }

  void fold(const Node& node) {
    std::vector<Tensor> inputs;
    std::vector<Constant> operands;
    for (const ValueId id : node.inputs) {
      inputs.push_back(id == no_value ? Tensor() : *graph_.value(id).constant);
      operands.push_back(graph_.constant(id));
    }
    std::vector<TensorType> types;
    for (const ValueId id : node.outputs) types.push_back(graph_.type(id));
    const std::vector<Tensor> results = evaluate(
        node.op, EvalContext{inputs, types, SymbolBindings{}, node.bodies, context_.pool, &context_.cancellation});
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (Shape(results.at(i).dims().begin(), results[i].dims().end()) != types[i].shape)
        throw Error(ErrorCode::invalid_model,
                    fmt::format("'{}' is {}, but its elements are of shape {}", graph_.value(node.outputs[i]).name,
                                to_string(types[i]), to_string(results[i].dims())));
      const ValueId constant = graph_.add_constant(graph_.value(node.outputs[i]).name,
                                                   {std::make_shared<const Tensor>(results[i]),
                                                    Provenance::transform(node.op, operands, i, node.outputs.size())});
      rewriter_.replace(node.outputs[i], constant);
      folded_.insert(constant);
    }
    for (const Tensor& result : results) budget_ -= std::min(budget_, result.bytes());
  }

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
  size_t budget_ = 0;  // bytes that may still be made
  size_t small_ = 0;   // a result that is always worth having
  SymbolReplacements known_sizes_;
  std::unordered_set<ValueId> folded_;  // constants made here
};

}  // namespace

void fold_constants(Graph& graph, const PassContext& context) {
  Folder(graph, context).run();
}

}  // namespace camshaft
