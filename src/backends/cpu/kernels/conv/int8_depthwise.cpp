// Pixels of a line go together. The image's columns that they need are first brought into the form in which they are
// multiplied: two lines' numbers of a channel beside each other, 16 bits each. A column serves as many pixels as the
// kernel has columns, so that of a 3 x 3 kernel a pixel costs six multiplications of pairs and one column's
// preparation.
#include "backends/cpu/kernels/conv/int8_depthwise.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/conv/int8_depthwise_lines.h"
#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/int8_depthwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/conv/int8_depthwise_quads-inl.h"
#include "backends/cpu/kernels/gemm/int8_finish-inl.h"

#ifndef CAMSHAFT_CPU_INT8_DEPTHWISE
#define CAMSHAFT_CPU_INT8_DEPTHWISE
namespace camshaft::cpu {
namespace {

// The lines of the image below the kernel's for a line of the result, `height` of them in each depth; null where one
// lies in the padding.
void find_lines(const ConvShape& s, const uint8_t* x, int64_t line, int64_t height, const uint8_t** lines) {
  const int64_t pixel = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t y = line % s.out_h(), z = line / s.out_h() % s.out_d(), image = line / s.out_h() / s.out_d();
  for (int64_t d = 0; d < s.kernel_d; ++d)
    for (int64_t h = 0; h < height; ++h) {
      const int64_t in_z = z * s.stride_d + d * s.dilation_d - s.pad_front,
                    in_y = y * s.stride_h + h * s.dilation_h - s.pad_top;
      const bool is_inside = in_z >= 0 && in_z < s.in_d && in_y >= 0 && in_y < s.in_h;
      *lines++ = is_inside ? x + ((image * s.in_d + in_z) * s.in_h + in_y) * s.in_w * pixel : nullptr;
    }
}

// Up to so many bytes an image stays in L2 while one chunk of its channels after the other is taken.
constexpr int64_t kImageBytes = 256 * 1024;

// The pieces of work: of each image the groups of lines of the result that go together, and of these chunks of
// channels.
struct DepthwiseItems {
  DepthwiseItems(const ConvShape& s, const Int8DepthwiseWeights& w, const LineBlocks& blocks)
      : of_plane(divide_up(s.out_h(), blocks.results)),
        of_image(s.out_d() * of_plane),
        line_groups(s.batch * of_image),
        chunks(divide_up(w.channels, blocks.chunk)),
        by_chunk(s.in_d * s.in_h * s.in_w * s.in_channels <= kImageBytes) {}
  int64_t count() const { return line_groups * chunks; }
  int64_t chunk(int64_t item) const { return by_chunk ? item / of_image % chunks : item % chunks; }
  int64_t line_group(int64_t item) const {
    return by_chunk ? item / (of_image * chunks) * of_image + item % of_image : item / chunks;
  }

  int64_t of_plane, of_image, line_groups, chunks;
  bool by_chunk;  // of an image the chunk changes last: its weights are moved once
};

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<int32_t>;
using Vec = hn::Vec<Tag>;

// Two taps of a channel in the halves of each lane.
template <class T>
HWY_INLINE Vec pair_up(Vec first, Vec second) {
  if constexpr (std::is_signed_v<T>) first = hn::And(first, hn::Set(Tag(), 0xFFFF));
  return hn::Or(first, hn::ShiftLeft<16>(second));
}

HWY_INLINE Vec add_pairs(Vec sum, Vec x, Vec w) {
#if CAMSHAFT_HAS_BYTE_PRODUCT
  const hn::Repartition<int16_t, Tag> d16;
  return add_word_pairs(sum, hn::BitCast(d16, x), hn::BitCast(d16, w));
#else
  const auto low = [](Vec v) { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  const auto high = [](Vec v) { return hn::ShiftRight<16>(v); };
  return hn::Add(sum, hn::Add(hn::Mul(low(x), low(w)), hn::Mul(high(x), high(w))));
#endif
}

// Numbers of a line for one vector of channels; in the padding all pixels are the same one.
struct ChannelLine {
  const uint8_t* first;
  int64_t stride;
};

// `load(from)` gives a vector of channels.
template <class T, class Load>
HWY_INLINE void prepare_with(const LinePiece& piece, int32_t* columns, Load&& load) {
  const Tag d;
  constexpr int64_t lanes = HWY_LANES(int32_t);
  const Int8DepthwiseProblem& p = *piece.p;
  const ConvShape& s = p.shape;
  const int64_t stride = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels, step = p.weights.line_pairs() * lanes;
  HWY_ALIGN uint8_t padding[HWY_LANES(int32_t)];
  std::memset(padding, p.padding, sizeof padding);
  const auto line_at = [&](int64_t l) {
    const uint8_t* line = piece.lines[l];
    return line ? ChannelLine{line + piece.channel, stride} : ChannelLine{padding, 0};
  };
  for (int64_t l = 0; l < p.weights.lines; l += 2) {
    const ChannelLine first = line_at(l);
    const bool both = l + 1 < p.weights.lines;
    const ChannelLine second = both ? line_at(l + 1) : first;
    const auto second_of = [&](const uint8_t* from) HWY_ATTR { return both ? load(from) : hn::Zero(d); };
    const Vec outside = pair_up<T>(load(padding), second_of(padding));
    int32_t* to = columns + l / 2 * lanes;
    for_columns(
        piece,
        [&](int64_t count) HWY_ATTR {
          for (; count > 0; --count, to += step) hn::StoreU(outside, d, to);
        },
        [&](int64_t column, int64_t apart, int64_t count) HWY_ATTR {
          const uint8_t *a = first.first + column * first.stride, *b = second.first + column * second.stride;
          for (; count > 0; --count, to += step) {
            hn::StoreU(pair_up<T>(load(a), second_of(b)), d, to);
            a += apart * first.stride, b += apart * second.stride;
          }
        });
  }
}

template <class T>
void prepare_columns(const LinePiece& piece, int32_t* columns) {
  const Tag d;
  const hn::Rebind<T, Tag> d8;
  const auto load = [&](const uint8_t* from)
                        HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(d8, reinterpret_cast<const T*>(from))); };
  if (piece.count == HWY_LANES(int32_t)) return prepare_with<T>(piece, columns, load);
  prepare_with<T>(piece, columns, [&](const uint8_t* from) HWY_ATTR {
    HWY_ALIGN uint8_t last[HWY_LANES(int32_t)] = {};
    std::memcpy(last, from, static_cast<size_t>(piece.count));
    return load(last);
  });
}

// The sums of each pixel, `ld` apart. kColumns x kPairs weights are held in registers; 0: of any number.
template <int kColumns, int kPairs>
void sum_columns(const LinePiece& piece, const int32_t* columns, int32_t* sums, int64_t ld) {
  const Tag d;
  constexpr int64_t lanes = HWY_LANES(int32_t);
  const Int8DepthwiseProblem& p = *piece.p;
  const int64_t pairs = kPairs ? kPairs : p.weights.line_pairs(), taps = kColumns ? kColumns : p.weights.columns;
  const int64_t padded = p.weights.padded(), step = piece.blocks->step * pairs * lanes;
  const int64_t apart = (piece.blocks->apart ? 1 : p.shape.dilation_w) * pairs * lanes;  // from tap to tap
  const auto* weights = reinterpret_cast<const int32_t*>(p.pairs) + piece.channel;
  const Vec begin = hn::LoadU(d, p.begin + piece.channel);
  if constexpr (kColumns > 0) {
    Vec w[kColumns * kPairs];
#pragma GCC unroll 16
    for (int i = 0; i < kColumns * kPairs; ++i) w[i] = hn::LoadU(d, weights + i * padded);
    for (int64_t i = 0; i < piece.pixels; ++i, columns += step, sums += ld) {
      Vec sum = begin;
#pragma GCC unroll 8
      for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 4
        for (int l = 0; l < kPairs; ++l)
          sum = add_pairs(sum, hn::LoadU(d, columns + k * apart + l * lanes), w[k * kPairs + l]);
      hn::StoreU(sum, d, sums);
    }
  } else {
    for (int64_t i = 0; i < piece.pixels; ++i, columns += step, sums += ld) {
      Vec sum = begin;
      for (int64_t k = 0; k < taps; ++k)
        for (int64_t l = 0; l < pairs; ++l)
          sum = add_pairs(sum, hn::LoadU(d, columns + k * apart + l * lanes),
                          hn::LoadU(d, weights + (k * pairs + l) * padded));
      hn::StoreU(sum, d, sums);
    }
  }
}

void sum_piece(const LinePiece& piece, int32_t* columns, int32_t* sums, int64_t ld) {
  piece.p->is_signed ? prepare_columns<int8_t>(piece, columns) : prepare_columns<uint8_t>(piece, columns);
  const int64_t taps = piece.p->weights.columns, pairs = piece.p->weights.line_pairs();
  if (taps == 3 && pairs == 2) return sum_columns<3, 2>(piece, columns, sums, ld);
  if (taps == 5 && pairs == 3) return sum_columns<5, 3>(piece, columns, sums, ld);
  sum_columns<0, 0>(piece, columns, sums, ld);
}

#if CAMSHAFT_HAS_BYTE_PRODUCT

// Of the channels that go together.
int64_t piece_words(const LineBlocks& blocks) {
  return blocks.weight_words / 64 * quads::kBytes;
}

void take_all_weights(const Int8DepthwiseProblem& p, const LineBlocks& blocks, int64_t first, int64_t count,
                      int32_t* to) {
  for (int64_t c = 0; c < count; c += quads::kBytes, to += piece_words(blocks))
    quads::take_weights(p, first + c, blocks.results, to);
}

#endif

// Items [begin, end) of DepthwiseItems.
void int8_depthwise_items(const Int8DepthwiseProblem& p, int64_t begin, int64_t end, char* memory) {
  constexpr int64_t lanes = HWY_LANES(int32_t);
  const ConvShape& s = p.shape;
  // Channels that go together.
  const int64_t step = CAMSHAFT_HAS_BYTE_PRODUCT && p.quads ? 4 * lanes : lanes;
  const LineBlocks blocks(s, p.weights, p.quads != nullptr);
  const DepthwiseItems items(s, p.weights, blocks);
  const Int8Problem& result = p.result;
  const int8::Finisher finish(result);
#if CAMSHAFT_HAS_BYTE_PRODUCT
  const bool straight = p.quads && finish.writer();  // from registers
#else
  constexpr bool straight = false;
#endif
  auto* columns = reinterpret_cast<int32_t*>(memory);
  int32_t* weights = columns + blocks.column_words;
  int32_t* sums = weights + blocks.weight_words;
  auto** lines = reinterpret_cast<const uint8_t**>(sums + blocks.sum_words());
  const int64_t width = s.out_w();
  [[maybe_unused]] int64_t taken = -1;  // the chunk whose weights these are
  for (int64_t item = begin; item < end; ++item) {
    cancellation_point();
    const int64_t chunk = items.chunk(item), line_group = items.line_group(item);
    const int64_t first = chunk * blocks.chunk, count = std::min(blocks.chunk, p.weights.channels - first);
    const int64_t y = line_group % items.of_plane * blocks.results;
    const int64_t line = line_group / items.of_plane * s.out_h() + y;
    const int64_t results = std::min(blocks.results, s.out_h() - y);
#if CAMSHAFT_HAS_BYTE_PRODUCT
    if (p.quads && blocks.results > 1 && chunk != taken) take_all_weights(p, blocks, first, count, weights);
#endif
    taken = chunk;
    find_lines(s, p.x, line, s.kernel_d > 1 ? s.kernel_h : blocks.lines, lines);
    for (int64_t x = 0; x < width; x += blocks.pixels) {
      const int64_t pixels = std::min(blocks.pixels, width - x), row0 = line * width + x;
      for (int64_t c = 0; c < count; c += step) {
        const LinePiece piece{&p, &blocks, lines, x, pixels, first + c, std::min(step, count - c), results};
#if CAMSHAFT_HAS_BYTE_PRODUCT
        if (p.quads) {
          const int32_t* own = blocks.results > 1 ? weights + c / step * piece_words(blocks)
                                                  : reinterpret_cast<const int32_t*>(p.quads) + first + c;
          quads::sum_piece(piece, own, columns, {sums + c, blocks.chunk, finish.writer(), row0, first + c});
          continue;
        }
#endif
        sum_piece(piece, columns, sums + c, blocks.chunk);
      }
      if (straight) continue;
      for (int64_t r = 0; r < results; ++r) {
        int32_t* const of_line = sums + r * blocks.pixels * blocks.chunk;
        const int64_t row = row0 + r * width;
        finish({of_line, blocks.chunk, pixels, row, first, count});
        int8::activate_rows(result, row, pixels, first, count);
        if (result.gives_blocks())
          result.finish(result.finish_context, of_line, blocks.chunk, row, pixels, first, count);
        const Epilogue& e = result.epilogue;
        if (result.result == Int8Result::scaled && e.callback) e.callback(e.context, row, pixels, first, count);
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(int8_depthwise_items);

namespace {

// Calls visit(place among the bytes of the quads, place among the pairs, element in the model, channel).
template <class Visit>
void for_weights(const Int8DepthwiseWeights& w, Visit&& visit) {
  for (int64_t c = 0; c < w.channels; ++c)
    for (int64_t line = 0; line < w.lines; ++line)
      for (int64_t column = 0; column < w.columns; ++column) {
        const int64_t quad = column * w.line_quads() + line / 4, pair = column * w.line_pairs() + line / 2;
        visit((quad * w.padded() + c) * 4 + line % 4, (pair * w.padded() + c) * 2 + line % 2,
              c * w.taps() + line * w.columns + column, c);
      }
}

}  // namespace

void pack_int8_depthwise(const Int8DepthwiseWeights& w, const uint8_t* from, bool flip, std::byte* packed) {
  const uint8_t bits = flip ? 0x80 : 0;
  std::memset(packed, 0, static_cast<size_t>(w.bytes()));
  auto* quads = reinterpret_cast<uint8_t*>(packed);
  auto* sums = reinterpret_cast<int32_t*>(packed) + w.quad_words();
  for_weights(w, [&](int64_t to, int64_t, int64_t at, int64_t channel) {
    quads[to] = from[at] ^ bits;
    sums[channel] += static_cast<int8_t>(quads[to]);
  });
}

void unpack_int8_depthwise(const Int8DepthwiseWeights& w, const std::byte* packed, bool flip, uint8_t* to) {
  const uint8_t bits = flip ? 0x80 : 0;
  const auto* quads = reinterpret_cast<const uint8_t*>(packed);
  for_weights(w, [&](int64_t from, int64_t, int64_t at, int64_t) { to[at] = quads[from] ^ bits; });
}

void int8_depthwise_pairs(const Int8DepthwiseWeights& w, const std::byte* packed, const int32_t* zeros,
                          int16_t* pairs) {
  const auto* quads = reinterpret_cast<const int8_t*>(packed);
  std::memset(pairs, 0, static_cast<size_t>(w.pair_words()) * 4);
  for_weights(w, [&](int64_t from, int64_t to, int64_t, int64_t channel) {
    pairs[to] = static_cast<int16_t>(quads[from] - zeros[channel]);
  });
}

int64_t int8_depthwise_workspace_bytes(const ConvShape& shape, const Int8DepthwiseWeights& weights, int threads) {
  return std::max(LineBlocks(shape, weights, false).bytes(), LineBlocks(shape, weights, true).bytes()) * threads;
}

void int8_depthwise(const Int8DepthwiseProblem& problem, ThreadPool& pool, void* workspace) {
  const ConvShape& s = problem.shape;
  const LineBlocks blocks(s, problem.weights, problem.quads != nullptr);
  if (s.batch == 0 || s.out_d() == 0 || s.out_h() == 0 || s.out_w() == 0) return;
  const int64_t items = DepthwiseItems(s, problem.weights, blocks).count();
  // A vector of pairs or quads a cycle.
  const int64_t words = problem.quads ? problem.weights.quad_words() : problem.weights.pair_words();
  const double pixels = static_cast<double>(s.batch * s.out_d() * s.out_h() * s.out_w());
  const int threads = useful_threads(pixels * static_cast<double>(words) / 16, pool.size());
  pool.run(threads, [&](int thread) {
    const int64_t begin = items * thread / threads, end = items * (thread + 1) / threads;
    HWY_DYNAMIC_DISPATCH(int8_depthwise_items)
    (problem, begin, end, static_cast<char*>(workspace) + thread * blocks.bytes());
  });
}

}  // namespace camshaft::cpu
#endif
