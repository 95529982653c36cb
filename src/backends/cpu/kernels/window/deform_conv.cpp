#include "backends/cpu/kernels/window/deform_conv.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/window/deform_taps.h"
#include "base/divide_up.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t most_samples = 256 * 1024;  // 1 MB of L2, beside what the product packs

// The product of one block of columns; what depends on the run is filled in later.
BatchGemmArgs product(const DeformConvolution& s, int64_t columns, int64_t column_step) {
  BatchGemmArgs args;
  args.batch = s.groups;
  args.m = s.out_channels / s.groups;
  args.n = columns;
  args.k = s.in_channels / s.groups * s.kernel_h * s.kernel_w;
  args.a_row_stride = args.k;
  args.a_outer_stride = args.m * args.k;
  args.b_k_stride = column_step;
  args.b_outer_stride = args.k * column_step;
  args.c_row_stride = s.out_h * s.out_w;
  args.c_outer_stride = args.m * args.c_row_stride;
  return args;
}

size_t bytes_of_columns(int64_t rows, int64_t columns) {
  return static_cast<size_t>(rows * columns) * sizeof(float);  // a multiple of 64, as grid_block is of 16
}

}  // namespace

int64_t DeformConvolution::pixels_at_once(int threads) const {
  const int64_t rows = std::max<int64_t>(1, in_channels * taps());
  const int64_t blocks = std::max<int64_t>(threads, most_samples / (rows * grid_block));
  return std::min(blocks, divide_up(out_h * out_w, grid_block)) * grid_block;
}

size_t DeformConvolution::workspace_bytes(int threads) const {
  const int64_t columns = pixels_at_once(threads);
  BatchGemmArgs args = product(*this, columns, columns);
  size_t most = 0;
  for (const int64_t n : {columns, out_h * out_w % std::max<int64_t>(1, columns)}) {  // the last block has fewer
    args.n = n;
    most = std::max(most, static_cast<size_t>(batch_gemm_workspace_bytes(args, threads)));
  }
  return bytes_of_columns(in_channels * taps(), columns) + most;
}

// Columns [first, first + count) of an image, count <= grid_block, of the channels of an offset group.
void DeformConvolution::sample(const Operands& o, int64_t image, int64_t offset_group, int64_t first, int64_t count,
                               float* columns, int64_t column_step) const {
  alignas(64) int32_t tops[grid_block] = {}, lefts[grid_block] = {}, pixels[4 * grid_block];
  alignas(64) float weights[4 * grid_block];
  uint8_t side_by_side[grid_block / grid_group];
  const SampleTaps taps_of_points{4, grid_block, pixels, weights, side_by_side};
  constexpr int64_t bound = deform_bound;
  for (int64_t p = 0; p < count; ++p) {
    tops[p] = static_cast<int32_t>(std::clamp((first + p) / out_w * stride_h - pad_top, -bound, bound));
    lefts[p] = static_cast<int32_t>(std::clamp((first + p) % out_w * stride_w - pad_left, -bound, bound));
  }
  const int64_t plane = in_h * in_w, out_plane = out_h * out_w, channels = in_channels / offset_groups;
  const float* const x = o.x + (image * in_channels + offset_group * channels) * plane;
  float* const to = columns + offset_group * channels * taps() * column_step;
  for (int64_t t = 0; t < taps(); ++t) {
    const int64_t tap = (image * offset_groups + offset_group) * taps() + t;
    const float* const move = o.offsets + tap * 2 * out_plane + first;
    const auto step = [](int64_t distance) { return static_cast<int32_t>(std::min<int64_t>(distance, deform_bound)); };
    deform_taps({.tops = tops,
                 .lefts = lefts,
                 .row = step(t / kernel_w * dilation_h),
                 .column = step(t % kernel_w * dilation_w),
                 .down = move,
                 .across = move + out_plane,
                 .mask = o.mask ? o.mask + tap * out_plane + first : nullptr,
                 .height = static_cast<int32_t>(in_h),
                 .width = static_cast<int32_t>(in_w)},
                count, pixels, weights);
    find_side_by_side(taps_of_points, count);
    sample_block(x, channels, plane, count, taps_of_points, to + t * column_step, taps() * column_step);
  }
}

void DeformConvolution::run(const Operands& o, ThreadPool& pool, std::byte* workspace) const {
  const int64_t out_plane = out_h * out_w, rows = in_channels * taps();
  if (batch * out_channels * out_plane == 0) return;
  const int64_t at_once = pixels_at_once(pool.size());
  auto* const columns = reinterpret_cast<float*>(workspace);
  std::byte* const for_product = workspace + bytes_of_columns(rows, at_once);
  for (int64_t image = 0; image < batch; ++image) {
    for (int64_t first = 0; first < out_plane; first += at_once) {
      const int64_t count = std::min(at_once, out_plane - first);
      const int64_t blocks = divide_up(count, grid_block);
      pool.parallel_for(blocks * offset_groups, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          cancellation_point();
          const int64_t block = i % blocks * grid_block;
          sample(o, image, i / blocks, first + block, std::min(grid_block, count - block), columns + block, at_once);
        }
      });
      float* const y = o.y + image * out_channels * out_plane + first;
      BatchGemmArgs args = product(*this, count, at_once);
      args.a = o.weights;
      args.b = columns;
      args.c = y;
      if (o.bias) {
        for (int64_t m = 0; m < out_channels; ++m) std::fill_n(y + m * out_plane, count, o.bias[m]);
        args.epilogue.residual = y;
      }
      batch_gemm(args, pool, for_product);
    }
  }
}

}  // namespace camshaft::cpu
