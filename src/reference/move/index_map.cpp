// The reference evaluation of index_map.
#include "ir/ops/index_map.h"

#include "base/pieces.h"
#include "ir/ops/strides.h"
#include "reference/elements.h"

namespace camshaft::ops {

namespace {

constexpr int64_t mapped_a_piece = 1 << 15;

}  // namespace

std::vector<Tensor> IndexMap::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const Dims dims = context.output_dims(0);
  const BoundIndexMap map = bind_index_map(*this, x.dims(), dims, context.bindings);
  check_fits_memory(x.dtype(), dims);
  Tensor out(x.dtype(), dims);
  if (map.is_empty) return {pack_subbyte(out, context.input(0).dtype())};
  const Tensor fill = unpack_subbyte(context.has(1) ? context.input(1) : Tensor(context.input(0).dtype(), {}));
  const Dims strides = row_major_strides(x.dims());
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    const T* from = x.as<T>();
    const T& value = *fill.as<T>();
    T* to = out.as_mutable<T>();
    for_pieces(context.pool, out.size(), mapped_a_piece, [&](int64_t begin, int64_t end) {
      Dims at(map.sources.size());
      for (int64_t i = begin; i < end; ++i) {
        for (size_t d = 0; d < at.size(); ++d) at[d] = map.sources[d].start;
        int64_t rest = i;
        for (size_t a = map.axes.size(); a-- > 0; rest /= map.axes[a].size)
          if (map.axes[a].along >= 0)
            at[static_cast<size_t>(map.axes[a].along)] += rest % map.axes[a].size * map.axes[a].step;
        int64_t offset = 0;
        bool outside = false;
        for (size_t d = 0; d < at.size(); ++d) {
          const int64_t n = map.sources[d].length;
          if (wraps) at[d] = (at[d] % n + n) % n;
          outside = outside || at[d] < 0 || at[d] >= n;
          offset += outside ? 0 : at[d] * strides[d];
        }
        write_element(to[i], outside ? value : from[offset]);
      }
    });
  });
  return {pack_subbyte(out, context.input(0).dtype())};
}

}  // namespace camshaft::ops
