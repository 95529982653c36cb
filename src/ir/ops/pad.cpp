// Padding and cropping.
#include "ir/ops/move.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

int64_t pad_amount(const Dim& pad, const SymbolBindings& symbols) {
  constexpr int64_t most = int64_t{1} << 60;
  const int64_t amount = pad.evaluate(symbols);
  if (amount < -most || amount > most) fail_rule("an axis cannot be padded by {}", amount);
  return amount;
}

std::vector<Inferred> Pad::infer(const InferContext& context) const {
  Inferred out{context.type(0)};
  const size_t rank = out.type.shape.size();
  if (pads.size() != 2 * rank) fail_rule("{} pads do not fit {} axes: two an axis are needed", pads.size(), rank);
  for (const Dim& pad : pads)
    if (pad.is_constant()) pad_amount(pad, {});
  for (size_t i = 0; i < rank; ++i) {
    Dim& size = out.type.shape[i];
    const Dim padded = size + pads[i] + pads[rank + i];
    if (const auto high = padded.upper_bound(); high && *high < 0)
      fail_rule("pads {} and {} crop more than the {} elements of axis {}", pads[i].str(), pads[rank + i].str(),
                size.str(), i);
    size = padded;
  }
  if (context.has(1)) {
    if (context.dtype(1) != out.type.dtype)
      fail_rule("the padding value is {}, the input {}", to_string(context.dtype(1)), to_string(out.type.dtype));
    if (context.rank(1) > 1 || (context.rank(1) == 1 && provably_different(context.shape(1)[0], 1)))
      fail_rule("the padding value must be a scalar, not {}", to_string(context.type(1)));
  }
  return {out};
}

}  // namespace camshaft::ops
