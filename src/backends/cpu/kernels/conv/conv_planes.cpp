#include "backends/cpu/kernels/conv/conv_planes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/conv/long_rows.h"
#include "backends/cpu/kernels/conv/plane_sums.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t vector_pixels = 64;
constexpr int64_t cache_floats = 6 * 1024;  // of the lines that a row sees, if they can be so few: most of an L1
constexpr int64_t most_floats = 64 * 1024;  // and at most: they are read for each block of outputs, from L2
constexpr int64_t float_bytes = sizeof(float);

int64_t ring_lines_of(const ConvShape& s) {
  return (s.kernel_h - 1) * s.dilation_h + 1;
}
int64_t reach_of(const ConvShape& s) {
  return (s.kernel_w - 1) * s.dilation_w / s.stride_w;
}
// One column of the kernel sees every stride_w-th pixel alone.
int64_t phases_of(const ConvShape& s) {
  return s.kernel_w == 1 ? 1 : s.stride_w;
}
int64_t group_channels_of(const ConvShape& s) {
  return s.in_channels / s.groups;
}

// Rows at once where one channel becomes one: neighbours see the same lines. A row by itself loads a vector for each
// product, which 32 channels of 177 x 177 pixels by 3 x 3 took 475 us for.
bool shares_lines(const ConvShape& s) {
  return s.kernel_h > 1 && s.stride_h == 1 && s.dilation_h == 1;
}
// Short rows of other steps are computed together as well: there are not enough sums in one to be under way at a time.
int64_t rows_together(const ConvShape& s) {
  constexpr int64_t short_row = 64, small_stride = 4;
  if (s.in_channels != s.groups || s.out_channels != s.groups) return 1;
  const bool is_short = s.out_w() <= short_row && s.stride_h <= small_stride && s.kernel_h * s.kernel_w > 1;
  return shares_lines(s) || is_short ? kPlaneRows : 1;
}

// Rows that a kernel of one column sees become one, whose taps are lines apart, where their weights lie side by side
// and a tile sees few pixels beside its own. (16 channels of 332 x 22 pixels by 6 x 1 took 380 us line by line.)
ConvShape with_short_rows_joined(const ConvShape& s) {
  constexpr int64_t short_row = 128, most_reach = 512;
  if (s.in_w > short_row || group_channels_of(s) != 1) return s;
  const ConvShape joined = with_long_rows(s);
  return reach_of(joined) <= most_reach && PlaneConvPlan::fits(joined) ? joined : s;
}

// Calls move(index in the packed weights, index in ONNX order) for each element, in the order of the former.
template <class Move>
void for_each_weight(const PlaneConvWeights& w, Move&& move) {
  int64_t at = 0;
  const int64_t outputs = w.out_channels / w.groups;
  for (int64_t first = 0, count; first < w.out_channels; first += count) {
    count = std::min(kPlaneOutputs, outputs - first % outputs);
    for (int64_t i = 0; i < w.kernel_h; ++i)
      for (int64_t c = 0; c < w.group_channels; ++c)
        for (int64_t j = 0; j < w.kernel_w; ++j)
          for (int64_t o = first; o < first + count; ++o)
            move(at++, ((o * w.group_channels + c) * w.kernel_h + i) * w.kernel_w + j);
  }
}

}  // namespace

void pack_plane_conv_weights(const PlaneConvWeights& weights, const float* oihw, float* packed) {
  for_each_weight(weights, [&](int64_t to, int64_t from) { packed[to] = oihw[from]; });
}

void unpack_plane_conv_weights(const PlaneConvWeights& weights, const float* packed, float* oihw) {
  for_each_weight(weights, [&](int64_t from, int64_t to) { oihw[to] = packed[from]; });
}

bool PlaneConvPlan::fits(const ConvShape& s) {
  constexpr int64_t most = most_floats / vector_pixels;  // before the product, which could overflow
  const int64_t channels = group_channels_of(s), lines = ring_lines_of(s), phases = phases_of(s);
  const int64_t width = reach_of(s) + vector_pixels + kPlaneSlack;
  return channels <= most && lines <= most && phases <= most && width <= most_floats && lines * phases <= most &&
         channels * (lines * phases) * width <= most_floats;
}

PlaneConvPlan::PlaneConvPlan(const ConvShape& s) : shape_(s) {
  const int64_t sizes[] = {s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.dilation_h, s.dilation_w};
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0 || s.in_d != 1 ||
      s.kernel_d != 1 || s.stride_d != 1 || s.out_d() != 1 ||
      *std::min_element(std::begin(sizes), std::end(sizes)) < 1 || !fits(s))
    throw Error(ErrorCode::invalid_argument, "convolution on planes: not a small one over two axes");
  const bool sees_each_once = s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 &&
                              s.pad_top == 0 && s.pad_left == 0 && s.pad_bottom == 0 && s.pad_right == 0;
  if (s.batch <= 0 || s.out_h() <= 0 || s.out_w() <= 0 || s.out_channels == 0) return;
  if (sees_each_once) {  // then an image is one row
    shape_.in_w *= shape_.in_h;
    shape_.in_h = 1;
  } else if (s.in_w > 0 && s.in_h > 0) {
    shape_ = with_short_rows_joined(s);
  }
  plan_tiles(sees_each_once);
}

void PlaneConvPlan::plan_tiles(bool sees_each_once) {
  const ConvShape& s = shape_;
  phases_ = phases_of(s);
  rows_ = rows_together(s);
  shares_lines_ = shares_lines(s);
  ring_lines_ = ring_lines_of(s) + (rows_ - 1) * s.stride_h;
  reach_ = reach_of(s);
  const int64_t out_w = s.out_w(), channels = group_channels_of(s);
  // Each pixel by itself needs no zeros around it, and planes are read where they are. More channels than a set of L1
  // has lines may lie so far apart that they put each other out.
  constexpr int64_t most_in_place = 8;
  in_place_ = sees_each_once && channels <= most_in_place;
  const int64_t in_cache = cache_floats / (std::max<int64_t>(channels, 1) * ring_lines_ * phases_) - reach_;
  const int64_t most_pixels = in_place_ ? 4096 : 512;
  tile_ = std::clamp<int64_t>(in_cache / vector_pixels * vector_pixels, vector_pixels, most_pixels);
  // Even tiles: 520 pixels are twice 260.
  tiles_ = (out_w + tile_ - 1) / tile_;
  tile_ = ((out_w + tiles_ - 1) / tiles_ + 7) / 8 * 8;
  in_place_ = in_place_ && out_w - (tiles_ - 1) * tile_ >= kPlaneSlack;
  pitch_ = (reach_ + tile_ + kPlaneSlack + 15) / 16 * 16;
  const int64_t floats = channels * ring_lines_ * phases_ * pitch_;
  const int64_t table = ring_lines_ * static_cast<int64_t>(sizeof(int64_t)) +
                        lines_at_once() * static_cast<int64_t>(sizeof(float*)) +
                        s.kernel_w * static_cast<int64_t>(sizeof(int64_t));
  thread_bytes_ = (floats * float_bytes + table + 63) / 64 * 64;
}

// What one thread does.
class PlaneConvPlan::Worker {
 public:
  Worker(const PlaneConvPlan& plan, const float* input, const float* packed, float* output, const Epilogue& epilogue,
         char* memory)
      : plan_(plan), s_(plan.shape_), input_(input), packed_(packed), output_(output), epilogue_(epilogue) {
    channels_ = group_channels_of(s_);
    channel_floats_ = plan.phases_ * plan.pitch_;
    ring_ = reinterpret_cast<float*>(memory);
    held_ = reinterpret_cast<int64_t*>(ring_ + channels_ * plan.ring_lines_ * channel_floats_);
    line_ = reinterpret_cast<const float**>(held_ + plan.ring_lines_);
    offset_ = reinterpret_cast<int64_t*>(line_ + plan.lines_at_once());
    for (int64_t j = 0; j < s_.kernel_w; ++j) {
      const int64_t behind = j * s_.dilation_w;
      offset_[j] = behind % s_.stride_w * plan.pitch_ + behind / s_.stride_w;
    }
  }

  // Rows [begin, end) of pixels [first, first + count) of a group's output channels.
  void run(int64_t image, int64_t group, int64_t first, int64_t count, int64_t begin, int64_t end) {
    std::fill_n(held_, plan_.ring_lines_, std::numeric_limits<int64_t>::min());
    input_planes_ = input_ + (image * s_.in_channels + group * channels_) * s_.in_h * s_.in_w;
    const int64_t outputs = s_.out_channels / s_.groups, plane = s_.out_h() * s_.out_w();
    float* const to = output_ + (image * s_.out_channels + group * outputs) * plane + first;
    for (int64_t y = begin, rows; y < end; y += rows) {
      cancellation_point();
      rows = std::min(plan_.rows_, end - y);
      compute_rows(group, first, count, y, rows, to + y * s_.out_w(), plane);
      for (int64_t r = y; epilogue_.activation && r < y + rows; ++r)
        core_activate(*epilogue_.activation, {.c = to + r * s_.out_w(),
                                              .stride = plane,
                                              .rows = outputs,
                                              .columns = count,
                                              .addend = nullptr,
                                              .addend_stride = 0});
    }
  }

 private:
  void compute_rows(int64_t group, int64_t first, int64_t count, int64_t y, int64_t rows, float* to, int64_t plane) {
    if (plan_.rows_ == 1 || plan_.shares_lines_) {
      find_lines(first, y * s_.stride_h, s_.kernel_h + rows - 1, line_);
    } else {
      for (int64_t r = 0; r < rows; ++r) find_lines(first, (y + r) * s_.stride_h, s_.kernel_h, line_ + r * s_.kernel_h);
    }
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const int64_t outputs = s_.out_channels / s_.groups;
    PlaneSums block;
    block.lines = s_.kernel_h;
    block.channels = channels_;
    block.taps = s_.kernel_w;
    block.line = line_;
    block.pitch = plan_.in_place_ ? s_.in_h * s_.in_w : channel_floats_;
    block.offset = offset_;
    block.weights = packed_ + group * outputs * channels_ * s_.kernel_h * s_.kernel_w;
    block.lo = epilogue_.lo;
    block.hi = epilogue_.hi;
    block.clamp = epilogue_.lo != -infinity || epilogue_.hi != infinity;
    block.count = count;
    if (plan_.rows_ > 1) {
      block.bias = epilogue_.bias ? epilogue_.bias + group : nullptr;
      block.streams = to;
      block.stream_step = s_.out_w();
      return plan_.shares_lines_ ? plane_row_sums(block, rows) : plane_separate_row_sums(block, rows);
    }
    block.stream_step = plane;
    for (int64_t o = 0; o < outputs; o += block.outputs) {
      block.outputs = std::min(kPlaneOutputs, outputs - o);
      block.bias = epilogue_.bias ? epilogue_.bias + group * outputs + o : nullptr;
      block.streams = to + o * plane;
      plane_sums(block);
      block.weights += block.outputs * channels_ * s_.kernel_h * s_.kernel_w;
    }
  }

  // Lines of the padded image from `line` on, a dilation apart. Places in the ring follow each other as lines do.
  void find_lines(int64_t first, int64_t line, int64_t count, const float** lines) {
    int64_t place = line % plan_.ring_lines_;
    for (int64_t i = 0; i < count; ++i, line += s_.dilation_h) {
      lines[i] = planes_of_line(first, line - s_.pad_top, place);
      place += s_.dilation_h;
      if (place >= plan_.ring_lines_) place -= plan_.ring_lines_;
    }
  }

  // The planes of a line of the image, null outside; a line that the ring holds is not copied again. Pixel x of phase p
  // is the one of column (first + x) * stride + p - pad.
  const float* planes_of_line(int64_t first, int64_t line, int64_t place) {
    if (line < 0 || line >= s_.in_h) return nullptr;
    if (plan_.in_place_) return input_planes_ + line * s_.in_w + first;
    float* const to = ring_ + place * channels_ * channel_floats_;
    if (held_[place] == line) return to;
    held_[place] = line;
    const int64_t stride = s_.stride_w, begin = first * stride - s_.pad_left;
    const int64_t from = std::clamp<int64_t>(begin, 0, s_.in_w);
    const int64_t past = std::clamp<int64_t>(begin + plan_.pitch_ * stride, from, s_.in_w);
    const float* source = input_planes_ + line * s_.in_w;
    for (int64_t c = 0; c < channels_; ++c, source += s_.in_h * s_.in_w) {
      float* const planes = to + c * channel_floats_;
      if (stride == 1) {
        copy_line(source, from, past, begin, planes);
      } else {
        deal_line(source, from, past, begin, planes);
      }
    }
    return to;
  }

  void copy_line(const float* source, int64_t from, int64_t past, int64_t begin, float* to) const {
    const int64_t before = std::clamp<int64_t>(from - begin, 0, plan_.pitch_), columns = past - from;
    std::fill_n(to, before, 0.0f);
    if (columns > 0) std::memcpy(to + before, source + from, static_cast<size_t>(columns * float_bytes));
    std::fill_n(to + before + columns, plan_.pitch_ - before - columns, 0.0f);
  }

  // Columns [from, past) of a line, each to the plane of its phase; zeros wherever there are none.
  void deal_line(const float* source, int64_t from, int64_t past, int64_t begin, float* to) const {
    const int64_t stride = s_.stride_w, pitch = plan_.pitch_;
    // Counted from `begin`.
    const int64_t whole = std::clamp<int64_t>((from - begin + stride - 1) / stride, 0, pitch);
    const int64_t whole_past = std::clamp((past - begin) / stride, whole, pitch);
    for (int64_t p = 0; p < plan_.phases_; ++p) {
      std::fill_n(to + p * pitch, whole, 0.0f);
      std::fill_n(to + p * pitch + whole_past, pitch - whole_past, 0.0f);
    }
    if (plan_.phases_ == 1) {
      const int64_t columns = (past - begin + stride - 1) / stride;
      if (stride == 2) {
        take_every_second(source + begin + whole * stride, std::max<int64_t>(columns - whole, 0), to + whole);
      } else {
        for (int64_t x = whole; x < columns; ++x) to[x] = source[begin + x * stride];
      }
      return;
    }
    const auto put = [&](int64_t column, int64_t end) {
      for (; column < end; ++column) to[(column - begin) % stride * pitch + (column - begin) / stride] = source[column];
    };
    put(from, std::min(past, begin + whole * stride));
    if (whole < whole_past) deal_phases(source + begin + whole * stride, whole_past - whole, stride, to + whole, pitch);
    put(std::max(from, begin + whole_past * stride), past);
  }

  const PlaneConvPlan& plan_;
  const ConvShape& s_;
  const float* input_;
  const float* packed_;
  float* output_;
  const Epilogue& epilogue_;
  int64_t channels_ = 0;                 // of a group
  int64_t channel_floats_ = 0;           // of all phases of a channel's line
  const float* input_planes_ = nullptr;  // of the group at hand
  float* ring_;
  int64_t* held_;       // the line in each place of the ring
  const float** line_;  // of the row at hand
  int64_t* offset_;     // of its taps
};

void plane_conv(const PlaneConvPlan& plan, const float* input, const float* packed, float* output,
                const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  const ConvShape& s = plan.shape_;
  if (plan.tile_ == 0) return;
  const int64_t rows = s.out_h(), out_w = s.out_w();
  const int64_t items = s.batch * s.groups * plan.tiles_ * rows;
  const int64_t work = plan.tile_ * (s.out_channels / s.groups) * group_channels_of(s) * s.kernel_h * s.kernel_w;
  const int threads = static_cast<int>(std::clamp<int64_t>(items * (work + 256) / (64 * 1024), 1, pool.size()));
  pool.run(threads, [&](int thread) {
    PlaneConvPlan::Worker worker(plan, input, packed, output, epilogue,
                                 static_cast<char*>(workspace) + thread * plan.thread_bytes_);
    const int64_t end = items * (thread + 1) / threads;
    for (int64_t item = items * thread / threads; item < end;) {
      const int64_t y = item % rows, tile = item / rows % plan.tiles_, plane = item / rows / plan.tiles_;
      const int64_t stop = std::min(end, item - y + rows), first = tile * plan.tile_;
      worker.run(plane / s.groups, plane % s.groups, first, std::min(plan.tile_, out_w - first), y, y + stop - item);
      item = stop;
    }
  });
}

}  // namespace camshaft::cpu
