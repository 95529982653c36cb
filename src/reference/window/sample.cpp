// The reference evaluation of roi_align, max_roi_pool and deform_conv.
#include "ir/ops/sample.h"

#include <algorithm>
#include <cmath>

#include "base/budget.h"
#include "base/pieces.h"
#include "base/work_scope.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/spatial.h"
#include "reference/doubles.h"
#include "reference/operations.h"

namespace camshaft::ops {

namespace {

// The shape rule may have known no more than a symbol.
void check_columns(const Tensor& regions, int64_t columns) {
  if (regions.dims()[1] != columns)
    fail_rule("the regions must be [count, {}], not {}", columns, to_string(regions.dims()));
}

struct Bilinear {
  int64_t pixel[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};
};

// Within one pixel of the border the border counts; further out all is zero.
Bilinear border_sample(double y, double x, int64_t height, int64_t width) {
  Bilinear s;
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width))) return s;
  y = std::clamp(y, 0.0, static_cast<double>(height - 1));
  x = std::clamp(x, 0.0, static_cast<double>(width - 1));
  const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  const int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
  const double down = y - static_cast<double>(top), across = x - static_cast<double>(left);
  return {{top * width + left, top * width + right, bottom * width + left, bottom * width + right},
          {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across}};
}

// Pixels outside count as zero.
Bilinear zero_sample(double y, double x, int64_t height, int64_t width) {
  Bilinear s;
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width))) return s;
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  const double down = y - static_cast<double>(top), across = x - static_cast<double>(left);
  for (int i = 0; i < 4; ++i) {
    const int64_t row = top + i / 2, column = left + i % 2;
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    s.pixel[i] = row * width + column;
    s.weight[i] = (i / 2 ? down : 1 - down) * (i % 2 ? across : 1 - across);
  }
  return s;
}

}  // namespace

std::vector<Tensor> RoiAlign::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const int64_t channels = x.dims()[1], rows = x.dims()[2], columns = x.dims()[3], plane = rows * columns;
  const Doubles image(x), regions(context.input(1));
  const int64_t numbers = are_turned ? 5 : 4;
  check_columns(context.input(1), numbers);
  std::vector<int64_t> batches = context.input(2).to_ints();
  const int64_t count = context.input(1).dims()[0];
  if (static_cast<int64_t>(batches.size()) != count)
    fail_rule("{} batch indices for {} regions", batches.size(), count);
  for (const int64_t b : batches)
    if (b < 0 || b >= x.dims()[0]) fail_rule("batch index {} of {} images", b, x.dims()[0]);
  Tensor out(x.dtype(), {count, channels, height, width});
  const auto budget = current_budget();
  if (out.size() == 0) return {out};
  if (plane == 0) fail_rule("an image of shape {} has nothing to sample", to_string(x.dims()));
  Doubles result(out.size());
  double* const to = result.data();
  for_pieces(context.pool, count, 1, [&](int64_t begin, int64_t end) {
    std::vector<Bilinear> samples;
    for (int64_t r = begin; r < end; ++r) {
      const double* region = regions.data() + r * numbers;
      const double offset = half_pixel ? 0.5 : 0;
      const double x1 = region[0] * spatial_scale - offset, y1 = region[1] * spatial_scale - offset;
      double across = region[2] * spatial_scale - (are_turned ? 0 : offset + x1);
      double down = region[3] * spatial_scale - (are_turned ? 0 : offset + y1);
      if (!half_pixel || are_turned) {
        across = std::max(across, 1.0);
        down = std::max(down, 1.0);
      }
      // Those that are turned are sampled about their centre, which is added at the end.
      const double left = are_turned ? -across / 2 : x1, top = are_turned ? -down / 2 : y1;
      const double cosine = are_turned ? std::cos(region[4]) : 1, sine = are_turned ? std::sin(region[4]) : 0;
      const double bin_height = down / static_cast<double>(height), bin_width = across / static_cast<double>(width);
      const auto grid = [&](double bin) {
        if (sampling_ratio > 0) return sampling_ratio;
        // More samples than the image has pixels along both sides tell nothing new; a hostile region could ask for
        // 2^60.
        return static_cast<int64_t>(std::ceil(std::clamp(std::isnan(bin) ? 0 : bin, 0.0, 1024.0)));
      };
      const int64_t grid_height = grid(bin_height), grid_width = grid(bin_width), taps = grid_height * grid_width;
      // How many samples there are only the region says.
      if (sampling_ratio == 0 && budget)
        budget->take_operations(operations_of_a_sample * static_cast<double>(taps) *
                                static_cast<double>(height * width * channels));
      for (int64_t bin = 0; bin < height * width; ++bin) {
        cancellation_point();
        samples.clear();
        for (int64_t i = 0; i < taps; ++i) {
          const double y = top + (static_cast<double>(bin / width) +
                                  (static_cast<double>(i / grid_width) + 0.5) / static_cast<double>(grid_height)) *
                                     bin_height;
          const double at = left + (static_cast<double>(bin % width) +
                                    (static_cast<double>(i % grid_width) + 0.5) / static_cast<double>(grid_width)) *
                                       bin_width;
          samples.push_back(are_turned
                                ? border_sample(y * cosine - at * sine + y1, y * sine + at * cosine + x1, rows, columns)
                                : border_sample(y, at, rows, columns));
        }
        for (int64_t c = 0; c < channels; ++c) {
          const double* from = image.data() + (batches[static_cast<size_t>(r)] * channels + c) * plane;
          double value = 0;
          bool first = true;
          for (const Bilinear& s : samples) {
            double part[4];
            for (int i = 0; i < 4; ++i) part[i] = s.weight[i] * from[s.pixel[i]];
            if (!maximum) {
              value += part[0] + part[1] + part[2] + part[3];
            } else {
              const double most = std::max(std::max(part[0], part[1]), std::max(part[2], part[3]));
              value = first ? most : std::max(value, most);
              first = false;
            }
          }
          if (!maximum) value /= static_cast<double>(std::max<int64_t>(taps, 1));
          to[(r * channels + c) * height * width + bin] = value;
        }
      }
    }
  });
  result.store(out);
  return {out};
}

std::vector<Tensor> MaxRoiPool::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const int64_t channels = x.dims()[1], rows = x.dims()[2], columns = x.dims()[3], plane = rows * columns;
  const Doubles image(x), regions(context.input(1));
  check_columns(context.input(1), 5);
  const int64_t count = context.input(1).dims()[0];
  Tensor out(x.dtype(), {count, channels, height, width});
  if (out.size() == 0) return {out};
  Doubles result(out.size());
  double* const to = result.data();
  for (int64_t r = 0; r < count; ++r)
    if (!(regions[static_cast<size_t>(r * 5)] >= 0 &&
          regions[static_cast<size_t>(r * 5)] < static_cast<double>(x.dims()[0])))
      fail_rule("region {} is of image {}, there are {}", r, regions[static_cast<size_t>(r * 5)], x.dims()[0]);
  for_pieces(context.pool, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const double* region = regions.data() + r * 5;
      const auto batch = static_cast<int64_t>(region[0]);
      const auto pixel = [&](int i) { return std::round(std::clamp(region[i] * spatial_scale, -0x1p30, 0x1p30)); };
      const double left = pixel(1), top = pixel(2);
      const double bin_width = std::max(pixel(3) - left + 1, 1.0) / static_cast<double>(width);
      const double bin_height = std::max(pixel(4) - top + 1, 1.0) / static_cast<double>(height);
      const auto range = [](double start, double bin, int64_t i, int64_t size) {
        const double low = std::floor(static_cast<double>(i) * bin) + start;
        const double high = std::ceil(static_cast<double>(i + 1) * bin) + start;
        const auto inside = [&](double v) {
          return std::isnan(v) ? int64_t{0} : static_cast<int64_t>(std::clamp(v, 0.0, static_cast<double>(size)));
        };
        return std::pair(inside(low), inside(high));
      };
      for (int64_t bin = 0; bin < height * width; ++bin) {
        cancellation_point();
        const auto [y0, y1] = range(top, bin_height, bin / width, rows);
        const auto [x0, x1] = range(left, bin_width, bin % width, columns);
        if (y0 >= y1 || x0 >= x1) continue;
        for (int64_t c = 0; c < channels; ++c) {
          const double* from = image.data() + (batch * channels + c) * plane;
          double most = from[y0 * columns + x0];
          for (int64_t y = y0; y < y1; ++y)
            for (int64_t at = x0; at < x1; ++at) most = std::max(most, from[y * columns + at]);
          to[(r * channels + c) * height * width + bin] = most;
        }
      }
    }
  });
  result.store(out);
  return {out};
}

std::vector<Tensor> DeformConv::evaluate(const EvalContext& context) const {
  const Tensor &x = context.input(0), &w = context.input(1);
  const Dims dims = context.output_dims(0);
  const int64_t batch = dims[0], outputs = dims[1], out_plane = dims[2] * dims[3];
  const int64_t channels = x.dims()[1], rows = x.dims()[2], columns = x.dims()[3], plane = rows * columns;
  const int64_t kernel_columns = w.dims()[3], taps = w.dims()[2] * kernel_columns, group_inputs = w.dims()[1];
  const auto expect = [](const Tensor& t, const Dims& wanted, const char* what) {
    if (t.dims() != wanted) fail_rule("{} has the shape {}, expected {}", what, to_string(t.dims()), to_string(wanted));
  };
  const int64_t all_taps = (Dim(2 * offset_groups) * Dim(taps)).value();
  expect(context.input(2), {batch, all_taps, dims[2], dims[3]}, "the offset");
  if (channels != (Dim(group_inputs) * Dim(groups)).value() || outputs % groups != 0 || channels % offset_groups != 0)
    fail_rule("{} channels and {} outputs in {} groups and {} offset groups", channels, outputs, groups, offset_groups);
  if (context.has(3)) expect(context.input(3), {outputs}, "the bias");
  if (context.has(4)) expect(context.input(4), {batch, all_taps / 2, dims[2], dims[3]}, "the mask");
  const Doubles image(x), weights(w), offsets(context.input(2));
  const Doubles bias = context.has(3) ? Doubles(context.input(3)) : Doubles();
  const Doubles mask = context.has(4) ? Doubles(context.input(4)) : Doubles();
  const int64_t pad_top = evaluate_pad(pads[0], context.bindings), pad_left = evaluate_pad(pads[1], context.bindings);
  Tensor out(x.dtype(), dims);
  Doubles result(out.size());
  double* const to = result.data();
  if (out.size() > 0)
    for_pieces(context.pool, batch * out_plane, 1, [&](int64_t begin, int64_t end) {
      std::vector<double> column(static_cast<size_t>(channels * taps));
      for (int64_t p = begin; p < end; ++p) {
        cancellation_point();
        const int64_t b = p / out_plane, at = p % out_plane;
        for (int64_t g = 0; g < offset_groups; ++g)
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t tap = b * offset_groups * taps + g * taps + t;
            const double* move = offsets.data() + tap * 2 * out_plane + at;
            const double y =
                static_cast<double>(at / dims[3] * strides[0] - pad_top + t / kernel_columns * dilations[0]);
            const double z =
                static_cast<double>(at % dims[3] * strides[1] - pad_left + t % kernel_columns * dilations[1]);
            const Bilinear s = zero_sample(y + move[0], z + move[out_plane], rows, columns);
            const double factor = mask.empty() ? 1 : mask[static_cast<size_t>(tap * out_plane + at)];
            const int64_t a_group = channels / offset_groups;
            for (int64_t c = g * a_group; c < (g + 1) * a_group; ++c) {
              const double* from = image.data() + (b * channels + c) * plane;
              double value = 0;
              if (plane > 0)
                for (int i = 0; i < 4; ++i) value += s.weight[i] * from[s.pixel[i]];
              column[static_cast<size_t>(c * taps + t)] = value * factor;
            }
          }
        for (int64_t m = 0; m < outputs; ++m) {
          const double* from = column.data() + m / (outputs / groups) * group_inputs * taps;
          const double* weight = weights.data() + m * group_inputs * taps;
          double sum = bias.empty() ? 0 : bias[static_cast<size_t>(m)];
          for (int64_t i = 0; i < group_inputs * taps; ++i) sum += from[i] * weight[i];
          to[(b * outputs + m) * out_plane + at] = sum;
        }
      }
    });
  result.store(out);
  return {out};
}

}  // namespace camshaft::ops
