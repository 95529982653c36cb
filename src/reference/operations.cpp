#include "reference/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "ir/ops/contract.h"
#include "ir/ops/cost.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/random.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/ops/resize.h"
#include "ir/ops/sample.h"
#include "ir/ops/select.h"
#include "ir/ops/signal.h"
#include "ir/ops/spatial.h"
#include "ir/ops/strings.h"
#include "ir/ops/tree_ensemble.h"
#include "ir/ops/window_ops.h"

namespace camshaft {

namespace {

// So that an operation takes a twentieth of a nanosecond at most, on one thread of a processor of 2023. Where a cache
// missed more or less, times differ by a factor of three; these are the long ones.
constexpr double of_a_byte = 25, of_an_element = 100;
constexpr double of_an_exponential = 200, of_a_tap = 60, of_a_random_number = 1500;
constexpr double of_a_jump = 400;         // to an element that lies anywhere
constexpr double of_a_comparison = 300;   // of a sort
constexpr double of_a_unique_one = 600;   // of the same, whose elements are found by their places
constexpr double of_an_overlap = 20;      // of two boxes
constexpr double of_an_elimination = 12;  // of an element of a matrix in one step
constexpr double of_a_grid_sample = 600;
// Of an element on each level of a transform; what is larger than the caches is walked through on all of them.
constexpr double of_a_butterfly = 40, of_a_far_butterfly = 2000;
constexpr double most_near_elements = 1 << 18;
constexpr double of_a_phase = 20000;  // of a transposed convolution: a problem that is set up
constexpr double of_a_cell = 3500;    // of a recurrent layer: a step of a row, in one direction
constexpr double of_a_tree_node = 60;
constexpr int64_t levels_of_a_tree = 20;

class Operations {
 public:
  Operations(const Graph& graph, const Node& node, const SymbolBindings& symbols)
      : graph_(graph), node_(node), symbols_(symbols) {}

  double count() const { return std::max(computed() + moved() + beside(), least_operations); }

 private:
  double computed() const {
    const auto cost = ops::cost(graph_, node_, symbols_);
    return cost ? cost->flops + of_an_exponential * cost->exponentials : 0;
  }

  double moved() const {
    double written = 0, read = 0;
    for (const ValueId id : node_.outputs) written += moved(id);
    for (const ValueId id : std::set<ValueId>(node_.inputs.begin(), node_.inputs.end()))
      if (id != no_value) read += node_.op.picks() && written > 0 ? std::min(written, moved(id)) : moved(id);
    return written + read;
  }

  double moved(ValueId id) const {
    const DType dtype = graph_.type(id).dtype;
    if (is_container(dtype)) return 0;  // handed on; who copies elements counts them
    const double each =
        holds_objects(dtype) ? operations_of_an_object : std::max(of_an_element, of_a_byte * bit_width(dtype) / 8);
    return each * elements(id);
  }

  // What an operator does beside reading, writing and contracting.
  double beside() const {
    if (node_.op.as<ops::Region>()) return beside_in(node_.bodies[0]);
    if (const auto* op = node_.op.as<ops::Pool>()) return of_a_tap * window(op->kernel, op->channels_last ? 1 : 2);
    if (const auto* op = node_.op.as<ops::MaxPoolIndices>()) return of_a_tap * window(op->kernel, 2);
    if (const auto* op = node_.op.as<ops::TopK>()) return of_a_comparison * sorted(input(0), axis_size(op->axis));
    if (node_.op.as<ops::Unique>()) return of_a_unique_one * sorted(input(0), input(0));
    if (node_.op.as<ops::NonMaxSuppression>()) return overlaps();
    if (node_.op.as<ops::Gather>() || node_.op.as<ops::GatherND>()) return of_a_jump * input(1);
    if (node_.op.as<ops::GatherElements>()) return of_a_jump * output();
    if (node_.op.as<ops::ScatterND>() || node_.op.as<ops::ScatterElements>()) return of_a_jump * input(2);
    if (const auto* op = node_.op.as<ops::Resize>(); op && op->mode != ops::ResizeMode::nearest)
      return of_a_tap * taps(*op);
    if (const auto* op = node_.op.as<ops::RoiAlign>())
      return operations_of_a_sample * output() *
             std::max<double>(1, std::pow(static_cast<double>(op->sampling_ratio), 2));
    if (node_.op.as<ops::GridSample>()) return of_a_grid_sample * output();
    if (node_.op.as<ops::DeformConv>()) return operations_of_a_sample * deformed_samples();
    if (const auto* op = node_.op.as<ops::Dft>()) return butterflies(op->axis >= 0 ? axis_size(op->axis) : output());
    if (node_.op.as<ops::Stft>()) return butterflies(size(2, 0) > 0 ? size(2, 0) : output());
    if (node_.op.as<ops::Determinant>())
      return of_an_elimination * input(0) * size(0, graph_.shape(node_.inputs[0]).size() - 1);
    if (node_.op.as<ops::Recurrent>())
      return of_a_cell * size(0, 0) * size(0, 1) * size(ops::Recurrent::in_recurrence, 0);
    if (node_.op.as<ops::RandomTensor>() || node_.op.as<ops::Multinomial>())
      return of_a_random_number * (output() + input(0));
    if (const auto* op = node_.op.as<ops::ConvTranspose>()) return of_a_phase * phases(*op);
    if (const auto* op = node_.op.as<ops::CountTerms>()) return terms(*op);
    if (node_.op.as<ops::TreeEnsemble>())
      return of_a_tree_node * size(0, 0) * input(ops::TreeEnsemble::root_in) * levels_of_a_tree;
    return 0;
  }

  double beside_in(const Graph& body) const {
    double count = 0;
    for (const Node& node : body.nodes) count += Operations(body, node, symbols_).beside();
    return count;
  }

  // Windows are no larger than the image: what lies beyond it costs nothing.
  double window(const std::vector<int64_t>& kernel, size_t first) const {
    double elements = output();
    for (size_t i = 0; i < kernel.size(); ++i) elements *= std::min(static_cast<double>(kernel[i]), size(0, first + i));
    return elements;
  }

  static double sorted(double elements, double length) { return elements * std::log2(std::max(length, 2.0)); }

  // Of transforms of this length, with which the result is made.
  double butterflies(double length) const {
    return (length > most_near_elements ? of_a_far_butterfly : of_a_butterfly) * sorted(output(), length);
  }

  // Each element of the windows of a convolution is one.
  double deformed_samples() const {
    const Shape& weights = graph_.shape(node_.inputs[1]);
    const double channels = known(weights[0]);
    return channels > 0 ? output() / channels * size(0, 1) * elements(node_.inputs[1]) / channels /
                              std::max(known(weights[1]), 1.0)
                        : 0;
  }

  // Each box beside all that are kept.
  double overlaps() const {
    const double boxes = size(1, 2);
    double most = boxes;
    if (node_.inputs.size() > 2 && node_.inputs[2] != no_value && graph_.is_constant(node_.inputs[2])) {
      const Tensor& given = *graph_.value(node_.inputs[2]).constant;
      if (given.size() == 1 && !given.is_elided()) most = std::min(most, given.to_doubles()[0]);
    }
    return of_an_overlap * input(1) * std::max(most, 0.0) + of_a_comparison * sorted(input(1), boxes);
  }

  // One axis is interpolated after another. What lies between may be larger than image and result; a filter without
  // aliasing is wider, where the image shrinks.
  double taps(const ops::Resize& op) const {
    const Shape& from = graph_.shape(node_.inputs[0]);
    double elements = output();
    for (size_t i = 0; i < op.axes.size(); ++i)
      if (const double in = size(0, static_cast<size_t>(op.axes[i])), out = known(op.sizes[i]); out > 0)
        elements *= std::max(1.0, in / out);
    double sum = 0;
    for (size_t i = 0; i < op.axes.size(); ++i) {
      const double in = known(from[static_cast<size_t>(op.axes[i])]), out = known(op.sizes[i]);
      const double reach = op.mode == ops::ResizeMode::cubic ? 4 : 2;
      const double squeeze = out > 0 ? std::max(1.0, in / out) : 1;
      sum += elements / squeeze * (op.antialias ? std::min(in + 1, reach * squeeze) : reach);
    }
    return sum;
  }

  // Those without a place of the kernel are not set up.
  double phases(const ops::ConvTranspose& op) const {
    double count = 1;
    const ops::SpatialLayout layout(graph_.shape(node_.outputs[0]).size(), op.channels_last);
    for (size_t i = 0; i < op.strides.size(); ++i)
      count *= std::min({static_cast<double>(op.strides[i]), size(1, 2 + i),
                         known(graph_.shape(node_.outputs[0])[layout.first_spatial + i])});
    return count;
  }

  double terms(const ops::CountTerms& op) const {
    const double length = size(0, graph_.shape(node_.inputs[0]).size() - 1);
    return of_a_tap * input(0) * static_cast<double>(op.most_length) *
           std::min(length, static_cast<double>(op.most_skipped) + 1);
  }

  // 0 for what only running tells.
  double known(const Dim& dim) const {
    try {
      return static_cast<double>(dim.evaluate(symbols_));
    } catch (const Error&) {
      return 0;
    }
  }
  double elements(ValueId id) const {
    double count = 1;
    for (const Dim& dim : graph_.shape(id)) count *= known(dim);
    return count;
  }
  double input(size_t i) const {
    return i < node_.inputs.size() && node_.inputs[i] != no_value ? elements(node_.inputs[i]) : 0;
  }
  double output() const { return elements(node_.outputs[0]); }
  double size(size_t operand, size_t axis) const {
    if (operand >= node_.inputs.size() || node_.inputs[operand] == no_value) return 0;
    const Shape& shape = graph_.shape(node_.inputs[operand]);
    return axis < shape.size() ? known(shape[axis]) : 0;
  }
  double axis_size(int64_t axis) const { return size(0, static_cast<size_t>(axis)); }

  const Graph& graph_;
  const Node& node_;
  const SymbolBindings& symbols_;
};

}  // namespace

double operations_of(const Graph& graph, const Node& node, const SymbolBindings& symbols) {
  return Operations(graph, node, symbols).count();
}

double operations_of(const Graph& graph, const SymbolBindings& symbols) {
  double sum = 0;
  for (const Node& node : graph.nodes) sum += operations_of(graph, node, symbols);
  return sum;
}

void check_operations(const Graph& graph, const SymbolBindings& symbols, const Budget& budget) {
  double total = 0, most = 0;
  const Node* dearest = nullptr;
  for (const Node& node : graph.nodes) {
    const double count = operations_of(graph, node, symbols);
    total += count;
    if (count <= most) continue;
    most = count;
    dearest = &node;
  }
  if (!dearest) return;
  const std::string name = dearest->sources.empty() ? std::string(dearest->op.name()) : dearest->sources.front();
  budget.check_operations(total, fmt::format("running the model once, node '{}' with {:.2g} above all,", name, most));
}

}  // namespace camshaft
