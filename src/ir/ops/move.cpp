// Reshape, transpose, expand, concat. The other operators of move.h are in slice.cpp, pad.cpp and gather.cpp.
#include "ir/ops/move.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/ops/shape_rules.h"

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

std::vector<Inferred> BitCast::infer(const InferContext& context) const {
  const DType from = context.dtype(0);
  if (from == DType::string || to == DType::string) fail_rule("the bits of strings cannot be read as another type");
  if (is_container(to)) fail_rule("the bits of {} cannot be read as {}", to_string(from), to_string(to));
  if (bit_width(from) != bit_width(to))
    fail_rule("elements of {} have {} bits, those of {} have {}", to_string(from), bit_width(from), to_string(to),
              bit_width(to));
  return {Inferred{{to, context.shape(0)}}};
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

size_t Concat::sliced_operands(const std::vector<size_t>& ranks) const {
  return axis + 1 == static_cast<int64_t>(ranks[0]) ? all_operands : 0;
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

}  // namespace camshaft::ops
