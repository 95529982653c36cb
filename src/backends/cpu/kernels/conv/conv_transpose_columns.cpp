#include "backends/cpu/kernels/conv/conv_transpose_columns.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/conv/long_rows.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t widest_tile = 2048;  // groups of pixels
constexpr int64_t narrowest_tile = 16;
constexpr int64_t sums_floats = 24 * 1024;  // of the result that are added to at once
constexpr int64_t least_sums_floats = 8 * 1024;
constexpr int64_t most_sums_floats = 128 * 1024;  // where these are of few channels
constexpr int64_t enough_rows = 12;               // of a product
constexpr int64_t many_rows = 64;
constexpr int64_t product_floats = 32 * 1024;        // of products at once
constexpr int64_t few_product_floats = 8 * 1024;     // where they take as long to store
constexpr int64_t most_product_floats = 128 * 1024;  // of kernels of many taps
constexpr int64_t least_chunk = 64;                  // pixels of the image, where it has so many
constexpr int64_t few_terms = 64;
constexpr int64_t enough_pixels = 1024;  // of the image for a product
constexpr int64_t float_bytes = sizeof(float);

int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}
int64_t ceil_div(int64_t a, int64_t b) {
  return -floor_div(-a, b);
}

// Over two axes the lines are what planes are over three. Rows become long ones where a tile of these sees few pixels
// beside its own.
ConvTransposeShape lines_as_planes(ConvTransposeShape s) {
  if (s.output_padding_d == 0 && s.output_padding_h == 0 && s.output_padding_w == 0) {
    const ConvTransposeShape joined = with_long_rows(s);
    const int64_t reach = (joined.kernel_w - 1) * joined.dilation_w;
    if (joined.out_w() <= widest_tile || reach * 8 <= widest_tile) s = joined;
  }
  const bool is_flat = s.in_d == 1 && s.kernel_d == 1 && s.stride_d == 1 && s.pad_front == 0 && s.pad_back == 0 &&
                       s.output_padding_d == 0;
  if (!is_flat) return s;
  std::swap(s.in_d, s.in_h);
  std::swap(s.kernel_d, s.kernel_h);
  std::swap(s.stride_d, s.stride_h);
  std::swap(s.dilation_d, s.dilation_h);
  std::swap(s.pad_front, s.pad_top);
  std::swap(s.pad_back, s.pad_bottom);
  std::swap(s.output_padding_d, s.output_padding_h);
  return s;
}

std::vector<bool> seen_remainders(int64_t kernel, int64_t stride, int64_t dilation) {
  std::vector<bool> seen(static_cast<size_t>(stride));
  for (int64_t k = 0; k < kernel; ++k) seen[static_cast<size_t>(k * dilation % stride)] = true;
  return seen;
}

int64_t remainder_of(int64_t position, int64_t stride) {
  return (position % stride + stride) % stride;
}

}  // namespace

ColumnTransposePlan::ColumnTransposePlan(const ConvTransposeShape& s) : shape_(s) {
  const int64_t sizes[] = {s.kernel_d, s.kernel_h,   s.kernel_w,   s.stride_d,  s.stride_h,
                           s.stride_w, s.dilation_d, s.dilation_h, s.dilation_w};
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0 ||
      *std::min_element(std::begin(sizes), std::end(sizes)) < 1)
    throw Error(ErrorCode::invalid_argument, "transposed convolution by columns: " + std::to_string(s.in_channels) +
                                                 " input and " + std::to_string(s.out_channels) +
                                                 " output channels in " + std::to_string(s.groups) +
                                                 " groups, or a size or stride that is not positive");
  if (s.batch <= 0 || s.out_d() <= 0 || s.out_h() <= 0 || s.out_w() <= 0 || s.out_channels == 0) return;
  if (s.in_d > 0 && s.in_h > 0 && s.in_w > 0) shape_ = lines_as_planes(s);
  plan_sizes();
}

void ColumnTransposePlan::plan_sizes() {
  const ConvTransposeShape& s = shape_;
  const int64_t out_d = s.out_d(), out_h = s.out_h(), out_w = s.out_w(), outputs = s.out_channels / s.groups;
  inner_taps_ = s.kernel_h * s.kernel_w;
  first_group_ = floor_div(s.pad_left, s.stride_w);
  groups_ = floor_div(out_w - 1 + s.pad_left, s.stride_w) - first_group_ + 1;
  // Of planes of many rows a tile is narrower: the sums of one plane are to stay in L2.
  const int64_t widest = std::clamp(most_sums_floats / (out_h * s.stride_w), narrowest_tile, widest_tile);
  tile_ = divide_up(groups_, divide_up(groups_, widest));
  tiles_ = divide_up(groups_, tile_);
  pitch_ = column_sums_pitch(tile_);
  by_lines_ = tiles_ == 1 && s.in_w <= widest_tile;
  const int64_t floats = out_h * s.stride_w * pitch_;  // of a plane of the result, of an output channel
  plan_small_bands(floats);
  if (by_lines_ && !all_taps_) plan_high_bands(floats);
  output_blocks_ = divide_up(outputs, outputs_);
  bands_ = divide_up(out_d, band_);
  for (int64_t t = 0; t < s.kernel_w; ++t)
    taps_.push_back({t * s.dilation_w % s.stride_w, t * s.dilation_w / s.stride_w});
  depth_seen_ = seen_remainders(s.kernel_d, s.stride_d, s.dilation_d);
  height_seen_ = seen_remainders(s.kernel_h, s.stride_h, s.dilation_h);
  tap_rows_ = inner_taps_ * (all_taps_ ? s.kernel_d : 1);
  // Products of few terms wait for a cache beyond L1.
  const int64_t at_once = s.in_channels / s.groups < few_terms ? few_product_floats : product_floats;
  const int64_t rows = outputs_ * tap_rows_, pixels = std::max<int64_t>(1, s.in_d * s.in_h * s.in_w);
  chunk_ = std::clamp<int64_t>(at_once / rows / least_chunk * least_chunk, least_chunk, 1024);
  chunk_ = std::min({chunk_, pixels, std::max<int64_t>(1, most_product_floats / rows)});
  if (by_lines_ && s.in_w <= chunk_) chunk_ = std::max<int64_t>(1, chunk_ / std::max<int64_t>(1, s.in_w)) * s.in_w;
  thread_bytes_ = round_up(
      (outputs_ * (band_ * floats + tap_rows_ * chunk_) + kMostColumnRows * (s.in_channels / s.groups)) * float_bytes +
          band_ * out_h * static_cast<int64_t>(sizeof(bool)),
      64);
}

void ColumnTransposePlan::plan_small_bands(int64_t floats) {
  const ConvTransposeShape& s = shape_;
  const int64_t out_d = s.out_d(), outputs = s.out_channels / s.groups, taps = inner_taps_ * s.kernel_d;
  const int64_t chunk = std::clamp<int64_t>(s.in_d * s.in_h * s.in_w, 1, least_chunk);
  // Enough lines for a product to be worth its start.
  const int64_t lines = divide_up(enough_pixels, std::max<int64_t>(1, s.in_h * std::min(s.in_w, tile_)));
  band_ = lines < out_d ? std::min(out_d, lines * s.stride_d) : out_d;
  band_ = std::clamp<int64_t>(most_sums_floats / floats, 1, band_);
  // Taps whose plane of the result lies in another band are multiplied there: not too many may be.
  all_taps_ = by_lines_ && taps <= most_product_floats / chunk &&
              (band_ == out_d || (s.kernel_d - 1) * s.dilation_d * 8 <= band_);
  // Products of few rows load as much as they multiply.
  const int64_t enough_outputs = divide_up(enough_rows, inner_taps_), of_band = band_ * floats;
  outputs_ = std::max(sums_floats / of_band, std::min(most_sums_floats / of_band, enough_outputs));
  // Small images have room for the sums of many, whose products by all taps would not stay in cache.
  outputs_ = std::min(outputs_, product_floats / chunk / (all_taps_ ? taps : inner_taps_));
  outputs_ = std::clamp<int64_t>(outputs_, 1, outputs);
  outputs_ = divide_up(outputs, divide_up(outputs, outputs_));
}

void ColumnTransposePlan::plan_high_bands(int64_t floats) {
  const ConvTransposeShape& s = shape_;
  const int64_t out_d = s.out_d(), outputs = s.out_channels / s.groups, reach = (s.kernel_d - 1) * s.dilation_d;
  if (inner_taps_ * s.kernel_d > most_product_floats / least_chunk) return;
  int64_t at_once = std::min(many_rows / (inner_taps_ * s.kernel_d), most_sums_floats / floats);
  at_once = std::clamp<int64_t>(at_once, 1, outputs);
  at_once = divide_up(outputs, divide_up(outputs, at_once));
  const int64_t highest = std::max<int64_t>(1, most_sums_floats / (at_once * floats));
  if (out_d > highest && reach * 8 > highest) return;
  // Lower ones where there is work for several threads, which multiply few lines twice.
  const int64_t lowest = std::max(reach * 16, least_sums_floats / (at_once * floats));
  const int64_t bands = std::max(divide_up(out_d, highest), out_d / std::max<int64_t>(1, lowest));
  band_ = divide_up(out_d, std::max<int64_t>(1, bands));
  outputs_ = at_once;
  all_taps_ = true;
}

// What one thread does.
class ColumnTransposePlan::Worker {
 public:
  Worker(const ColumnTransposePlan& plan, const float* input, const float* weights, float* output,
         const Epilogue& epilogue, char* memory)
      : plan_(plan), s_(plan.shape_), input_(input), weights_(weights), output_(output), epilogue_(epilogue) {
    sums_ = reinterpret_cast<float*>(memory);
    products_ = sums_ + plan.outputs_ * plan.band_ * s_.out_h() * s_.stride_w * plan.pitch_;
    scratch_ = products_ + plan.outputs_ * plan.tap_rows_ * plan.chunk_;
    is_seen_ = reinterpret_cast<bool*>(scratch_ + kMostColumnRows * (s_.in_channels / s_.groups));
  }

  void run(int64_t image, int64_t group, int64_t output_block, int64_t band, int64_t tile) {
    cancellation_point();
    const int64_t outputs = s_.out_channels / s_.groups;
    first_output_ = group * outputs + output_block * plan_.outputs_;
    outputs_ = std::min(plan_.outputs_, outputs - output_block * plan_.outputs_);
    z0_ = band * plan_.band_;
    planes_ = std::min(plan_.band_, s_.out_d() - z0_);
    q0_ = plan_.first_group_ + tile * plan_.tile_;
    tile_ = std::min(plan_.tile_, plan_.first_group_ + plan_.groups_ - q0_);
    group_ = group;
    image_planes_ = input_ + (image * s_.in_channels + group * (s_.in_channels / s_.groups)) * in_plane();
    begin_sums();
    if (plan_.all_taps_) {
      add_all_taps();
    } else {
      for (int64_t i = 0; i < s_.kernel_d; ++i) add_taps_of_plane(i);
    }
    end_sums(image);
  }

 private:
  int64_t in_plane() const { return s_.in_d * s_.in_h * s_.in_w; }
  int64_t sums_of_output() const { return planes_ * s_.out_h() * s_.stride_w * plan_.pitch_; }
  // Of output channel o of the block, in row y of plane z0_ + z: phase by phase.
  int64_t sums_of_row(int64_t o, int64_t z, int64_t y) const {
    return ((o * planes_ + z) * s_.out_h() + y) * s_.stride_w * plan_.pitch_;
  }

  void begin_sums() {
    bool* seen = is_seen_;
    // Remainders are counted: a division takes as long as a short row.
    int64_t down = remainder_of(z0_ + s_.pad_front, s_.stride_d);
    for (int64_t z = 0; z < planes_; ++z, down = down + 1 == s_.stride_d ? 0 : down + 1) {
      int64_t across = remainder_of(s_.pad_top, s_.stride_h);
      for (int64_t y = 0; y < s_.out_h(); ++y, across = across + 1 == s_.stride_h ? 0 : across + 1)
        *seen++ = plan_.depth_seen_[static_cast<size_t>(down)] && plan_.height_seen_[static_cast<size_t>(across)];
    }
    const int64_t rows = planes_ * s_.out_h(), row = s_.stride_w * plan_.pitch_;
    const bool all = std::all_of(is_seen_, is_seen_ + rows, [](bool own) { return own; });
    for (int64_t o = 0; o < outputs_; ++o) {
      const float bias = epilogue_.bias ? epilogue_.bias[first_output_ + o] : 0.0f;
      float* to = sums_ + o * sums_of_output();
      if (all) {
        std::fill_n(to, rows * row, bias);
        continue;
      }
      // Of a row that no tap sees one pixel says all.
      for (int64_t r = 0; r < rows; ++r, to += row) {
        if (is_seen_[r]) {
          std::fill_n(to, row, bias);
        } else {
          *to = bias;
        }
      }
    }
  }

  // Lines [first, past) of the image are those that tap i along the depth adds to the band.
  struct Lines {
    int64_t first, past;
  };
  Lines lines_of_tap(int64_t i) const {
    const bool sees_all = plan_.bands_ == 1 && s_.pad_front == 0 && s_.pad_back == 0 && s_.output_padding_d >= 0;
    if (sees_all) return {0, s_.in_d * s_.in_h};
    const int64_t moved = moved_by(i);
    const int64_t first = std::clamp<int64_t>(ceil_div(z0_ - moved, s_.stride_d), 0, s_.in_d);
    const int64_t past = std::clamp<int64_t>(ceil_div(z0_ + planes_ - moved, s_.stride_d), first, s_.in_d);
    return {first * s_.in_h, past * s_.in_h};
  }
  // Plane z of the image goes to z * stride + so much.
  int64_t moved_by(int64_t i) const { return i * s_.dilation_d - s_.pad_front; }

  void add_all_taps() {
    Lines all = lines_of_tap(0);
    for (int64_t i = 1; i < s_.kernel_d; ++i) {
      const Lines own = lines_of_tap(i);
      all = {std::min(all.first, own.first), std::max(all.past, own.past)};
    }
    if (s_.in_w > plan_.chunk_) {
      for (int64_t line = all.first; line < all.past; ++line) {
        for (int64_t x = 0; x < s_.in_w; x += plan_.chunk_) {
          const int64_t count = std::min(plan_.chunk_, s_.in_w - x);
          multiply(0, line * s_.in_w + x, count);
          for (int64_t i = 0; i < s_.kernel_d; ++i) {
            const Lines own = lines_of_tap(i);
            if (line >= own.first && line < own.past) add_lines(i, line, 1, x, count, 0);
          }
        }
      }
      return;
    }
    const int64_t lines = std::max<int64_t>(1, plan_.chunk_ / std::max<int64_t>(1, s_.in_w));
    for (int64_t line = all.first; line < all.past; line += lines) {
      const int64_t count = std::min(lines, all.past - line);
      multiply(0, line * s_.in_w, count * s_.in_w);
      for (int64_t i = 0; i < s_.kernel_d; ++i) {
        const Lines own = lines_of_tap(i);
        add_chunk(i, std::max(own.first, line), std::min(own.past, line + count), line);
      }
    }
  }

  // Lines [first, past), of products that begin with line `line`.
  void add_chunk(int64_t i, int64_t first, int64_t past, int64_t line) {
    for (int64_t l = first, n; l < past; l += n) {
      n = s_.in_h == 1 ? past - l : std::min(past - l, s_.in_h - l % s_.in_h);
      add_lines(i, l, n, 0, s_.in_w, (l - line) * s_.in_w);
    }
  }

  // All that tap i along the depth adds to the band.
  void add_taps_of_plane(int64_t i) {
    const auto [line0, line1] = lines_of_tap(i);
    if (plan_.by_lines_ && s_.in_w <= plan_.chunk_) {
      const int64_t lines = std::max<int64_t>(1, plan_.chunk_ / std::max<int64_t>(1, s_.in_w));
      for (int64_t line = line0; line < line1; line += lines) {
        const int64_t count = std::min(lines, line1 - line);
        multiply(i, line * s_.in_w, count * s_.in_w);
        add_chunk(i, line, line + count, line);
      }
      return;
    }
    // The part of a line that the tile sees.
    const int64_t reach = (s_.kernel_w - 1) * s_.dilation_w / s_.stride_w;
    const int64_t from = std::clamp<int64_t>(q0_ - reach, 0, s_.in_w);
    const int64_t end = std::clamp<int64_t>(q0_ + tile_, from, s_.in_w);
    for (int64_t line = line0; line < line1; ++line) {
      for (int64_t x = from; x < end; x += plan_.chunk_) {
        const int64_t count = std::min(plan_.chunk_, end - x);
        multiply(i, line * s_.in_w + x, count);
        add_lines(i, line, 1, x, count, 0);
      }
    }
  }

  // Products of all inner taps of tap i along the depth, or of all taps, for `count` pixels of the image from `pixel`
  // on.
  void multiply(int64_t i, int64_t pixel, int64_t count) {
    const int64_t inner = plan_.inner_taps_, taps = s_.kernel_d * inner;
    const int64_t outputs = s_.out_channels / s_.groups, channels = s_.in_channels / s_.groups;
    ColumnSums sums;
    sums.terms = channels;
    sums.count = count;
    sums.columns = image_planes_ + pixel;
    sums.pitch = in_plane();
    sums.k_step = outputs * taps;
    sums.scratch = scratch_;
    const float* weights =
        weights_ + (group_ * channels * outputs + first_output_ - group_ * outputs) * taps + i * inner;
    const auto take = [&](int64_t rows, int64_t row_step, int64_t from, int64_t to, int64_t to_step) {
      sums.outputs = rows;
      sums.row_step = row_step;
      sums.weights = weights + from;
      sums.streams = products_ + to * plan_.chunk_;
      sums.stream_step = to_step * plan_.chunk_;
      column_sums(sums);
    };
    if (plan_.tap_rows_ == taps) return take(outputs_ * taps, 1, 0, 0, 1);  // one behind the other
    if (inner >= outputs_) {
      for (int64_t o = 0; o < outputs_; ++o) take(inner, 1, o * taps, o * inner, 1);
    } else {
      for (int64_t t = 0; t < inner; ++t) take(outputs_, taps, t, t, inner);
    }
  }

  // Adds the products by tap i along the depth of pixels [x, x + count) of `lines` lines of a plane, of which the first
  // is product `at`.
  void add_lines(int64_t i, int64_t line, int64_t lines, int64_t x, int64_t count, int64_t at) {
    // The lines of a plane; where planes are lines, these lie in as many.
    const bool flat = s_.in_h == 1;
    const int64_t plane = flat ? line : line / s_.in_h, y = line - plane * s_.in_h, stride = s_.stride_h;
    const int64_t z = plane * s_.stride_d + moved_by(i) - z0_;
    const int64_t out_h = s_.out_h(), row_step = s_.stride_w * plan_.pitch_;
    for (int64_t j = 0; j < s_.kernel_h; ++j) {
      // Line y + l goes to row (y + l) * stride + below.
      const int64_t below = j * s_.dilation_h - s_.pad_top;
      int64_t l0 = 0, l1 = lines;
      if (flat) {
        if (below < 0 || below >= out_h) continue;
      } else {
        l0 = std::clamp<int64_t>(ceil_div(-below, stride) - y, 0, lines);
        l1 = std::clamp<int64_t>(ceil_div(out_h - below, stride) - y, l0, lines);
        if (l0 == l1) continue;
      }
      const int64_t row = (y + l0) * stride + below;
      for (int64_t t = 0; t < s_.kernel_w; ++t) {
        const auto [phase, behind] = plan_.taps_[static_cast<size_t>(t)];
        const int64_t q = x + behind - q0_;  // of the tile
        const int64_t first = std::clamp<int64_t>(-q, 0, count), past = std::clamp<int64_t>(tile_ - q, first, count);
        if (first == past) continue;
        ColumnRun run;
        run.count = past - first;
        run.lines = l1 - l0;
        run.from_step = s_.in_w;
        run.to_step = flat ? s_.stride_d * out_h * row_step : stride * row_step;
        for (int64_t o = 0; o < outputs_; ++o) {
          const int64_t tap = (plan_.all_taps_ ? i * plan_.inner_taps_ : 0) + j * s_.kernel_w + t;
          run.from = products_ + (o * plan_.tap_rows_ + tap) * plan_.chunk_ + at + l0 * s_.in_w + first;
          run.to = sums_ + sums_of_row(o, z, row) + phase * plan_.pitch_ + q + first;
          add_columns(run);
        }
      }
    }
  }

  void end_sums(int64_t image) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (epilogue_.lo != -infinity || epilogue_.hi != infinity)
      clamp_columns(sums_, outputs_ * sums_of_output(), epilogue_.lo, epilogue_.hi);
    if (epilogue_.activation)
      core_activate(*epilogue_.activation, {.c = sums_,
                                            .stride = sums_of_output(),
                                            .rows = outputs_,
                                            .columns = sums_of_output(),
                                            .addend = nullptr,
                                            .addend_stride = 0});
    // The first and the last group may lie in a row in part.
    const int64_t out_w = s_.out_w(), stride = s_.stride_w, first = q0_ * stride - s_.pad_left;
    const int64_t begin = std::max<int64_t>(0, first), end = std::min(out_w, first + tile_ * stride);
    ColumnRows rows;
    rows.rows = planes_ * s_.out_h();
    rows.stride = stride;
    rows.step = plan_.pitch_;
    rows.cut = begin - first;
    rows.width = end - begin;
    rows.to_step = out_w;
    rows.is_seen = is_seen_;
    for (int64_t o = 0; o < outputs_; ++o) {
      rows.phases = sums_ + sums_of_row(o, 0, 0);
      rows.to =
          output_ + (((image * s_.out_channels + first_output_ + o) * s_.out_d() + z0_) * s_.out_h()) * out_w + begin;
      deal_columns(rows);
    }
  }

  const ColumnTransposePlan& plan_;
  const ConvTransposeShape& s_;
  const float *input_, *weights_;
  float* output_;
  const Epilogue& epilogue_;
  float *sums_, *products_, *scratch_;
  bool* is_seen_;                        // of the band's rows
  const float* image_planes_ = nullptr;  // of the group at hand
  int64_t group_ = 0, first_output_ = 0, outputs_ = 0;
  int64_t z0_ = 0, planes_ = 0;  // of the band
  int64_t q0_ = 0, tile_ = 0;    // groups of pixels
};

void column_conv_transpose(const ColumnTransposePlan& plan, const float* input, const float* iohw, float* output,
                           const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  const ConvTransposeShape& s = plan.shape_;
  if (plan.tile_ == 0) return;
  const int64_t items = s.batch * s.groups * plan.output_blocks_ * plan.bands_ * plan.tiles_;
  const int64_t sums = plan.outputs_ * plan.band_ * s.out_h() * s.stride_w * plan.tile_;
  const int64_t taps =
      divide_up(s.kernel_d, s.stride_d) * divide_up(s.kernel_h, s.stride_h) * divide_up(s.kernel_w, s.stride_w);
  const int64_t work = sums * (2 + taps * (s.in_channels / s.groups + 2));
  const int threads =
      static_cast<int>(std::min(items, std::clamp<int64_t>(items * (work + 256) / (64 * 1024), 1, pool.size())));
  pool.run(threads, [&](int thread) {
    ColumnTransposePlan::Worker worker(plan, input, iohw, output, epilogue,
                                       static_cast<char*>(workspace) + thread * plan.thread_bytes_);
    const int64_t end = items * (thread + 1) / threads;
    for (int64_t item = items * thread / threads; item < end; ++item) {
      const int64_t tile = item % plan.tiles_, band = item / plan.tiles_ % plan.bands_;
      const int64_t rest = item / plan.tiles_ / plan.bands_, block = rest % plan.output_blocks_;
      const int64_t group = rest / plan.output_blocks_;
      worker.run(group / s.groups, group % s.groups, block, band, tile);
    }
  });
}

}  // namespace camshaft::cpu
