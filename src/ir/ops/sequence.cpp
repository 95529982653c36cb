#include "ir/ops/sequence.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/container_type.h"
#include "ir/ops/shape_rules.h"
#include "ir/text.h"

namespace camshaft::ops {

namespace {

const TensorType& sequence_type(const InferContext& context, size_t i) {
  const TensorType& type = context.type(i);
  if (type.dtype != DType::sequence) fail_rule("input {} must be a sequence, it is {}", i, to_string(type));
  return type;
}

void check_position(const InferContext& context, size_t i) {
  if (!context.has(i)) return;
  const TensorType& type = context.type(i);
  check_index_dtype(type.dtype, "the position");
  const bool single = type.shape.empty() || (type.shape.size() == 1 && !provably_different(type.shape[0], Dim(1)));
  if (!single) fail_rule("the position must be one number, it is {}", to_string(type));
}

}  // namespace

TensorType taken_out(const InferContext& context, const TensorType& element, int64_t rank, size_t output) {
  TensorType type = element;
  if (!type.ranked) {
    if (rank < 0)
      throw Error(ErrorCode::unsupported,
                  fmt::format("the elements are {}: how many axes this one has is not known; declare the type of the "
                              "result in the model (value_info)",
                              to_string(element)));
    constexpr int64_t largest_rank = 64;  // as where a model is read
    if (rank > largest_rank) fail_rule("the element would have {} axes; at most {} can be", rank, largest_rank);
    type.ranked = true;
    type.shape.assign(static_cast<size_t>(rank), unknown_dim());
  }
  for (size_t axis = 0; axis < type.shape.size(); ++axis)
    if (type.shape[axis] == unknown_dim()) type.shape[axis] = context.fresh(output, axis);
  return type;
}

std::vector<Inferred> SequenceConstruct::infer(const InferContext& context) const {
  std::optional<TensorType> joined;
  if (!element.empty()) joined = parse_element_type(element);
  for (size_t i = 0; i < context.input_count(); ++i) {
    const TensorType type = element_type(context.type(i));
    joined = joined ? join_elements(*joined, type) : type;
  }
  if (!joined) fail_rule("a sequence without elements needs a type for them");
  return {{sequence_of(std::move(*joined), static_cast<int64_t>(context.input_count()))}};
}

std::vector<Inferred> SequenceInsert::infer(const InferContext& context) const {
  const TensorType& sequence = sequence_type(context, 0);
  check_position(context, 2);
  const TensorType value = element_type(context.type(1));
  TensorType joined = join_elements(sequence.elements[0], value);
  if (sequence.shape[0] == Dim(0)) joined = value;
  return {{sequence_of(std::move(joined), sequence.shape[0] + 1)}};
}

std::vector<Inferred> SequenceErase::infer(const InferContext& context) const {
  const TensorType& sequence = sequence_type(context, 0);
  check_position(context, 1);
  if (sequence.shape[0] == Dim(0)) fail_rule("an empty sequence has no element to erase");
  return {{sequence_of(sequence.elements[0], sequence.shape[0] - 1)}};
}

std::vector<Inferred> SequenceAt::infer(const InferContext& context) const {
  const TensorType& sequence = sequence_type(context, 0);
  context.value(1);
  check_position(context, 1);
  return {{taken_out(context, sequence.elements[0], rank, 0)}};
}

std::vector<Inferred> SequenceLength::infer(const InferContext& context) const {
  return {{{DType::i64, {}}, std::vector<Dim>{sequence_type(context, 0).shape[0]}}};
}

std::vector<Inferred> SplitToSequence::infer(const InferContext& context) const {
  TensorType element = context.type(0);
  check_axis(axis, context.rank(0));
  const auto split = static_cast<size_t>(axis);
  const Dim size = element.shape[split];
  Dim length = size;
  element.shape[split] = 1;
  if (context.has(1)) {
    check_index_dtype(context.dtype(1), "the sizes of the pieces");
    if (context.rank(1) > 1) fail_rule("the sizes of the pieces have {} axes", context.rank(1));
    const auto sizes = known_content(context, 1);
    element.shape[split] = unknown_dim();
    if (context.rank(1) == 0) {
      length = context.fresh(0, 0);
      if (sizes && sizes->size() == 1) {
        if (const auto piece = (*sizes)[0].as_constant()) {
          if (*piece <= 0) fail_rule("pieces cannot be {} long", *piece);
          length = ceil_div(size, *piece);
          if (mod(size, *piece) == Dim(0)) element.shape[split] = *piece;
        }
      }
    } else {
      length = context.shape(1)[0];
      if (sizes && !sizes->empty()) {
        Dim sum = 0;
        for (const Dim& d : *sizes) sum = sum + d;
        if (provably_different(sum, size)) fail_rule("the pieces add up to {}, the axis is {}", sum.str(), size.str());
        if (std::all_of(sizes->begin(), sizes->end(), [&](const Dim& d) { return d == sizes->front(); }))
          element.shape[split] = sizes->front();
      }
    }
  } else if (!keep_axis) {
    element.shape.erase(element.shape.begin() + axis);
  }
  return {{sequence_of(element_type(element), std::move(length))}};
}

std::vector<Inferred> ConcatFromSequence::infer(const InferContext& context) const {
  const TensorType& sequence = sequence_type(context, 0);
  const TensorType& element = sequence.elements[0];
  if (is_container(element.dtype)) fail_rule("elements of {} cannot be joined", to_string(element));
  if (!element.ranked)
    throw Error(ErrorCode::unsupported,
                fmt::format("the elements are {}: how many axes they have is not known", to_string(element)));
  TensorType type = element;
  check_axis(axis, static_cast<int64_t>(type.shape.size()) + (new_axis ? 1 : 0));
  const auto joined = static_cast<size_t>(axis);
  if (new_axis) {
    type.shape.insert(type.shape.begin() + axis, sequence.shape[0]);
  } else if (!(type.shape[joined] == unknown_dim())) {
    type.shape[joined] = type.shape[joined] * sequence.shape[0];
  }
  for (size_t i = 0; i < type.shape.size(); ++i)
    if (type.shape[i] == unknown_dim()) type.shape[i] = context.fresh(0, i);
  return {{std::move(type)}};
}

std::vector<Inferred> SequenceMap::infer(const InferContext& context) const {
  const Graph& body = context.body(0);
  const TensorType& sequence = sequence_type(context, 0);
  if (count < 1 || count > static_cast<int64_t>(context.input_count()))
    fail_rule("{} of {} inputs cannot be mapped", count, context.input_count());
  if (body.inputs.size() != context.input_count())
    fail_rule("its body has {} inputs, {} are needed", body.inputs.size(), context.input_count());
  for (size_t i = 0; i < context.input_count(); ++i) {
    const bool mapped = i < static_cast<size_t>(count) && context.dtype(i) == DType::sequence;
    const TensorType& given = mapped ? context.type(i).elements[0] : context.type(i);
    const TensorType& wanted = body.type(body.inputs[i]);
    if (given.dtype != wanted.dtype || (given.ranked && given.shape.size() != wanted.shape.size()))
      fail_rule("input {} is {}, the body takes {}", i, to_string(context.type(i)), to_string(wanted));
  }
  std::vector<Inferred> out;
  for (size_t o = 0; o < std::min(body.outputs.size(), context.output_count()); ++o)
    out.push_back({sequence_of(element_type(body.type(body.outputs[o])), sequence.shape[0])});
  return out;
}

}  // namespace camshaft::ops
