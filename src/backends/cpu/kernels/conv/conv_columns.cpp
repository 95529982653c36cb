#include "backends/cpu/kernels/conv/conv_columns.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/cpu/kernels/conv/long_rows.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t strip = 64;                 // pixels that are computed at once with the widest vectors
constexpr int64_t most_block = 512;           // pixels
constexpr int64_t l1_floats = 10 * 1024;      // of columns: most of an L1
constexpr int64_t cache_floats = 48 * 1024;   // a part of an L2
constexpr int64_t most_floats = 256 * 1024;   // and at most, of one strip
constexpr int64_t most_in_place = 64 * 1024;  // pixels of a block that is not copied
constexpr int64_t float_bytes = sizeof(float);

int64_t group_channels_of(const ConvShape& s) {
  return s.in_channels / s.groups;
}

bool sees_each_once(const ConvShape& s) {
  return s.kernel_d == 1 && s.kernel_h == 1 && s.kernel_w == 1 && s.stride_d == 1 && s.stride_h == 1 &&
         s.stride_w == 1 && s.pad_front == 0 && s.pad_top == 0 && s.pad_left == 0 && s.pad_back == 0 &&
         s.pad_bottom == 0 && s.pad_right == 0;
}

}  // namespace

bool ColumnConvPlan::fits(const ConvShape& s) {
  constexpr int64_t most = most_floats / strip;  // before the product, which could overflow
  int64_t terms = group_channels_of(s);
  for (const int64_t taps : {s.kernel_d, s.kernel_h, s.kernel_w}) {
    if (terms > most || taps > most) return false;
    terms *= taps;
  }
  return terms <= most;
}

ColumnConvPlan::ColumnConvPlan(const ConvShape& s) : shape_(s) {
  const int64_t sizes[] = {s.kernel_d, s.kernel_h,   s.kernel_w,   s.stride_d,  s.stride_h,
                           s.stride_w, s.dilation_d, s.dilation_h, s.dilation_w};
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0 ||
      *std::min_element(std::begin(sizes), std::end(sizes)) < 1 || !fits(s))
    throw Error(ErrorCode::invalid_argument, "convolution by columns: not one whose columns stay in cache");
  if (s.in_d > 0 && s.in_h > 0 && s.in_w > 0 && s.out_d() > 0 && s.out_h() > 0 && s.out_w() > 0)
    shape_ = with_long_rows(s);
  const int64_t out_w = shape_.out_w();
  if (s.batch <= 0 || shape_.out_d() <= 0 || shape_.out_h() <= 0 || out_w <= 0 || s.out_channels == 0) return;
  terms_ = group_channels_of(s) * s.kernel_d * s.kernel_h * s.kernel_w;
  pixels_ = shape_.out_d() * shape_.out_h() * out_w;
  // Channels that lie a multiple of a KB apart share a few sets of L1.
  constexpr int64_t few_sets = 256, most_together = 8;
  in_place_ = sees_each_once(s) && (terms_ <= most_together || shape_.in_w % few_sets != 0) && pixels_ >= strip;
  // In L1, if that is a good part of a row.
  const auto of = [&](int64_t floats) { return floats / std::max<int64_t>(terms_, 1) / strip * strip; };
  const int64_t in_cache = of(l1_floats) >= 2 * strip ? of(l1_floats) : of(cache_floats);
  // A block in place is some milliseconds, so that somebody may stop it.
  const int64_t work = std::max<int64_t>(1, terms_ * (s.out_channels / s.groups));
  const int64_t in_place = std::clamp<int64_t>((int64_t{1} << 28) / work / strip * strip, strip, most_in_place);
  const int64_t block = in_place_ ? in_place : std::clamp<int64_t>(in_cache, strip, most_block);
  // Small images are computed together.
  if (!in_place_) images_ = std::clamp<int64_t>(block / pixels_, 1, s.batch);
  const int64_t parts = divide_up(pixels_, block);
  block_ = images_ > 1 ? pixels_ : std::min(pixels_, round_up(divide_up(pixels_, parts), strip));
  blocks_ = divide_up(pixels_, block_);
  pitch_ = in_place_ ? pixels_ : round_up(block_ * images_, 16);
  segments_ = (block_ + out_w - 2) / out_w + 1;
  for (int64_t t = 0; t < shape_.kernel_w; ++t) {
    ColumnTap tap;
    tap.shift = t * shape_.dilation_w - shape_.pad_left;
    // Pixels x with 0 <= x * stride + shift < in_w.
    tap.first = tap.shift >= 0 ? 0 : divide_up(-tap.shift, shape_.stride_w);
    tap.past = tap.shift < shape_.in_w ? divide_up(shape_.in_w - tap.shift, shape_.stride_w) : 0;
    taps_.push_back(tap);
  }
  // 64 channels of rows of 3 pixels took 1.1 ms line by line.
  constexpr int64_t short_row = 16, enough_channels = 4, most_offset = std::numeric_limits<int32_t>::max();
  looks_up_ = !in_place_ && out_w < short_row && s.batch * s.in_channels >= enough_channels * images_ &&
              shape_.in_d * shape_.in_h * shape_.in_w <= most_offset && shape_.in_d * shape_.in_h * shape_.in_w > 0;
  const int64_t columns = in_place_ ? 0 : terms_ * pitch_;
  const int64_t streams = images_ > 1 ? s.out_channels / s.groups * pitch_ : 0;
  thread_bytes_ = round_up(
      (columns + streams + offsets()) * float_bytes + segments_ * static_cast<int64_t>(sizeof(ColumnSegment)), 64);
}

// What one thread does.
class ColumnConvPlan::Worker {
 public:
  Worker(const ColumnConvPlan& plan, const float* input, const float* weights, float* output, const Epilogue& epilogue,
         char* memory)
      : plan_(plan), s_(plan.shape_), input_(input), weights_(weights), output_(output), epilogue_(epilogue) {
    columns_ = reinterpret_cast<float*>(memory);
    streams_ = columns_ + (plan.in_place_ ? 0 : plan.terms_ * plan.pitch_);
    offsets_ =
        reinterpret_cast<int32_t*>(streams_ + (plan.images_ > 1 ? s_.out_channels / s_.groups * plan.pitch_ : 0));
    segments_ = reinterpret_cast<ColumnSegment*>(offsets_ + plan.offsets());
  }

  // Outputs [begin, end) of a group in a block of pixels of `count` images.
  void run(int64_t image, int64_t count, int64_t group, int64_t block, int64_t begin, int64_t end) {
    cancellation_point();
    const int64_t outputs = s_.out_channels / s_.groups, channels = group_channels_of(s_);
    const int64_t in_plane = s_.in_d * s_.in_h * s_.in_w;
    const int64_t first = block * plan_.block_, pixels = std::min(plan_.block_, plan_.pixels_ - first);
    const auto planes = [&](int64_t n) { return input_ + (n * s_.in_channels + group * channels) * in_plane; };
    constexpr float infinity = std::numeric_limits<float>::infinity();
    ColumnSums sums;
    sums.outputs = end - begin;
    sums.terms = plan_.terms_;
    sums.count = pixels * count;
    sums.pitch = plan_.pitch_;
    sums.columns = plan_.in_place_ ? planes(image) + first : columns_;
    sums.weights = weights_ + (group * outputs + begin) * plan_.terms_;
    sums.row_step = plan_.terms_;
    sums.k_step = 1;
    sums.bias = epilogue_.bias ? epilogue_.bias + group * outputs + begin : nullptr;
    sums.lo = epilogue_.lo;
    sums.hi = epilogue_.hi;
    sums.clamp = epilogue_.lo != -infinity || epilogue_.hi != infinity;
    const auto result = [&](int64_t n) {
      return output_ + (n * s_.out_channels + group * outputs + begin) * plan_.pixels_ + first;
    };
    sums.streams = plan_.images_ > 1 ? streams_ : result(image);
    sums.stream_step = plan_.images_ > 1 ? plan_.pitch_ : plan_.pixels_;
    if (!plan_.in_place_)
      for (int64_t n = 0; n < count; ++n) gather(planes(image + n), first, pixels, columns_ + n * pixels);
    column_sums(sums);
    if (epilogue_.activation)
      core_activate(*epilogue_.activation, {.c = sums.streams,
                                            .stride = sums.stream_step,
                                            .rows = sums.outputs,
                                            .columns = sums.count,
                                            .addend = nullptr,
                                            .addend_stride = 0});
    if (plan_.images_ == 1) return;
    for (int64_t n = 0; n < count; ++n)
      for (int64_t o = 0; o < sums.outputs; ++o)
        std::memcpy(result(image + n) + o * plan_.pixels_, streams_ + o * plan_.pitch_ + n * pixels,
                    static_cast<size_t>(pixels * float_bytes));
  }

 private:
  // The columns of pixels [first, first + count) of an image.
  void gather(const float* planes, int64_t first, int64_t count, float* to) {
    const int64_t out_w = s_.out_w(), out_h = s_.out_h();
    int64_t segments = 0;
    for (int64_t at = first, n; at < first + count; at += n) {
      const int64_t x = at % out_w, row = at / out_w;
      n = std::min(out_w - x, first + count - at);
      segments_[segments++] = {row / out_h, row % out_h, x, n};
    }
    ColumnGather g;
    g.planes = planes;
    g.channel_step = s_.in_d * s_.in_h * s_.in_w;
    g.line_step = s_.in_w;
    g.channels = group_channels_of(s_);
    g.depth = {s_.in_d, s_.kernel_d, s_.stride_d, s_.dilation_d, s_.pad_front};
    g.height = {s_.in_h, s_.kernel_h, s_.stride_h, s_.dilation_h, s_.pad_top};
    g.taps = plan_.taps_.data();
    g.tap_count = s_.kernel_w;
    g.stride = s_.stride_w;
    g.segments = segments_;
    g.segment_count = segments;
    g.to = to;
    g.pitch = plan_.pitch_;
    if (plan_.looks_up_) {
      g.offsets = offsets_;
      g.pixels = count;
      if (std::exchange(found_, first) != first) find_column_offsets(g, offsets_);
    }
    gather_columns(g);
  }

  const ColumnConvPlan& plan_;
  const ConvShape& s_;
  const float *input_, *weights_;
  float* output_;
  const Epilogue& epilogue_;
  float *columns_, *streams_;
  int32_t* offsets_;
  int64_t found_ = -1;  // the block that they are of, by its first pixel
  ColumnSegment* segments_;
};

void column_conv(const ColumnConvPlan& plan, const float* input, const float* oihw, float* output,
                 const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  const ConvShape& s = plan.shape_;
  if (plan.blocks_ == 0) return;
  const int64_t outputs = s.out_channels / s.groups, batches = divide_up(s.batch, plan.images_);
  const int64_t blocks = batches * s.groups * plan.blocks_;
  const int64_t work = plan.block_ * plan.images_ * (outputs + 2) * plan.terms_;
  const int64_t useful = std::clamp<int64_t>(blocks * (work + 256) / (64 * 1024), 1, pool.size());
  // Few blocks of many outputs are cut by these: each part has the columns for itself.
  constexpr int64_t least_outputs = 32;
  const int64_t parts = std::clamp<int64_t>(useful / blocks, 1, divide_up(outputs, least_outputs));
  const int64_t items = blocks * parts;
  const int threads = static_cast<int>(std::min(items, useful));
  pool.run(threads, [&](int thread) {
    ColumnConvPlan::Worker worker(plan, input, oihw, output, epilogue,
                                  static_cast<char*>(workspace) + thread * plan.thread_bytes_);
    const int64_t end = items * (thread + 1) / threads;
    for (int64_t item = items * thread / threads; item < end; ++item) {
      // All images and groups of a block follow each other.
      const int64_t part = item % parts, group = item / parts % (batches * s.groups);
      const int64_t block = item / parts / (batches * s.groups);
      const int64_t image = group / s.groups * plan.images_;
      worker.run(image, std::min(plan.images_, s.batch - image), group % s.groups, block, outputs * part / parts,
                 outputs * (part + 1) / parts);
    }
  });
}

}  // namespace camshaft::cpu
