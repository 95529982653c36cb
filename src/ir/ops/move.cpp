// Reshape, transpose, expand, concat. The other operators of move.h are in slice.cpp, pad.cpp and gather.cpp.
#include "ir/ops/move.h"

#include <algorithm>
#include <numeric>

#include "ir/ops/elements.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strided_copy.h"

namespace camshaft::ops {

namespace {

Dim element_count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), Dim(1), [](const Dim& a, const Dim& b) { return a * b; });
}

// The two counts have a constant ratio other than 1, or their difference has a sign.
bool counts_differ(const Dim& a, const Dim& b) {
  if (a == b) return false;
  if (provably_different(a, b)) return true;
  try {
    std::vector<std::string> names;
    a.collect_symbols(names);
    b.collect_symbols(names);
    SymbolBindings bindings;
    for (const std::string& name : names) bindings[name] = 64;  // any point tells the ratio; 64 divides well
    const int64_t x = a.evaluate(bindings), y = b.evaluate(bindings);
    if (x <= 0 || y <= 0 || x == y) return false;
    const int64_t common = std::gcd(x, y);
    return a * Dim(y / common) == b * Dim(x / common);
  } catch (const Error&) {
    return false;  // overflow at that point: undecided
  }
}

void check_data_shape(const InferContext& context, size_t rank) {
  check_index_dtype(context.dtype(1), "the shape");
  if (context.rank(1) != 1) fail_rule("the shape must be 1-D, not {}-D", context.rank(1));
  if (provably_different(context.shape(1)[0], static_cast<int64_t>(rank)))
    fail_rule("the shape has {} elements, the result {} axes", context.shape(1)[0].str(), rank);
}

void check_not_negative(const Shape& shape) {
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto high = shape[i].upper_bound();
    if (high && *high < 0) fail_rule("axis {} of the result has the negative size {}", i, shape[i].str());
  }
}

}  // namespace

std::vector<Inferred> Reshape::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  check_not_negative(shape);
  if (context.has(1)) {
    check_data_shape(context, shape.size());
  } else if (const Dim before = element_count_of(x.shape), after = element_count_of(shape);
             counts_differ(before, after)) {
    fail_rule("cannot reshape {} to [{}]: {} elements against {}", to_string(x), to_string(TensorType{x.dtype, shape}),
              before.str(), after.str());
  }
  Inferred out{{x.dtype, shape}};
  if (shape.size() <= 1) out.content = known_content(context, 0);
  return {out};
}

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

std::vector<Inferred> Transpose::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  if (permutation.size() != x.shape.size())
    fail_rule("the permutation has {} axes, the input {}", permutation.size(), x.shape.size());
  std::vector<bool> seen(permutation.size(), false);
  Inferred out{{x.dtype, {}}};
  for (const int64_t axis : permutation) {
    check_axis(axis, context.rank(0));
    if (seen[static_cast<size_t>(axis)]) fail_rule("the permutation names axis {} twice", axis);
    seen[static_cast<size_t>(axis)] = true;
    out.type.shape.push_back(x.shape[static_cast<size_t>(axis)]);
  }
  out.content = known_content(context, 0);
  return {out};
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
  Tensor out(x.dtype(), box.sizes);
  copy_strided(box, x, out, context.pool);
  return {pack_subbyte(out, context.input(0).dtype())};
}

std::vector<Inferred> BitCast::infer(const InferContext& context) const {
  const DType from = context.dtype(0);
  if (from == DType::string || to == DType::string) fail_rule("the bits of strings cannot be read as another type");
  if (is_container(to)) fail_rule("the bits of {} cannot be read as {}", to_string(from), to_string(to));
  if (bit_width(from) != bit_width(to))
    fail_rule("elements of {} have {} bits, those of {} have {}", to_string(from), bit_width(from), to_string(to),
              bit_width(to));
  return {Inferred{{to, context.shape(0)}}};
}

std::vector<Tensor> BitCast::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  if (to != DType::boolean) return {Tensor(to, x.dims(), x.span(), x.owner())};
  Tensor out(to, x.dims());
  for (int64_t i = 0; i < x.size(); ++i) out.as_mutable<uint8_t>()[i] = x.as<uint8_t>()[i] != 0;
  return {std::move(out)};
}

std::vector<Inferred> Expand::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  check_not_negative(shape);
  if (context.has(1)) check_data_shape(context, shape.size());
  const size_t rank = std::max(shape.size(), x.shape.size());
  Inferred out{{x.dtype, Shape(rank, Dim(1))}};
  for (size_t i = 0; i < rank; ++i) {
    const size_t from_x = rank - x.shape.size(), from_shape = rank - shape.size();
    if (i < from_x) {
      out.type.shape[i] = shape[i - from_shape];
    } else if (i < from_shape) {
      out.type.shape[i] = x.shape[i - from_x];
    } else {
      const Dim &a = x.shape[i - from_x], &b = shape[i - from_shape];
      Dim both = broadcast(a, b);
      // A symbol of the shape that only running binds cannot be told from the result, so the result gets its own.
      if (context.has(1) && !(both == a) && !(both == b)) both = context.fresh(0, i);
      out.type.shape[i] = both;
    }
  }
  auto content = known_content(context, 0);
  if (content && rank <= 1) {
    const auto count = rank == 0 ? std::optional<int64_t>(1) : out.type.shape[0].as_constant();
    if (count && content->size() == 1 && *count <= static_cast<int64_t>(max_content_elements)) {
      out.content = std::vector<Dim>(static_cast<size_t>(*count), content->front());
    } else if (count && content->size() == static_cast<size_t>(*count)) {
      out.content = std::move(content);
    }
  }
  return {out};
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
  Tensor out(x.dtype(), box.sizes);
  copy_strided(box, x, out, context.pool);
  return {pack_subbyte(out, context.input(0).dtype())};
}

std::vector<Inferred> Concat::infer(const InferContext& context) const {
  Inferred out{context.type(0)};
  check_axis(axis, context.rank(0));
  const auto joined = static_cast<size_t>(axis);
  for (size_t n = 1; n < context.input_count(); ++n) {
    const TensorType& x = context.type(n);
    if (x.dtype != out.type.dtype)
      fail_rule("input {} is {}, input 0 is {}", n, to_string(x.dtype), to_string(out.type.dtype));
    if (x.shape.size() != out.type.shape.size())
      fail_rule("input {} has {} axes, input 0 has {}", n, x.shape.size(), out.type.shape.size());
    for (size_t i = 0; i < x.shape.size(); ++i) {
      Dim& size = out.type.shape[i];
      size = i == joined ? size + x.shape[i]
                         : same_size(size, x.shape[i], fmt::format("cannot join input {} to the others", n).c_str(), i);
    }
  }
  std::vector<Dim> content;
  for (size_t n = 0; n < context.input_count(); ++n) {
    const auto part = known_content(context, n);
    if (!part || content.size() + part->size() > max_content_elements) return {out};
    content.insert(content.end(), part->begin(), part->end());
  }
  out.content = std::move(content);
  return {out};
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
  Tensor out(inputs[0].dtype(), dims);
  StridedBox box;
  box.target_strides = row_major_strides(dims);
  for (const Tensor& x : inputs) {
    box.sizes = x.dims();
    box.source_strides = row_major_strides(x.dims());
    copy_strided(box, x, out, context.pool);
    box.target_offset += x.dims()[joined] * box.target_strides[joined];
  }
  return {pack_subbyte(out, context.input(0).dtype())};
}

}  // namespace camshaft::ops
