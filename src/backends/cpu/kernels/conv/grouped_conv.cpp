#include "backends/cpu/kernels/conv/grouped_conv.h"

#include <algorithm>
#include <string>

#include "backends/cpu/kernels/conv/grouped_row.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/product_shares.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

namespace {

// Floats of copied lines that stay in L2 while all of a row's units pass over them.
constexpr int64_t kCopyFloats = 32 * 1024;
// The epilogue's callback gets at least this many elements at once where it can.
constexpr int64_t kCallbackElements = 4096;
constexpr int64_t kMostLanes = 64;

// Where the copied lines lie: a line of the image always in the same slot, those under one row in slots of their own.
struct Copy {
  Copy(const GroupedWeights& w, const ConvShape& s)
      : slots_d(std::min(s.in_d, (s.kernel_d - 1) * s.dilation_d + 1)),
        slots_h(std::min(s.in_h, (s.kernel_h - 1) * s.dilation_h + 1)),
        width((s.out_w() - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1),
        pixel_floats(w.together() > 1 ? w.lanes : w.group_channels),
        line_floats(round_up(width * pixel_floats + w.lanes, 16)),
        unit_floats(slots_d * slots_h * line_floats),
        units(std::clamp<int64_t>(kCopyFloats / std::max<int64_t>(1, unit_floats), 1, w.units())) {}

  int64_t slots_d, slots_h;
  int64_t width;         // pixels of a line
  int64_t pixel_floats;  // of a unit
  int64_t line_floats, unit_floats;
  int64_t units;  // copied at a time

  // The copy, the line in each slot, and of the lines under a row the offsets of input and weights.
  int64_t bytes(const GroupedWeights& w) const {
    return units * unit_floats * 4 + round_up((slots_d * slots_h + 2 * w.lines) * 8, 64);
  }
};

// One thread's part.
class Worker {
 public:
  Worker(const GroupedWeights& w, const ConvShape& s, const float* input, const float* packed, float* output,
         const Epilogue& epilogue, void* memory)
      : w_(w),
        s_(s),
        copy_(w, s),
        in_step_(s.in_pixel_stride ? s.in_pixel_stride : s.in_channels),
        out_step_(s.out_pixel_stride ? s.out_pixel_stride : s.out_channels),
        unit_outputs_(w.together() * w.group_outputs()),
        input_(input),
        packed_(packed),
        output_(output),
        epilogue_(epilogue),
        lines_(static_cast<float*>(memory)),
        held_(reinterpret_cast<int64_t*>(lines_ + copy_.units * copy_.unit_floats)),
        line_offset_(held_ + copy_.slots_d * copy_.slots_h),
        line_weights_(line_offset_ + w.lines) {
    for (int64_t l = 0; l < w.lanes; ++l) {
      const int64_t group = l / w.group_outputs();
      first_[l] = static_cast<int32_t>(group < w.together() ? group * w.group_channels : 0);
    }
  }

  /// Rows are [batch, out_d, out_h].
  void run(int64_t row0, int64_t row1, int64_t unit0, int64_t unit1) {
    const int64_t out_w = s_.out_w();
    for (int64_t u0 = unit0; u0 < unit1; u0 += copy_.units) {
      const int64_t u1 = std::min(unit1, u0 + copy_.units);
      const int64_t channel0 = u0 * unit_outputs_, channel1 = std::min(s_.out_channels, u1 * unit_outputs_);
      std::fill_n(held_, copy_.slots_d * copy_.slots_h, -1);
      int64_t first_pending = row0;
      for (int64_t row = row0; row < row1; ++row) {
        collect_lines(row, u0, u1);
        for (int64_t u = u0; u < u1; ++u) run_unit(row, u, u - u0);
        const int64_t pixel = row * out_w;
        if (epilogue_.activation) {
          core_activate(*epilogue_.activation,
                        {output_ + pixel * out_step_ + channel0, out_step_, out_w, channel1 - channel0,
                         epilogue_.addend ? epilogue_.addend + pixel * epilogue_.addend_ld + channel0 : nullptr,
                         epilogue_.addend_ld});
        }
        if (!epilogue_.callback) continue;
        const int64_t rows = row + 1 - first_pending;
        if (row + 1 < row1 && rows * out_w * (channel1 - channel0) < kCallbackElements) continue;
        epilogue_.callback(epilogue_.context, first_pending * out_w, rows * out_w, channel0, channel1 - channel0);
        first_pending = row + 1;
      }
    }
  }

 private:
  // Sees to it that the lines under `row` are copied, of units [u0, u1).
  void collect_lines(int64_t row, int64_t u0, int64_t u1) {
    const int64_t y = row % s_.out_h(), z = row / s_.out_h() % s_.out_d(), image = row / (s_.out_h() * s_.out_d());
    found_ = 0;
    for (int64_t i = 0; i < s_.kernel_d; ++i) {
      const int64_t iz = z * s_.stride_d + i * s_.dilation_d - s_.pad_front;
      if (iz < 0 || iz >= s_.in_d) continue;
      for (int64_t j = 0; j < s_.kernel_h; ++j) {
        const int64_t iy = y * s_.stride_h + j * s_.dilation_h - s_.pad_top;
        if (iy < 0 || iy >= s_.in_h) continue;
        const int64_t slot = iz % copy_.slots_d * copy_.slots_h + iy % copy_.slots_h;
        const int64_t line = (image * s_.in_d + iz) * s_.in_h + iy;
        if (held_[slot] != line) copy(line, slot, u0, u1);
        held_[slot] = line;
        line_offset_[found_] = slot * copy_.line_floats;
        line_weights_[found_] = (i * s_.kernel_h + j) * w_.group_channels * w_.kernel_w * w_.lanes;
        ++found_;
      }
    }
  }

  void copy(int64_t line, int64_t slot, int64_t u0, int64_t u1) {
    const int64_t unit_channels = w_.together() * w_.group_channels;
    GroupedLine l;
    l.width = copy_.width;
    l.first = std::clamp<int64_t>(s_.pad_left, 0, l.width);
    l.past = std::clamp<int64_t>(s_.in_w + s_.pad_left, l.first, l.width);
    l.from_step = in_step_;
    l.from = input_ + (line * s_.in_w + std::max<int64_t>(0, -s_.pad_left)) * in_step_ + u0 * unit_channels;
    l.to = lines_ + slot * copy_.line_floats;
    l.unit_step = copy_.unit_floats;
    l.pixel_floats = copy_.pixel_floats;
    l.units = u1 - u0;
    l.unit_floats = unit_channels;
    l.last_floats = std::min(s_.in_channels - (u1 - 1) * unit_channels, unit_channels);
    copy_grouped_line(l);
  }

  void run_unit(int64_t row, int64_t unit, int64_t at) {
    cancellation_point();
    const int64_t out_w = s_.out_w();
    GroupedRow t;
    t.input = lines_ + at * copy_.unit_floats;
    t.line_offset = line_offset_;
    t.line_weights = line_weights_;
    t.lines = found_;
    t.pixel_floats = copy_.pixel_floats;
    t.channels = w_.group_channels;
    t.first = w_.together() > 1 ? first_ : nullptr;
    t.kernel_w = s_.kernel_w;
    t.stride = s_.stride_w;
    t.dilation = s_.dilation_w;
    t.pixels = out_w;
    t.output_step = out_step_;
    t.residual_step = epilogue_.residual_ld;
    t.lo = epilogue_.lo;
    t.hi = epilogue_.hi;
    const int64_t past = std::min(s_.out_channels, (unit + 1) * unit_outputs_);
    int64_t channel = unit * unit_outputs_;
    for (int64_t v = 0; v < w_.vectors(); ++v, channel += w_.lanes) {
      t.weights = packed_ + (unit * w_.vectors() + v) * w_.vector_floats();
      t.lanes = std::min<int64_t>(w_.lanes, past - channel);
      t.output = output_ + row * out_w * out_step_ + channel;
      t.bias = epilogue_.bias ? epilogue_.bias + channel : nullptr;
      t.residual = epilogue_.residual ? epilogue_.residual + row * out_w * epilogue_.residual_ld + channel : nullptr;
      grouped_row(t);
    }
  }

  const GroupedWeights& w_;
  const ConvShape& s_;
  const Copy copy_;
  const int64_t in_step_, out_step_, unit_outputs_;
  const float *input_, *packed_;
  float* output_;
  const Epilogue& epilogue_;
  float* lines_;
  int64_t *held_, *line_offset_, *line_weights_;
  int64_t found_ = 0;
  int32_t first_[kMostLanes];
};

}  // namespace

int64_t grouped_conv_workspace_bytes(const GroupedWeights& weights, const ConvShape& shape, int threads) {
  return shape.out_w() > 0 ? Copy(weights, shape).bytes(weights) * threads : 0;
}

RowChannelShares grouped_conv_shares(const GroupedWeights& w, const ConvShape& s, int most) {
  const int64_t rows = s.batch * s.out_d() * s.out_h();
  const double steps = static_cast<double>(w.lines * w.kernel_w) * static_cast<double>(w.group_channels);
  const double vectors = static_cast<double>(rows * s.out_w()) * static_cast<double>(w.units() * w.vectors());
  const double overlap = window_overlap(s.kernel_h, s.dilation_h, s.stride_w, s.kernel_h * s.kernel_w);
  return {rows, w.units(), overlap, useful_threads(vectors * steps, most), 1};
}

void grouped_conv(const GroupedWeights& w, const ConvShape& s, const float* input, const float* packed, float* output,
                  const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  if (s.groups != w.groups || s.in_channels != w.groups * w.group_channels || s.out_channels != w.out_channels ||
      w.lanes > kMostLanes) {
    throw Error(ErrorCode::invalid_argument, "grouped convolution: " + std::to_string(s.in_channels) + " input and " +
                                                 std::to_string(s.out_channels) + " output channels in " +
                                                 std::to_string(s.groups) + " groups do not fit the weights");
  }
  const int64_t rows = s.batch * s.out_d() * s.out_h();
  if (rows <= 0 || s.out_w() <= 0) return;
  const RowChannelShares shares = grouped_conv_shares(w, s, pool.size());
  const int64_t bytes = Copy(w, s).bytes(w);
  pool.run(shares.threads(), [&](int thread) {
    const RowChannelShare own = shares.share(thread);
    if (own.is_empty()) return;
    Worker(w, s, input, packed, output, epilogue, static_cast<char*>(workspace) + thread * bytes)
        .run(own.row0, own.row1, own.channel0, own.channel1);
  });
}

}  // namespace camshaft::cpu
