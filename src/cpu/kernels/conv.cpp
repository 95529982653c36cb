#include "cpu/kernels/conv.h"

#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "camshaft/error.h"
#include "cpu/kernels/gemm_core.h"

namespace camshaft::cpu {
namespace {

// With more channels the pieces are long enough by themselves, and the padded copy would cost more than it saves.
constexpr int64_t kFewChannels = 12;

int64_t in_stride(const ConvShape& s) {
  return s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
}
int64_t out_stride(const ConvShape& s) {
  return s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
}
int64_t padded_h(const ConvShape& s) {
  return s.in_h + s.pad_top + s.pad_bottom;
}
int64_t padded_w(const ConvShape& s) {
  return s.in_w + s.pad_left + s.pad_right;
}
int64_t rows_of(const ConvShape& s) {
  return s.batch * s.out_h() * s.out_w();
}
int64_t round_up(int64_t value, int64_t grain) {
  return (value + grain - 1) / grain * grain;
}

bool has_padding(const ConvShape& s) {
  return s.pad_top || s.pad_left || s.pad_bottom || s.pad_right;
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

// Row `row` (of all images) of the padded copy: negative pads crop, so every part is clipped.
void copy_padded_row(const ConvShape& s, const float* input, int64_t row, float* out) {
  const int64_t channels = s.in_channels, width = padded_w(s) * channels;
  const int64_t y = row % padded_h(s) - s.pad_top;
  const float* image = input + row / padded_h(s) * s.in_h * s.in_w * channels;
  float* to = out + row * width;
  if (y < 0 || y >= s.in_h) {
    std::fill(to, to + width, 0.0f);
    return;
  }
  const int64_t begin = std::max<int64_t>(0, s.pad_left) * channels;
  const int64_t skip = std::max<int64_t>(0, -s.pad_left) * channels;
  const int64_t count = std::max<int64_t>(0, std::min(width - begin, s.in_w * channels - skip));
  std::fill(to, to + begin, 0.0f);
  std::memcpy(to + begin, image + y * s.in_w * channels + skip, static_cast<size_t>(count) * sizeof(float));
  std::fill(to + begin + count, to + width, 0.0f);
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

void pack_conv_weights(const ConvWeights& w, const float* oihw, float* packed) {
  const int64_t n = w.out_channels / w.groups, points = w.kernel_h * w.kernel_w, k = points * w.group_channels;
  // K is [kernel position, channel] in the panels and [channel, kernel position] in ONNX: reorder one group at a time.
  std::vector<float> ordered(static_cast<size_t>(points > 1 ? n * k : 0));
  for (int64_t g = 0; g < w.groups; ++g) {
    const float* from = oihw + g * n * k;
    if (points > 1) {
      for (int64_t o = 0; o < n; ++o) {
        for (int64_t c = 0; c < w.group_channels; ++c) {
          for (int64_t p = 0; p < points; ++p) {
            ordered[static_cast<size_t>(o * k + p * w.group_channels + c)] = from[o * k + c * points + p];
          }
        }
      }
      from = ordered.data();
    }
    pack_b(w.layout, from, 1, k, packed + g * w.group_stride());
  }
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

ConvPlan::ConvPlan(const ConvShape& s) : shape_(s) {
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    throw Error(ErrorCode::invalid_argument,
                "convolution: " + std::to_string(s.in_channels) + " input and " + std::to_string(s.out_channels) +
                    " output channels do not divide into " + std::to_string(s.groups) + " groups");
  }
  if (s.kernel_h < 1 || s.kernel_w < 1 || s.stride_h < 1 || s.stride_w < 1 || s.dilation_h < 1 || s.dilation_w < 1) {
    throw Error(ErrorCode::invalid_argument, "convolution: kernel, stride and dilation must be at least 1");
  }
  const int64_t out_h = s.out_h(), out_w = s.out_w(), step = in_stride(s);
  if (s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 && !has_padding(s)) {
    method_ = Method::pointwise;
    depth_ = s.in_channels / s.groups;
    return;
  }
  if (s.groups == 1 && s.dilation_w == 1 && s.kernel_w > 1 && s.in_channels <= kFewChannels && step == s.in_channels) {
    method_ = Method::kernel_rows;
    padded_copy_ = has_padding(s);
    taps_h_ = s.kernel_h;
    taps_w_ = 1;
    depth_ = s.kernel_w * s.in_channels;
    image_stride_ = padded_h(s) * padded_w(s) * step;
    row_offset_ = axis_offsets(out_h, s.kernel_h, s.stride_h, s.dilation_h, 0, padded_h(s), padded_w(s) * step);
    column_offset_ = axis_offsets(out_w, 1, s.stride_w, 1, 0, padded_w(s), step);
  } else {
    taps_h_ = s.kernel_h;
    taps_w_ = s.kernel_w;
    depth_ = s.in_channels / s.groups;
    image_stride_ = s.in_h * s.in_w * step;
    row_offset_ = axis_offsets(out_h, s.kernel_h, s.stride_h, s.dilation_h, s.pad_top, s.in_h, s.in_w * step);
    column_offset_ = axis_offsets(out_w, s.kernel_w, s.stride_w, s.dilation_w, s.pad_left, s.in_w, step);
    zeros_.assign(static_cast<size_t>(depth_), 0.0f);
  }
  taps_ = taps_h_ * taps_w_;
}

int64_t ConvPlan::workspace_bytes(int threads) const {
  const int64_t copy = padded_copy_ ? round_up(shape_.batch * image_stride_ * 4, 64) : 0;
  return core_workspace_bytes(rows_of(shape_), taps_) * threads + copy;
}

void ConvPlan::fill(const void* context, int64_t row0, int64_t rows, const float** pointers, int64_t stride, int64_t*) {
  const auto& f = *static_cast<const FillContext*>(context);
  const ConvPlan& plan = *f.plan;
  const int64_t out_w = plan.shape_.out_w(), out_h = plan.shape_.out_h();
  const int64_t taps_h = plan.taps_h_, taps_w = plan.taps_w_;
  int64_t x = row0 % out_w, y = row0 / out_w % out_h, image = row0 / out_w / out_h;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t* row_offset = plan.row_offset_.data() + y * taps_h;
    const int64_t* column_offset = plan.column_offset_.data() + x * taps_w;
    const float* base = f.input + image * plan.image_stride_;
    const float** out = pointers + r;
    for (int64_t i = 0; i < taps_h; ++i) {
      const float* line = row_offset[i] < 0 ? nullptr : base + row_offset[i];
      for (int64_t j = 0; j < taps_w; ++j, out += stride) {
        *out = !line || column_offset[j] < 0 ? f.zeros : line + column_offset[j];
      }
    }
    if (++x == out_w) {
      x = 0;
      if (++y == out_h) y = 0, ++image;
    }
  }
}

void conv(const ConvPlan& plan, const float* input, const float* packed, float* output, const Epilogue& epilogue,
          ThreadPool& pool, void* workspace) {
  const ConvShape& s = plan.shape_;
  const int64_t m = rows_of(s), n = s.out_channels / s.groups;
  if (m == 0 || n == 0) return;
  const int threads = pool.size();
  const int64_t scratch = core_workspace_bytes(m, plan.taps_);
  char* memory = static_cast<char*>(workspace);
  if (plan.padded_copy_) {
    float* copy = reinterpret_cast<float*>(memory + scratch * threads);
    pool.parallel_for(s.batch * padded_h(s), 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) copy_padded_row(s, input, row, copy);
    });
    input = copy;
  }
  const int64_t group_channels = s.in_channels / s.groups;
  const int64_t group_stride =
      conv_weights(s.out_channels, group_channels, s.kernel_h, s.kernel_w, s.groups).group_stride();

  pool.run([&](int thread) {
    const Share share = core_share(m, n, threads, thread);
    for (int64_t g = 0; g < s.groups; ++g) {
      const FillContext context{&plan, input + g * group_channels, plan.zeros_.data()};
      CoreProblem p;
      p.m = m;
      p.n = n;
      p.taps = plan.taps_;
      p.depth = plan.depth_;
      if (plan.method_ == ConvPlan::Method::pointwise) {
        p.rows.base = context.input;
        p.rows.row_stride = in_stride(s);
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
      if (epilogue.addend) p.epilogue.addend += g * n;
      p.callback_col0 = g * n;
      core_run(p, share.m0, share.m1, share.p0, share.p1, memory + thread * scratch);
    }
  });
}

}  // namespace camshaft::cpu
