#include "backends/cpu/kernels/conv/conv.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/pack_internal.h"
#include "backends/cpu/kernels/gemm/product_sums.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {
namespace {

int64_t in_stride(const ConvShape& s) {
  return s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
}
int64_t out_stride(const ConvShape& s) {
  return s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
}
// Nothing is left of an image where negative pads cut off more than there is.
int64_t padded_h(const ConvShape& s) {
  return std::max<int64_t>(0, s.in_h + s.pad_top + s.pad_bottom);
}
int64_t padded_w(const ConvShape& s) {
  return std::max<int64_t>(0, s.in_w + s.pad_left + s.pad_right);
}
int64_t padded_d(const ConvShape& s) {
  return std::max<int64_t>(0, s.in_d + s.pad_front + s.pad_back);
}
int64_t rows_of(const ConvShape& s) {
  return s.batch * s.out_d() * s.out_h() * s.out_w();
}

bool has_padding(const ConvShape& s) {
  return s.pad_top || s.pad_left || s.pad_bottom || s.pad_right || s.pad_front || s.pad_back;
}

// Offsets along one axis, -1 where the kernel position lies in the padding.
std::vector<int64_t> axis_offsets(int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad,
                                  int64_t in, int64_t step) {
  std::vector<int64_t> offsets(static_cast<size_t>(out * kernel));
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t i = o * stride + k * dilation - pad;
      offsets[static_cast<size_t>(o * kernel + k)] = i >= 0 && i < in ? i * step : -1;
    }
  }
  return offsets;
}

// [outer out][inner out][outer kernel][inner kernel]: the sums of both axes' offsets.
std::vector<int64_t> both_axes(const std::vector<int64_t>& outer, int64_t outer_kernel,
                               const std::vector<int64_t>& inner, int64_t inner_kernel) {
  std::vector<int64_t> offsets;
  offsets.reserve(outer.size() * inner.size());
  for (size_t z = 0; z < outer.size(); z += static_cast<size_t>(outer_kernel)) {
    for (size_t y = 0; y < inner.size(); y += static_cast<size_t>(inner_kernel)) {
      for (size_t i = z; i < z + static_cast<size_t>(outer_kernel); ++i) {
        for (size_t j = y; j < y + static_cast<size_t>(inner_kernel); ++j) {
          offsets.push_back(outer[i] < 0 || inner[j] < 0 ? -1 : outer[i] + inner[j]);
        }
      }
    }
  }
  return offsets;
}

// Row `row` (of all images) of the padded copy: negative pads crop, so every part is clipped.
template <class T>
void copy_padded_row(const ConvShape& s, const T* input, T padding, int64_t row, T* out) {
  const int64_t channels = s.in_channels, width = padded_w(s) * channels;
  const int64_t y = row % padded_h(s) - s.pad_top, plane = row / padded_h(s);
  const int64_t z = plane % padded_d(s) - s.pad_front;
  const T* image = input + (plane / padded_d(s) * s.in_d + z) * s.in_h * s.in_w * channels;
  T* to = out + row * width;
  if (y < 0 || y >= s.in_h || z < 0 || z >= s.in_d) {
    std::fill(to, to + width, padding);
    return;
  }
  const int64_t begin = std::max<int64_t>(0, s.pad_left) * channels;
  const int64_t skip = std::max<int64_t>(0, -s.pad_left) * channels;
  const int64_t count = std::max<int64_t>(0, std::min(width - begin, s.in_w * channels - skip));
  std::fill(to, to + begin, padding);
  std::memcpy(to + begin, image + y * s.in_w * channels + skip, static_cast<size_t>(count) * sizeof(T));
  std::fill(to + begin + count, to + width, padding);
}

struct FillContext {
  const ConvPlan* plan;
  const float* input;
  const float* zeros;
};

}  // namespace

ConvWeights conv_weights(int64_t out_channels, int64_t group_channels, int64_t kernel_h, int64_t kernel_w,
                         int64_t groups) {
  ConvWeights w;
  w.out_channels = out_channels;
  w.group_channels = group_channels;
  w.kernel_h = kernel_h;
  w.kernel_w = kernel_w;
  w.groups = groups;
  w.layout = packed_layout(kernel_h * kernel_w * group_channels, out_channels / groups);
  return w;
}

namespace {

// K is [kernel position, channel] in the panels and [channel, kernel position] in ONNX.
void pack_conv_panel(const ConvWeights& w, int64_t group, int64_t panel, const float* oihw, float* packed) {
  const int64_t n = w.out_channels / w.groups, points = w.kernel_h * w.kernel_w, k = points * w.group_channels;
  const float* from = oihw + group * n * k;
  float* to = packed + group * w.group_stride();
  if (points == 1) return pack_panel(w.layout, panel, from, 1, k, to);
  const int64_t stored = w.layout.columns(panel), first = panel * w.layout.width;
  const int64_t columns = std::min<int64_t>(w.layout.width, n - first);
  from += first * k;
  to += w.layout.offset(panel);
  for (int64_t c = 0; c < w.group_channels; ++c) {
    for (int64_t p = 0; p < points; ++p) {
      float* row = to + (p * w.group_channels + c) * stored;
      for (int64_t j = 0; j < columns; ++j) row[j] = from[j * k + c * points + p];
      std::fill(row + columns, row + stored, 0.0f);
    }
  }
}

}  // namespace

void pack_conv_weights(const ConvWeights& w, const float* oihw, float* packed) {
  for (int64_t g = 0; g < w.groups; ++g) {
    for (int64_t p = 0; p < w.layout.panels(); ++p) pack_conv_panel(w, g, p, oihw, packed);
  }
}

void pack_conv_weights(const ConvWeights& w, const float* oihw, float* packed, ThreadPool& pool) {
  const int64_t panels = w.layout.panels();
  pool.parallel_for(w.groups * panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pack_conv_panel(w, i / panels, i % panels, oihw, packed);
  });
}

void unpack_conv_weights(const ConvWeights& w, const float* packed, float* oihw) {
  const int64_t n = w.out_channels / w.groups, points = w.kernel_h * w.kernel_w, k = points * w.group_channels;
  std::vector<float> ordered(static_cast<size_t>(n * k));
  for (int64_t g = 0; g < w.groups; ++g) {
    unpack_b(w.layout, packed + g * w.group_stride(), ordered.data(), 1, k);
    for (int64_t o = 0; o < n; ++o) {
      for (int64_t c = 0; c < w.group_channels; ++c) {
        for (int64_t p = 0; p < points; ++p) {
          oihw[(g * n + o) * k + c * points + p] = ordered[static_cast<size_t>(o * k + p * w.group_channels + c)];
        }
      }
    }
  }
}

ConvPlan::ConvPlan(const ConvShape& s, int64_t element_bytes) : shape_(s) {
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    throw Error(ErrorCode::invalid_argument,
                "convolution: " + std::to_string(s.in_channels) + " input and " + std::to_string(s.out_channels) +
                    " output channels do not divide into " + std::to_string(s.groups) + " groups");
  }
  if (s.kernel_h < 1 || s.kernel_w < 1 || s.stride_h < 1 || s.stride_w < 1 || s.dilation_h < 1 || s.dilation_w < 1 ||
      s.kernel_d < 1 || s.stride_d < 1 || s.dilation_d < 1) {
    throw Error(ErrorCode::invalid_argument, "convolution: kernel, stride and dilation must be at least 1");
  }
  const int64_t out_d = s.out_d(), out_h = s.out_h(), out_w = s.out_w(), step = in_stride(s);
  if (s.kernel_d == 1 && s.kernel_h == 1 && s.kernel_w == 1 && s.stride_d == 1 && s.stride_h == 1 && s.stride_w == 1 &&
      !has_padding(s)) {
    method_ = Method::pointwise;
    depth_ = s.in_channels / s.groups;
    return;
  }
  if (s.groups == 1 && s.dilation_w == 1 && s.kernel_w > 1 && s.in_channels * element_bytes <= kFewPixelBytes &&
      step == s.in_channels) {
    method_ = Method::kernel_rows;
    padded_copy_ = has_padding(s);
    taps_h_ = s.kernel_d * s.kernel_h;
    taps_w_ = 1;
    depth_ = s.kernel_w * s.in_channels;
    const int64_t line = padded_w(s) * step, plane = padded_h(s) * line;
    image_stride_ = padded_d(s) * plane;
    row_offset_ =
        both_axes(axis_offsets(out_d, s.kernel_d, s.stride_d, s.dilation_d, 0, padded_d(s), plane), s.kernel_d,
                  axis_offsets(out_h, s.kernel_h, s.stride_h, s.dilation_h, 0, padded_h(s), line), s.kernel_h);
    column_offset_ = axis_offsets(out_w, 1, s.stride_w, 1, 0, padded_w(s), step);
  } else {
    taps_h_ = s.kernel_d * s.kernel_h;
    taps_w_ = s.kernel_w;
    depth_ = s.in_channels / s.groups;
    const int64_t line = s.in_w * step, plane = s.in_h * line;
    image_stride_ = s.in_d * plane;
    row_offset_ =
        both_axes(axis_offsets(out_d, s.kernel_d, s.stride_d, s.dilation_d, s.pad_front, s.in_d, plane), s.kernel_d,
                  axis_offsets(out_h, s.kernel_h, s.stride_h, s.dilation_h, s.pad_top, s.in_h, line), s.kernel_h);
    column_offset_ = axis_offsets(out_w, s.kernel_w, s.stride_w, s.dilation_w, s.pad_left, s.in_w, step);
    zeros_.assign(static_cast<size_t>(depth_), 0.0f);
  }
  taps_ = taps_h_ * taps_w_;
}

int64_t ConvPlan::copy_bytes() const {
  return padded_copy_ ? round_up(shape_.batch * image_stride_ * 4, 64) : 0;
}

int64_t ConvPlan::workspace_bytes(int threads, bool gates) const {
  const int64_t m = rows_of(shape_);
  static constexpr float any = 0;
  CoreProblem p;
  p.m = m;
  p.n = shape_.out_channels / shape_.groups;
  p.taps = taps_;
  p.depth = depth_;
  p.words = shape_.words;
  if (method_ != Method::pointwise) p.rows.fill = &ConvPlan::fill;
  if (gates) p.rows.factors = &any;
  const int64_t product =
      core_workspace_bytes(m, taps_) * threads + copy_bytes() + product_sums_bytes(p, shape_.groups, threads);
  return is_one_pixel() ? std::max(product, gemm_workspace_bytes(m, p.n, shape_.in_channels, threads)) : product;
}

bool ConvPlan::is_one_pixel() const {
  return rows_of(shape_) == 1 && method_ == Method::pointwise && shape_.groups == 1;
}

int64_t ConvPlan::rows() const {
  return rows_of(shape_);
}

template <class T>
void ConvPlan::copy_padded(const T* input, T padding, T* copy, ThreadPool& pool) const {
  const ConvShape& s = shape_;
  pool.parallel_for(s.batch * padded_d(s) * padded_h(s), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) copy_padded_row(s, input, padding, row, copy);
  });
}

template <class T>
void ConvPlan::find_rows(const T* input, const T* zeros, int64_t row0, int64_t rows, const T** pointers,
                         int64_t stride) const {
  const int64_t out_w = shape_.out_w(), lines = shape_.out_d() * shape_.out_h();
  int64_t x = row0 % out_w, y = row0 / out_w % lines, image = row0 / out_w / lines;
  // A line at a time: pixel by pixel the look-ups took a tenth of a convolution to 9 channels.
  for (int64_t r = 0; r < rows;) {
    const int64_t count = std::min(rows - r, out_w - x);
    const int64_t* row_offset = row_offset_.data() + y * taps_h_;
    const int64_t* column_offset = column_offset_.data() + x * taps_w_;
    const T* base = input + image * image_stride_;
    const T** out = pointers + r;
    for (int64_t i = 0; i < taps_h_; ++i) {
      const T* line = row_offset[i] < 0 ? nullptr : base + row_offset[i];
      for (int64_t j = 0; j < taps_w_; ++j, out += stride)
        fill_line(line, column_offset + j, taps_w_, count, zeros, out);
    }
    r += count;
    x += count;
    if (x == out_w) {
      x = 0;
      if (++y == lines) y = 0, ++image;
    }
  }
}

template void ConvPlan::copy_padded(const uint8_t*, uint8_t, uint8_t*, ThreadPool&) const;
template void ConvPlan::find_rows(const uint8_t*, const uint8_t*, int64_t, int64_t, const uint8_t**, int64_t) const;

void ConvPlan::fill(const void* context, int64_t row0, int64_t rows, const float** pointers, int64_t stride, int64_t*) {
  const auto& f = *static_cast<const FillContext*>(context);
  f.plan->find_rows(f.input, f.zeros, row0, rows, pointers, stride);
}

void conv(const ConvPlan& plan, const float* input, const float* packed, float* output, const Epilogue& epilogue,
          ThreadPool& pool, void* workspace, const float* gates) {
  const ConvShape& s = plan.shape_;
  const int64_t m = rows_of(s), n = s.out_channels / s.groups;
  if (m == 0 || n == 0) return;
  if (plan.is_one_pixel() && !gates) {
    // One pixel (squeeze and excite): four panels side by side (MobileNetV3: these layers took 5 % of the time).
    gemm({m, n, s.in_channels, input, s.in_channels, packed, output, n, epilogue, s.words}, pool, workspace);
    return;
  }
  char* memory = static_cast<char*>(workspace);
  char* const behind = memory + core_workspace_bytes(m, plan.taps_) * pool.size();
  if (plan.padded_copy_) {
    float* copy = reinterpret_cast<float*>(behind);
    plan.copy_padded(input, 0.0f, copy, pool);
    input = copy;
  }
  const int64_t group_channels = s.in_channels / s.groups;
  const int64_t group_stride =
      conv_weights(s.out_channels, group_channels, s.kernel_d * s.kernel_h, s.kernel_w, s.groups).group_stride();

  const auto product = [&](int64_t g, const FillContext& context) {
    CoreProblem p;
    p.m = m;
    p.n = n;
    p.taps = plan.taps_;
    p.depth = plan.depth_;
    p.words = s.words;
    if (plan.method_ == ConvPlan::Method::pointwise) {
      p.rows.base = context.input;
      p.rows.row_stride = in_stride(s);
      p.rows.factors = gates;
      p.rows.factor_rows = m / s.batch;
    } else {
      p.rows.fill = &ConvPlan::fill;
      p.rows.context = &context;
      if (has_padding(s)) p.rows.zeros = context.zeros;
    }
    p.packed_b = packed + g * group_stride;
    p.c = output + g * n;
    p.ldc = out_stride(s);
    p.epilogue = epilogue;
    if (epilogue.bias) p.epilogue.bias += g * n;
    if (epilogue.residual) p.epilogue.residual += g * n;
    for (Residual& more : p.epilogue.more_residuals)
      if (more.data) more.data += g * n;
    if (epilogue.addend) p.epilogue.addend += g * n;
    p.callback_col0 = g * n;
    return p;
  };
  run_products(
      shape_of_products(product(0, {&plan, input, plan.zeros_.data()}), s.groups, pool.size()),
      [&](int64_t g, const auto& use) {
        const FillContext context{&plan, input + g * group_channels, plan.zeros_.data()};
        use(product(g, context));
      },
      pool, memory, reinterpret_cast<float*>(behind + plan.copy_bytes()));
}

}  // namespace camshaft::cpu
