#include "backends/cpu/kernels/conv/conv_transpose_planes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/conv/plane_sums.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/move/transpose_tile.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t vector_groups = 64;
constexpr int64_t cache_floats = 6 * 1024;  // of the lines that a row sees, if they can be so few: half of an L1
constexpr int64_t most_floats = 64 * 1024;  // and at most: they are read for each block of outputs, from L2
constexpr int64_t float_bytes = sizeof(float);

int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

int64_t ring_lines_of(const ConvTransposeShape& s) {
  return (s.kernel_h - 1) * s.dilation_h / s.stride_h + 1;
}
int64_t reach_of(const ConvTransposeShape& s) {
  return (s.kernel_w - 1) * s.dilation_w / s.stride_w;
}

// Calls move(index in the packed weights, index in ONNX order) for each element, in the order of the former.
template <class Move>
void for_each_weight(const PlaneTransposeWeights& w, Move&& move) {
  int64_t at = 0;
  const int64_t channels = w.in_channels / w.groups;
  const auto block = [&](int64_t down, int64_t across, int64_t group, int64_t first) {
    for (int64_t i = 0; i < w.kernel_h; ++i) {
      if (i * w.dilation_h % w.stride_h != down) continue;
      for (int64_t c = group * channels; c < (group + 1) * channels; ++c)
        for (int64_t j = 0; j < w.kernel_w; ++j) {
          if (j * w.dilation_w % w.stride_w != across) continue;
          for (int64_t o = first; o < std::min(first + kPlaneOutputs, w.group_outputs); ++o)
            move(at++, ((c * w.group_outputs + o) * w.kernel_h + i) * w.kernel_w + j);
        }
    }
  };
  for (int64_t down = 0; down < w.stride_h; ++down)
    for (int64_t across = 0; across < w.stride_w; ++across)
      for (int64_t group = 0; group < w.groups; ++group)
        for (int64_t first = 0; first < w.group_outputs; first += kPlaneOutputs) block(down, across, group, first);
}

}  // namespace

void pack_plane_transpose_weights(const PlaneTransposeWeights& weights, const float* iohw, float* packed) {
  for_each_weight(weights, [&](int64_t to, int64_t from) { packed[to] = iohw[from]; });
}

void unpack_plane_transpose_weights(const PlaneTransposeWeights& weights, const float* packed, float* iohw) {
  for_each_weight(weights, [&](int64_t from, int64_t to) { iohw[to] = packed[from]; });
}

PlaneTransposePlan::Taps PlaneTransposePlan::taps_of_phase(int64_t kernel, int64_t stride, int64_t dilation,
                                                           int64_t phase) {
  Taps taps;
  for (int64_t k = 0; k < kernel; ++k) {
    if (k * dilation % stride != phase) continue;
    taps.kernel.push_back(k);
    taps.back.push_back((k * dilation - phase) / stride);
  }
  return taps;
}

bool PlaneTransposePlan::fits(const ConvTransposeShape& s) {
  constexpr int64_t most = most_floats / vector_groups;  // before the product, which could overflow
  const int64_t lines = ring_lines_of(s), width = reach_of(s) + vector_groups + kPlaneSlack;
  return s.in_channels <= most && lines <= most && width <= most_floats && s.in_channels * lines * width <= most_floats;
}

PlaneTransposePlan::PlaneTransposePlan(const ConvTransposeShape& s, bool first_in, bool first_out) : shape_(s) {
  const int64_t sizes[] = {s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.dilation_h, s.dilation_w};
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0 || s.in_d != 1 ||
      s.kernel_d != 1 || s.stride_d != 1 || s.out_d() != 1 ||
      *std::min_element(std::begin(sizes), std::end(sizes)) < 1 || !fits(s))
    throw Error(ErrorCode::invalid_argument, "transposed convolution on planes: not a small one over two axes");
  int64_t packed = 0;
  for (int64_t p = 0; p < s.stride_h; ++p) vertical_.push_back(taps_of_phase(s.kernel_h, s.stride_h, s.dilation_h, p));
  for (int64_t p = 0; p < s.stride_w; ++p)
    horizontal_.push_back(taps_of_phase(s.kernel_w, s.stride_w, s.dilation_w, p));
  for (const Taps& v : vertical_)
    for (const Taps& h : horizontal_) {
      packed_.push_back(packed);
      packed += static_cast<int64_t>(v.kernel.size() * h.kernel.size()) * s.in_channels * (s.out_channels / s.groups);
    }
  if (first_in && first_out) {
    image_groups_ = s.groups;
    shape_.batch *= s.groups;
    shape_.in_channels /= s.groups;
    shape_.out_channels /= s.groups;
    shape_.groups = 1;
  }
  // One channel is first and last at once.
  const auto is_dense = [](int64_t step) { return step == 0 || step == 1; };
  first_in_ = first_in || (s.in_channels == 1 && is_dense(s.in_pixel_stride));
  first_out_ = first_out || (s.out_channels == 1 && is_dense(s.out_pixel_stride));
  const int64_t in_channels = shape_.in_channels;
  ring_lines_ = ring_lines_of(s);
  reach_ = reach_of(s);
  out_h_ = s.out_h(), out_w_ = s.out_w();
  if (s.batch <= 0 || out_h_ <= 0 || out_w_ <= 0 || s.out_channels == 0) return;
  first_group_ = floor_div(s.pad_left, s.stride_w);
  groups_ = floor_div(out_w_ - 1 + s.pad_left, s.stride_w) - first_group_ + 1;
  const bool tiles_result = ring_lines_ == 1 && reach_ == 0 && s.pad_top == 0 && s.pad_left == 0 &&
                            out_h_ == s.in_h * s.stride_h && out_w_ == s.in_w * s.stride_w;
  if (tiles_result) {
    line_ = s.in_w;
    groups_ = shape_.in_w = s.in_h * s.in_w;
    shape_.in_h = 1;
  }
  // Wide tiles copy the columns between two of them once, narrow ones keep their lines in cache.
  const int64_t in_cache = cache_floats / (std::max<int64_t>(in_channels, 1) * ring_lines_) - reach_;
  tile_ = std::clamp<int64_t>(in_cache / vector_groups * vector_groups, vector_groups, 512);
  // Even tiles, a little wider than that rather than one more: 69 groups of 32 channels took a tenth longer as 64
  // and 5.
  const int64_t widest = tile_ + tile_ / 4, tiles = (groups_ + widest - 1) / widest;
  tile_ = ((groups_ + tiles - 1) / tiles + 7) / 8 * 8;
  pitch_ = (reach_ + tile_ + kPlaneSlack + 15) / 16 * 16;
  const int64_t floats = (in_channels * ring_lines_ + shape_.out_channels * s.stride_w) * pitch_;
  const int64_t table = ring_lines_ * static_cast<int64_t>(sizeof(int64_t) + sizeof(float*)) +
                        static_cast<int64_t>(s.kernel_w) * static_cast<int64_t>(sizeof(int64_t));
  thread_bytes_ = (floats * float_bytes + table + 63) / 64 * 64;
}

// What one thread does.
class PlaneTransposePlan::Worker {
 public:
  Worker(const PlaneTransposePlan& plan, const float* input, const float* packed, float* output,
         const Epilogue& epilogue, char* memory)
      : plan_(plan), s_(plan.shape_), input_(input), packed_(packed), output_(output), epilogue_(epilogue) {
    ring_ = reinterpret_cast<float*>(memory);
    streams_ = ring_ + s_.in_channels * plan.ring_lines_ * plan.pitch_;
    held_ = reinterpret_cast<int64_t*>(streams_ + s_.out_channels * s_.stride_w * plan.pitch_);
    line_ = reinterpret_cast<const float**>(held_ + plan.ring_lines_);
    offset_ = reinterpret_cast<int64_t*>(line_ + plan.ring_lines_);
  }

  // Rows [begin, end) of a tile of `count` groups from `first` on.
  void run(int64_t image, int64_t first, int64_t count, int64_t begin, int64_t end) {
    std::fill_n(held_, plan_.ring_lines_, std::numeric_limits<int64_t>::min());
    for (int64_t y = begin; y < end; ++y) {
      cancellation_point();
      compute_row(image, first, count, y);
    }
  }

 private:
  void compute_row(int64_t image, int64_t first, int64_t count, int64_t y) {
    const int64_t padded = y + s_.pad_top, own = floor_div(padded, s_.stride_h);
    const int64_t down = padded - own * s_.stride_h;
    const Taps& vertical = plan_.vertical_[static_cast<size_t>(down)];
    const auto lines = static_cast<int64_t>(vertical.back.size());
    for (int64_t l = 0; l < lines; ++l)
      line_[l] = planes_of_line(image, first, own - vertical.back[static_cast<size_t>(l)]);

    constexpr float infinity = std::numeric_limits<float>::infinity();
    PlaneSums block;
    block.lines = lines;
    block.channels = s_.in_channels / s_.groups;
    block.line = line_;
    block.pitch = plan_.pitch_;
    block.offset = offset_;
    block.lo = epilogue_.lo;
    block.hi = epilogue_.hi;
    block.clamp = epilogue_.lo != -infinity || epilogue_.hi != infinity;
    block.count = count;
    block.stream_step = plan_.pitch_;
    const int64_t outputs = s_.out_channels / s_.groups;
    const int64_t output0 = image % plan_.image_groups_ * s_.out_channels;  // among all groups' outputs
    // Of planes a few at a time: their streams are in L1 still when they are dealt out.
    const int64_t at_once = plan_.first_out_ ? kPlaneOutputs : s_.out_channels;
    for (int64_t begin = 0, end; begin < s_.out_channels; begin = end) {
      end = begin + std::min(at_once, plan_.first_out_ ? outputs - begin % outputs : s_.out_channels);
      for (int64_t across = 0; across < s_.stride_w; ++across) {
        const Taps& horizontal = plan_.horizontal_[static_cast<size_t>(across)];
        block.taps = static_cast<int64_t>(horizontal.back.size());
        for (int64_t t = 0; t < block.taps; ++t) offset_[t] = plan_.reach_ - horizontal.back[static_cast<size_t>(t)];
        const int64_t weights_of_output = lines * block.channels * block.taps;
        block.weights = packed_ + plan_.packed_[static_cast<size_t>(down * s_.stride_w + across)] +
                        (output0 + begin) * weights_of_output;
        for (int64_t o = begin; o < end; o += block.outputs) {
          block.outputs = std::min(kPlaneOutputs, outputs - o % outputs);
          block.plane = o / outputs * block.channels * plan_.pitch_;
          block.bias = epilogue_.bias ? epilogue_.bias + output0 + o : nullptr;
          block.streams = streams_ + (across * (end - begin) + o - begin) * plan_.pitch_;
          plane_sums(block);
          block.weights += weights_of_output * block.outputs;
        }
      }
      if (epilogue_.activation)
        core_activate(*epilogue_.activation, {.c = streams_,
                                              .stride = plan_.pitch_,
                                              .rows = s_.stride_w * (end - begin),
                                              .columns = count,
                                              .addend = nullptr,
                                              .addend_stride = 0});
      write(image, {begin, end}, first, count, y);
    }
  }

  // The planes of a line of the image, null outside; a line that the ring holds is not copied again.
  const float* planes_of_line(int64_t image, int64_t first, int64_t line) {
    if (line < 0 || line >= s_.in_h) return nullptr;
    const int64_t place = line % plan_.ring_lines_, pitch = plan_.pitch_;
    float* to = ring_ + place * s_.in_channels * pitch;
    if (held_[place] == line) return to;
    held_[place] = line;
    const int64_t begin = first - plan_.reach_;  // the column of a plane's first float
    const int64_t from = std::clamp<int64_t>(begin, 0, s_.in_w);
    const int64_t past = std::clamp<int64_t>(begin + pitch, from, s_.in_w), columns = past - from;
    const int64_t before = std::clamp<int64_t>(from - begin, 0, pitch);
    for (int64_t c = 0; c < s_.in_channels; ++c) {
      std::fill_n(to + c * pitch, before, 0.0f);
      std::fill_n(to + c * pitch + before + columns, pitch - before - columns, 0.0f);
    }
    if (columns == 0) return to;
    if (plan_.first_in_) {
      const float* source = input_ + ((image * s_.in_channels) * s_.in_h + line) * s_.in_w + from;
      for (int64_t c = 0; c < s_.in_channels; ++c, source += s_.in_h * s_.in_w)
        std::memcpy(to + c * pitch + before, source, static_cast<size_t>(columns * float_bytes));
      return to;
    }
    const int64_t step = s_.in_pixel_stride ? s_.in_pixel_stride : s_.in_channels;
    const float* source = input_ + ((image * s_.in_h + line) * s_.in_w + from) * step;
    transpose_2d(float_bytes, {s_.in_channels, columns, step * float_bytes, pitch * float_bytes},
                 reinterpret_cast<const char*>(source), reinterpret_cast<char*>(to + before));
    return to;
  }

  struct Outputs {
    int64_t begin, end;  // channels whose streams there are
  };

  void write(int64_t image, Outputs outputs, int64_t first, int64_t count, int64_t y) const {
    if (plan_.line_ == 0) return write_row(image, outputs, first, count, y);
    int64_t line = first / plan_.line_, column = first % plan_.line_;
    for (int64_t at = 0, n; at < count; at += n, ++line, column = 0) {
      n = std::min(count - at, plan_.line_ - column);
      write_groups(outputs, {image, line * s_.stride_h + y, column * s_.stride_w}, at, n, 0, s_.stride_w);
    }
  }

  void write_row(int64_t image, Outputs outputs, int64_t first, int64_t count, int64_t y) const {
    const int64_t stride = s_.stride_w, out_w = plan_.out_w_;
    // Groups all of whose pixels lie in the row; at its ends single phases of others.
    const int64_t whole = std::clamp(floor_div(s_.pad_left + stride - 1, stride), first, first + count);
    const int64_t past = std::clamp(floor_div(out_w + s_.pad_left, stride), whole, first + count);
    const auto groups = [&](int64_t from, int64_t to, int64_t across, int64_t across_end) {
      if (from < to)
        write_groups(outputs, {image, y, from * stride + across - s_.pad_left}, from - first, to - from, across,
                     across_end);
    };
    groups(whole, past, 0, stride);
    for (int64_t across = 0; across < stride; ++across) {
      const int64_t from = std::clamp(floor_div(s_.pad_left - across + stride - 1, stride), first, first + count);
      const int64_t to = std::clamp(floor_div(out_w - 1 + s_.pad_left - across, stride) + 1, from, first + count);
      groups(from, std::min(whole, to), across, across + 1);
      groups(std::max(past, from), to, across, across + 1);
    }
  }

  // Phases [across, across_end) of `count` groups, the first of which is the streams' element `at`; its pixel of
  // phase `across` is `pixel`.
  struct Pixel {
    int64_t image, y, x;
  };
  void write_groups(Outputs outputs, Pixel pixel, int64_t at, int64_t count, int64_t across, int64_t across_end) const {
    const int64_t n = outputs.end - outputs.begin, out_w = plan_.out_w_;
    const float* streams = streams_ + across * n * plan_.pitch_ + at;
    if (plan_.first_out_) {
      const int64_t plane = plan_.out_h_ * out_w;
      float* to =
          output_ + ((pixel.image * s_.out_channels + outputs.begin) * plan_.out_h_ + pixel.y) * out_w + pixel.x;
      for (int64_t o = 0; o < n; ++o)
        deal(streams + o * plan_.pitch_, n * plan_.pitch_, across_end - across, count, to + o * plane, s_.stride_w);
      return;
    }
    const int64_t step = s_.out_pixel_stride ? s_.out_pixel_stride : n;
    float* to = output_ + ((pixel.image * plan_.out_h_ + pixel.y) * out_w + pixel.x) * step;
    if (step == n) return deal(streams, plan_.pitch_, (across_end - across) * n, count, to, s_.stride_w * n);
    for (int64_t p = across; p < across_end; ++p)
      deal(streams + (p - across) * n * plan_.pitch_, plan_.pitch_, n, count, to + (p - across) * step,
           s_.stride_w * step);
  }

  // to[i * step + s] = streams[s * stream_step + i]
  static void deal(const float* streams, int64_t stream_step, int64_t count, int64_t groups, float* to, int64_t step) {
    if (count == 1 && step == 1) {
      std::memcpy(to, streams, static_cast<size_t>(groups * float_bytes));
      return;
    }
    if (count == 2 && step == 2) return deal_pairs(streams, streams + stream_step, groups, to);
    transpose_2d(float_bytes, {groups, count, stream_step * float_bytes, step * float_bytes},
                 reinterpret_cast<const char*>(streams), reinterpret_cast<char*>(to));
  }

  const PlaneTransposePlan& plan_;
  const ConvTransposeShape& s_;
  const float* input_;
  const float* packed_;
  float* output_;
  const Epilogue& epilogue_;
  float* ring_;
  float* streams_;
  int64_t* held_;       // the line in each place of the ring
  const float** line_;  // of the row at hand
  int64_t* offset_;     // of its taps
};

void plane_conv_transpose(const PlaneTransposePlan& plan, const float* input, const float* packed, float* output,
                          const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  const ConvTransposeShape& s = plan.shape_;
  if (plan.tile_ == 0) return;
  const int64_t tiles = (plan.groups_ + plan.tile_ - 1) / plan.tile_;
  const int64_t rows = plan.line_ > 0 ? s.stride_h : plan.out_h_;
  const int64_t items = s.batch * tiles * rows;
  const int64_t work = plan.tile_ * s.stride_w * s.out_channels * (s.in_channels / s.groups) * s.kernel_h * s.kernel_w /
                       (s.stride_h * s.stride_w);  // of an item, in products
  const int threads = static_cast<int>(std::clamp<int64_t>(items * (work + 256) / (64 * 1024), 1, pool.size()));
  pool.run(threads, [&](int thread) {
    PlaneTransposePlan::Worker worker(plan, input, packed, output, epilogue,
                                      static_cast<char*>(workspace) + thread * plan.thread_bytes_);
    const int64_t end = items * (thread + 1) / threads;
    for (int64_t item = items * thread / threads; item < end;) {
      const int64_t y = item % rows, tile = item / rows % tiles, first = tile * plan.tile_;
      const int64_t stop = std::min(end, item - y + rows);
      worker.run(item / rows / tiles, plan.first_group_ + first, std::min(plan.tile_, plan.groups_ - first), y,
                 y + stop - item);
      item = stop;
    }
  });
}

}  // namespace camshaft::cpu
