#include "cpu/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/thread_pool.h"
#include "cpu/kernels/attention_blocks.h"
#include "cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/attention.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "cpu/kernels/attention_tile-inl.h"
#include "cpu/kernels/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t panel_width() {
  return kPanelVectors * panel_lanes();
}

// ---- packing

// Keys [first, first + count) as columns of a panel: element d of key k at out[d * stored + k].
void pack_key_panel(const AttentionArgs& a, int64_t o, int64_t first, int64_t count, int64_t stored, float* out) {
  const float* base = a.key.data + a.key.outer[o];
  const int64_t* rows = a.key.rows + first;
  if (count < stored) {
    for (int64_t d = 0; d < a.size; ++d) std::fill(out + d * stored + count, out + (d + 1) * stored, 0.0f);
  }
  if (a.key.column == 1) {
    pack_columns(base, rows, count, a.size, stored, out);
    return;
  }
  for (int64_t d = 0; d < a.size; ++d) {
    const float* from = base + d * a.key.column;
    float* to = out + d * stored;
    if (a.key.neighbours) {
      std::memcpy(to, from + rows[0], static_cast<size_t>(count) * sizeof(float));
    } else {
      for (int64_t k = 0; k < count; ++k) to[k] = from[rows[k]];
    }
  }
}

void pack_keys(const AttentionArgs& a, int64_t o, float* out) {
  const int64_t width = panel_width(), lanes = panel_lanes();
  for (int64_t k = 0; k < a.keys; k += width) {
    const int64_t count = std::min(width, a.keys - k);
    pack_key_panel(a, o, k, count, AttentionBlocks::round_up(count, lanes), out + k * a.size);
  }
}

void copy_row(const float* from, int64_t step, int64_t count, float* to) {
  if (step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
}

void pack_values(const AttentionArgs& a, int64_t o, int64_t columns, float* out) {
  const float* base = a.value.data + a.value.outer[o];
  for (int64_t k = 0; k < a.keys; ++k, out += columns) {
    copy_row(base + a.value.rows[k], a.value.column, a.value_size, out);
    std::fill(out + a.value_size, out + columns, 0.0f);
  }
}

// ---- softmax of one row of a block

// A mask along one row: `count` elements, or one for all.
struct MaskRow {
  const float* added;
  const uint8_t* kept;
  float masked;
  bool one;
};

// `count` elements, and anything behind them in the last vector of a row.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_some(D d, const T* from, size_t count) {
  if (HWY_LIKELY(count == hn::Lanes(d))) return hn::LoadU(d, from);
  HWY_ALIGN T part[hn::MaxLanes(D())] = {};
  std::copy_n(from, count, part);
  return hn::Load(d, part);
}

// x = scale · x, then each mask; returns the largest. x is padded to whole vectors, whose excess is not looked at.
HWY_NOINLINE float mask_scores(float* x, int64_t n, float scale, const MaskRow* masks, int64_t mask_count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Rebind<int32_t, decltype(d)> words;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  auto best = hn::Set(d, -kInfinity);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto count = static_cast<size_t>(std::min(lanes, n - i));
    auto v = hn::Mul(hn::Load(d, x + i), factor);
    for (int64_t m = 0; m < mask_count; ++m) {
      const MaskRow& mask = masks[m];
      if (mask.added) {
        v = hn::Add(v, mask.one ? hn::Set(d, *mask.added) : load_some(d, mask.added + i, count));
      } else {
        const auto kept = mask.one ? hn::Set(bytes, *mask.kept) : load_some(bytes, mask.kept + i, count);
        const auto keeps = hn::RebindMask(d, hn::Ne(hn::PromoteTo(words, kept), hn::Zero(words)));
        v = hn::IfThenElse(keeps, v, hn::Set(d, mask.masked));
      }
    }
    hn::Store(v, d, x + i);
    if (static_cast<int64_t>(count) < lanes) v = hn::IfThenElse(hn::FirstN(d, count), v, hn::Set(d, -kInfinity));
    best = max_or_second(v, best);
  }
  return hn::GetLane(hn::MaxOfLanes(d, best));
}

// x = exp(scale · (x - top)), returns the sum.
HWY_NOINLINE float exponentials(float* x, int64_t n, float scale, float top) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale), shift = hn::Set(d, scale * top);
  auto s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto e0 = exp_nonpositive_f32(d, hn::MulSub(hn::Load(d, x + i), factor, shift));
    const auto e1 = exp_nonpositive_f32(d, hn::MulSub(hn::Load(d, x + i + lanes), factor, shift));
    hn::Store(e0, d, x + i);
    hn::Store(e1, d, x + i + lanes);
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
  }
  for (; i < n; i += lanes) {
    auto e = exp_nonpositive_f32(d, hn::MulSub(hn::Load(d, x + i), factor, shift));
    if (i + lanes > n) e = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), e);
    hn::Store(e, d, x + i);
    s1 = hn::Add(s1, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
}

// y = x · factor
HWY_INLINE void scale_row(const float* x, int64_t n, float factor, float* y, int64_t step) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * step] = x[i] * factor;
  }
}

// ---- one block of queries

class Block {
 public:
  Block(const AttentionArgs& args, const AttentionScratch& scratch, int64_t o, int64_t first, int64_t rows)
      : a_(args),
        s_(scratch),
        blocks_(args.queries, args.keys, panel_width()),
        o_(o),
        first_(first),
        rows_(rows),
        columns_(AttentionBlocks::round_up(args.value_size, panel_lanes())),
        // Without masks the scores are scaled on their way into the exponential.
        plain_(args.mask_count == 0 && args.scale > 0 && args.scale < kInfinity) {}

  void run() {
    const float* queries[kAttentionRows];
    point_at_queries(queries);
    for (int64_t k = 0; k < a_.keys; k += blocks_.keys) {
      const int64_t keys = std::min(blocks_.keys, a_.keys - k);
      multiply_keys(queries, k, keys);
      for (int64_t r = 0; r < rows_; ++r) softmax(r, k, keys);
      multiply_values(k, keys);
    }
    for (int64_t r = 0; r < rows_; ++r) store(r);
  }

 private:
  void point_at_queries(const float** queries) {
    const float* base = a_.query.data + a_.query.outer[o_];
    for (int64_t r = 0; r < rows_; ++r) {
      queries[r] = base + a_.query.rows[first_ + r];
      if (a_.query.column == 1) continue;
      float* copy = s_.queries + r * a_.size;
      copy_row(queries[r], a_.query.column, a_.size, copy);
      queries[r] = copy;
    }
  }

  void multiply_keys(const float* const* queries, int64_t first, int64_t keys) {
    const int64_t width = panel_width(), lanes = panel_lanes();
    for (int64_t k = 0; k < keys; k += width) {
      const int64_t vectors = (std::min(width, keys - k) + lanes - 1) / lanes;
      score_tiles(vectors, queries, rows_, s_.keys + (first + k) * a_.size, a_.size, s_.scores + k,
                  blocks_.score_stride);
    }
  }

  void softmax(int64_t r, int64_t first, int64_t keys) {
    float* x = s_.scores + r * blocks_.score_stride;
    const float top = plain_ ? row_extreme<true, false>(x, keys) : masked(r, x, first, keys);
    const float scale = plain_ ? a_.scale : 1;
    const float before = first == 0 ? -kInfinity : s_.largest[r];
    const float largest = std::max(before, top);
    const float sum = exponentials(x, keys, scale, largest == -kInfinity ? 0 : largest);
    if (first == 0) {
      s_.total[r] = sum;
    } else {
      s_.factor[r] = before == largest ? 1 : std::exp(scale * (before - largest));
      s_.total[r] = s_.total[r] * s_.factor[r] + sum;
    }
    s_.largest[r] = largest;
  }

  float masked(int64_t r, float* x, int64_t first, int64_t keys) {
    MaskRow rows[most_attention_masks];
    for (int64_t m = 0; m < a_.mask_count; ++m) {
      const AttentionMask& mask = a_.masks[m];
      const int64_t at = mask.outer[o_] + mask.rows[first_ + r];
      const int64_t* columns = mask.columns + first;
      rows[m] = {mask.added ? mask.added + at + columns[0] : nullptr,
                 mask.added ? nullptr : mask.kept + at + columns[0], mask.masked, mask.one_column};
      if (mask.one_column || mask.neighbours) continue;
      float* copy = s_.mask_rows + m * blocks_.score_stride;
      if (mask.added) {
        for (int64_t k = 0; k < keys; ++k) copy[k] = mask.added[at + columns[k]];
        rows[m].added = copy;
      } else {
        auto* flags = reinterpret_cast<uint8_t*>(copy);
        for (int64_t k = 0; k < keys; ++k) flags[k] = mask.kept[at + columns[k]];
        rows[m].kept = flags;
      }
    }
    return mask_scores(x, keys, a_.scale, rows, a_.mask_count);
  }

  void multiply_values(int64_t first, int64_t keys) {
    const int64_t width = panel_width(), lanes = panel_lanes();
    for (int64_t k = 0; k < keys; k += kAttentionDepth) {
      const int64_t depth = std::min(kAttentionDepth, keys - k);
      ValueTile tile;
      tile.p_stride = blocks_.score_stride;
      tile.v_stride = tile.sums_stride = columns_;
      tile.depth = depth;
      tile.add = first + k > 0;
      tile.rescale = first > 0 && k == 0;
      for (int64_t c = 0; c < columns_; c += width) {
        tile.p = s_.scores + k;
        tile.v = s_.values + (first + k) * columns_ + c;
        tile.sums = s_.sums + c;
        tile.factor = s_.factor;
        value_tiles((std::min(width, columns_ - c) + lanes - 1) / lanes, rows_, tile);
      }
    }
  }

  void store(int64_t r) {
    float* y = a_.result + a_.result_place.outer[o_] + a_.result_place.rows[first_ + r];
    const float total = s_.total[r];
    if (a_.zero_undefined && !(total > 0)) {
      for (int64_t i = 0; i < a_.value_size; ++i) y[i * a_.result_place.column] = 0;
    } else {
      scale_row(s_.sums + r * columns_, a_.value_size, 1 / total, y, a_.result_place.column);
    }
  }

  const AttentionArgs& a_;
  const AttentionScratch& s_;
  const AttentionBlocks blocks_;
  const int64_t o_, first_, rows_, columns_;
  const bool plain_;
};

// Blocks [begin, end) of all queries of all problems.
void run_blocks(const AttentionArgs& a, int64_t begin, int64_t end, float* memory) {
  const AttentionBlocks blocks(a.queries, a.keys, panel_width());
  const AttentionScratch scratch(a, panel_width(), panel_lanes(), memory);
  const int64_t columns = AttentionBlocks::round_up(a.value_size, panel_lanes());
  int64_t packed_key = -1, packed_value = -1;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t o = i / blocks.row_blocks, first = i % blocks.row_blocks * blocks.rows;
    if (a.key.outer[o] != packed_key) pack_keys(a, o, scratch.keys);
    if (a.value.outer[o] != packed_value) pack_values(a, o, columns, scratch.values);
    packed_key = a.key.outer[o];
    packed_value = a.value.outer[o];
    Block(a, scratch, o, first, std::min(blocks.rows, a.queries - first)).run();
  }
}

int64_t scratch_floats(const AttentionArgs& a) {
  return AttentionScratch::floats(a, panel_width(), panel_lanes());
}

int64_t row_blocks(const AttentionArgs& a) {
  return AttentionBlocks(a.queries, a.keys, panel_width()).row_blocks;
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(run_blocks);
HWY_EXPORT(scratch_floats);
HWY_EXPORT(row_blocks);

int64_t attention_workspace_bytes(const AttentionArgs& args, int threads) {
  if (args.outer == 0 || args.queries == 0 || args.keys == 0) return 0;
  return HWY_DYNAMIC_DISPATCH(scratch_floats)(args) * threads * 4;
}

void attention(const AttentionArgs& args, ThreadPool& pool, void* workspace) {
  if (args.outer == 0 || args.queries == 0) return;
  if (args.keys == 0) {
    for (int64_t o = 0; o < args.outer; ++o)
      for (int64_t q = 0; q < args.queries; ++q)
        for (int64_t v = 0; v < args.value_size; ++v)
          args.result[args.result_place.outer[o] + args.result_place.rows[q] + v * args.result_place.column] = 0;
    return;
  }
  const int64_t blocks = args.outer * HWY_DYNAMIC_DISPATCH(row_blocks)(args);
  const int64_t floats = HWY_DYNAMIC_DISPATCH(scratch_floats)(args);
  const auto kernel = HWY_DYNAMIC_DISPATCH(run_blocks);
  // Threads are not woken for less than a few microseconds of work.
  const double work = 4.0 * static_cast<double>(args.outer * args.queries) * static_cast<double>(args.keys * args.size);
  const int threads = work < 1e6 ? 1 : pool.size();
  const auto share = [&](int thread) {
    kernel(args, blocks * thread / threads, blocks * (thread + 1) / threads,
           static_cast<float*>(workspace) + thread * floats);
  };
  if (threads == 1) return share(0);
  pool.run(share);
}

}  // namespace camshaft::cpu
#endif
