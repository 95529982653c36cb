#include "backends/cpu/kernels/conv/conv_transpose.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/depthwise_taps.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/pack_internal.h"
#include "backends/cpu/kernels/move/transpose_tile.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {
namespace {

// A phase is the remainder of (output position + pad) by the stride; kernel position k belongs to phase k * d mod s.
bool in_phase(int64_t k, int64_t dilation, int64_t stride, int64_t phase) {
  return k * dilation % stride == phase;
}

int64_t taps_of(int64_t kernel, int64_t dilation, int64_t stride, int64_t phase) {
  int64_t taps = 0;
  for (int64_t k = 0; k < kernel; ++k) taps += in_phase(k, dilation, stride, phase);
  return taps;
}

constexpr int64_t depthwise_rows = 64;  // whose pointers are made at once

int64_t group_stride(const PackedLayout& layout) {
  return (layout.floats() + 15) / 16 * 16;
}

// Calls visit(phase, group, layout, packed group's offset) for all matrices in order; returns how many floats they are.
template <class Visit>
int64_t for_each_matrix(const ConvTransposeWeights& w, Visit&& visit) {
  int64_t offset = 0;
  for (int64_t phase = 0; phase < w.phases(); ++phase) {
    const PackedLayout layout = w.layout(w.phase(phase));
    for (int64_t g = 0; g < w.matrices(); ++g, offset += group_stride(layout)) visit(w.phase(phase), g, layout, offset);
  }
  return offset;
}

// Calls visit(row of K of its first channel, column of its first output, tap) for each tap of a phase's matrices.
template <class Visit>
void for_each_tap(const ConvTransposeWeights& w, const ConvTransposeWeights::Phase& phase, Visit&& visit) {
  const int64_t step = w.is_depthwise() ? 1 : w.in_channels / w.matrices();
  int64_t row = 0;
  for (int64_t line = 0; line < w.kernel_d * w.kernel_h; ++line) {
    if (!in_phase(line / w.kernel_h, w.dilation_d, w.stride_d, phase.d) ||
        !in_phase(line % w.kernel_h, w.dilation_h, w.stride_h, phase.h))
      continue;
    for (int64_t j = 0; j < w.kernel_w; ++j) {
      if (!w.joined && !in_phase(j, w.dilation_w, w.stride_w, phase.w)) continue;
      visit(row, w.joined ? j * w.group_outputs : 0, line * w.kernel_w + j);
      if (!w.joined) row += step;
    }
    if (w.joined) row += step;
  }
}

// Calls move(row of K, column, index in ONNX order) for each element of one matrix.
template <class Move>
void for_each_element(const ConvTransposeWeights& w, const ConvTransposeWeights::Phase& phase, int64_t g, Move&& move) {
  const int64_t channels = w.in_channels / w.matrices(), points = w.kernel_d * w.kernel_h * w.kernel_w;
  for_each_tap(w, phase, [&](int64_t row, int64_t column, int64_t tap) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t index = (g * channels + c) * w.group_outputs * points + tap;
      if (w.is_depthwise()) {
        move(row, c, index);
        continue;
      }
      for (int64_t o = 0; o < w.group_outputs; ++o) move(row + c, column + o, index + o * points);
    }
  });
}

}  // namespace

PackedLayout ConvTransposeWeights::layout(const Phase& phase) const {
  const int64_t across = joined ? 1 : taps_of(kernel_w, dilation_w, stride_w, phase.w);
  const int64_t taps =
      taps_of(kernel_d, dilation_d, stride_d, phase.d) * taps_of(kernel_h, dilation_h, stride_h, phase.h) * across;
  if (is_depthwise()) return {taps, in_channels, panel_width, panel_lanes};
  return {taps * (in_channels / groups), joined ? kernel_w * group_outputs : group_outputs, panel_width, panel_lanes};
}

int64_t ConvTransposeWeights::floats() const {
  return for_each_matrix(*this, [](const Phase&, int64_t, const PackedLayout&, int64_t) {});
}

ConvTransposeWeights conv_transpose_weights(const ConvTransposeShape& s, bool joined) {
  ConvTransposeWeights w;
  w.in_channels = s.in_channels, w.group_outputs = s.out_channels / s.groups, w.groups = s.groups;
  w.kernel_d = s.kernel_d, w.kernel_h = s.kernel_h, w.kernel_w = s.kernel_w;
  w.stride_d = s.stride_d, w.stride_h = s.stride_h, w.stride_w = s.stride_w;
  w.dilation_d = s.dilation_d, w.dilation_h = s.dilation_h, w.dilation_w = s.dilation_w;
  const PackedLayout layout = packed_layout(0, w.is_depthwise() ? w.in_channels : w.group_outputs);
  w.panel_width = layout.width, w.panel_lanes = layout.lanes;
  w.joined = joined;
  return w;
}

void pack_conv_transpose_weights(const ConvTransposeWeights& w, const float* iohw, float* packed) {
  std::vector<float> rows;
  for_each_matrix(w, [&](const auto& phase, int64_t g, const PackedLayout& layout, int64_t offset) {
    rows.resize(static_cast<size_t>(layout.k * layout.n));
    for_each_element(w, phase, g, [&](int64_t row, int64_t column, int64_t from) {
      rows[static_cast<size_t>(row * layout.n + column)] = iohw[from];
    });
    pack_b(layout, rows.data(), layout.n, 1, packed + offset);
  });
}

void pack_conv_transpose_weights(const ConvTransposeWeights& w, const float* iohw, float* packed, float* scratch,
                                 ThreadPool& pool) {
  const int64_t points = w.kernel_d * w.kernel_h * w.kernel_w, lines = w.in_channels * w.group_outputs;
  const int64_t channels = w.in_channels / w.matrices();
  constexpr auto bytes = static_cast<int64_t>(sizeof(float));
  // Taps first, so that what follows copies neighbours.
  float *by_tap = scratch, *rows = scratch + w.elements();
  constexpr int64_t grain = 16 * 1024;
  pool.parallel_for(lines, std::max<int64_t>(16, grain / points / 16 * 16), [&](int64_t begin, int64_t end) {
    transpose_2d(bytes, {points, end - begin, points * bytes, lines * bytes},
                 reinterpret_cast<const char*>(iohw + begin * points), reinterpret_cast<char*>(by_tap + begin));
  });
  for_each_matrix(w, [&](const auto& phase, int64_t g, const PackedLayout& layout, int64_t offset) {
    for_each_tap(w, phase, [&](int64_t row, int64_t column, int64_t tap) {
      const float* from = by_tap + tap * lines + g * channels * w.group_outputs;
      if (!w.joined) {
        std::copy_n(from, channels * w.group_outputs, rows + row * layout.n);
        return;
      }
      for (int64_t c = 0; c < channels; ++c)
        std::copy_n(from + c * w.group_outputs, w.group_outputs, rows + (row + c) * layout.n + column);
    });
    pool.parallel_for(layout.panels(), divide_up(grain, std::max<int64_t>(1, layout.k * layout.width)),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t p = begin; p < end; ++p) pack_panel(layout, p, rows, layout.n, 1, packed + offset);
                      });
  });
}

void unpack_conv_transpose_weights(const ConvTransposeWeights& w, const float* packed, float* iohw) {
  std::vector<float> rows;
  for_each_matrix(w, [&](const auto& phase, int64_t g, const PackedLayout& layout, int64_t offset) {
    rows.resize(static_cast<size_t>(layout.k * layout.n));
    unpack_b(layout, packed + offset, rows.data(), layout.n, 1);
    for_each_element(w, phase, g, [&](int64_t row, int64_t column, int64_t to) {
      iohw[to] = rows[static_cast<size_t>(row * layout.n + column)];
    });
  });
}

bool can_join_phases(const ConvTransposeShape& s) {
  return s.groups == 1 && s.kernel_w == s.stride_w && s.dilation_w == 1 && s.pad_left == 0 && s.pad_right == 0 &&
         s.output_padding_w == 0 && (s.out_pixel_stride == 0 || s.out_pixel_stride == s.out_channels);
}

ConvTransposePlan::Axis ConvTransposePlan::axis(int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                                                int64_t pad, int64_t in, int64_t step, int64_t phase) {
  Axis a;
  a.first = ((phase - pad) % stride + stride) % stride;
  a.count = a.first < out ? (out - a.first - 1) / stride + 1 : 0;
  a.taps = taps_of(kernel, dilation, stride, phase);
  for (int64_t o = a.first; o < out; o += stride) {
    for (int64_t k = 0; k < kernel; ++k) {
      if (!in_phase(k, dilation, stride, phase)) continue;
      const int64_t scaled = o + pad - k * dilation;
      a.offset.push_back(scaled >= 0 && scaled / stride < in ? scaled / stride * step : -1);
    }
  }
  return a;
}

ConvTransposePlan::ConvTransposePlan(const ConvTransposeShape& s, bool joined) : shape_(s), joined_(joined) {
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    throw Error(ErrorCode::invalid_argument, "transposed convolution: " + std::to_string(s.in_channels) +
                                                 " input and " + std::to_string(s.out_channels) +
                                                 " output channels do not divide into " + std::to_string(s.groups) +
                                                 " groups");
  }
  const int64_t windows[] = {s.kernel_d, s.kernel_h,   s.kernel_w,   s.stride_d,  s.stride_h,
                             s.stride_w, s.dilation_d, s.dilation_h, s.dilation_w};
  if (*std::min_element(std::begin(windows), std::end(windows)) < 1) {
    throw Error(ErrorCode::invalid_argument, "transposed convolution: kernel, stride and dilation must be at least 1");
  }
  if (joined && !can_join_phases(s))
    throw Error(ErrorCode::invalid_argument, "transposed convolution: phases cannot be joined where windows overlap");
  const int64_t step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  for (int64_t p = 0; p < s.stride_d; ++p) {
    depth_.push_back(
        axis(s.out_d(), s.kernel_d, s.stride_d, s.dilation_d, s.pad_front, s.in_d, s.in_h * s.in_w * step, p));
  }
  for (int64_t p = 0; p < s.stride_h; ++p) {
    vertical_.push_back(axis(s.out_h(), s.kernel_h, s.stride_h, s.dilation_h, s.pad_top, s.in_h, s.in_w * step, p));
  }
  if (joined) horizontal_.push_back(axis(s.in_w, 1, 1, 1, 0, s.in_w, step, 0));  // each input pixel once
  for (int64_t p = 0; p < s.stride_w && !joined; ++p) {
    horizontal_.push_back(axis(s.out_w(), s.kernel_w, s.stride_w, s.dilation_w, s.pad_left, s.in_w, step, p));
  }
  for (const Axis& d : depth_)
    for (const Axis& v : vertical_)
      for (const Axis& h : horizontal_) {
        const int64_t rows = s.batch * d.count * v.count * h.count, taps = d.taps * v.taps * h.taps;
        scratch_bytes_ = std::max(scratch_bytes_,
                                  s.is_depthwise() ? (taps + 1) * depthwise_rows * static_cast<int64_t>(sizeof(void*))
                                                   : core_workspace_bytes(rows, taps));
      }
  zeros_.assign(static_cast<size_t>(s.is_depthwise() ? s.in_channels : s.in_channels / s.groups), 0.0f);
}

int64_t ConvTransposePlan::workspace_bytes(int threads) const {
  return scratch_bytes_ * threads + joined_columns() * static_cast<int64_t>(sizeof(float));
}

struct ConvTransposePlan::FillContext {
  const ConvTransposePlan* plan;
  const Axis* depth;
  const Axis* vertical;
  const Axis* horizontal;
  const float* input;
};

void ConvTransposePlan::fill(const void* context, int64_t row0, int64_t rows, const float** pointers, int64_t stride,
                             int64_t* out_rows) {
  const auto& f = *static_cast<const FillContext*>(context);
  const ConvTransposeShape& s = f.plan->shape_;
  const Axis &d = *f.depth, &v = *f.vertical, &h = *f.horizontal;
  const int64_t out_d = s.out_d(), out_h = s.out_h();
  // Joined, a row of C is all of an input pixel's outputs in a line.
  const int64_t out_w = f.plan->joined_ ? s.in_w : s.out_w(), step_w = f.plan->joined_ ? 1 : s.stride_w;
  const int64_t image_stride = s.in_d * s.in_h * s.in_w * (s.in_pixel_stride ? s.in_pixel_stride : s.in_channels);
  // A line at a time: pixel by pixel the look-ups took a third of a layer of one channel.
  int64_t x = row0 % h.count, y = row0 / h.count % v.count;
  int64_t z = row0 / h.count / v.count % d.count, image = row0 / h.count / v.count / d.count;
  for (int64_t r = 0; r < rows;) {
    const int64_t count = std::min(rows - r, h.count - x);
    const int64_t line_of_image = (d.first + z * s.stride_d) * out_h + v.first + y * s.stride_h;
    const int64_t first = (image * out_d * out_h + line_of_image) * out_w + h.first + x * step_w;
    for (int64_t i = 0; i < count; ++i) out_rows[r + i] = first + i * step_w;
    const float* base = f.input + image * image_stride;
    const int64_t* plane_offset = d.offset.data() + z * d.taps;
    const int64_t* row_offset = v.offset.data() + y * v.taps;
    const int64_t* column_offset = h.offset.data() + x * h.taps;
    const float** out = pointers + r;
    for (int64_t i = 0; i < d.taps * v.taps; ++i) {
      const int64_t plane = plane_offset[i / v.taps], row = row_offset[i % v.taps];
      const float* line = plane < 0 || row < 0 ? nullptr : base + plane + row;
      for (int64_t j = 0; j < h.taps; ++j, out += stride)
        fill_line(line, column_offset + j, h.taps, count, f.plan->zeros_.data(), out);
    }
    r += count;
    x += count;
    if (x == h.count) {
      x = 0;
      if (++y == v.count) {
        y = 0;
        if (++z == d.count) z = 0, ++image;
      }
    }
  }
}

void conv_transpose(const ConvTransposePlan& plan, const float* input, const float* packed, float* output,
                    const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  const ConvTransposeShape& s = plan.shape_;
  const int64_t out_d = s.out_d(), out_h = s.out_h(), out_w = s.out_w();
  const int64_t channels = s.in_channels / s.groups, n = s.out_channels / s.groups;
  if (s.batch <= 0 || out_d <= 0 || out_h <= 0 || out_w <= 0 || n == 0) return;
  const ConvTransposeWeights weights = conv_transpose_weights(s, plan.joined_);
  const int threads = pool.size();
  const int64_t scratch = plan.scratch_bytes_;
  const bool phases = s.stride_d > 1 || s.stride_h > 1 || s.stride_w > 1;
  Epilogue in_product = epilogue;
  const bool is_second_pass = phases || s.is_depthwise();
  if (is_second_pass) {
    in_product.callback = nullptr;
    in_product.activation = nullptr;
    in_product.addend = nullptr;
  }
  int64_t row_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  if (plan.joined_) {
    if (epilogue.residual && epilogue.residual_ld != s.out_channels)
      throw Error(ErrorCode::invalid_argument, "transposed convolution: a residual with gaps needs separate phases");
    row_step = in_product.residual_ld = plan.joined_columns();
    if (epilogue.bias) {
      float* bias = reinterpret_cast<float*>(static_cast<char*>(workspace) + scratch * threads);
      for (int64_t j = 0; j < s.kernel_w; ++j) std::copy_n(epilogue.bias, n, bias + j * n);
      in_product.bias = bias;
    }
  }

  const bool is_depthwise = s.is_depthwise();
  pool.run([&](int thread) {
    for_each_matrix(weights, [&](const auto& phase, int64_t g, const PackedLayout& layout, int64_t offset) {
      const ConvTransposePlan::Axis& depth = plan.depth_[static_cast<size_t>(phase.d)];
      const ConvTransposePlan::Axis& vertical = plan.vertical_[static_cast<size_t>(phase.h)];
      const ConvTransposePlan::Axis& horizontal = plan.horizontal_[static_cast<size_t>(phase.w)];
      const ConvTransposePlan::FillContext context{&plan, &depth, &vertical, &horizontal, input + g * channels};
      const int64_t rows = s.batch * depth.count * vertical.count * horizontal.count;
      const int64_t taps = depth.taps * vertical.taps * horizontal.taps;
      char* const own = static_cast<char*>(workspace) + thread * scratch;
      if (is_depthwise) {
        auto* const out_rows = reinterpret_cast<int64_t*>(own);
        auto* const pointers = reinterpret_cast<const float**>(out_rows + depthwise_rows);
        DepthwiseTaps block{.pointers = pointers,
                            .pointer_stride = depthwise_rows,
                            .out_rows = out_rows,
                            .packed = packed + offset,
                            .layout = layout,
                            .out = output,
                            .out_step = row_step};
        const int64_t end = rows * (thread + 1) / threads;
        for (int64_t row = rows * thread / threads; row < end; row += block.rows) {
          cancellation_point();
          block.rows = std::min(depthwise_rows, end - row);
          ConvTransposePlan::fill(&context, row, block.rows, pointers, depthwise_rows, out_rows);
          depthwise_taps(block, in_product);
        }
        return;
      }
      CoreProblem p;
      p.m = rows;
      p.n = layout.n;
      p.taps = taps;
      p.depth = channels;
      p.rows.fill = &ConvTransposePlan::fill;
      p.rows.context = &context;
      p.rows.scatter = phases;
      p.packed_b = packed + offset;
      p.c = output + g * n;
      p.ldc = row_step;
      p.epilogue = in_product;
      if (in_product.bias) p.epilogue.bias += g * n;
      if (in_product.residual) p.epilogue.residual += g * n;
      if (in_product.addend) p.epilogue.addend += g * n;
      p.callback_col0 = g * n;
      const Share share = core_share(p.m, p.n, std::max<int64_t>(1, p.taps), threads, thread);
      core_run(p, share.m0, share.m1, share.p0, share.p1, own);
    });
  });

  if (is_second_pass && (epilogue.activation || epilogue.callback)) {
    const int64_t block = std::max<int64_t>(1, 8192 / s.out_channels);
    pool.parallel_for(s.batch * out_d * out_h * out_w, block, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row += block) {
        const int64_t rows = std::min(block, end - row);
        if (epilogue.activation) {
          const int64_t step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
          core_activate(*epilogue.activation,
                        {output + row * step, step, rows, s.out_channels,
                         epilogue.addend ? epilogue.addend + row * epilogue.addend_ld : nullptr, epilogue.addend_ld});
        }
        if (epilogue.callback) epilogue.callback(epilogue.context, row, rows, 0, s.out_channels);
      }
    });
  }
}

}  // namespace camshaft::cpu
