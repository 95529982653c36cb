#include "backends/cpu/kernels/conv/depthwise_blocks.h"

#include <algorithm>
#include <string>

#include "backends/cpu/kernels/conv/depthwise.h"
#include "backends/cpu/kernels/conv/depthwise_row.h"
#include "backends/cpu/kernels/move/transpose_tile.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t block_channels = kDepthwiseBlock;  // with less, lines of the cache are used in part
constexpr int64_t cache_floats = 64 * 1024;          // of lines of the image: a part of an L2
constexpr int64_t most_ring_floats = 256 * 1024;     // of these for the narrowest tile: an L2
constexpr int64_t row_floats = 8 * 1024;             // of rows of the result: a part of an L1
constexpr int64_t narrowest_tile = 16;
constexpr int64_t long_line = 64;  // that is worth a call
constexpr int64_t float_bytes = sizeof(float);

// Calls move(index in the packed weights, index in ONNX order) for each element.
template <class Move>
void for_each_weight(const DepthwiseBlockWeights& w, Move&& move) {
  const int64_t points = w.kernel_h * w.kernel_w;
  for (int64_t c = 0; c < w.channels; ++c) {
    for (int64_t j = 0; j < w.multiplier; ++j) {
      const int64_t to = (c / block_channels * w.multiplier + j) * points * block_channels + c % block_channels;
      for (int64_t p = 0; p < points; ++p) move(to + p * block_channels, (c * w.multiplier + j) * points + p);
    }
  }
}

}  // namespace

int64_t DepthwiseBlockWeights::floats() const {
  return round_up(channels, block_channels) * multiplier * kernel_h * kernel_w;
}

void pack_depthwise_block_weights(const DepthwiseBlockWeights& weights, const float* oihw, float* packed) {
  std::fill_n(packed, weights.floats(), 0.0f);
  for_each_weight(weights, [&](int64_t to, int64_t from) { packed[to] = oihw[from]; });
}

void unpack_depthwise_block_weights(const DepthwiseBlockWeights& weights, const float* packed, float* oihw) {
  for_each_weight(weights, [&](int64_t from, int64_t to) { oihw[to] = packed[from]; });
}

// A ring of a kernel of 7 x 7, dilated by 100, took 24 MB a thread.
bool DepthwiseBlockPlan::fits(const ConvShape& s) {
  constexpr int64_t longest = most_ring_floats / block_channels;
  const auto reach = [](int64_t kernel, int64_t dilation) {
    return dilation >= longest || kernel > longest ? longest + 1 : (kernel - 1) * dilation + 1;
  };
  if (s.stride_w > longest) return false;
  const int64_t columns = (narrowest_tile - 1) * s.stride_w + reach(s.kernel_w, s.dilation_w);
  return reach(s.kernel_h, s.dilation_h) <= longest / columns;
}

DepthwiseBlockPlan::DepthwiseBlockPlan(const ConvShape& s) : shape_(s) {
  const int64_t sizes[] = {s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.dilation_h, s.dilation_w};
  if (s.groups < 1 || s.groups != s.in_channels || s.out_channels % s.in_channels != 0 || s.kernel_d != 1 ||
      s.stride_d != 1 || s.out_d() != 1 || *std::min_element(std::begin(sizes), std::end(sizes)) < 1)
    throw Error(ErrorCode::invalid_argument, "depthwise convolution by blocks: " + std::to_string(s.groups) +
                                                 " groups for " + std::to_string(s.in_channels) + " input and " +
                                                 std::to_string(s.out_channels) +
                                                 " output channels, or not one over two axes");
  const int64_t out_h = s.out_h(), out_w = s.out_w();
  if (s.batch <= 0 || out_h <= 0 || out_w <= 0 || s.out_channels == 0) return;
  shape_.in_pixel_stride = shape_.out_pixel_stride = block_channels;
  multiplier_ = s.out_channels / s.in_channels;
  block_ = std::min(block_channels, s.in_channels);
  blocks_ = divide_up(s.in_channels, block_);
  const int64_t reach_h = (s.kernel_h - 1) * s.dilation_h + 1, reach_w = (s.kernel_w - 1) * s.dilation_w + 1;
  const int64_t lines = std::min(reach_h, std::max<int64_t>(1, s.in_h));
  const auto columns_of = [&](int64_t pixels) { return std::min((pixels - 1) * s.stride_w + reach_w, s.in_w); };
  tile_ = out_w;
  // Of a result that is mostly padding tiles see few columns, but are as wide.
  while (tile_ > narrowest_tile && std::max(tile_, columns_of(tile_) * lines) * block_channels > cache_floats)
    tile_ = (tile_ + 1) / 2;
  tiles_ = divide_up(out_w, tile_);
  seen_ = std::max<int64_t>(1, columns_of(tile_));
  rows_ = std::clamp<int64_t>(row_floats / (tile_ * block_channels), 1, out_h);
  // Rows of few pixels that see many columns: so many that their lines fit.
  const int64_t most_lines = std::max(reach_h, most_ring_floats / (seen_ * block_channels));
  rows_ = std::min(rows_, (most_lines - reach_h) / s.stride_h + 1);
  row_steps_ = divide_up(out_h, rows_);
  ring_lines_ = std::clamp<int64_t>((rows_ - 1) * s.stride_h + reach_h, 1, std::max<int64_t>(1, s.in_h));
  thread_bytes_ = (ring_lines_ * seen_ + rows_ * tile_) * block_channels * float_bytes;
}

// What one thread does.
class DepthwiseBlockPlan::Worker {
 public:
  Worker(const DepthwiseBlockPlan& plan, const float* input, const float* packed, float* output,
         const Epilogue& epilogue, char* memory)
      : plan_(plan), s_(plan.shape_), input_(input), packed_(packed), output_(output), epilogue_(epilogue) {
    ring_ = reinterpret_cast<float*>(memory);
    rows_ = ring_ + plan.ring_lines_ * plan.seen_ * block_channels;
  }

  // Steps [begin, end) of rows, of pixels that begin with `tile`, of a block of channels.
  void run(int64_t image, int64_t block, int64_t tile, int64_t begin, int64_t end) {
    const int64_t channel = block * plan_.block_, x0 = tile * plan_.tile_, out_h = s_.out_h(), out_w = s_.out_w();
    const int64_t pixels = std::min(plan_.tile_, out_w - x0), reach_w = (s_.kernel_w - 1) * s_.dilation_w + 1;
    const int64_t from = x0 * s_.stride_w - s_.pad_left;
    first_column_ = std::clamp<int64_t>(from, 0, s_.in_w);
    columns_ = std::clamp<int64_t>(from + (pixels - 1) * s_.stride_w + reach_w, first_column_, s_.in_w) - first_column_;
    channels_ = std::min(plan_.block_, s_.in_channels - channel);
    planes_ = input_ + (image * s_.in_channels + channel) * s_.in_h * s_.in_w + first_column_;
    turned_ = 0;
    // The part of the image that the tile sees.
    ConvShape part = s_;
    part.in_channels = part.out_channels = part.groups = channels_;
    part.in_w = columns_;
    part.pad_left = s_.pad_left - x0 * s_.stride_w + first_column_;
    part.pad_right = (pixels - 1) * s_.stride_w + reach_w - part.pad_left - columns_;
    const int64_t multiplier = plan_.multiplier_, block_floats = s_.kernel_h * s_.kernel_w * block_channels;
    const float* const packed = packed_ + block * multiplier * block_floats;
    float* const to = output_ + (image * s_.out_channels + channel * multiplier) * out_h * out_w + x0;
    for (int64_t step = begin; step < end; ++step) {
      cancellation_point();
      const int64_t y0 = step * plan_.rows_, rows = std::min(plan_.rows_, out_h - y0);
      // Lines between the windows of two rows are left out.
      const int64_t reach_h = (s_.kernel_h - 1) * s_.dilation_h + 1;
      const int64_t together = s_.stride_h > reach_h && columns_ >= long_line ? 1 : rows;
      for (int64_t y = y0; y < y0 + rows; y += together)
        turn_lines(y * s_.stride_h - s_.pad_top, (y + together - 1) * s_.stride_h - s_.pad_top + reach_h);
      for (int64_t j = 0; j < multiplier; ++j) {
        Epilogue epilogue = epilogue_;
        float bias[block_channels];
        if (epilogue.bias) {
          for (int64_t c = 0; c < channels_; ++c) bias[c] = epilogue_.bias[(channel + c) * multiplier + j];
          epilogue.bias = bias;
        }
        depthwise_band(part, {ring_, plan_.ring_lines_, rows_, y0, y0 + rows}, packed + j * block_floats, epilogue);
        turn_back(rows, pixels, to + (j * out_h + y0) * out_w);
      }
    }
  }

 private:
  // Lines [first, past) of the image come into the ring, but those that are there.
  void turn_lines(int64_t first, int64_t past) {
    first = std::clamp<int64_t>(std::max(first, turned_), 0, s_.in_h);
    past = std::clamp<int64_t>(past, first, s_.in_h);
    turned_ = std::max(turned_, past);
    if (columns_ == 0) return;
    while (first < past) {
      const int64_t place = first % plan_.ring_lines_, count = std::min(past - first, plan_.ring_lines_ - place);
      const bool whole = columns_ == s_.in_w;
      const Transpose2d turn{whole ? count * columns_ : columns_, channels_, s_.in_h * s_.in_w * float_bytes,
                             block_channels * float_bytes};
      const TransposeBatch lines{whole ? 1 : count, s_.in_w * float_bytes, columns_ * block_channels * float_bytes};
      transpose_2d(float_bytes, turn, reinterpret_cast<const char*>(planes_ + first * s_.in_w),
                   reinterpret_cast<char*>(ring_ + place * columns_ * block_channels), lines);
      first += count;
    }
  }

  // Rows of the result, `to` the first of the block's first channel.
  void turn_back(int64_t rows, int64_t pixels, float* to) const {
    const int64_t out_w = s_.out_w(), plane = s_.out_h() * out_w;
    const bool whole = pixels == out_w;
    const Transpose2d back{channels_, whole ? rows * pixels : pixels, block_channels * float_bytes,
                           plane * plan_.multiplier_ * float_bytes};
    const TransposeBatch lines{whole ? 1 : rows, pixels * block_channels * float_bytes, out_w * float_bytes};
    transpose_2d(float_bytes, back, reinterpret_cast<const char*>(rows_), reinterpret_cast<char*>(to), lines);
  }

  const DepthwiseBlockPlan& plan_;
  const ConvShape& s_;
  const float* input_;
  const float* packed_;
  float* output_;
  const Epilogue& epilogue_;
  float *ring_, *rows_;
  const float* planes_ = nullptr;  // of the block at hand, from its first column on
  int64_t channels_ = 0, first_column_ = 0, columns_ = 0;
  int64_t turned_ = 0;  // lines before this one are, or were, in the ring
};

void depthwise_blocks(const DepthwiseBlockPlan& plan, const float* input, const float* packed, float* output,
                      const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  const ConvShape& s = plan.shape_;
  if (plan.tile_ == 0) return;
  const int64_t steps = plan.row_steps_, items = s.batch * plan.blocks_ * plan.tiles_ * steps;
  const int64_t work =
      plan.rows_ * plan.tile_ * block_channels * (plan.multiplier_ * (s.kernel_h * s.kernel_w + 2) + 2);
  const int threads =
      static_cast<int>(std::min(items, std::clamp<int64_t>(items * (work + 256) / (64 * 1024), 1, pool.size())));
  pool.run(threads, [&](int thread) {
    DepthwiseBlockPlan::Worker worker(plan, input, packed, output, epilogue,
                                      static_cast<char*>(workspace) + thread * plan.thread_bytes_);
    const int64_t end = items * (thread + 1) / threads;
    for (int64_t item = items * thread / threads; item < end;) {
      const int64_t step = item % steps, rest = item / steps, stop = std::min(end, item - step + steps);
      const int64_t block = rest / plan.tiles_;
      worker.run(block / plan.blocks_, block % plan.blocks_, rest % plan.tiles_, step, step + stop - item);
      item = stop;
    }
  });
}

}  // namespace camshaft::cpu
