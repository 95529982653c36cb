// The reference evaluation of reshape, transpose, bit_cast, expand and concat.
#include "ir/ops/move.h"

#include <algorithm>

#include "base/work_scope.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strides.h"
#include "reference/elements.h"
#include "reference/move/strided_copy.h"

namespace camshaft::ops {

std::vector<Tensor> Reshape::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  if (!context.has(1)) return {x.reshaped(context.evaluate(shape))};
  // As in ONNX, -1 is what remains and 0 copies the input's size; a 0 that is known when building is meant as it is.
  Dims dims = context.input(1).to_ints();
  std::optional<size_t> unknown;
  int64_t known = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) {
      if (unknown) fail_rule("cannot reshape to {}: more than one size is -1", to_string(dims));
      unknown = i;
      continue;
    }
    const bool literal_zero = allow_zero || (i < shape.size() && shape[i] == Dim(0));
    if (dims[i] == 0 && !literal_zero && i < x.dims().size()) dims[i] = x.dims()[i];
    if (dims[i] < 0) fail_rule("cannot reshape to {}: negative size", to_string(dims));
    if (__builtin_mul_overflow(known, dims[i], &known)) fail_rule("cannot reshape to {}: too large", to_string(dims));
  }
  if (unknown) {
    if (known == 0 || x.size() % known != 0)
      fail_rule("cannot reshape {} to {}: the size -1 has no solution", to_string(x.dims()), to_string(dims));
    dims[*unknown] = x.size() / known;
  }
  return {x.reshaped(std::move(dims))};
}

std::vector<Tensor> Transpose::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const Dims strides = row_major_strides(x.dims());
  StridedBox box;
  for (const int64_t axis : permutation) {
    box.sizes.push_back(x.dims().at(static_cast<size_t>(axis)));
    box.source_strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  box.target_strides = row_major_strides(box.sizes);
  return {pack_subbyte(copied(box, x, context.pool), context.input(0).dtype())};
}

std::vector<Tensor> BitCast::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  if (to != DType::boolean) return {Tensor(to, x.dims(), x.span(), x.owner())};
  Tensor out(to, x.dims());
  uint8_t* truths = out.as_mutable<uint8_t>();
  PacedCancellation cancellation;
  for (int64_t i = 0; i < x.size(); ++i) {
    cancellation.did(1);
    truths[i] = x.as<uint8_t>()[i] != 0;
  }
  return {std::move(out)};
}

std::vector<Tensor> Expand::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const Dims wanted = context.has(1) ? context.input(1).to_ints() : context.evaluate(shape);
  const size_t rank = std::max(wanted.size(), x.dims().size());
  const Dims strides = row_major_strides(x.dims());
  StridedBox box{Dims(rank, 1), Dims(rank, 0), {}};
  for (size_t i = 0; i < x.dims().size(); ++i) {
    const size_t at = rank - x.dims().size() + i;
    box.sizes[at] = x.dims()[i];
    if (x.dims()[i] != 1) box.source_strides[at] = strides[i];
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t& size = box.sizes[rank - wanted.size() + i];
    if (size != wanted[i] && size != 1 && wanted[i] != 1)
      fail_rule("cannot expand {} to {}: axis {} has {} elements", to_string(x.dims()), to_string(wanted), i, size);
    if (size == 1) size = wanted[i];
  }
  box.target_strides = row_major_strides(box.sizes);
  return {pack_subbyte(copied(box, x, context.pool), context.input(0).dtype())};
}

std::vector<Tensor> Concat::evaluate(const EvalContext& context) const {
  const auto joined = static_cast<size_t>(axis);
  const Dims& first = context.input(0).dims();
  Dims dims = first;
  dims.at(joined) = 0;
  std::vector<Tensor> inputs;
  for (const Tensor& input : context.inputs) {
    Dims expected = first;
    if (input.rank() == static_cast<int>(first.size())) expected[joined] = input.dims()[joined];
    if (input.dims() != expected)
      fail_rule("cannot join input {} of shape {} to input 0 of shape {} along axis {}", inputs.size(),
                to_string(input.dims()), to_string(first), axis);
    dims[joined] = (Dim(dims[joined]) + Dim(input.dims()[joined])).value();
    inputs.push_back(unpack_subbyte(input));
  }
  Tensor out = Tensor::uncleared(inputs[0].dtype(), dims);
  StridedBox box;
  box.target_strides = row_major_strides(dims);
  for (const Tensor& x : inputs) {
    box.sizes = x.dims();
    box.source_strides = row_major_strides(x.dims());
    copy_strided(box, x, out.mutable_data(), context.pool);
    box.target_offset += x.dims()[joined] * box.target_strides[joined];
  }
  return {pack_subbyte(out, context.input(0).dtype())};
}

}  // namespace camshaft::ops
