#include "optimize/analysis/match_rotary_embedding.h"

#include <algorithm>
#include <tuple>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "optimize/analysis/access_space.h"
#include "optimize/analysis/element_terms.h"

namespace camshaft {

namespace {

enum RotaryRole : int { row_axis, pair_axis, rest_axis };

using Operand = ElementTerms::Operand;
using Term = ElementTerms::Term;

// A result's elements are followed to what they are sums of products of: those of the first elements of all pairs,
// those of the second, and those that are not rotated.
class RotaryMatcher {
 public:
  RotaryMatcher(const Graph& graph, const Uses& uses, ValueId result, int64_t width, int64_t rotated, bool interleaved)
      : graph_(graph),
        result_(result),
        width_(width),
        rotated_(rotated),
        interleaved_(interleaved),
        terms_(graph, uses, space_, keeps_pairs, match_.sources) {}

  std::optional<RotaryMatch> run() {
    const Shape& shape = graph_.shape(result_);
    add_axes(Shape(shape.begin(), shape.end() - 1));
    auto a = terms_.of(result_, elements(result_access_, 0, step(), 0));
    if (a.size() != 2) return std::nullopt;
    auto b = terms_.of(result_, elements(result_access_, distance(), step(), 0));
    if (!match_pairs(a, b)) return std::nullopt;
    if (rotated_ < width_) {
      const auto rest = terms_.of(result_, elements(result_access_, rotated_, 0, 1));
      if (rest.size() != 1 || rest[0].negative || rest[0].factors.size() != 1 || !is_rest_of_x(rest[0].factors[0]))
        return std::nullopt;
    }
    return finish();
  }

  // What is an embedding already, with an operand that can be read through more moves.
  std::optional<RotaryMatch> run(const Node& node, const ops::RotaryEmbedding& op) {
    add_axes(op.axes);
    match_.sources = node.sources;
    match_.op.whole_tables = op.whole_tables;
    const auto table = [&](const Shape& access, ValueId id) {
      return Operand{
          id, elements(space_.add_access({access.begin() + 1, access.end() - 2}), access[0], access.back().value(), 0)};
    };
    const size_t start = space_.add_access({op.x.begin() + 1, op.x.end()});
    const auto operand = [&](int64_t offset, int64_t pair, int64_t rest) {
      return terms_.before_moves(node.inputs[0], elements(start, op.x[0] + Dim(offset), pair, rest));
    };
    x_ = operand(0, step(), 0);
    if (x_.value == node.inputs[0] || !is_pair(x_, operand(distance(), step(), 0)) ||
        (rotated_ < width_ && !is_rest_of_x(operand(rotated_, 0, 1))))
      return std::nullopt;
    cosine_ = table(op.cosine, node.inputs[1]);
    sine_ = table(op.sine, node.inputs[2]);
    second_cosine_ = op.cosine[op.cosine.size() - 2].value();
    second_sine_ = op.sine[op.sine.size() - 2].value();
    return finish();
  }

 private:
  const Dim& stride(size_t access, size_t axis) const { return space_.access(access).strides[axis]; }

  // Only what leaves pairs and the rest one axis each, whose elements are near each other.
  static bool keeps_pairs(const AccessSpace& space, size_t access) {
    size_t inner = 0;
    for (size_t i = 0; i < space.axes(); ++i) {
      if (space.role(i) == row_axis) continue;
      const auto stride = space.access(access).strides[i].as_constant();
      if (!stride || *stride < 0 || *stride > 2) return false;
      ++inner;
    }
    return inner == 2;
  }

  // From pair to pair, and from a pair's first element to its second.
  int64_t step() const { return interleaved_ ? 2 : 1; }
  int64_t distance() const { return interleaved_ ? 1 : rotated_ / 2; }

  void add_axes(const Shape& rows) {
    Shape shape = rows;
    shape.emplace_back(width_);
    for (const Dim& size : rows) space_.add_axis(size, row_axis);
    space_.add_axis(rotated_ / 2, pair_axis);
    space_.add_axis(width_ - rotated_, rest_axis);
    const Shape strides = dense_strides(shape);
    result_access_ = space_.add_access({strides.begin(), strides.end() - 1});
  }

  // The access of some elements in the rows of another one.
  size_t elements(size_t rows, Dim offset, int64_t pair, int64_t rest) {
    const size_t made = space_.copy_access(rows);
    space_.set_offset(made, std::move(offset));
    for (size_t i = 0; i < space_.axes(); ++i)
      if (space_.role(i) != row_axis) space_.set_stride(made, i, space_.role(i) == pair_axis ? pair : rest);
    return made;
  }

  bool same(const Operand& a, const Operand& b) const {
    return a.value == b.value && space_.access(a.access).offset == space_.access(b.access).offset && same_strides(a, b);
  }
  bool same_strides(const Operand& a, const Operand& b) const {
    return a.value == b.value && space_.access(a.access).strides == space_.access(b.access).strides;
  }
  // From the access of a pair's first elements to that of its second ones.
  Dim distance(const Operand& a, const Operand& b) const {
    return space_.access(b.access).offset - space_.access(a.access).offset;
  }

  // x of a pair: neighbouring elements of a row, as in the result.
  bool is_pair(const Operand& a, const Operand& b) const {
    if (!same_strides(a, b) || !(distance(a, b) == Dim(distance()))) return false;
    for (size_t i = 0; i < space_.axes(); ++i)
      if (space_.role(i) == pair_axis && !(stride(a.access, i) == Dim(step())) && !(space_.size(i) == Dim(1)))
        return false;
    return true;
  }

  // a: x_a cos_a - x_b sin_a, b: x_b cos_b + x_a sin_b, in any order.
  bool match_pairs(std::vector<Term>& a, std::vector<Term>& b) {
    const auto is_product = [](const Term& t) { return t.factors.size() == 2; };
    if (a.size() != 2 || b.size() != 2 || !std::all_of(a.begin(), a.end(), is_product) ||
        !std::all_of(b.begin(), b.end(), is_product))
      return false;
    if (a[0].negative) std::swap(a[0], a[1]);
    if (a[0].negative || !a[1].negative || b[0].negative || b[1].negative) return false;
    for (size_t choice = 0; choice < 32; ++choice) {
      const auto bit = [&](size_t i) { return (choice >> i & 1) != 0; };
      const auto pick = [&](const Term& t, bool second) { return std::pair(t.factors[second], t.factors[!second]); };
      const auto [x_a, cosine_a] = pick(a[0], bit(0));
      const auto [x_b, sine_a] = pick(a[1], bit(1));
      const auto [again_b, cosine_b] = pick(b[bit(4) ? 1 : 0], bit(2));
      const auto [again_a, sine_b] = pick(b[bit(4) ? 0 : 1], bit(3));
      if (!is_pair(x_a, x_b) || !same(x_a, again_a) || !same(x_b, again_b) || !same_strides(cosine_a, cosine_b) ||
          !same_strides(sine_a, sine_b))
        continue;
      x_ = x_a;
      cosine_ = cosine_a;
      sine_ = sine_a;
      const auto second_cosine = distance(cosine_a, cosine_b).as_constant();
      const auto second_sine = distance(sine_a, sine_b).as_constant();
      if (!second_cosine || !second_sine || *second_cosine < 0 || *second_sine < 0) return false;
      second_cosine_ = *second_cosine;
      second_sine_ = *second_sine;
      return true;
    }
    return false;
  }

  bool is_rest_of_x(const Operand& rest) const {
    if (rest.value != x_.value || !(distance(x_, rest) == Dim(rotated_))) return false;
    for (size_t i = 0; i < space_.axes(); ++i) {
      if (space_.role(i) == row_axis && !(stride(rest.access, i) == stride(x_.access, i))) return false;
      if (space_.role(i) == rest_axis && !(stride(rest.access, i) == Dim(1)) && !(space_.size(i) == Dim(1)))
        return false;
    }
    return true;
  }

  // Of a table: 1 where there is but one pair.
  std::optional<int64_t> pair_stride(size_t access) const {
    for (size_t i = 0; i < space_.axes(); ++i)
      if (space_.role(i) == pair_axis && !(space_.size(i) == Dim(1))) return stride(access, i).as_constant();
    return 1;
  }

  std::optional<RotaryMatch> finish() {
    for (const ValueId id : {x_.value, cosine_.value, sine_.value}) {
      const DType dtype = graph_.type(id).dtype;
      if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
    }
    // Only the accesses that are left decide which axes are one.
    AccessSpace rows;
    std::vector<size_t> kept;
    for (size_t i = 0; i < space_.axes(); ++i)
      if (space_.role(i) == row_axis) {
        rows.add_axis(space_.size(i), row_axis);
        kept.push_back(i);
      }
    for (const size_t access : {x_.access, cosine_.access, sine_.access, result_access_}) {
      std::vector<Dim> strides;
      for (const size_t i : kept) strides.push_back(stride(access, i));
      rows.add_access(std::move(strides));
    }
    rows.simplify();
    ops::RotaryEmbedding& op = match_.op;
    op.interleaved = interleaved_;
    op.rotated = rotated_;
    op.shape = graph_.shape(result_);
    for (size_t i = 0; i < rows.axes(); ++i) op.axes.push_back(rows.size(i));
    size_t from = 0;
    for (const auto& [operand, to] :
         {std::pair(&x_, &op.x), std::pair(&cosine_, &op.cosine), std::pair(&sine_, &op.sine)}) {
      to->push_back(space_.access(operand->access).offset);
      to->insert(to->end(), rows.access(from).strides.begin(), rows.access(from).strides.end());
      match_.inputs.push_back(operand->value);
      ++from;
    }
    for (const auto& [access, second, to] :
         {std::tuple(cosine_.access, second_cosine_, &op.cosine), std::tuple(sine_.access, second_sine_, &op.sine)}) {
      const auto pair = pair_stride(access);
      if (!pair || !(*pair == 1 || (*pair == 2 && second == 1))) return std::nullopt;
      to->insert(to->end(), {Dim(second), Dim(*pair)});
    }
    return std::move(match_);
  }

  const Graph& graph_;
  const ValueId result_;
  const int64_t width_, rotated_;
  const bool interleaved_;
  AccessSpace space_;
  size_t result_access_ = 0;
  Operand x_, cosine_, sine_;  // of a pair's first element
  int64_t second_cosine_ = 0, second_sine_ = 0;
  RotaryMatch match_;
  ElementTerms terms_;
};

}  // namespace

std::optional<RotaryMatch> match_rotary_embedding(const Graph& graph, const Uses& uses, int32_t n) {
  const Node& node = graph.nodes[static_cast<size_t>(n)];
  if (node.outputs.size() != 1) return std::nullopt;
  const ValueId result = node.outputs[0];
  const Shape& shape = graph.shape(result);
  const auto width = shape.empty() ? std::nullopt : shape.back().as_constant();
  if (!width || *width < 2) return std::nullopt;
  if (const auto* op = node.op.as<ops::RotaryEmbedding>(); op && op->rotated > 0)
    return RotaryMatcher(graph, uses, result, *width, op->rotated, op->interleaved).run(node, *op);
  const auto attempt = [&](int64_t rotated, bool interleaved) {
    return rotated < 2 || rotated % 2 != 0 ? std::nullopt
                                           : RotaryMatcher(graph, uses, result, *width, rotated, interleaved).run();
  };
  const auto* pointwise = node.op.as<ops::Pointwise>();
  const auto* concat = node.op.as<ops::Concat>();
  const bool sums =
      pointwise && (pointwise->function == ScalarFunction::add || pointwise->function == ScalarFunction::sub);
  const bool joins = concat && concat->axis + 1 == static_cast<int64_t>(shape.size()) && node.inputs.size() > 1;
  const int32_t before = node.op.as<ops::Reshape>() ? uses.producer[static_cast<size_t>(node.inputs[0])] : -1;
  const bool stacks = before >= 0 && graph.nodes[static_cast<size_t>(before)].op.as<ops::Concat>();
  if (!sums && !joins && !stacks) return std::nullopt;
  if (sums || joins)
    if (auto match = attempt(*width, false)) return match;
  if (!joins) return attempt(*width, true);
  const auto rest = graph.shape(node.inputs.back()).back().as_constant();
  if (!rest) return std::nullopt;
  auto match = attempt(*width - *rest, false);
  return match ? std::move(match) : attempt(*width - *rest, true);
}

}  // namespace camshaft
