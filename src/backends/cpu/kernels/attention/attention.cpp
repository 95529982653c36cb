#include "backends/cpu/kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/attention/attention_ahead.h"
#include "backends/cpu/kernels/attention/attention_blocks.h"
#include "backends/cpu/kernels/targets.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/attention.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/attention/attention_few-inl.h"
#include "backends/cpu/kernels/attention/attention_pack-inl.h"
#include "backends/cpu/kernels/attention/attention_pairs-inl.h"
#include "backends/cpu/kernels/attention/attention_softmax-inl.h"
#include "backends/cpu/kernels/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// y = x · factor
HWY_INLINE void scale_row(const float* x, int64_t n, float factor, float* y, int64_t step) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * step] = x[i] * factor;
  }
}

// Where the values of a problem are read: row after row, whole vectors.
struct Values {
  const float* data;
  int64_t stride;
};

// Few queries do not repay the packing of what they read once.
bool reads_keys_in_place(const AttentionArgs& a) {
  return a.queries <= kAttentionFewRows && a.key.column == 1;
}
bool reads_values_in_place(const AttentionArgs& a) {
  return a.queries <= kAttentionShort && a.value.column == 1 && a.value.row_step > 0 &&
         a.value_size % panel_lanes() == 0;
}

// ---- one block of queries

template <class Word>
class Block {
 public:
  Block(const AttentionArgs& args, const AttentionScratch& scratch, const Values& values, Ahead& ahead, int64_t o,
        int64_t first, int64_t rows)
      : a_(args),
        s_(scratch),
        values_(values),
        ahead_(ahead),
        blocks_(args.queries, args.keys, panel_width()),
        o_(o),
        first_(first),
        rows_(rows),
        begin_(0),
        columns_(AttentionBlocks::round_up(args.value_size, panel_lanes())),
        // Without masks and a cap the scores are scaled on their way into the exponential.
        plain_(!reads_keys_in_place(args) && args.softcap == 0 && args.mask_count == 0 && args.scale > 0 &&
               args.scale < kInfinity),
        finishes_(plain_ || (!reads_keys_in_place(args) && adds_rows(args))) {}

  void run() {
    const float* queries[kAttentionRows];
    point_at_queries(queries);
    for (int64_t k = 0; k < a_.keys; k += blocks_.keys) {
      const int64_t keys = std::min(blocks_.keys, a_.keys - k);
      multiply_keys(queries, k, keys);
      softmax(k, keys);
      const bool last = k + keys == a_.keys;
      if (last && divides_directly()) return multiply_values(k, keys, true);
      multiply_values(k, keys, false);
    }
    for (int64_t r = 0; r < rows_; ++r) store(r);
  }

  // Keys [begin, end) alone: what is needed of them goes to `parts`, row after row.
  void run_part(int64_t begin, int64_t end, float* parts) {
    begin_ = begin;
    const float* queries[kAttentionRows];
    point_at_queries(queries);
    for (int64_t k = begin; k < end; k += blocks_.keys) {
      const int64_t keys = std::min(blocks_.keys, end - k);
      multiply_keys(queries, k, keys);
      softmax(k, keys);
      multiply_values(k, keys, false);
    }
    for (int64_t r = 0; r < rows_; ++r, parts += AttentionParts::row_floats(a_)) {
      parts[0] = s_.largest[r];
      parts[1] = s_.total[r];
      std::copy_n(s_.sums + r * columns_, a_.value_size, parts + AttentionParts::head_floats);
    }
  }

 private:
  static constexpr int64_t words_of(int64_t elements) { return (elements + Word::elements - 1) / Word::elements; }

  void point_at_queries(const float** queries) {
    const float* base = a_.query.data + a_.query.outer[o_];
    for (int64_t r = 0; r < rows_; ++r) queries[r] = pack_query(Word(), a_, base + a_.query.rows[first_ + r], r, s_);
  }

  void multiply_keys(const float* const* queries, int64_t first, int64_t keys) {
    if (reads_keys_in_place(a_)) {
      few_scores(queries, rows_, a_.key.data + a_.key.outer[o_], a_.key.rows + first, keys, a_.size, s_.scores,
                 blocks_.score_stride);
      return;
    }
    const int64_t width = panel_width(), lanes = panel_lanes();
    ScoreTiles t;
    t.queries = queries;
    t.size = words_of(a_.size);
    t.out_stride = blocks_.score_stride;
    if (finishes_) {
      t.finish.tops = s_.row_vectors;
      t.finish.scale = a_.scale;
      for (const AttentionMask* mask = a_.masks; mask != a_.masks + a_.mask_count; ++mask)
        t.finish.mask[t.finish.masks++] = {mask->added + mask->outer[o_] + mask->columns[first], mask->rows + first_};
    }
    for (int64_t k = 0; k < keys; k += width) {
      const int64_t count = std::min(width, keys - k), vectors = (count + lanes - 1) / lanes;
      t.panel = s_.keys + (first + k) * t.size;
      t.out = s_.scores + k;
      t.last_keys = count - (vectors - 1) * lanes;
      t.column = k;
      t.finish.first = k == 0;
      score_tiles<Word>(vectors, rows_, t, ahead_);
    }
  }

  void softmax(int64_t first, int64_t keys) {
    HWY_ALIGN float tops[kAttentionRows];
    if (finishes_) {
      join_lanes<Largest>(s_.row_vectors, rows_, tops);
    } else {
      for (int64_t r = 0; r < rows_; ++r) tops[r] = masked(r, s_.scores + r * blocks_.score_stride, first, keys);
    }
    add_exponentials<Word>(s_.scores, blocks_.score_stride, rows_, keys, plain_ ? a_.scale : 1.0f, plain_,
                           first == begin_, tops, {s_.largest, s_.total, s_.factor, s_.row_vectors});
  }

  // The usual masks: one that is added, or two, as in shifted windows (a bias for each distance, and what is out of
  // reach).
  static bool adds_rows(const AttentionArgs& a) {
    return a.softcap == 0 && a.mask_count >= 1 && a.mask_count <= 2 &&
           std::all_of(a.masks, a.masks + a.mask_count, [](const AttentionMask& m) { return m.added && m.neighbours; });
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
    return mask_scores(x, keys, a_.scale, a_.softcap, rows, a_.mask_count);
  }

  // Whether the last sums can be divided and stored from registers.
  bool divides_directly() {
    if (a_.result_place.column != 1) return false;
    for (int64_t r = 0; r < rows_; ++r) {
      if (a_.zero_undefined && !(s_.total[r] > 0)) return false;
      s_.inverse[r] = 1 / s_.total[r];
    }
    return true;
  }

  void multiply_values(int64_t first, int64_t keys, bool divide) {
    const int64_t width = panel_width(), lanes = panel_lanes();
    constexpr int64_t most = kAttentionDepth * Word::elements;
    for (int64_t k = 0; k < keys; k += most) {
      const int64_t depth = std::min(most, keys - k);
      ValueTile tile;
      tile.p_stride = blocks_.score_stride;
      tile.v_stride = values_.stride;
      tile.sums_stride = columns_;
      tile.depth = words_of(depth);
      tile.add = first + k > begin_;
      tile.rescale = first > begin_ && k == 0;
      for (int64_t c = 0; c < columns_; c += width) {
        tile.p = s_.scores + k / Word::elements;
        tile.v = values_.data + (first + k) / Word::elements * values_.stride + c;
        tile.sums = s_.sums + c;
        tile.factor = s_.factor;
        const int64_t columns = std::min(width, a_.value_size - c), vectors = (columns + lanes - 1) / lanes;
        if (divide && k + depth == keys) {
          tile.result = a_.result + a_.result_place.outer[o_] + c;
          tile.result_rows = a_.result_place.rows + first_;
          tile.inverse = s_.inverse;
          tile.last_columns = columns - (vectors - 1) * lanes;
        }
        value_tiles<Word>(vectors, rows_, tile, ahead_);
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
  const Values values_;
  Ahead& ahead_;
  const AttentionBlocks blocks_;
  const int64_t o_, first_, rows_;
  int64_t begin_;  // of the keys
  const int64_t columns_;
  const bool plain_, finishes_;
};

// Blocks [begin, end) of all queries of all problems.
template <class Word>
void run_words(const AttentionArgs& a, int64_t begin, int64_t end, float* memory) {
  const AttentionBlocks blocks(a.queries, a.keys, panel_width());
  const AttentionScratch scratch(a, panel_width(), panel_lanes(), memory);
  const int64_t columns = AttentionBlocks::round_up(a.value_size, panel_lanes());
  const bool keys_in_place = reads_keys_in_place(a);
  const bool values_in_place = Word::elements == 1 && reads_values_in_place(a);
  const bool repays = Ahead::repays(a);
  Ahead ahead;
  int64_t packed_key = -1, packed_value = -1;
  for (int64_t i = begin; i < end; ++i) {
    cancellation_point();
    const int64_t o = i / blocks.row_blocks, first = i % blocks.row_blocks * blocks.rows;
    if (!keys_in_place && a.key.outer[o] != packed_key) pack_keys(Word(), a, o, scratch);
    Values values{scratch.values, columns};
    if (values_in_place) {
      values = {a.value.data + a.value.outer[o] + a.value.rows[0], a.value.row_step};
    } else if (a.value.outer[o] != packed_value) {
      pack_values(Word(), a, o, columns, scratch);
    }
    packed_key = a.key.outer[o];
    packed_value = a.value.outer[o];
    if (repays && (i == begin || first == 0) && o + 1 < a.outer) ahead = Ahead(a, o + 1);
    Block<Word>(a, scratch, values, ahead, o, first, std::min(blocks.rows, a.queries - first)).run();
  }
}

void run_blocks(const AttentionArgs& a, int64_t begin, int64_t end, float* memory) {
#if CAMSHAFT_HAS_BF16_PAIRS
  if (a.rounds && !reads_keys_in_place(a)) return run_words<PairWords>(a, begin, end, memory);
#endif
  run_words<FloatWords>(a, begin, end, memory);
}

bool splits_keys(const AttentionArgs& a) {
  return AttentionParts::count(a) > 1 && reads_keys_in_place(a) && reads_values_in_place(a);
}

// Units [begin, end) of problems by parts of their keys.
void run_parts(const AttentionArgs& a, int64_t begin, int64_t end, float* memory, float* parts_memory) {
  const AttentionScratch scratch(a, panel_width(), panel_lanes(), memory);
  const int64_t parts = AttentionParts::count(a);
  Ahead ahead;
  for (int64_t unit = begin; unit < end; ++unit) {
    cancellation_point();
    const int64_t o = unit / parts, part = unit % parts;
    const Values values{a.value.data + a.value.outer[o] + a.value.rows[0], a.value.row_step};
    Block<FloatWords>(a, scratch, values, ahead, o, 0, a.queries)
        .run_part(a.keys * part / parts, a.keys * (part + 1) / parts,
                  parts_memory + unit * a.queries * AttentionParts::row_floats(a));
  }
}

// The rows of problems [begin, end) from their parts, in order.
void join_parts(const AttentionArgs& a, int64_t begin, int64_t end, const float* parts_memory) {
  const int64_t parts = AttentionParts::count(a), row_floats = AttentionParts::row_floats(a);
  const int64_t step = a.queries * row_floats, column = a.result_place.column;
  for (int64_t o = begin; o < end; ++o) {
    for (int64_t q = 0; q < a.queries; ++q) {
      const float* first = parts_memory + o * parts * step + q * row_floats;
      float top = first[0], total = 0;
      for (int64_t i = 1; i < parts; ++i) top = std::max(top, first[i * step]);
      float* y = a.result + a.result_place.outer[o] + a.result_place.rows[q];
      for (int64_t v = 0; v < a.value_size; ++v) y[v * column] = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const float* part = first + i * step;
        const float factor = part[0] == top ? 1 : std::exp2((part[0] - top) * 1.442695041f);
        total += part[1] * factor;
        const float* sums = part + AttentionParts::head_floats;
        for (int64_t v = 0; v < a.value_size; ++v) y[v * column] += sums[v] * factor;
      }
      const bool is_zero = a.zero_undefined && !(total > 0);
      const float inverse = 1 / total;
      for (int64_t v = 0; v < a.value_size; ++v) y[v * column] = is_zero ? 0 : y[v * column] * inverse;
    }
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
HWY_EXPORT(splits_keys);
HWY_EXPORT(run_parts);
HWY_EXPORT(join_parts);
HWY_EXPORT(scratch_floats);
HWY_EXPORT(row_blocks);

int64_t attention_workspace_bytes(const AttentionArgs& args, int threads) {
  if (args.outer == 0 || args.queries == 0 || args.keys == 0) return 0;
  const int64_t parts = AttentionParts::count(args);
  const int64_t part_floats = parts > 1 ? args.outer * parts * args.queries * AttentionParts::row_floats(args) : 0;
  return (HWY_DYNAMIC_DISPATCH(scratch_floats)(args) * threads + part_floats) * 4;
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
  const bool in_parts = HWY_DYNAMIC_DISPATCH(splits_keys)(args);
  const int64_t units = args.outer * (in_parts ? AttentionParts::count(args) : HWY_DYNAMIC_DISPATCH(row_blocks)(args));
  const int64_t floats = HWY_DYNAMIC_DISPATCH(scratch_floats)(args);
  // Threads are not woken for less than a few microseconds of work.
  const double work = 4.0 * static_cast<double>(args.outer * args.queries) * static_cast<double>(args.keys * args.size);
  const int threads = work < 1e6 ? 1 : static_cast<int>(std::min<int64_t>(pool.size(), units));
  auto* const memory = static_cast<float*>(workspace);
  float* const parts = memory + floats * pool.size();
  pool.run(threads, [&](int thread) {
    const int64_t begin = units * thread / threads, end = units * (thread + 1) / threads;
    if (in_parts) return HWY_DYNAMIC_DISPATCH(run_parts)(args, begin, end, memory + thread * floats, parts);
    HWY_DYNAMIC_DISPATCH(run_blocks)(args, begin, end, memory + thread * floats);
  });
  if (!in_parts) return;
  // A thread is woken for 16 KiB of parts at least.
  const int64_t grain = 4096 / (AttentionParts::count(args) * args.queries * AttentionParts::row_floats(args)) + 1;
  pool.parallel_for(args.outer, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(join_parts)(args, begin, end, parts);
  });
}

}  // namespace camshaft::cpu
#endif
