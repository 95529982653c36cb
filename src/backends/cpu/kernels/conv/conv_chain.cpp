#include "backends/cpu/kernels/conv/conv_chain.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/depthwise.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {
namespace {

int64_t cache_lines(int64_t floats) {
  return (floats * 4 + 63) / 64 * 64;
}

// `pixels` rows of a 1x1 convolution that has `all_pixels`: they choose how sums are made, which are then the same
// whatever the bands and threads.
void product(const float* x, int64_t x_stride, int64_t depth, const float* packed, float* y, int64_t y_stride,
             int64_t columns, int64_t pixels, int64_t all_pixels, const Epilogue& epilogue, int64_t first_pixel,
             void* scratch) {
  CoreProblem p;
  p.m = pixels;
  p.whole_m = all_pixels;
  p.n = columns;
  p.depth = depth;
  p.rows.base = x;
  p.rows.row_stride = x_stride;
  p.packed_b = packed;
  p.c = y;
  p.ldc = y_stride;
  p.epilogue = epilogue;
  if (epilogue.residual) p.epilogue.residual += first_pixel * epilogue.residual_ld;
  if (epilogue.addend) p.epilogue.addend += first_pixel * epilogue.addend_ld;
  p.callback_row0 = first_pixel;
  core_run(p, 0, pixels, 0, packed_layout(depth, columns).panels(), scratch);
}

}  // namespace

ConvChainPlan::ConvChainPlan(const ConvChain& chain, int64_t band_pixels) : chain_(chain), shape_(chain.depthwise) {
  const int64_t out_h = shape_.out_h(), out_w = shape_.out_w();
  if (chain_.x_channels == 0) shape_.in_pixel_stride = chain_.x_pixel_stride;
  if (chain_.y_channels == 0) shape_.out_pixel_stride = chain_.y_pixel_stride;
  const int64_t rows = std::clamp<int64_t>(band_pixels / std::max<int64_t>(out_w, 1), 1, std::max<int64_t>(out_h, 1));
  const int64_t bands = (out_h + rows - 1) / rows;
  band_rows_ = bands > 0 ? (out_h + bands - 1) / bands : 1;
  const int64_t seen = (band_rows_ - 1) * shape_.stride_h + (shape_.kernel_h - 1) * shape_.dilation_h + 1;
  ring_lines_ = std::max<int64_t>(1, std::min(seen, shape_.in_h));
  if (chain_.x_channels > 0) {
    ring_bytes_ = cache_lines(ring_lines_ * shape_.in_w * shape_.in_channels);
  } else {
    ring_lines_ = std::max<int64_t>(1, shape_.in_h);
  }
  if (chain_.y_channels > 0) {
    rows_bytes_ = cache_lines(band_rows_ * out_w * shape_.out_channels);
  }
  const int64_t most_pixels = shape_.batch * std::max(shape_.in_h * shape_.in_w, out_h * out_w);
  thread_bytes_ = ring_bytes_ + rows_bytes_ + core_workspace_bytes(most_pixels, 1);
}

void ConvChainPlan::run_rows(const ConvChainOperands& o, int64_t image, int64_t y0, int64_t y1, char* memory) const {
  const ConvShape& s = shape_;
  const int64_t out_w = s.out_w(), line_pixels = s.in_w, wide = s.in_channels;
  const bool expands = chain_.x_channels > 0, projects = chain_.y_channels > 0;
  const int64_t x_channels = expands ? chain_.x_channels : s.in_channels;
  const int64_t x_stride = chain_.x_pixel_stride ? chain_.x_pixel_stride : x_channels;
  const int64_t y_channels = projects ? chain_.y_channels : s.out_channels;
  const int64_t y_stride = chain_.y_pixel_stride ? chain_.y_pixel_stride : y_channels;
  auto* ring = reinterpret_cast<float*>(memory);
  auto* rows = reinterpret_cast<float*>(memory + ring_bytes_);
  void* scratch = memory + ring_bytes_ + rows_bytes_;
  const float* x = o.x + image * s.in_h * line_pixels * x_stride;
  const auto clip = [&](int64_t line) { return std::clamp<int64_t>(line, 0, s.in_h); };

  int64_t next_line = 0;
  for (int64_t y = y0; y < y1; y += band_rows_) {
    cancellation_point();
    const int64_t end = std::min(y1, y + band_rows_);
    if (expands) {
      const int64_t last = clip((end - 1) * s.stride_h - s.pad_top + (s.kernel_h - 1) * s.dilation_h + 1);
      next_line = std::max(next_line, clip(y * s.stride_h - s.pad_top));
      while (next_line < last) {
        const int64_t place = next_line % ring_lines_;
        const int64_t count = std::min(last - next_line, ring_lines_ - place);
        product(x + next_line * line_pixels * x_stride, x_stride, x_channels, o.expand,
                ring + place * line_pixels * wide, wide, wide, count * line_pixels, s.batch * s.in_h * line_pixels,
                o.expand_epilogue, 0, scratch);
        next_line += count;
      }
    }
    const int64_t pixel = (image * s.out_h() + y) * out_w, pixels = (end - y) * out_w;
    float* out = o.y + pixel * y_stride;
    DepthwiseBand band{expands ? ring : x, ring_lines_, projects ? rows : out, y, end};
    Epilogue e = o.depthwise_epilogue;
    if (e.residual) e.residual += pixel * e.residual_ld;
    if (e.addend) e.addend += pixel * e.addend_ld;
    depthwise_band(s, band, o.depthwise, e);
    if (e.callback) e.callback(e.context, pixel, pixels, 0, s.out_channels);
    if (projects)
      product(rows, s.out_channels, s.out_channels, o.project, out, y_stride, y_channels, pixels,
              s.batch * s.out_h() * out_w, o.project_epilogue, pixel, scratch);
  }
}

void conv_chain(const ConvChainPlan& plan, const ConvChainOperands& operands, ThreadPool& pool, void* workspace) {
  const int64_t out_h = plan.shape_.out_h(), rows = plan.shape_.batch * out_h;
  if (rows <= 0 || plan.shape_.out_w() <= 0) return;
  const int threads = pool.size();
  pool.run([&](int thread) {
    const int64_t begin = rows * thread / threads, end = rows * (thread + 1) / threads;
    for (int64_t row = begin; row < end;) {
      const int64_t image = row / out_h, stop = std::min(end, (image + 1) * out_h);
      plan.run_rows(operands, image, row - image * out_h, stop - image * out_h,
                    static_cast<char*>(workspace) + thread * plan.thread_bytes_);
      row = stop;
    }
  });
}

}  // namespace camshaft::cpu
