#include "ir/ops/window_ops.h"

#include "ir/ops/reduce.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/spatial.h"

namespace camshaft::ops {

std::vector<Inferred> MaxPoolIndices::infer(const InferContext& context) const {
  Pool pool{PoolKind::max, kernel, strides, pads, dilations};
  pool.ceil_mode = ceil_mode;
  std::vector<Inferred> out = pool.infer(context);
  out[0].type.dtype = DType::i64;
  return out;
}

std::vector<Inferred> Col2Im::infer(const InferContext& context) const {
  if (context.rank(0) != 3) fail_rule("the columns must be [n, c·kernel, windows], not of {} axes", context.rank(0));
  const size_t spatial = strides.size();
  check_window_fields(name, spatial, strides, pads, dilations);
  if (context.dtype(0) == DType::string) fail_rule("strings cannot be added");
  for (const size_t i : {size_t{1}, size_t{2}}) {
    check_index_dtype(context.dtype(i), "the shapes of image and kernel");
    if (context.rank(i) != 1 || provably_different(context.shape(i)[0], Dim(static_cast<int64_t>(spatial))))
      fail_rule("the shapes of image and kernel must have {} numbers, not {}", spatial, to_string(context.type(i)));
  }
  const auto image = known_content(context, 1), kernel = known_content(context, 2);
  Shape shape{context.shape(0)[0], context.fresh(0, 1)};
  Dim taps = 1;
  for (size_t i = 0; kernel && i < spatial; ++i) {
    if (const auto k = (*kernel)[i].as_constant(); k && (*k < 1 || *k > (int64_t{1} << 31)))
      fail_rule("a kernel of size {}", *k);
    taps = taps * (*kernel)[i];
  }
  if (kernel && taps.is_constant()) shape[1] = floor_div(context.shape(0)[1], taps);
  for (size_t i = 0; i < spatial; ++i) {
    shape.push_back(image ? (*image)[i] : context.fresh(0, 2 + i));
    if (const auto size = shape.back().as_constant(); size && *size < 0) fail_rule("an image of size {}", *size);
  }
  return {Inferred{{context.dtype(0), std::move(shape)}}};
}

std::vector<Inferred> Determinant::infer(const InferContext& context) const {
  const Shape& x = context.shape(0);
  if (x.size() < 2) fail_rule("matrices have at least two axes, not {}", x.size());
  if (!is_floating(context.dtype(0)))
    fail_rule("the input must be floating-point, not {}", to_string(context.dtype(0)));
  same_size(x[x.size() - 2], x.back(), "rows and columns", x.size() - 1);
  return {Inferred{{context.dtype(0), Shape(x.begin(), x.end() - 2)}}};
}

}  // namespace camshaft::ops
