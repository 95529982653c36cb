#include "backends/cuda/passes/defer_layer_norms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/row_moments.h"
#include "ir/region.h"
#include "ir/region_editor.h"
#include "ir/replaceable.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"
#include "reference/element_io.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// Columns that moments are given of. Kernels for few rows have blocks of 16 columns, which would have to wait for each
// other to give those of more (a step of a decoder of 1B weights on an H200: 7 us a layer); for many rows there would
// be twice as much to read.
constexpr int64_t part_of_few = 16, part_of_many = 32;
constexpr double few_rows = 8;
constexpr size_t most_inputs = 8;  // of a product, so that there is room for what is added

// A norm of few rows costs its launch. Of many it is memory that is read and written once more, a part of what the
// products take; those of libraries, which know nothing of norms, are then faster by more than that (GPT-2's of 1024
// rows on an H200: 38 us a layer, and 7 us for the norms, against 62 us).
constexpr double most_rows = 512;

// A layer norm whose work others take.
struct Norm {
  ValueId x = no_value, scale = no_value, bias = no_value;
  ops::RowNorm row;
};

// A product with a constant matrix, alone or as a region with what follows it.
struct Product {
  const Node* node = nullptr;
  const Graph* body = nullptr;  // null: alone
  const ops::MatMul* op = nullptr;
  ValueId a = no_value, weights = no_value;  // of the outer graph
};

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

class Deferral {
 public:
  Deferral(Graph& graph, const PassContext& context)
      : graph_(graph), pool_(context.pool), optimum_(context.optimum), uses_(graph) {}

  void run() {
    for (const Node& node : graph_.nodes) consider(node);
    if (norms_.empty()) return;
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : old) {
      if (node.op.as<ops::LayerNorm>() && norms_.contains(node.outputs[0])) continue;
      const bool gives = sources_.contains(node.outputs[0]);
      const bool reads =
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return norms_.contains(id); });
      graph_.nodes.push_back(gives || reads ? rebuilt(node) : std::move(node));
    }
    remove_dead(graph_);
  }

 private:
  static size_t at(ValueId id) { return static_cast<size_t>(id); }

  std::optional<Product> as_product(const Node& node) const {
    Product p{&node};
    const Node* anchor = &node;
    if (const auto* region = node.op.as<ops::Region>()) {
      if (region->kind != ops::RegionKind::contract || node.bodies.size() != 1) return std::nullopt;
      p.body = &node.bodies[0];
      if (p.body->nodes.empty() || p.body->outputs.size() != 1) return std::nullopt;
      anchor = &p.body->nodes[0];
      for (size_t n = 1; n < p.body->nodes.size(); ++n)
        if (!p.body->nodes[n].op.as<ops::Pointwise>() && !p.body->nodes[n].op.as<ops::Cast>()) return std::nullopt;
    }
    p.op = anchor->op.as<ops::MatMul>();
    if (!p.op || p.op->transpose_a || node.inputs.size() > most_inputs) return std::nullopt;
    p.a = outer_operand(node, anchor->inputs[0]);
    p.weights = outer_operand(node, anchor->inputs[1]);
    if (p.a == no_value || p.a == p.weights || !is_readable_constant(graph_, p.weights)) return std::nullopt;
    const Tensor& w = *graph_.value(p.weights).constant;
    const TensorType& result = graph_.type(node.outputs[0]);
    if (w.dims().size() != 2 || w.size() == 0 || !is_half(w.dtype()) || graph_.type(p.a).dtype != w.dtype())
      return std::nullopt;
    return result.shape.size() == graph_.shape(p.a).size() ? std::optional(p) : std::nullopt;
  }

  const Node* producer(ValueId id) const {
    const int32_t n = uses_.producer[at(id)];
    return n < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(n)];
  }

  // Whether a product can read rows of `norm`, and has room for it.
  bool can_read(const Product& p, ValueId y, const Norm& norm) const {
    const auto other = read_by_.find(p.node);
    if (other != read_by_.end() && (other->second.x != norm.x || !(other->second.row == norm.row))) return false;
    const bool is_operand = p.body && std::any_of(p.body->nodes.begin() + 1, p.body->nodes.end(),
                                                  [&](const Node& node) { return reads_outer(p, node, y); });
    if (is_operand && graph_.type(y) != graph_.type(p.node->outputs[0])) return false;
    for (const ValueId id : {p.weights, norm.scale})
      if (graph_.type(p.weights).dtype == DType::f16) fix_numbers(graph_, id, "whether fp16 holds scaled weights");
    return p.a != y || can_fold(*graph_.value(p.weights).constant, numbers(norm.scale));
  }

  static bool reads_outer(const Product& p, const Node& inner, ValueId y) {
    return std::any_of(inner.inputs.begin(), inner.inputs.end(),
                       [&](ValueId id) { return outer_operand(*p.node, id) == y; });
  }

  std::vector<double> numbers(ValueId id) const {
    return id == no_value ? std::vector<double>() : graph_.value(id).constant->to_doubles();
  }

  // Whether the type holds the scaled weights: see lower_precision().
  static bool can_fold(const Tensor& w, const std::vector<double>& scale) {
    if (w.dtype() != DType::f16 || scale.empty()) return true;
    double largest = 0, most = 0;
    for (const double g : scale) largest = std::max(largest, std::fabs(g));
    for (const double x : w.to_doubles())
      if (std::isfinite(x)) most = std::max(most, std::fabs(x));
    constexpr double most_of_f16 = 65504, least_of_weights = 0x1p-11;
    return most * largest <= most_of_f16 && (most == 0 || most * largest >= least_of_weights);
  }

  // At the optimum; sizes that nobody knows count `unknown`.
  double rows_of(const Shape& shape, double unknown) const {
    double rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) {
      std::vector<std::string> names;
      shape[d].collect_symbols(names);
      const bool is_known =
          std::all_of(names.begin(), names.end(), [&](const std::string& n) { return optimum_.contains(n); });
      rows *= is_known ? static_cast<double>(shape[d].evaluate(optimum_)) : unknown;
    }
    return rows;
  }

  void consider(const Node& node) {
    const auto* op = node.op.as<ops::LayerNorm>();
    if (!op || op->clamped || node.outputs.size() != 1) return;
    const ValueId y = node.outputs[0];
    Norm norm;
    norm.x = node.inputs[0];
    const TensorType& type = graph_.type(norm.x);
    const auto length = type.shape.back().as_constant();
    if (op->axis + 1 != static_cast<int64_t>(type.shape.size()) || !is_half(type.dtype) || !length ||
        *length % part_of_many != 0 || *length == 0 || uses_.is_output[at(y)] || uses_.readers[at(y)].empty())
      return;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == no_value) continue;
      if (!is_readable_constant(graph_, node.inputs[i])) return;
      (i == 1 ? norm.scale : norm.bias) = node.inputs[i];
    }
    if (rows_of(type.shape, 1) > most_rows) return;
    const double rows = rows_of(type.shape, most_rows);
    norm.row = {rows <= few_rows ? part_of_few : part_of_many, op->epsilon, op->root_mean_square};
    const Node* before = producer(norm.x);
    if (!before || before->outputs[0] != norm.x || !as_product(*before)) return;
    std::vector<const Node*> readers;
    for (const int32_t n : uses_.readers[at(y)]) {
      const auto product = as_product(graph_.nodes[static_cast<size_t>(n)]);
      if (!product || !can_read(*product, y, norm)) return;
      readers.push_back(product->node);
    }
    for (const Node* reader : readers) read_by_[reader] = norm;
    sources_[norm.x] = norm.row.width;
    norms_[y] = norm;
  }

  // ---- the new regions

  struct Scaled {
    ValueId weights, sums, biases;  // no_value: none
  };

  ValueId add_vector(const std::string& name, const std::vector<double>& values, Provenance::Pointer provenance) {
    Tensor made(DType::f32, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) made.as_mutable<float>()[i] = static_cast<float>(values[i]);
    return graph_.add_constant(name, {std::make_shared<const Tensor>(std::move(made)), std::move(provenance)});
  }

  // An operand of a norm in f32.
  ValueId add_operand(const std::string& name, ValueId id) {
    const Constant wide = derive_converted(graph_.constant(id), DType::f32);
    return graph_.add_constant(name, derive_reshaped(wide, {wide.tensor->size()}, pool_));
  }

  // Numbers of each k in f64, in a shape that broadcasts to that of the weights.
  Constant along_k(ValueId id, bool by_rows) {
    const Constant wide = derive(ops::Cast{.to = DType::f64}, {graph_.constant(id)}, pool_);
    const int64_t size = wide.tensor->size();
    return derive_reshaped(wide, by_rows ? Dims{size, 1} : Dims{size}, pool_);
  }

  // The record of sums over k in f64, of weights or of their products with `factor`.
  static Provenance::Pointer sum_provenance(const Constant& weights, bool by_rows, const Constant& factor = {}) {
    if (!weights.provenance)
      return factor.provenance ? Provenance::unknown("sums of weights that the model does not name", {factor})
                               : nullptr;
    const auto apply = [](const Op& op, const std::vector<Constant>& operands) {
      return Constant{nullptr, Provenance::transform(op, operands)};
    };
    Constant terms = apply(ops::Cast{.to = DType::f64}, {weights});
    if (factor.tensor) terms = apply(ops::Pointwise{F::mul}, {terms, factor});
    const Constant sums = apply(ops::Reduce{ops::ReduceKind::sum, {by_rows ? 0 : 1}, false}, {terms});
    return apply(ops::Cast{.to = DType::f32}, {sums}).provenance;
  }

  Scaled scale_weights(const Product& p, const Norm& norm) {
    const Constant weights = graph_.constant(p.weights);
    const Tensor& w = *weights.tensor;
    const std::string name = graph_.value(p.weights).name;
    const std::vector<double> bias = numbers(norm.bias);
    const bool by_rows = !p.op->transpose_b;  // of k
    const int64_t k_size = w.dims()[by_rows ? 0 : 1], n_size = w.dims()[by_rows ? 1 : 0];
    const Constant scaled =
        norm.scale == no_value ? weights : derive_product(weights, {along_k(norm.scale, by_rows)}, pool_).constant;
    // In one pass over the weights: as casts and sums they would be there in f64, too.
    std::vector<double> sums(static_cast<size_t>(n_size)), biases(sums.size());
    constexpr int64_t columns_at_once = 64;
    pool_.parallel_for(n_size, columns_at_once, [&](int64_t begin, int64_t end) {
      std::vector<double> row(static_cast<size_t>(end - begin));
      for (int64_t k = 0; k < k_size; ++k) {
        const int64_t first = by_rows ? k * n_size + begin : begin * k_size + k, step = by_rows ? 1 : k_size;
        if (!bias.empty()) {
          ops::load_elements(w.dtype(), w.data(), first, step, end - begin, row.data());
          for (size_t n = 0; n < row.size(); ++n)
            biases[static_cast<size_t>(begin) + n] += row[n] * bias[static_cast<size_t>(k)];
        }
        // The sums are of what is multiplied, or the mean would not cancel.
        ops::load_elements(w.dtype(), scaled.tensor->data(), first, step, end - begin, row.data());
        for (size_t n = 0; n < row.size(); ++n) sums[static_cast<size_t>(begin) + n] += row[n];
      }
    });
    Scaled made{p.weights, no_value, no_value};
    if (norm.scale != no_value) made.weights = graph_.add_constant(name, scaled);
    if (!norm.row.root_mean_square) made.sums = add_vector(name + "_sums", sums, sum_provenance(scaled, by_rows));
    if (!bias.empty())
      made.biases = add_vector(name + "_bias", biases, sum_provenance(weights, by_rows, along_k(norm.bias, by_rows)));
    return made;
  }

  Node rebuilt(const Node& node) {
    const Product p = *as_product(node);
    RegionEditor made(graph_, ops::RegionKind::contract);
    made.set_sources(node.sources);
    const auto input = [&](ValueId outer) { return made.add_operand(outer); };
    const auto apply = [&](F function, ValueId a, ValueId b) {
      return made.add(ops::Pointwise{function}, {a, b}, "norm");
    };
    const auto cast = [&](ValueId id, DType to) {
      return made.add(ops::Cast{.to = to}, {id}, made.body().value(id).name);
    };

    // Nodes of the old body are of the graph itself where there is none.
    const std::vector<Node> alone = p.body ? std::vector<Node>() : std::vector<Node>{node};
    const std::vector<Node>& nodes = p.body ? p.body->nodes : alone;
    const auto norm_of = [&](ValueId outer) {
      const auto it = norms_.find(outer);
      return it == norms_.end() ? nullptr : &it->second;
    };

    const Norm* of_a = norm_of(p.a);
    const Scaled scaled = of_a ? scale_weights(p, *of_a) : Scaled{p.weights, no_value, no_value};
    const ValueId result = made.add(ops::MatMul(*p.op), {input(of_a ? of_a->x : p.a), input(scaled.weights)},
                                    graph_.value(node.outputs[0]).name, node.sources);
    std::vector<ValueId> row;  // mean and factor
    if (const auto it = read_by_.find(&node); it != read_by_.end())
      row = made.add_node(ops::RowNorm(it->second.row), {input(moments_.at(it->second.x))}, {"mean", "factor"});

    std::map<ValueId, ValueId> wide, renamed;  // of the old body: f32 of what is half there, and what is as it was
    if (of_a) {
      ValueId x = cast(result, DType::f32);
      if (scaled.sums != no_value) x = apply(F::sub, x, apply(F::mul, row[0], input(scaled.sums)));
      x = apply(F::mul, x, row[1]);
      if (scaled.biases != no_value) x = apply(F::add, x, input(scaled.biases));
      wide[nodes[0].outputs[0]] = x;
    } else {
      renamed[nodes[0].outputs[0]] = result;
    }
    const auto normed = [&](const Norm& norm) {
      ValueId x = cast(input(norm.x), DType::f32);
      if (!norm.row.root_mean_square) x = apply(F::sub, x, row[0]);
      x = apply(F::mul, x, row[1]);
      if (norm.scale != no_value) x = apply(F::mul, x, input(add_operand("scale", norm.scale)));
      if (norm.bias != no_value) x = apply(F::add, x, input(add_operand("bias", norm.bias)));
      return x;
    };
    const auto find_wide = [&](ValueId id) {
      const auto it = wide.find(id);
      if (it != wide.end()) return it->second;
      const ValueId outer = outer_operand(node, id);
      const Norm* norm = outer == no_value ? nullptr : norm_of(outer);
      return norm ? wide[id] = normed(*norm) : no_value;
    };
    const auto operand = [&](ValueId id) {
      if (id == no_value) return no_value;
      if (const auto it = renamed.find(id); it != renamed.end()) return it->second;
      if (const ValueId x = find_wide(id); x != no_value)
        return renamed[id] = cast(x, (p.body ? *p.body : graph_).type(id).dtype);
      const ValueId outer = outer_operand(node, id);
      return renamed[id] =
                 outer != no_value ? input(outer) : made.add_constant(p.body->value(id).name, p.body->constant(id));
    };
    for (size_t n = 1; n < nodes.size(); ++n) {
      const auto* widening = nodes[n].op.as<ops::Cast>();
      const ValueId x = widening && widening->to == DType::f32 ? find_wide(nodes[n].inputs[0]) : no_value;
      if (x != no_value) {
        renamed[nodes[n].outputs[0]] = x;
        continue;
      }
      std::vector<ValueId> operands;
      for (const ValueId id : nodes[n].inputs) operands.push_back(operand(id));
      renamed[nodes[n].outputs[0]] =
          made.add(nodes[n].op, operands, p.body->value(nodes[n].outputs[0]).name, nodes[n].sources);
    }
    const ValueId last = operand(p.body ? p.body->outputs[0] : node.outputs[0]);
    made.add_result(node.outputs[0], last, p.body ? p.body->output_names[0] : "");
    const bool gives_moments = sources_.contains(node.outputs[0]);
    if (gives_moments)
      made.add_new_result(graph_.value(node.outputs[0]).name + "_moments",
                          made.add(ops::RowMoments{sources_.at(node.outputs[0])}, {last}, "moments"), "moments");
    made.remove_dead();
    Node region = made.finish();
    if (gives_moments) moments_[node.outputs[0]] = region.outputs[1];
    return region;
  }

  Graph& graph_;
  ThreadPool& pool_;
  const SymbolBindings& optimum_;
  const Uses uses_;
  std::map<ValueId, Norm> norms_;        // by what they give
  std::map<const Node*, Norm> read_by_;  // products read rows of one norm each
  std::map<ValueId, int64_t> sources_;   // rows that moments are needed of, in parts of so many columns
  std::map<ValueId, ValueId> moments_;
};

}  // namespace

void defer_layer_norms(Graph& graph, const PassContext& context) {
  Deferral(graph, context).run();
}

}  // namespace camshaft
