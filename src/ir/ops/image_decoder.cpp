#include "ir/ops/image_decoder.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> ImageDecoder::infer(const InferContext& context) const {
  if (context.dtype(0) != DType::u8) fail_rule("the encoded image must be u8, not {}", to_string(context.dtype(0)));
  if (context.rank(0) != 1) fail_rule("the encoded image must have one axis, not {}", context.rank(0));
  return {Inferred{{DType::u8, {context.fresh(0, 0), context.fresh(0, 1), format == PixelFormat::grayscale ? 1 : 3}}}};
}

}  // namespace camshaft::ops
