// The reference evaluation of max_pool_indices, col2im and determinant.
#include "ir/ops/window_ops.h"

#include <algorithm>
#include <cmath>

#include "base/index_range.h"
#include "base/pieces.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/spatial.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// Steps through a box of positions in row-major order.
bool advance(Dims& at, const Dims& sizes) {
  for (size_t a = at.size(); a-- > 0;) {
    if (++at[a] < sizes[a]) return true;
    at[a] = 0;
  }
  return false;
}

}  // namespace

std::vector<Tensor> MaxPoolIndices::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  Tensor out(DType::i64, context.output_dims(0));
  if (out.size() == 0) return {out};
  const Dims sizes(x.dims().begin() + 2, x.dims().end()), counts(out.dims().begin() + 2, out.dims().end());
  const size_t spatial = sizes.size();
  Dims begins;
  for (size_t i = 0; i < spatial; ++i) begins.push_back(evaluate_pad(pads[i], context.bindings));
  const Dims strides_in = row_major_strides(sizes);
  Dims order = strides_in;  // what a position counts for in the result
  if (column_major)
    for (size_t i = 0; i < spatial; ++i) order[i] = product(sizes, 0, i);
  const int64_t plane = element_count(sizes), windows = element_count(counts);
  auto* to = out.as_mutable<int64_t>();
  with_wide_type(x.dtype(), [&]<class T>(const T&) {
    for_pieces(context.pool, x.dims()[0] * x.dims()[1], 1, [&](int64_t begin, int64_t end) {
      std::vector<T> image(static_cast<size_t>(plane));
      for (int64_t p = begin; p < end; ++p) {
        load_elements(x.dtype(), x.data(), p * plane, 1, plane, image.data());
        Dims window(spatial, 0), first(spatial, 0), taps(spatial, 0), tap(spatial, 0);
        for (int64_t w = 0; w < windows; ++w, advance(window, counts)) {
          if (w % 64 == 0) cancellation_point();
          int64_t found = 0;
          T most{};
          bool any = false, is_inside = true;
          // Only the taps inside of the image: a window may be far larger than it.
          for (size_t a = 0; a < spatial; ++a) {
            const int64_t base = window[a] * strides[a] - begins[a], step = dilations[a];
            const IndexRange seen = indices_inside(base, step, sizes[a], kernel[a]);
            first[a] = base + seen.first * step;
            taps[a] = seen.past - seen.first;
            is_inside = is_inside && taps[a] > 0;
          }
          std::fill(tap.begin(), tap.end(), 0);
          for (bool more = is_inside; more; more = advance(tap, taps)) {
            int64_t offset = 0, position = 0;
            for (size_t a = 0; a < spatial; ++a) {
              const int64_t at = first[a] + tap[a] * dilations[a];
              offset += at * strides_in[a];
              position += at * order[a];
            }
            const T v = image[static_cast<size_t>(offset)];
            if (any && !(v > most || (most != most && v == v))) continue;  // NaN is passed over
            any = true;
            most = v;
            found = position;
          }
          to[p * windows + w] = p * plane + found;
        }
      }
    });
  });
  return {out};
}

std::vector<Tensor> Col2Im::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const size_t spatial = strides.size();
  const Dims sizes = context.input(1).to_ints(), kernel = context.input(2).to_ints();
  if (sizes.size() != spatial || kernel.size() != spatial)
    fail_rule("an image of {} axes and a kernel of {} for {}", sizes.size(), kernel.size(), spatial);
  Dims begins, counts;
  for (size_t i = 0; i < spatial; ++i) {
    if (sizes[i] < 0 || kernel[i] < 1 || std::max(sizes[i], kernel[i]) > (int64_t{1} << 31))
      fail_rule("an image of size {} and a kernel of {}", sizes[i], kernel[i]);
    begins.push_back(evaluate_pad(pads[i], context.bindings));
    const int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
    const int64_t room = sizes[i] + begins[i] + evaluate_pad(pads[spatial + i], context.bindings) - reach;
    counts.push_back(room < 0 ? 0 : room / strides[i] + 1);
  }
  const int64_t taps = element_count(kernel), windows = element_count(counts), plane = element_count(sizes);
  if (x.dims()[1] % taps != 0 || x.dims()[2] != windows)
    fail_rule("columns of shape {} do not fit {} windows of {} elements", to_string(x.dims()), windows, taps);
  Dims dims{x.dims()[0], x.dims()[1] / taps};
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  Tensor out(x.dtype(), dims);
  if (out.size() == 0) return {out};
  const Dims steps = row_major_strides(sizes);
  std::byte* to = out.mutable_data();
  const int64_t planes = out.dims()[0] * out.dims()[1];
  with_wide_type(x.dtype(), [&]<class T>(const T&) {
    for_pieces(context.pool, planes, bit_width(x.dtype()) < 8 ? planes : 1, [&](int64_t begin, int64_t end) {
      std::vector<T> image_plane(static_cast<size_t>(plane)), row(static_cast<size_t>(windows));
      for (int64_t p = begin; p < end; ++p) {
        std::fill(image_plane.begin(), image_plane.end(), T{0});
        Dims tap(spatial, 0);
        for (int64_t t = 0; t < taps && windows > 0; ++t, advance(tap, kernel)) {
          cancellation_point();
          load_elements(x.dtype(), x.data(), (p * taps + t) * windows, 1, windows, row.data());
          Dims window(spatial, 0);
          for (int64_t w = 0; w < windows; ++w, advance(window, counts)) {
            int64_t offset = 0;
            bool inside = true;
            for (size_t a = 0; a < spatial; ++a) {
              const int64_t at = window[a] * strides[a] - begins[a] + tap[a] * dilations[a];
              inside = inside && at >= 0 && at < sizes[a];
              if (inside) offset += at * steps[a];
            }
            if (!inside) continue;
            T& target = image_plane[static_cast<size_t>(offset)];
            if constexpr (std::is_integral_v<T>) {  // wraps
              target =
                  static_cast<T>(static_cast<uint64_t>(target) + static_cast<uint64_t>(row[static_cast<size_t>(w)]));
            } else {
              target += row[static_cast<size_t>(w)];
            }
          }
        }
        store_elements(x.dtype(), to, p * plane, 1, plane, image_plane.data());
      }
    });
  });
  return {out};
}

std::vector<Tensor> Determinant::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const int64_t n = x.dims().back();
  if (x.dims()[x.dims().size() - 2] != n) fail_rule("matrices of shape {} are not square", to_string(x.dims()));
  Tensor out(x.dtype(), Dims(x.dims().begin(), x.dims().end() - 2));
  if (out.size() == 0) return {out};
  std::vector<double> results(static_cast<size_t>(out.size()));
  for_pieces(
      context.pool, out.size(), std::max<int64_t>(1, 4096 / std::max<int64_t>(n * n * n, 1)),
      [&](int64_t begin, int64_t end) {
        std::vector<double> a(static_cast<size_t>(n * n));
        for (int64_t m = begin; m < end; ++m) {
          load_elements(x.dtype(), x.data(), m * n * n, 1, n * n, a.data());
          double det = 1;
          for (int64_t k = 0; k < n; ++k) {
            cancellation_point();
            int64_t pivot = k;
            for (int64_t i = k + 1; i < n; ++i)
              if (std::fabs(a[static_cast<size_t>(i * n + k)]) > std::fabs(a[static_cast<size_t>(pivot * n + k)]))
                pivot = i;
            if (pivot != k) {
              std::swap_ranges(a.begin() + k * n, a.begin() + (k + 1) * n, a.begin() + pivot * n);
              det = -det;
            }
            const double diagonal = a[static_cast<size_t>(k * n + k)];
            det *= diagonal;
            if (diagonal == 0) break;
            for (int64_t i = k + 1; i < n; ++i) {
              const double factor = a[static_cast<size_t>(i * n + k)] / diagonal;
              for (int64_t j = k + 1; j < n; ++j)
                a[static_cast<size_t>(i * n + j)] -= factor * a[static_cast<size_t>(k * n + j)];
            }
          }
          results[static_cast<size_t>(m)] = det;
        }
      });
  store_elements(x.dtype(), out.mutable_data(), 0, 1, out.size(), results.data());
  return {out};
}

}  // namespace camshaft::ops
