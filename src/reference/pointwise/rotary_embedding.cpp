// The reference evaluation of rotary_embedding.
#include "ir/ops/rotary_embedding.h"

#include <tuple>

#include "base/pieces.h"
#include "reference/element_io.h"

namespace camshaft::ops {

std::vector<Tensor> RotaryEmbedding::evaluate(const EvalContext& context) const {
  std::vector<Dims> dims;
  for (const Tensor& t : context.inputs) dims.push_back(t.dims());
  Tensor out(context.input(in_x).dtype(), context.output_dims(0));
  const BoundRotaryEmbedding bound = bind_rotary_embedding(*this, dims, out.dims(), context.bindings);
  if (out.size() == 0) return {std::move(out)};
  std::byte* target = out.mutable_data();
  const int64_t half = rotated / 2, second = interleaved ? 1 : half, pair = interleaved ? 2 : 1;
  for_pieces(context.pool, bound.rows, 1 + 4096 / bound.width, [&](int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(half);
    std::vector<double> row(static_cast<size_t>(bound.width)), cosines(2 * n), sines(2 * n);
    for (int64_t r = begin; r < end; ++r) {
      const auto start = [&](const RotaryAccess& access) {
        int64_t at = access.offset, rest = r;
        for (size_t d = bound.axes.size(); d-- > 0; rest /= bound.axes[d])
          at += rest % bound.axes[d] * access.strides[d];
        return at;
      };
      const Tensor& x = context.input(in_x);
      load_elements(x.dtype(), x.data(), start(bound.x), 1, bound.width, row.data());
      for (const auto& [input, access, to] : {std::tuple(size_t{in_cosine}, &bound.cosine, cosines.data()),
                                              std::tuple(size_t{in_sine}, &bound.sine, sines.data())}) {
        const Tensor& table = context.input(input);
        const int64_t at = start(*access);
        load_elements(table.dtype(), table.data(), at, access->pair, half, to);
        load_elements(table.dtype(), table.data(), at + access->second, access->pair, half, to + half);
      }
      for (size_t i = 0; i < n; ++i) {
        double& a = row[i * static_cast<size_t>(pair)];
        double& b = row[i * static_cast<size_t>(pair) + static_cast<size_t>(second)];
        const double turned = a * cosines[i] - b * sines[i];
        b = b * cosines[n + i] + a * sines[n + i];
        a = turned;
      }
      store_elements(out.dtype(), target, r * bound.width, 1, bound.width, row.data());
    }
  });
  return {std::move(out)};
}

}  // namespace camshaft::ops
