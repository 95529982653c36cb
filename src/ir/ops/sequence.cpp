#include "ir/ops/sequence.h"

#include <algorithm>

#include "ir/container_type.h"
#include "ir/ops/bodies.h"
#include "ir/ops/elements.h"
#include "ir/ops/move.h"
#include "ir/ops/pieces.h"
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

// `size` is the number of places.
int64_t position_in(const Tensor& tensor, int64_t size) {
  if (tensor.size() != 1) fail_rule("the position has {} elements instead of one", tensor.size());
  const int64_t given = tensor.dtype() == DType::i32 ? *tensor.as<int32_t>() : *tensor.as<int64_t>();
  const int64_t position = given < 0 ? given + size : given;
  if (position < 0 || position >= size) fail_rule("position {} does not exist: there are {}", given, size);
  return position;
}

std::vector<Tensor> elements_of(const Tensor& sequence) {
  return {sequence.as<Tensor>(), sequence.as<Tensor>() + sequence.size()};
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

std::vector<Tensor> SequenceConstruct::evaluate(const EvalContext& context) const {
  return {Tensor::sequence(context.inputs)};
}

std::vector<Inferred> SequenceInsert::infer(const InferContext& context) const {
  const TensorType& sequence = sequence_type(context, 0);
  check_position(context, 2);
  const TensorType value = element_type(context.type(1));
  TensorType joined = join_elements(sequence.elements[0], value);
  if (sequence.shape[0] == Dim(0)) joined = value;
  return {{sequence_of(std::move(joined), sequence.shape[0] + 1)}};
}

std::vector<Tensor> SequenceInsert::evaluate(const EvalContext& context) const {
  std::vector<Tensor> elements = elements_of(context.input(0));
  const auto size = static_cast<int64_t>(elements.size());
  // Negative positions count the elements that are there; the place behind the last can only be named as `size`.
  int64_t position = size;
  if (context.has(2)) {
    const Tensor& given = context.input(2);
    const bool at_end = given.size() == 1 && given.to_ints()[0] == size;
    if (!at_end) position = position_in(given, size);
  }
  elements.insert(elements.begin() + position, context.input(1));
  return {Tensor::sequence(std::move(elements))};
}

std::vector<Inferred> SequenceErase::infer(const InferContext& context) const {
  const TensorType& sequence = sequence_type(context, 0);
  check_position(context, 1);
  if (sequence.shape[0] == Dim(0)) fail_rule("an empty sequence has no element to erase");
  return {{sequence_of(sequence.elements[0], sequence.shape[0] - 1)}};
}

std::vector<Tensor> SequenceErase::evaluate(const EvalContext& context) const {
  std::vector<Tensor> elements = elements_of(context.input(0));
  const auto size = static_cast<int64_t>(elements.size());
  if (size == 0) fail_rule("an empty sequence has no element to erase");
  elements.erase(elements.begin() + (context.has(1) ? position_in(context.input(1), size) : size - 1));
  return {Tensor::sequence(std::move(elements))};
}

std::vector<Inferred> SequenceAt::infer(const InferContext& context) const {
  const TensorType& sequence = sequence_type(context, 0);
  context.value(1);
  check_position(context, 1);
  return {{taken_out(context, sequence.elements[0], rank, 0)}};
}

std::vector<Tensor> SequenceAt::evaluate(const EvalContext& context) const {
  const Tensor& sequence = context.input(0);
  return {sequence.element(position_in(context.input(1), sequence.size())).owned()};
}

std::vector<Inferred> SequenceLength::infer(const InferContext& context) const {
  return {{{DType::i64, {}}, std::vector<Dim>{sequence_type(context, 0).shape[0]}}};
}

std::vector<Tensor> SequenceLength::evaluate(const EvalContext& context) const {
  return {Tensor::of(DType::i64, {}, std::vector<int64_t>{context.input(0).size()})};
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

std::vector<Tensor> SplitToSequence::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const int64_t size = x.dims().at(static_cast<size_t>(axis));
  std::vector<int64_t> sizes;
  // Before there is a list of them: of an empty tensor there may be any number.
  const auto check_count = [](int64_t count) { check_fits_memory(DType::sequence, {count}); };
  if (!context.has(1)) {
    check_count(size);
    sizes.assign(static_cast<size_t>(size), 1);
  } else if (context.input(1).rank() == 0) {
    const int64_t each = context.input(1).to_ints()[0];
    if (each <= 0) fail_rule("pieces cannot be {} long", each);
    check_count(size / each);
    for (int64_t at = 0; at < size; at += each) sizes.push_back(std::min(each, size - at));
  } else {
    check_count(context.input(1).size());
    sizes = context.input(1).to_ints();
    int64_t left = size;
    for (const int64_t length : sizes) {
      if (length < 0 || length > left)
        fail_rule("pieces of sizes {} do not make up an axis of {}", to_string(sizes), size);
      left -= length;
    }
    if (left != 0) fail_rule("pieces of sizes {} do not make up an axis of {}", to_string(sizes), size);
  }
  std::vector<Tensor> pieces;
  int64_t at = 0;
  for (const int64_t length : sizes) {
    Tensor part = pack_subbyte(piece(x, axis, at, length), context.input(0).dtype());
    at += length;
    if (!context.has(1) && !keep_axis) part = part.reshaped(without_axis(part.dims(), axis));
    pieces.push_back(std::move(part));
  }
  return {Tensor::sequence(std::move(pieces))};
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

std::vector<Tensor> ConcatFromSequence::evaluate(const EvalContext& context) const {
  std::vector<Tensor> parts = elements_of(context.input(0));
  if (parts.empty()) fail_rule("an empty sequence cannot be joined to one tensor");
  if (new_axis) {
    for (Tensor& part : parts) {
      if (axis > part.rank()) fail_rule("an element of rank {} has no axis {}", part.rank(), axis);
      part = part.reshaped(with_axis(part.dims(), axis));
    }
  }
  if (axis >= parts[0].rank()) fail_rule("an element of rank {} has no axis {}", parts[0].rank(), axis);
  return Concat{axis}.evaluate({parts, context.output_types, context.bindings, context.bodies, context.pool});
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

std::vector<Tensor> SequenceMap::evaluate(const EvalContext& context) const {
  const Graph& body = context.bodies.at(0);
  const int64_t size = context.input(0).size();
  const auto mapped = [&](size_t i) {
    return i < static_cast<size_t>(count) && context.input(i).dtype() == DType::sequence;
  };
  for (size_t i = 1; i < context.inputs.size(); ++i)
    if (mapped(i) && context.input(i).size() != size)
      fail_rule("sequence {} has {} elements, the first one {}", i, context.input(i).size(), size);
  const EvaluateOptions options = body_options(context);
  std::vector<std::vector<Tensor>> results(body.outputs.size());
  std::vector<Tensor> inputs = context.inputs;
  for (int64_t n = 0; n < size; ++n) {
    if (context.cancellation) context.cancellation->check("mapping a sequence");
    for (size_t i = 0; i < inputs.size(); ++i)
      if (mapped(i)) inputs[i] = context.input(i).element(n);
    std::vector<Tensor> given = camshaft::evaluate(body, inputs, context.pool, options);
    for (size_t o = 0; o < given.size(); ++o) results[o].push_back(std::move(given[o]));
  }
  std::vector<Tensor> out;
  for (std::vector<Tensor>& elements : results) out.push_back(Tensor::sequence(std::move(elements)));
  return out;
}

}  // namespace camshaft::ops
