#include "server/core/batch_inputs.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "server/core/data_type.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

using Kind = inference::BatchInput;

template <class T>
void write_as(const std::vector<int64_t>& values, std::byte* to) {
  for (const int64_t value : values) {
    const T narrow = static_cast<T>(value);
    std::memcpy(to, &narrow, sizeof(narrow));
    to += sizeof(narrow);
  }
}

// A row of sizes for each element along the axis of the batch.
BatchTensor item_shapes(size_t source, bool batched, const std::vector<PendingPtr>& batch) {
  BatchTensor made;
  int64_t rank = 0, items = 0;
  for (const PendingPtr& pending : batch) {
    const std::vector<int64_t>& shape = pending->inputs[source]->shape;
    const auto first = shape.begin() + (batched ? 1 : 0);
    rank = shape.end() - first;
    for (int64_t i = 0; i < pending->batch; ++i) made.values.insert(made.values.end(), first, shape.end());
    items += pending->batch;
  }
  made.dims = {items, rank};
  return made;
}

}  // namespace

BatchTensor make_batch_input(const BatchInputSpec& spec, const Signature& signature,
                             const std::vector<PendingPtr>& batch) {
  if (spec.kind == Kind::BATCH_ITEM_SHAPE || spec.kind == Kind::BATCH_ITEM_SHAPE_FLATTEN) {
    BatchTensor shapes = item_shapes(spec.source, signature.max_batch > 0, batch);
    if (spec.kind == Kind::BATCH_ITEM_SHAPE_FLATTEN) shapes.dims = {static_cast<int64_t>(shapes.values.size())};
    return shapes;
  }
  BatchTensor made;
  for (const PendingPtr& pending : batch) made.values.push_back(element_count(pending->inputs[spec.source]->shape));
  switch (spec.kind) {
    case Kind::BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:
      made.values.insert(made.values.begin(), 0);
      [[fallthrough]];
    case Kind::BATCH_ACCUMULATED_ELEMENT_COUNT:
      std::partial_sum(made.values.begin(), made.values.end(), made.values.begin());
      break;
    case Kind::BATCH_MAX_ELEMENT_COUNT_AS_SHAPE:  // its shape is what it says
      made.values.assign(static_cast<size_t>(*std::max_element(made.values.begin(), made.values.end())), 0);
      break;
    default:
      break;
  }
  made.dims = {static_cast<int64_t>(made.values.size())};
  return made;
}

void write_batch_input(const BatchTensor& tensor, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::f32:
      return write_as<float>(tensor.values, to);
    case DType::i64:
      return write_as<int64_t>(tensor.values, to);
    default:
      return write_as<int32_t>(tensor.values, to);
  }
}

Dims scattered_shape(const TensorSpec& output, const Signature& signature, const Pending& pending) {
  Dims shape = output.dims;
  if (signature.max_batch > 0) shape.insert(shape.begin(), -1);
  const std::vector<int64_t>& input = pending.inputs[*output.scattered_by]->shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] >= 0) continue;
    if (axis >= input.size())
      throw ServerError(StatusCode::invalid_argument,
                        "output '" + output.name + "' of model '" + signature.model + "' is scattered by input '" +
                            signature.input(*output.scattered_by).name + "', whose shape " + shape_text(input) +
                            " has no axis " + std::to_string(axis));
    shape[axis] = input[axis];
  }
  return shape;
}

}  // namespace camshaft::server
