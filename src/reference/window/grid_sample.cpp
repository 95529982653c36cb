// The reference evaluation of grid_sample.
#include "base/pieces.h"
#include "ir/ops/sample.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strides.h"
#include "reference/doubles.h"
#include "reference/window/grid_taps.h"

namespace camshaft::ops {

std::vector<Tensor> GridSample::evaluate(const EvalContext& context) const {
  const Tensor &x = context.input(0), &grid = context.input(1);
  const size_t spatial = x.dims().size() - 2;
  if (grid.dims()[0] != x.dims()[0] || grid.dims().back() != static_cast<int64_t>(spatial))
    fail_rule("a grid of shape {} does not fit an input of {}", to_string(grid.dims()), to_string(x.dims()));
  const Dims sizes(x.dims().begin() + 2, x.dims().end());
  const int64_t plane = element_count(sizes), channels = x.dims()[1];
  const int64_t points = product(grid.dims(), 1, grid.dims().size() - 1);
  Dims dims{x.dims()[0], channels};
  dims.insert(dims.end(), grid.dims().begin() + 1, grid.dims().end() - 1);
  Tensor out(x.dtype(), dims);
  if (out.size() == 0) return {out};
  if (plane == 0) fail_rule("an image of shape {} has nothing to sample", to_string(x.dims()));
  const Dims strides = row_major_strides(sizes);
  std::vector<AxisSampler> axes;
  int64_t taps = 1;
  for (const int64_t size : sizes) {
    axes.emplace_back(*this, size);
    taps *= axes.back().taps();
  }
  const Doubles image(x);
  Doubles result(out.size());
  double* const to = result.data();
  for_pieces(context.pool, x.dims()[0] * points, 256, [&](int64_t begin, int64_t end) {
    std::vector<double> position(spatial), weights(static_cast<size_t>(taps));
    std::vector<int64_t> pixels(static_cast<size_t>(taps));
    for (int64_t p = begin; p < end; ++p) {
      load_elements(grid.dtype(), grid.data(), p * static_cast<int64_t>(spatial), 1, static_cast<int64_t>(spatial),
                    position.data());
      taps_at(axes, strides, position.data(), pixels.data(), weights.data());
      const int64_t batch = p / points, point = p % points;
      for (int64_t c = 0; c < channels; ++c) {
        const double* from = image.data() + (batch * channels + c) * plane;
        double sum = 0;
        for (size_t i = 0; i < pixels.size(); ++i)
          if (pixels[i] >= 0) sum += weights[i] * from[pixels[i]];
        to[(batch * channels + c) * points + point] = sum;
      }
    }
  });
  result.store(out);
  return {out};
}

}  // namespace camshaft::ops
