#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "ops/element_io.h"
#include "ops/elements.h"
#include "ops/sample.h"
#include "ops/shape_rules.h"

namespace camshaft::ops {

namespace {

// Keys' cubic convolution with a = -0.75, as PyTorch's.
void cubic_weights(double t, double* w) {
  constexpr double a = -0.75;
  const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = near(1 - t);
  w[3] = far(2 - t);
}

double reflect_into(double x, double low, double high) {
  const double range = high - low;
  if (!(range > 0)) return low;
  const double distance = std::fabs(x - low), turns = std::floor(distance / range);
  const double rest = distance - turns * range;
  return std::fmod(turns, 2) == 0 ? low + rest : high - rest;
}

// The taps of one position along one axis: pixel (-1: outside, a zero) and weight.
struct Taps {
  int64_t pixel[4];
  double weight[4];
};

class AxisSampler {
 public:
  AxisSampler(const GridSample& op, int64_t size) : op_(op), size_(size) {
    low_ = op.align_corners ? 0 : -0.5;
    high_ = op.align_corners ? static_cast<double>(size - 1) : static_cast<double>(size) - 0.5;
  }
  int taps() const { return op_.mode == SampleMode::cubic ? 4 : op_.mode == SampleMode::linear ? 2 : 1; }

  Taps at(double position) const {
    const auto size = static_cast<double>(size_);
    double x = op_.align_corners ? (position + 1) / 2 * (size - 1) : ((position + 1) * size - 1) / 2;
    // What is not a number, or so far out that pixels cannot be counted, lies outside.
    if (!(std::fabs(x) < 0x1p52))
      x = std::isnan(x) || op_.padding == SamplePadding::reflection ? -1 : x < 0 ? -2 : size + 2;
    if (op_.mode == SampleMode::nearest) x = std::nearbyint(x);
    if (op_.mode != SampleMode::cubic && op_.padding != SamplePadding::zeros) x = inside(x);
    Taps t{};
    if (op_.mode == SampleMode::nearest) {
      t.pixel[0] = pixel(std::nearbyint(x));
      t.weight[0] = 1;
      return t;
    }
    const double floor = std::floor(x), rest = x - floor;
    if (op_.mode == SampleMode::linear) {
      t.weight[0] = 1 - rest;
      t.weight[1] = rest;
    } else {
      cubic_weights(rest, t.weight);
    }
    const double first = op_.mode == SampleMode::cubic ? floor - 1 : floor;
    for (int i = 0; i < taps(); ++i) t.pixel[i] = pixel(first + i);
    return t;
  }

 private:
  double inside(double x) const {
    if (op_.padding == SamplePadding::reflection) x = reflect_into(x, low_, high_);
    return std::clamp(x, 0.0, static_cast<double>(size_ - 1));
  }
  int64_t pixel(double at) const {
    if (op_.padding == SamplePadding::zeros)
      return at >= 0 && at < static_cast<double>(size_) ? static_cast<int64_t>(at) : -1;
    return static_cast<int64_t>(inside(at));
  }

  const GridSample& op_;
  int64_t size_;
  double low_, high_;
};

}  // namespace

std::vector<Inferred> GridSample::infer(const InferContext& context) const {
  const Shape &x = context.shape(0), &grid = context.shape(1);
  const int64_t rank = context.rank(0);
  if (rank < 3 || context.rank(1) != rank)
    fail_rule("input and grid must have as many axes, at least 3; they have {} and {}", rank, context.rank(1));
  constexpr int64_t most_spatial_axes = 8;  // a sample of n axes has up to 4^n taps
  if (rank - 2 > most_spatial_axes)
    fail_rule("images of {} axes cannot be sampled, {} are possible", rank - 2, most_spatial_axes);
  if (provably_different(grid.back(), rank - 2))
    fail_rule("the grid's last axis must have size {}, not {}", rank - 2, grid.back().str());
  if (!is_floating(context.dtype(1))) fail_rule("the grid must be floating-point, not {}", to_string(context.dtype(1)));
  if (context.dtype(0) == DType::string || (mode != SampleMode::nearest && context.dtype(0) == DType::boolean))
    fail_rule("{} cannot be interpolated", to_string(context.dtype(0)));
  Shape shape{same_size(x[0], grid[0], "batch of input and grid", 0), x[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  return {Inferred{{context.dtype(0), std::move(shape)}}};
}

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
  std::vector<double> image(static_cast<size_t>(x.size())), result(static_cast<size_t>(out.size()));
  load_elements(x.dtype(), x.data(), 0, 1, x.size(), image.data());
  context.pool.parallel_for(x.dims()[0] * points, 256, [&](int64_t begin, int64_t end) {
    std::vector<double> position(spatial), weights(static_cast<size_t>(taps));
    std::vector<int64_t> pixels(static_cast<size_t>(taps));
    for (int64_t p = begin; p < end; ++p) {
      load_elements(grid.dtype(), grid.data(), p * static_cast<int64_t>(spatial), 1, static_cast<int64_t>(spatial),
                    position.data());
      // The product of the axes' taps, in place from the back: each axis multiplies the list.
      size_t count = 1;
      pixels[0] = 0;
      weights[0] = 1;
      for (size_t a = 0; a < spatial; ++a) {
        const Taps t = axes[a].at(position[spatial - 1 - a]);
        const auto n = static_cast<size_t>(axes[a].taps());
        for (size_t i = count; i-- > 0;) {
          const int64_t pixel = pixels[i];
          const double weight = weights[i];
          for (size_t k = n; k-- > 0;) {
            pixels[i * n + k] = pixel < 0 || t.pixel[k] < 0 ? -1 : pixel + t.pixel[k] * strides[a];
            weights[i * n + k] = weight * t.weight[k];
          }
        }
        count *= n;
      }
      const int64_t batch = p / points, point = p % points;
      for (int64_t c = 0; c < channels; ++c) {
        const double* from = image.data() + (batch * channels + c) * plane;
        double sum = 0;
        for (size_t i = 0; i < count; ++i)
          if (pixels[i] >= 0) sum += weights[i] * from[pixels[i]];
        result[static_cast<size_t>((batch * channels + c) * points + point)] = sum;
      }
    }
  });
  store_elements(x.dtype(), out.mutable_data(), 0, 1, out.size(), result.data());
  return {out};
}

}  // namespace camshaft::ops
