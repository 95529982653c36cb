// Sequences. Where the elements of a sequence are known while the model is read, they are taken directly, and nothing
// of the sequence is left at run time.
#include <fmt/format.h>

#include <algorithm>

#include "ir/container_type.h"
#include "ir/ops/move.h"
#include "ir/ops/sequence.h"
#include "onnx/converters.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

namespace {

// Longer sequences stay sequences: a node an element is too many then.
constexpr int64_t most_known_elements = 256;

ValueId sequence_input(ConvertContext& c, size_t i) {
  const ValueId id = c.input(i);
  if (c.dtype(id) != DType::sequence) c.invalid(fmt::format("input {} must be a sequence", i));
  return id;
}

/// The values that a sequence is made of.
std::optional<Values> known_elements(const ConvertContext& c, ValueId sequence) {
  const Node* producer = c.producer(sequence);
  if (!producer || !producer->op.as<ops::SequenceConstruct>()) return std::nullopt;
  return producer->inputs;
}

/// Input i as a place among `size`, negative ones counted from the end.
std::optional<int64_t> known_position(const ConvertContext& c, size_t i, int64_t size, int64_t otherwise) {
  if (!c.has(i)) return otherwise;
  const auto tensor = c.constant(c.input(i));
  if (!tensor || tensor->size() != 1 || !is_integer(tensor->dtype())) return std::nullopt;
  const int64_t position = tensor->to_ints()[0];
  return position < 0 ? position + size : position;
}

Values construct(ConvertContext& c, Values elements, const TensorType& type) {
  return c.result(ops::SequenceConstruct{to_string(type)}, std::move(elements));
}

Values sequence_construct(ConvertContext& c) {
  c.all_inputs();
  return c.result(ops::SequenceConstruct{}, c.all_inputs());
}

Values sequence_empty(ConvertContext& c) {
  const auto dtype = dtype_from_onnx(static_cast<int32_t>(c.int_attribute("dtype", 1)), "attribute 'dtype'");
  return construct(c, {}, any_tensor(dtype));
}

Values sequence_insert(ConvertContext& c) {
  const ValueId sequence = sequence_input(c, 0);
  const ValueId value = c.input(1);
  if (auto elements = known_elements(c, sequence);
      elements && static_cast<int64_t>(elements->size()) < most_known_elements) {
    const auto size = static_cast<int64_t>(elements->size());
    if (const auto position = known_position(c, 2, size, size)) {
      if (*position < 0 || *position > size)
        c.invalid(fmt::format("the position does not exist: the sequence has {} elements", size));
      const TensorType& wanted = c.graph().type(sequence).elements[0];
      if (wanted.dtype != c.dtype(value))
        c.invalid(fmt::format("a value of {} cannot be an element of {}", to_string(c.graph().type(value)),
                              to_string(c.graph().type(sequence))));
      elements->insert(elements->begin() + *position, value);
      return c.result(ops::SequenceConstruct{}, std::move(*elements));
    }
  }
  return c.result(ops::SequenceInsert{}, {sequence, value, c.input_or_none(2)});
}

Values sequence_erase(ConvertContext& c) {
  const ValueId sequence = sequence_input(c, 0);
  if (auto elements = known_elements(c, sequence);
      elements && static_cast<int64_t>(elements->size()) <= most_known_elements) {
    const auto size = static_cast<int64_t>(elements->size());
    if (const auto position = known_position(c, 1, size, size - 1)) {
      if (*position < 0 || *position >= size)
        c.invalid(fmt::format("the position does not exist: the sequence has {} elements", size));
      elements->erase(elements->begin() + *position);
      return construct(c, std::move(*elements), c.graph().type(sequence).elements[0]);
    }
  }
  return c.result(ops::SequenceErase{}, {sequence, c.input_or_none(1)});
}

Values sequence_at(ConvertContext& c) {
  const ValueId sequence = sequence_input(c, 0);
  const ValueId position = c.input(1);
  if (const auto elements = known_elements(c, sequence)) {
    const auto size = static_cast<int64_t>(elements->size());
    if (const auto at = known_position(c, 1, size, 0)) {
      if (*at < 0 || *at >= size)
        c.invalid(fmt::format("the position does not exist: the sequence has {} elements", size));
      return {(*elements)[static_cast<size_t>(*at)]};
    }
  }
  return c.result(ops::SequenceAt{c.declared_rank(0)}, {sequence, position});
}

Values sequence_length(ConvertContext& c) {
  return c.result(ops::SequenceLength{}, {sequence_input(c, 0)});
}

/// The sizes of the pieces if they are known, and not too many.
std::optional<std::vector<Dim>> known_pieces(ConvertContext& c, const Dim& size) {
  const auto whole = size.as_constant();
  if (!c.has(1)) {
    if (!whole || *whole > most_known_elements) return std::nullopt;
    return std::vector<Dim>(static_cast<size_t>(*whole), Dim(1));
  }
  const auto sizes = c.content(c.input(1));
  if (!sizes) return std::nullopt;
  if (c.rank(c.input(1)) == 1) return static_cast<int64_t>(sizes->size()) > most_known_elements ? std::nullopt : sizes;
  if (sizes->size() != 1) c.invalid("the lengths of the pieces must be one number or a list");
  const auto piece = sizes->at(0).as_constant();
  if (!piece || !whole) return std::nullopt;
  if (*piece <= 0) c.invalid(fmt::format("pieces cannot be {} long", *piece));
  if (*whole / *piece >= most_known_elements) return std::nullopt;
  std::vector<Dim> pieces;
  for (int64_t left = *whole; left > 0; left -= std::min(*piece, left)) pieces.emplace_back(std::min(*piece, left));
  return pieces;
}

Values split_to_sequence(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t axis = c.axis(c.int_attribute("axis", 0), c.rank(x));
  const bool keep_axis = c.has(1) || c.int_attribute("keepdims", 1) != 0;
  const Dim size = c.dim(x, axis);
  const auto pieces = known_pieces(c, size);
  if (!pieces || pieces->empty()) return c.result(ops::SplitToSequence{axis, keep_axis}, {x, c.input_or_none(1)});
  Dim sum = 0;
  for (const Dim& piece : *pieces) {
    if (piece.is_constant() && piece.value() < 0) c.invalid(fmt::format("a piece cannot be {} long", piece.value()));
    sum = sum + piece;
  }
  if (!(sum == size)) {
    if (sum.is_constant() && size.is_constant())
      c.invalid(fmt::format("the pieces add up to {}, the axis is {}", sum.str(), size.str()));
    return c.result(ops::SplitToSequence{axis, keep_axis}, {x, c.input_or_none(1)});
  }
  Values elements;
  Dim at = 0;
  for (const Dim& piece : *pieces) {
    ValueId element = c.add(ops::Slice{{axis}, {at}, {piece}, {1}}, {x});
    if (!keep_axis) {
      Shape shape = c.shape(element);
      shape.erase(shape.begin() + axis);
      element = c.reshape(element, std::move(shape));
    }
    elements.push_back(element);
    at = at + piece;
  }
  return c.result(ops::SequenceConstruct{}, std::move(elements));
}

Values concat_from_sequence(ConvertContext& c) {
  const ValueId sequence = sequence_input(c, 0);
  const bool new_axis = c.int_attribute("new_axis", 0) != 0;
  auto elements = known_elements(c, sequence);
  const bool direct = elements && !elements->empty();
  const TensorType& element = c.graph().type(sequence).elements[0];
  int64_t rank = static_cast<int64_t>(element.shape.size());
  if (direct) {
    rank = c.rank((*elements)[0]);
  } else if (!element.ranked) {
    c.unsupported(fmt::format("the elements of {} may have any number of axes", to_string(c.graph().type(sequence))));
  }
  const int64_t axis = c.axis(c.int_attribute("axis"), rank + (new_axis ? 1 : 0));
  if (!direct) return c.result(ops::ConcatFromSequence{axis, new_axis}, {sequence});
  if (new_axis) {
    for (ValueId& id : *elements) {
      Shape shape = c.shape(id);
      if (static_cast<int64_t>(shape.size()) != rank) c.invalid("its elements have different numbers of axes");
      shape.insert(shape.begin() + axis, Dim(1));
      id = c.reshape(id, std::move(shape));
    }
  }
  return c.result(ops::Concat{axis}, std::move(*elements));
}

/// What the body of a map takes for an element: sizes in which elements differ are symbols of its own.
TensorType body_input(ConvertContext& c, const GraphProto& graph, size_t i, const TensorType& element) {
  TensorType type = element;
  if (!type.ranked) {
    const TypeProto& declared = graph.inputs[i].type;
    if (declared.kind != TypeProto::Kind::tensor || !declared.shape)
      c.unsupported(
          fmt::format("the elements of input {} may have any number of axes, and the body does not declare "
                      "one",
                      i));
    type.ranked = true;
    type.shape.assign(declared.shape->size(), unknown_dim());
  }
  for (size_t axis = 0; axis < type.shape.size(); ++axis)
    if (type.shape[axis] == unknown_dim()) type.shape[axis] = c.subgraphs().fresh(graph, "body", i, axis);
  return type;
}

Values sequence_map(ConvertContext& c) {
  const GraphProto& graph = c.graph_attribute("body");
  sequence_input(c, 0);
  Values inputs = c.all_inputs();
  if (graph.inputs.size() != inputs.size())
    c.invalid(fmt::format("it has {} inputs, its body {}", inputs.size(), graph.inputs.size()));
  std::vector<TensorType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = c.graph().type(inputs[i]);
    types.push_back(type.dtype == DType::sequence ? body_input(c, graph, i, type.elements[0]) : type);
  }
  Body body = c.subgraphs().import(graph, "body", types);
  if (body.graph.outputs.size() < c.output_count())
    c.invalid(fmt::format("it has {} outputs, its body {}", c.output_count(), body.graph.outputs.size()));
  const auto count = static_cast<int64_t>(inputs.size());
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  std::vector<Graph> bodies;
  bodies.push_back(std::move(body.graph));
  return c.results(ops::SequenceMap{count}, std::move(inputs), std::move(bodies));
}

constexpr Converter sequence_table[] = {
    {"ConcatFromSequence", concat_from_sequence, 11},
    {"SequenceAt", sequence_at, 11},
    {"SequenceConstruct", sequence_construct, 11},
    {"SequenceEmpty", sequence_empty, 11},
    {"SequenceErase", sequence_erase, 11},
    {"SequenceInsert", sequence_insert, 11},
    {"SequenceLength", sequence_length, 11},
    {"SequenceMap", sequence_map, 17},
    {"SplitToSequence", split_to_sequence, 11},
};

}  // namespace

std::span<const Converter> sequence_converters() {
  return sequence_table;
}

}  // namespace camshaft::onnx
