// The reference evaluation of softmax, layer_norm and group_norm.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/pieces.h"
#include "ir/ops/reduce.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// An optional parameter as doubles; empty when absent.
std::vector<double> parameter(const EvalContext& context, size_t i, int64_t count, std::string_view op) {
  if (!context.has(i)) return {};
  const Tensor& t = context.input(i);
  if (t.size() != count)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: input {} has {} elements, {} are needed", op, i, t.size(), count));
  return t.to_doubles();
}

struct Moments {
  double mean = 0, scale = 0;  // scale is 1 / sqrt(variance + epsilon)
};

// Two passes: the sum of squares of differences does not cancel.
template <class ForEach>
Moments moments(int64_t count, double epsilon, bool root_mean_square, bool clamped, ForEach&& for_each) {
  Moments m;
  double sum = 0;
  if (!root_mean_square) {
    for_each([&](double v) { sum += v; });
    m.mean = sum / static_cast<double>(count);
  }
  double squares = 0;
  for_each([&](double v) { squares += (v - m.mean) * (v - m.mean); });
  const double mean_square = squares / static_cast<double>(count);
  m.scale = 1 / std::sqrt(!clamped                ? mean_square + epsilon
                          : mean_square < epsilon ? epsilon
                                                  : mean_square);  // NaN stays
  return m;
}

}  // namespace

std::vector<Tensor> Softmax::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  Tensor out(in.dtype(), in.dims());
  const int64_t length = in.dims()[static_cast<size_t>(axis)];
  const int64_t inner = row_major_strides(in.dims())[static_cast<size_t>(axis)];
  if (in.size() == 0) return {std::move(out)};
  std::byte* target = out.mutable_data();
  for_pieces(context.pool, in.size() / length, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> row(static_cast<size_t>(length));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / inner * inner * length + i % inner;
      load_elements(in.dtype(), in.data(), first, inner, length, row.data());
      double largest = row[0];
      for (const double v : row) largest = largest != largest || largest > v ? largest : v;
      double sum = 0;
      PacedCancellation cancellation;
      for (double& v : row) {
        cancellation.did(1);
        v -= largest;
        const double e = std::exp(v);
        sum += e;
        if (!log) v = e;
      }
      const double log_sum = std::log(sum);
      for (double& v : row) v = log ? v - log_sum : v / sum;
      store_elements(out.dtype(), target, first, inner, length, row.data());
    }
  });
  return {std::move(out)};
}

std::vector<Tensor> LayerNorm::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  Tensor out(in.dtype(), in.dims());
  if (in.size() == 0) return {std::move(out)};
  const int64_t length = element_count(Dims(in.dims().begin() + axis, in.dims().end()));
  const std::vector<double> scale = parameter(context, 1, length, name), bias = parameter(context, 2, length, name);
  std::byte* target = out.mutable_data();
  for_pieces(context.pool, in.size() / length, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> row(static_cast<size_t>(length));
    for (int64_t i = begin; i < end; ++i) {
      load_elements(in.dtype(), in.data(), i * length, 1, length, row.data());
      const Moments m = moments(length, epsilon, root_mean_square, clamped, [&](auto&& take) {
        for (const double v : row) take(v);
      });
      for (size_t j = 0; j < row.size(); ++j) {
        row[j] = (row[j] - m.mean) * m.scale;
        if (!scale.empty()) row[j] *= scale[j];
        if (!bias.empty()) row[j] += bias[j];
      }
      store_elements(out.dtype(), target, i * length, 1, length, row.data());
    }
  });
  return {std::move(out)};
}

std::vector<Tensor> GroupNorm::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  Tensor out(in.dtype(), in.dims());
  const int64_t channels = channels_last ? in.dims().back() : in.dims()[1];
  if (channels % groups != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("group_norm: {} groups do not divide {} channels", groups, channels));
  const std::vector<double> scale = parameter(context, 1, channels, name), bias = parameter(context, 2, channels, name);
  if (in.size() == 0) return {std::move(out)};
  const int64_t images = in.dims()[0], positions = in.size() / images / channels, width = channels / groups;
  std::byte* target = out.mutable_data();
  for_pieces(context.pool, images * groups, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> values(static_cast<size_t>(std::max(positions, width)));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / groups, first_channel = task % groups * width;
      // Runs of memory: a channel's positions, or the group's channels at one position.
      const int64_t runs = channels_last ? positions : width, length = channels_last ? width : positions;
      const auto start = [&](int64_t run) {
        return channels_last ? (image * positions + run) * channels + first_channel
                             : (image * channels + first_channel + run) * positions;
      };
      const Moments m = moments(width * positions, epsilon, false, false, [&](auto&& take) {
        for (int64_t run = 0; run < runs; ++run) {
          load_elements(in.dtype(), in.data(), start(run), 1, length, values.data());
          for (int64_t i = 0; i < length; ++i) take(values[static_cast<size_t>(i)]);
        }
      });
      for (int64_t run = 0; run < runs; ++run) {
        load_elements(in.dtype(), in.data(), start(run), 1, length, values.data());
        for (int64_t i = 0; i < length; ++i) {
          const auto channel = static_cast<size_t>(first_channel + (channels_last ? i : run));
          double& v = values[static_cast<size_t>(i)];
          v = (v - m.mean) * m.scale;
          if (!scale.empty()) v *= scale[channel];
          if (!bias.empty()) v += bias[channel];
        }
        store_elements(out.dtype(), target, start(run), 1, length, values.data());
      }
    }
  });
  return {std::move(out)};
}

}  // namespace camshaft::ops
