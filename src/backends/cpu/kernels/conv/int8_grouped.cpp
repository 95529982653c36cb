// A tile is some pixels by some units. For each tap and quad a unit's weights are one vector; of each pixel the unit's
// bytes are read into every block of 128 bits where they fit one, or as a whole vector, and each lane takes its quad. A
// group that has a unit alone is read quad by quad, for all lanes.
#include "backends/cpu/kernels/conv/int8_grouped.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm/product_shares.h"
#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/tile_traits.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/int8_grouped.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/int8_finish-inl.h"

#ifndef CAMSHAFT_CPU_INT8_GROUPED
#define CAMSHAFT_CPU_INT8_GROUPED
namespace camshaft::cpu {
namespace {

constexpr int64_t kMostLanes = 16;
constexpr int64_t kMostPixels = 8;  // of a tile

// What is read of a pixel at once for a unit.
enum class Window : uint8_t { quad, block, vector };

// Where units lie, and how the work is cut.
struct GroupedBlocks {
  explicit GroupedBlocks(const Int8GroupedWeights& w)
      : read(w.together() == 1 && w.group_channels % 4 == 0 ? Window::quad
             : w.unit_channels() <= 16                      ? Window::block
                                                            : Window::vector),
        window(read == Window::quad    ? w.group_channels
               : read == Window::block ? 16
                                       : w.lanes * 4),
        tile_units(w.unit_outputs() < w.lanes || w.unit_channels() != (read == Window::vector ? window : 16) ? 1
                   : read != Window::quad && w.lanes == 16 && w.units() >= 4                                 ? 4
                                                                                                             : 2),
        chunks(divide_up(w.units(), tile_units)),
        pixels(std::clamp<int64_t>(2048 / w.taps / kMostPixels * kMostPixels, kMostPixels, 64)) {}

  Window read;
  int64_t window;      // bytes of a pixel that are read for a unit
  int64_t tile_units;  // computed together; several only where their windows lie a constant apart
  int64_t chunks;
  int64_t pixels;  // whose pointers are found at once

  int64_t pointer_bytes(const Int8GroupedWeights& w) const { return round_up(w.taps * pixels * 8, 64); }
  int64_t bytes(const Int8GroupedWeights& w) const { return pointer_bytes(w) + tile_units * pixels * w.lanes * 4; }
};

// The quads that lanes take of a window, and which of their bytes are their groups'.
struct LaneQuads {
  LaneQuads(const Int8GroupedWeights& w, int32_t* of_lane, uint8_t* is_own) {
    const int64_t quads = w.quads();
    std::fill_n(of_lane, quads * w.lanes, 0);
    std::fill_n(is_own, quads * w.lanes * 4, uint8_t{0});
    for (int64_t lane = 0; lane < w.unit_outputs(); ++lane) {
      const int64_t first = w.first_byte(lane), last = first + w.group_channels - 1;
      for (int64_t q = 0; q < quads; ++q) {
        // A group of fewer quads takes its last one again, whose weights are zeros.
        of_lane[q * w.lanes + lane] = static_cast<int32_t>(std::min(first / 4 + q, last / 4));
      }
      for (int64_t byte = first; byte <= last; ++byte)
        is_own[((byte / 4 - first / 4) * w.lanes + lane) * 4 + byte % 4] = 1;
    }
  }
};

// One tile: pixels of some units that lie side by side.
struct GroupedTile {
  const uint8_t* const* rows;  // [tap][pixel]
  int64_t row_stride, taps, quads;
  int64_t offset;          // of the first unit's window within a pixel
  int32_t moved;           // quads by which the window begins before the unit
  uint32_t moved_bits;     // of i8, which count as 128 more
  const int32_t* of_lane;  // LaneQuads
  const uint8_t* is_own;
  const int32_t* weights;  // of the first unit
  int64_t unit_words;
  const int32_t* begin;
  const int32_t* zeros;
};

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

// int8_grouped_takes() refuses all: one lane has nothing to share.
void int8_grouped_items(const Int8GroupedProblem&, bool, int64_t, int64_t, char*) {}

#else

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<int32_t>;
using Vec = hn::Vec<Tag>;
constexpr int64_t kLanes = HWY_LANES(int32_t);

// sum + the four products of each quad.
template <bool kDots>
HWY_INLINE Vec add_quads(Vec sum, Vec a, Vec w) {
#if CAMSHAFT_HAS_BYTE_PRODUCT
  if constexpr (kDots) {
    return add_byte_dots(sum, a, w);
  } else {
    // `vpmaddubsw` saturates: even and odd bytes are multiplied as words.
    const hn::Repartition<int16_t, Tag> d16;
    const hn::Repartition<uint16_t, Tag> du16;
    const auto even = hn::And(hn::BitCast(d16, a), hn::Set(d16, 0xFF));
    const auto odd = hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, a)));
    const auto words = hn::BitCast(d16, w);
    sum = add_word_pairs(sum, even, hn::ShiftRight<8>(hn::ShiftLeft<8>(words)));
    return add_word_pairs(sum, odd, hn::ShiftRight<8>(words));
  }
#else
  const Vec low = hn::Set(Tag(), 0xFF);
  sum = hn::Add(sum, hn::Mul(hn::And(a, low), hn::ShiftRight<24>(hn::ShiftLeft<24>(w))));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<8>(a), low), hn::ShiftRight<24>(hn::ShiftLeft<16>(w))));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<16>(a), low), hn::ShiftRight<24>(hn::ShiftLeft<8>(w))));
  return hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<24>(a), low), hn::ShiftRight<24>(w)));
#endif
}

// Pixels of a tile: 8 sums at least hide the time that a product takes to arrive.
constexpr int pixels_of(int64_t units) {
  return kLanes == 16 && units == 4 ? 4 : kLanes < 16 && units == 2 ? 4 : 8;
}

// The quads of all lanes, in quad `q` of each one's group.
template <Window kRead, class Indices>
HWY_INLINE Vec load_quads(const uint8_t* from, int64_t q, Indices of_lane) {
  const hn::Repartition<uint8_t, Tag> d8;
  if constexpr (kRead == Window::quad) {
    int32_t quad;
    std::memcpy(&quad, from + q * 4, 4);
    return hn::Set(Tag(), quad);
  } else if constexpr (kRead == Window::block) {
    return hn::TableLookupLanes(hn::BitCast(Tag(), hn::LoadDup128(d8, from)), of_lane);
  } else {
    return hn::TableLookupLanes(hn::BitCast(Tag(), hn::LoadU(d8, from)), of_lane);
  }
}

enum class Terms : uint8_t { plain, flipped, zeros };

// kTerms: x is u8 and weights have no zero points; x is i8; or anything.
template <bool kDots, Window kRead, Terms kTerms, int NU>
HWY_INLINE void add_up(const GroupedTile& t, const Vec bits, Vec (&sum)[pixels_of(NU)][NU]) {
  const Tag d;
  constexpr int pixels = pixels_of(NU);
  constexpr bool flips = kTerms != Terms::plain, sums_up = kTerms == Terms::zeros;
  Vec of_pixels[pixels][NU];  // sums of their own bytes
#pragma GCC unroll 4
  for (int u = 0; u < NU; ++u) {
    const Vec begin = hn::LoadU(d, t.begin + u * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < pixels; ++r) {
      sum[r][u] = begin;
      if constexpr (sums_up) of_pixels[r][u] = hn::Zero(d);
    }
  }
  const Vec moved = hn::Set(d, t.moved);
  const int32_t* w = t.weights;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const uint8_t* a[pixels];
#pragma GCC unroll 8
    for (int r = 0; r < pixels; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.offset;
    for (int64_t q = 0; q < t.quads; ++q, w += kLanes) {
      // Lanes behind the last group would take quads behind the window.
      const Vec quad_of_lane = hn::And(hn::Add(hn::LoadU(d, t.of_lane + q * kLanes), moved), hn::Set(d, kLanes - 1));
      const auto of_lane = hn::IndicesFromVec(d, quad_of_lane);
      Vec own = hn::Zero(d);
      if constexpr (sums_up) own = hn::LoadU(d, reinterpret_cast<const int32_t*>(t.is_own) + q * kLanes);
#pragma GCC unroll 4
      for (int u = 0; u < NU; ++u) {
        const Vec wv = hn::LoadU(d, w + u * t.unit_words);
        constexpr int64_t window = kRead == Window::vector ? kLanes * 4 : 16;
#pragma GCC unroll 8
        for (int r = 0; r < pixels; ++r) {
          Vec av = load_quads<kRead>(a[r] + u * window, q, of_lane);
          if constexpr (flips) av = hn::Xor(av, bits);
          sum[r][u] = add_quads<kDots>(sum[r][u], av, wv);
          if constexpr (sums_up) of_pixels[r][u] = add_quads<kDots>(of_pixels[r][u], av, own);
        }
      }
    }
  }
  if constexpr (sums_up) {
#pragma GCC unroll 4
    for (int u = 0; u < NU; ++u) {
      const Vec zeros = hn::LoadU(d, t.zeros + u * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < pixels; ++r) sum[r][u] = hn::Sub(sum[r][u], hn::Mul(zeros, of_pixels[r][u]));
    }
  }
}

// Where a tile's sums go: `pixels` of them count, and `columns` from `column` on.
struct TilePlace {
#if CAMSHAFT_HAS_BYTE_PRODUCT
  const int8::StepsWriter* writer;  // or null: to `sums`, `ld` apart
#endif
  int32_t* sums;
  int64_t ld, row, pixels, column, columns;
};

template <bool kDots, Window kRead, Terms kTerms, int NU>
HWY_NOINLINE void tile(const GroupedTile& t, const TilePlace& place) {
  const Tag d;
  Vec sum[pixels_of(NU)][NU];
  add_up<kDots, kRead, kTerms, NU>(t, hn::Set(d, static_cast<int32_t>(kTerms == Terms::plain ? 0 : t.moved_bits)), sum);
#if CAMSHAFT_HAS_BYTE_PRODUCT
  if (place.writer)
    return place.writer->write_tile<pixels_of(NU), NU>(sum, place.row, 1, place.pixels, place.column, place.columns);
#endif
#pragma GCC unroll 8
  for (int r = 0; r < pixels_of(NU); ++r)
#pragma GCC unroll 4
    for (int u = 0; u < NU; ++u) hn::StoreU(sum[r][u], d, place.sums + r * place.ld + u * kLanes);
}

using TileFunction = void (*)(const GroupedTile&, const TilePlace&);

template <bool kDots, Window kRead, int NU>
TileFunction tile_of(Terms terms) {
  // Sums of pixels' own bytes take as many registers again.
  if (terms == Terms::zeros) return tile<kDots, kRead, Terms::zeros, 1>;
  return terms == Terms::flipped ? tile<kDots, kRead, Terms::flipped, NU> : tile<kDots, kRead, Terms::plain, NU>;
}

template <bool kDots, Window kRead>
TileFunction tile_of(Terms terms, int64_t units) {
  if constexpr (kLanes == 16)
    if (units == 4) return tile_of<kDots, kRead, 4>(terms);
  return units == 2 ? tile_of<kDots, kRead, 2>(terms) : tile_of<kDots, kRead, 1>(terms);
}

template <bool kDots>
TileFunction tile_of(Window read, Terms terms, int64_t units) {
  if (read == Window::quad)
    return units == 2 ? tile_of<kDots, Window::quad, 2>(terms) : tile_of<kDots, Window::quad, 1>(terms);
  return read == Window::block ? tile_of<kDots, Window::block>(terms, units)
                               : tile_of<kDots, Window::vector>(terms, units);
}

TileFunction choose_tile(bool dots, Window read, Terms terms, int64_t units) {
#if CAMSHAFT_HAS_BYTE_PRODUCT
  if (dots) return tile_of<true>(read, terms, units);
#else
  (void)dots;
#endif
  return tile_of<false>(read, terms, units);
}

void find_pixels(const Int8GroupedProblem& p, int64_t row0, int64_t rows, int64_t stride, const uint8_t** pointers) {
  const ConvShape& s = p.plan->shape();
  if (p.plan->method() == ConvPlan::Method::pointwise) {
    const int64_t step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
    for (int64_t r = 0; r < rows; ++r) pointers[r] = p.x + (row0 + r) * step;
  } else {
    p.plan->find_rows(p.x, p.padding, row0, rows, pointers, stride);
  }
  // A tile's further pixels are the last one again.
  for (int64_t tap = 0; tap < p.weights.taps; ++tap)
    for (int64_t r = rows; r < round_up(rows, kMostPixels); ++r)
      pointers[tap * stride + r] = pointers[tap * stride + rows - 1];
}

// Blocks of pixels, each in chunks of units: items [begin, end) of them.
void int8_grouped_items(const Int8GroupedProblem& p, bool dots, int64_t begin, int64_t end, char* memory) {
  const Int8GroupedWeights& w = p.weights;
  const GroupedBlocks blocks(w);
  const Int8Problem& result = p.result;
  const int8::Finisher finish(result);
  auto** pointers = reinterpret_cast<const uint8_t**>(memory);
  auto* sums = reinterpret_cast<int32_t*>(memory + blocks.pointer_bytes(w));
  const int64_t quads = w.quads(), all_rows = p.plan->rows(), in_channels = p.plan->shape().in_channels;
  // A group that is alone begins with a quad, and others have half a vector at most.
  constexpr int64_t most_quads = kMostLanes;
  HWY_ALIGN int32_t of_lane[most_quads * kMostLanes];
  HWY_ALIGN uint8_t is_own[most_quads * kMostLanes * 4];
  const LaneQuads lane_quads(w, of_lane, is_own);
  const Terms terms = p.zeros ? Terms::zeros : p.is_signed ? Terms::flipped : Terms::plain;
  GroupedTile t{};
  t.row_stride = blocks.pixels;
  t.taps = w.taps;
  t.quads = quads;
  t.of_lane = of_lane;
  t.is_own = is_own;
  t.unit_words = w.unit_words();
  t.moved_bits = p.is_signed ? 0x80808080 : 0;
  const int64_t ld = blocks.tile_units * kLanes;
  int64_t found = -1;
  for (int64_t item = begin; item < end; ++item) {
    cancellation_point();
    const int64_t row0 = item / blocks.chunks * blocks.pixels, rows = std::min(blocks.pixels, all_rows - row0);
    if (found != row0) find_pixels(p, row0, rows, blocks.pixels, pointers);
    found = row0;
    const int64_t first = item % blocks.chunks * blocks.tile_units,
                  past = std::min(first + blocks.tile_units, w.units());
    int64_t step = 0;
    for (int64_t unit = first; unit < past; unit += step) {
      // The last unit's groups may be fewer.
      const auto fits = [&](int64_t units) {
        return unit + units <= past && (unit + units) * w.unit_channels() <= in_channels;
      };
      const int64_t most = terms == Terms::zeros ? 1 : blocks.tile_units;
      step = most >= 4 && fits(4) ? 4 : most >= 2 && fits(2) ? 2 : 1;
      const int64_t pixels = pixels_of(step);
      const TileFunction compute = choose_tile(dots, blocks.read, terms, step);
      const int64_t begins = unit * w.unit_channels();
      t.offset = std::min(begins, in_channels - blocks.window);
      t.moved = static_cast<int32_t>((begins - t.offset) / 4);
      t.weights = reinterpret_cast<const int32_t*>(p.packed) + unit * t.unit_words;
      t.begin = p.begin + unit * kLanes;
      t.zeros = p.zeros ? p.zeros + unit * kLanes : nullptr;
      TilePlace place{};
#if CAMSHAFT_HAS_BYTE_PRODUCT
      place.writer = finish.writer();
      const bool straight = place.writer != nullptr;
#else
      constexpr bool straight = false;
#endif
      place.ld = ld;
      place.column = unit * w.unit_outputs();
      place.columns = std::min(step * w.unit_outputs(), w.out_channels - place.column);
      for (int64_t r = 0; r < rows; r += pixels) {
        t.rows = pointers + r;
        place.sums = sums + r * ld + (unit - first) * kLanes;
        place.row = row0 + r;
        place.pixels = std::min(pixels, rows - r);
        compute(t, place);
      }
      if (straight) continue;
      const int32_t* block = sums + (unit - first) * kLanes;
      finish({block, ld, rows, row0, place.column, place.columns});
      int8::activate_rows(result, row0, rows, place.column, place.columns);
      if (result.gives_blocks())
        result.finish(result.finish_context, block, ld, row0, rows, place.column, place.columns);
      const Epilogue& e = result.epilogue;
      if (result.result == Int8Result::scaled && e.callback)
        e.callback(e.context, row0, rows, place.column, place.columns);
    }
  }
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(int8_grouped_items);

namespace {

// Calls visit(place among the bytes, element in the model, place among the lanes' sums).
template <class Visit>
void for_weights(const Int8GroupedWeights& w, Visit&& visit) {
  const int64_t quads = w.quads();
  for (int64_t o = 0; o < w.out_channels; ++o) {
    const int64_t unit = o / w.unit_outputs(), lane = o % w.unit_outputs(), first = w.first_byte(lane);
    for (int64_t c = 0; c < w.group_channels; ++c) {
      const int64_t byte = first + c, quad = byte / 4 - first / 4;
      for (int64_t tap = 0; tap < w.taps; ++tap)
        visit((((unit * w.taps + tap) * quads + quad) * w.lanes + lane) * 4 + byte % 4,
              (o * w.group_channels + c) * w.taps + tap, unit * w.lanes + lane);
    }
  }
}

}  // namespace

Int8GroupedWeights int8_grouped_weights(int64_t out_channels, int64_t group_channels, int64_t taps, int64_t groups) {
  return {out_channels, group_channels, taps, groups, static_cast<int32_t>(tile_traits().lanes())};
}

void pack_int8_grouped(const Int8GroupedWeights& w, const uint8_t* from, bool flip, std::byte* packed) {
  const uint8_t bits = flip ? 0x80 : 0;
  std::memset(packed, 0, static_cast<size_t>(w.bytes()));
  auto* quads = reinterpret_cast<uint8_t*>(packed);
  auto* sums = reinterpret_cast<int32_t*>(packed) + w.units() * w.unit_words();
  for_weights(w, [&](int64_t to, int64_t at, int64_t lane) {
    quads[to] = from[at] ^ bits;
    sums[lane] += static_cast<int8_t>(quads[to]);
  });
}

void unpack_int8_grouped(const Int8GroupedWeights& w, const std::byte* packed, bool flip, uint8_t* to) {
  const uint8_t bits = flip ? 0x80 : 0;
  const auto* quads = reinterpret_cast<const uint8_t*>(packed);
  for_weights(w, [&](int64_t from, int64_t at, int64_t) { to[at] = quads[from] ^ bits; });
}

bool int8_grouped_takes(const Int8GroupedWeights& w, int64_t in_channels) {
  if (w.lanes == 1 || w.together() == 0) return false;
  const int64_t window = GroupedBlocks(w).window;
  if (in_channels < window) return false;
  // Windows that would reach beyond the pixel begin whole quads sooner.
  for (int64_t unit = w.units() - 1; unit >= 0; --unit) {
    const int64_t moved = unit * w.unit_channels() + window - in_channels;
    if (moved <= 0) break;
    if (moved % 4 != 0) return false;
  }
  return true;
}

int64_t int8_grouped_workspace_bytes(const Int8GroupedWeights& weights, int threads) {
  return GroupedBlocks(weights).bytes(weights) * threads;
}

void int8_grouped(const Int8GroupedProblem& problem, ThreadPool& pool, void* workspace, bool dots) {
  const Int8GroupedWeights& w = problem.weights;
  const GroupedBlocks blocks(w);
  const int64_t items = divide_up(problem.plan->rows(), blocks.pixels) * blocks.chunks;
  if (items == 0) return;
  // A vector of quads a cycle.
  const double words = static_cast<double>(w.units() * w.taps * w.quads());
  const int threads = useful_threads(static_cast<double>(problem.plan->rows()) * words, pool.size());
  pool.run(threads, [&](int thread) {
    const int64_t begin = items * thread / threads, end = items * (thread + 1) / threads;
    HWY_DYNAMIC_DISPATCH(int8_grouped_items)
    (problem, dots, begin, end, static_cast<char*>(workspace) + thread * blocks.bytes(w));
  });
}

}  // namespace camshaft::cpu
#endif
