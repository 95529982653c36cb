#include "ir/ops/generate.h"

#include <cmath>

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> DimsTensor::infer(const InferContext&) const {
  if (dtype != DType::i64 && dtype != DType::i32 && dtype != DType::boolean)
    fail_rule("a tensor of dims is i64, i32 or bool, not {}", to_string(dtype));
  if (scalar && elements.size() != 1) fail_rule("a scalar has one element, not {}", elements.size());
  Inferred out{{dtype, {}}, elements};
  if (!scalar) out.type.shape.emplace_back(static_cast<int64_t>(elements.size()));
  return {out};
}

std::vector<Inferred> ShapeOf::infer(const InferContext& context) const {
  const Shape& shape = context.shape(0);
  if (start < 0 || end < start || end > context.rank(0))
    fail_rule("axes [{}, {}) do not lie in a tensor of {} axes", start, end, shape.size());
  return {Inferred{{DType::i64, {Dim(end - start)}}, Shape(shape.begin() + start, shape.begin() + end)}};
}

int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  for (const Tensor* t : {&start, &limit, &delta})
    if (t->size() != 1) fail_rule("the bounds of a range must be one number each, not {}", to_string(t->dims()));
  double count;
  if (is_floating(start.dtype())) {
    const double step = delta.to_doubles().at(0);
    if (step == 0) fail_rule("the delta of a range is 0");
    count = std::ceil((limit.to_doubles().at(0) - start.to_doubles().at(0)) / step);
  } else {
    __extension__ using Wide = __int128;  // limit - start may not fit 64 bits
    Wide step = delta.to_ints().at(0);
    if (step == 0) fail_rule("the delta of a range is 0");
    Wide span = static_cast<Wide>(limit.to_ints().at(0)) - start.to_ints().at(0);
    if (step < 0) {
      step = -step;
      span = -span;
    }
    if (span <= 0) return 0;
    const Wide whole = (span + step - 1) / step;
    count = static_cast<double>(whole);
    if (count < 0x1p62) return static_cast<int64_t>(whole);
  }
  if (!(count < 0x1p62)) fail_rule("a range of {} elements is not possible", count);
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

std::vector<Inferred> Range::infer(const InferContext& context) const {
  const DType dtype = context.dtype(0);
  for (size_t i = 0; i < 3; ++i) {
    if (context.dtype(i) != dtype)
      fail_rule("the inputs of a range have different dtypes: {} and {}", to_string(dtype),
                to_string(context.dtype(i)));
    if (context.rank(i) > 1 || (context.rank(i) == 1 && provably_different(context.shape(i)[0], 1)))
      fail_rule("input {} of a range must be a scalar, not {}", i, to_string(context.type(i)));
  }
  if (!(is_floating(dtype) || is_integer(dtype)) || is_packed(dtype))
    fail_rule("a range of {} is not possible", to_string(dtype));
  Inferred out{{dtype, {context.fresh(0, 0)}}};
  if (context.constant(0) && context.constant(1) && context.constant(2))
    out.type.shape[0] = range_count(*context.constant(0), *context.constant(1), *context.constant(2));
  const auto start = known_content(context, 0), limit = known_content(context, 1), delta = known_content(context, 2);
  if (!start || !limit || !delta || !delta->front().is_constant()) return {out};  // of one element each, as their types
  const int64_t step = delta->at(0).value();
  if (step == 0) fail_rule("the delta of a range is 0");
  const Dim span = step > 0 ? limit->at(0) - start->at(0) : start->at(0) - limit->at(0);
  out.type.shape[0] = max(ceil_div(span, step > 0 ? Dim(step) : Dim(-1) * Dim(step)), 0);
  const auto count = out.type.shape[0].as_constant();
  if (!count || *count > static_cast<int64_t>(max_content_elements)) return {out};
  out.content.emplace();
  for (int64_t i = 0; i < *count; ++i) out.content->push_back(start->at(0) + Dim(i) * Dim(step));
  return {out};
}

}  // namespace camshaft::ops
