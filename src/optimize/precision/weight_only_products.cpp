#include "optimize/precision/weight_only_products.h"

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/quantized.h"
#include "ir/ops/weight_only.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// Kernels read so many elements at a time that none of their words has elements of two blocks.
constexpr int64_t block_grain = 16;

class WeightOnlyProducts {
 public:
  explicit WeightOnlyProducts(Graph& graph) : graph_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    for (Node& node : rewriter_.nodes()) {
      rewriter_.resolve(node);
      for (Graph& body : node.bodies) WeightOnlyProducts(body).run();
      const auto* matmul = node.op.as<ops::MatMul>();
      const ValueId made = matmul ? product(node, *matmul) : no_value;
      if (made == no_value) {
        rewriter_.keep(std::move(node));
      } else {
        rewriter_.replace(node.outputs[0], made);
      }
    }
    rewriter_.finish();
  }

 private:
  // A matrix of steps, and how what is summed over is cut into blocks.
  struct Weights {
    ValueId steps = no_value, scale = no_value, zero = no_value;
    size_t depth = 0;  // the axis that is summed over
    int64_t block = 1;
  };

  ValueId product(const Node& node, const ops::MatMul& op) {
    const ValueId x = node.inputs[0];
    const DType dtype = graph_.type(x).dtype;
    if (op.transpose_a || (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)) return no_value;
    ValueId b = node.inputs[1];
    bool transposed = op.transpose_b;
    if (const auto* turn = producers_.op<ops::Transpose>(b); turn && turn->permutation == std::vector<int64_t>{1, 0}) {
      b = producers_.find(b)->inputs[0];
      transposed = !transposed;
    }
    const std::optional<Weights> weights = weights_of(b, transposed, dtype);
    if (!weights) return no_value;
    name_ = graph_.value(node.outputs[0]).name;
    sources_ = node.sources;
    std::vector<ValueId> inputs{x, weights->steps, parameter(*weights, weights->scale)};
    if (weights->zero != no_value)
      inputs.push_back(graph_.shape(weights->zero).empty() ? weights->zero : parameter(*weights, weights->zero));
    int64_t rounded_block = 0;
    if (const auto* rounded = producers_.op<ops::RoundBlocks>(x)) {
      inputs[0] = producers_.find(x)->inputs[0];
      rounded_block = rounded->block;
    }
    const DType scale = graph_.type(inputs[2]).dtype;
    if (scale != DType::f32 && (scale != DType::f16 || dtype != DType::f16))
      inputs[2] = add(ops::Cast{DType::f32}, inputs[2]);
    return graph_.add(ops::WeightOnlyMatMul{weights->block, transposed, rounded_block}, std::move(inputs), name_,
                      sources_);
  }

  // That are multiplied with floats of this type.
  std::optional<Weights> weights_of(ValueId b, bool transposed, DType dtype) {
    const auto* op = producers_.op<ops::Dequantize>(b);
    if (!op || op->dtype != dtype) return std::nullopt;
    const Node& node = *producers_.find(b);
    Weights w;
    w.steps = node.inputs[0];
    w.scale = node.inputs[1];
    w.zero = node.inputs.size() > 2 ? node.inputs[2] : no_value;
    w.depth = transposed ? 1 : 0;
    for (const ValueId id : {w.steps, w.scale, w.zero})
      if (id != no_value && !is_readable_constant(graph_, id)) return std::nullopt;
    const Shape& shape = graph_.shape(w.steps);
    if (!ops::is_narrow_step(graph_.type(w.steps).dtype) || shape.size() != 2) return std::nullopt;
    const int64_t all = shape[w.depth].value();
    if (all == 0) return std::nullopt;
    const bool by_block = op->block != 0 && op->axis == static_cast<int64_t>(w.depth) &&
                          (is_by_block(w, w.scale) || (w.zero != no_value && is_by_block(w, w.zero)));
    w.block = by_block ? std::min(op->block, all) : all;
    if (w.block != all && w.block % block_grain != 0) return std::nullopt;
    const bool fit = fits(w, w.scale, op->axis) && (w.zero == no_value || fits(w, w.zero, op->axis));
    return fit ? std::optional(w) : std::nullopt;
  }

  bool is_by_block(const Weights& w, ValueId id) const {
    return graph_.shape(id).size() == 2 && graph_.shape(id)[w.depth] != Dim(1);
  }

  // One number, one a column, or one for each block of a column.
  bool fits(const Weights& w, ValueId id, int64_t axis) const {
    const Shape& shape = graph_.shape(id);
    const size_t columns = 1 - w.depth;
    if (shape.empty()) return true;
    if (shape.size() == 1) return axis == static_cast<int64_t>(columns);
    const Shape& steps = graph_.shape(w.steps);
    const bool of_columns = shape[columns] == Dim(1) || shape[columns] == steps[columns];
    return of_columns && (shape[w.depth] == Dim(1) || shape[w.depth] == ceil_div(steps[w.depth], w.block));
  }

  ValueId add(Op op, ValueId x) { return graph_.add(std::move(op), {x}, name_, sources_); }

  // A scale or zero point in the shape of all blocks.
  ValueId parameter(const Weights& w, ValueId id) {
    const Shape steps = graph_.shape(w.steps);
    Shape wanted = steps;
    wanted[w.depth] = ceil_div(steps[w.depth], w.block);
    const Shape shape = graph_.shape(id);
    if (shape == wanted) return id;
    if (shape.size() == 1) {
      Shape column{shape[0], shape[0]};
      column[w.depth] = Dim(1);
      id = add(ops::Reshape{column}, id);
    }
    return graph_.shape(id) == wanted ? id : add(ops::Expand{wanted}, id);
  }

  Graph& graph_;
  Rewriter rewriter_;
  Producers producers_;
  std::string name_;  // of the product that is made, and what it stems from
  std::vector<std::string> sources_;
};

}  // namespace

void weight_only_products(Graph& graph, const PassContext&) {
  WeightOnlyProducts(graph).run();
}

}  // namespace camshaft
