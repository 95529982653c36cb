#include "optimize/recognize/recognize_masks.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

class MasksRecognizer {
 public:
  MasksRecognizer(Graph& graph, ThreadPool& pool) : graph_(graph), pool_(pool), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node) { return recognize(node); });
  }

 private:
  ValueId recognize(const Node& node) {
    const auto* op = node.op.as<ops::Pointwise>();
    if (!op || (op->function != F::add && op->function != F::sub)) return no_value;
    const DType dtype = graph_.type(node.outputs[0]).dtype;
    if (!is_floating(dtype)) return no_value;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (i == 1 && op->function == F::sub) break;
      const std::vector<ValueId> product = producers_.inputs_of(F::mul, node.inputs[i]);
      for (size_t k = 0; k < product.size(); ++k) {
        const ValueId mask = product[k], x = product[1 - k];
        if (graph_.type(x) != graph_.type(node.outputs[0])) continue;
        const auto masked = value_where_zero(node.inputs[1 - i], mask);
        if (!masked || !is_zero_or_one(mask)) continue;
        const std::string name = graph_.value(node.outputs[0]).name;  // a copy: adding constants moves values
        std::vector<Constant> from;
        for (const ValueId id : {node.inputs[1 - i], mask})
          if (graph_.is_constant(id)) from.push_back(graph_.constant(id));
        const ValueId other = add_scalar_read_off(graph_, dtype, op->function == F::sub ? -*masked : *masked,
                                                  "the number that a mask gives, read off constants", from);
        return graph_.add(ops::Pointwise{F::select}, {as_bool(mask, node), x, other}, name, node.sources);
      }
    }
    return no_value;
  }

  // The number c that a value is where a mask of 0 and 1 is 0, if it is 0 where that is 1.
  std::optional<double> value_where_zero(ValueId id, ValueId mask) {
    if (graph_.is_constant(mask) && graph_.is_constant(id)) return constant_where_zero(id, mask);
    const auto line = line_of(id, mask);
    if (!line || line->slope == 0 || line->slope + line->start != 0 || !std::isfinite(line->start)) return std::nullopt;
    return line->start;
  }

  std::optional<double> constant_where_zero(ValueId id, ValueId mask) const {
    if (!is_readable_constant(graph_, id) || !is_readable_constant(graph_, mask)) return std::nullopt;
    const Tensor &t = *graph_.value(id).constant, &m = *graph_.value(mask).constant;
    if (t.dims() != m.dims()) return std::nullopt;
    const std::vector<double> values = t.to_doubles(), kept = m.to_doubles();
    std::optional<double> masked;
    for (size_t i = 0; i < values.size(); ++i) {
      if (kept[i] == 0 && !masked) masked = values[i];
      if (!(values[i] == (kept[i] == 0 ? *masked : 0))) return std::nullopt;
    }
    if (!masked || !std::isfinite(*masked) || may_be_weights(mask, kept)) return std::nullopt;
    for (const ValueId each : {id, mask}) fix_numbers(graph_, each, "a mask of attention");
    return masked;
  }

  // Weights that a refit replaces may be all 0 before they are trained. A mask has both, and its numbers stay.
  bool may_be_weights(ValueId id, const std::vector<double>& values) const {
    const auto has = [&](double number) { return std::find(values.begin(), values.end(), number) != values.end(); };
    return is_floating(graph_.type(id).dtype) && may_be_replaced(graph_.value(id).provenance) && !(has(0) && has(1));
  }

  // start + slope · m
  struct Line {
    double start = 0, slope = 0;
  };
  std::optional<Line> line_of(ValueId id, ValueId m, int depth = 0) {
    if (id == m) return Line{0, 1};
    if (const auto c = uniform_constant(graph_, id)) return Line{*c, 0};
    const auto* op = producers_.op<ops::Pointwise>(id);
    if (!op || depth == 8) return std::nullopt;
    const F function = op->function;
    const std::vector<ValueId> inputs = producers_.find(id)->inputs;
    std::vector<Line> lines;
    for (const ValueId input : inputs) {
      const auto line = line_of(input, m, depth + 1);
      if (!line) return std::nullopt;
      lines.push_back(*line);
    }
    const auto times = [](const Line& line, double c) { return Line{line.start * c, line.slope * c}; };
    switch (function) {
      case F::neg:
        return times(lines[0], -1);
      case F::add:
      case F::sub: {
        const Line second = times(lines[1], function == F::add ? 1 : -1);
        return Line{lines[0].start + second.start, lines[0].slope + second.slope};
      }
      case F::mul:
        if (lines[0].slope == 0) return times(lines[1], lines[0].start);
        return lines[1].slope == 0 ? std::optional(times(lines[0], lines[1].start)) : std::nullopt;
      case F::div:
        return lines[1].slope == 0 ? std::optional(times(lines[0], 1 / lines[1].start)) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  // Whatever the inputs are, the elements are 0 or 1.
  bool is_zero_or_one(ValueId id, int depth = 0) {
    if (is_readable_constant(graph_, id)) {
      const std::vector<double> values = graph_.value(id).constant->to_doubles();
      const bool is_mask = std::all_of(values.begin(), values.end(), [](double v) { return v == 0 || v == 1; });
      if (!is_mask || may_be_weights(id, values)) return false;
      fix_numbers(graph_, id, "a mask of attention");
      return true;
    }
    const Node* node = producers_.find(id);
    if (!node || depth == 16) return false;
    const std::vector<ValueId> inputs = node->inputs;
    if (node->op.as<ops::Cast>())
      return graph_.type(inputs[0]).dtype == DType::boolean || is_zero_or_one(inputs[0], depth + 1);
    if (node->op.as<ops::Reshape>() || node->op.as<ops::Transpose>() || node->op.as<ops::Slice>() ||
        node->op.as<ops::Expand>() || node->op.as<ops::Gather>())
      return is_zero_or_one(inputs[0], depth + 1);
    const auto* op = node->op.as<ops::Pointwise>();
    if (!op) return false;
    switch (op->function) {
      case F::mul:
      case F::min:
      case F::max:
        return is_zero_or_one(inputs[0], depth + 1) && is_zero_or_one(inputs[1], depth + 1);
      case F::sub:
        return uniform_constant(graph_, inputs[0]) == 1.0 && is_zero_or_one(inputs[1], depth + 1);
      case F::select:
        return is_zero_or_one(inputs[1], depth + 1) && is_zero_or_one(inputs[2], depth + 1);
      default:
        return false;
    }
  }

  // Where a mask of 0 and 1 is 1.
  ValueId as_bool(ValueId mask, const Node& like) {
    const std::string name = graph_.value(mask).name;
    if (graph_.is_constant(mask))
      return graph_.add_constant(name, derive(ops::Cast{.to = DType::boolean}, {graph_.constant(mask)}, pool_));
    if (producers_.op<ops::Cast>(mask)) {
      const ValueId from = producers_.find(mask)->inputs[0];
      if (graph_.type(from).dtype == DType::boolean) return from;
    }
    const ValueId half = add_scalar(graph_, graph_.type(mask).dtype, 0.5);
    return graph_.add(ops::Pointwise{F::less}, {half, mask}, name, like.sources);
  }

  Graph& graph_;
  ThreadPool& pool_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void recognize_masks(Graph& graph, const PassContext& context) {
  MasksRecognizer(graph, context.pool).run();
}

}  // namespace camshaft
