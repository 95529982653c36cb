#include "backends/cpu/kernels/attention/paged_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/attention/attention_ahead.h"
#include "backends/cpu/kernels/attention/attention_blocks.h"
#include "backends/cpu/kernels/half.h"
#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/paged_attention.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/attention/attention_few-inl.h"
#include "backends/cpu/kernels/attention/attention_lane_scores-inl.h"
#include "backends/cpu/kernels/attention/attention_pack-inl.h"
#include "backends/cpu/kernels/attention/attention_softmax-inl.h"
#include "backends/cpu/kernels/attention/attention_tile-inl.h"

#ifndef CAMSHAFT_CPU_PAGED_ATTENTION_UNITS
#define CAMSHAFT_CPU_PAGED_ATTENTION_UNITS
namespace camshaft::cpu {

/// Keys of a chunk: of 128 elements they and their values take 256 KiB, half of the smallest L2. Chunks begin at
/// multiples of it in each sequence, so that a row's sums are cut at the same places in whatever steps it came there.
inline constexpr int64_t kPagedChunk = 256;
/// Floats from row to row of a chunk's scores: vectors may end behind it.
inline constexpr int64_t kPagedScores = kPagedChunk + 16;
/// Rows that read keys and values where they are, as at most one token of a sequence has: packing them repays itself
/// beyond.
inline constexpr int64_t kPagedFewRows = 8;
/// Keys of a part, by which a row's sums are cut wherever they are computed: a whole number of chunks.
inline constexpr int64_t kPagedPart = 1024;

/// The units of a step (attention_blocks.h says what parts are for; the length of a sequence is data here, so the most
/// that its row of the table can have decides how much memory there is).
struct PagedUnits {
  const PagedAttentionArgs& a;
  int64_t group, most_parts;

  explicit PagedUnits(const PagedAttentionArgs& args)
      : a(args), group(args.heads / std::max<int64_t>(1, args.key_heads)), most_parts(1) {
    // Where there are few tokens, parts are units of their own, which leave their sums in memory: up to 16 MiB.
    constexpr int64_t few_tokens = 64, most_floats = int64_t{1} << 22;
    const int64_t parts = divide_up(a.width * a.block_size, kPagedPart);
    if (a.tokens <= few_tokens && a.tokens * a.heads * parts * part_floats() <= most_floats)
      most_parts = std::max<int64_t>(1, parts);
  }
  int64_t queries(int64_t s) const { return int64_t{a.starts[s + 1]} - a.starts[s]; }
  int64_t rows(int64_t s) const { return queries(s) * group; }
  int64_t row_blocks(int64_t s) const { return (rows(s) + kAttentionRows - 1) / kAttentionRows; }
  int64_t length(int64_t s) const { return a.past[s] + queries(s); }
  int64_t chunks(int64_t s) const { return (length(s) + kPagedChunk - 1) / kPagedChunk; }
  /// Part in which the first key lies that a token sees.
  int64_t first_part(int64_t s) const {
    return a.window > 0 ? std::max<int64_t>(0, a.past[s] + 1 - a.window) / kPagedPart : 0;
  }
  /// Of them that are units of their own.
  int64_t parts(int64_t s) const {
    if (row_blocks(s) != 1 || most_parts == 1) return 1;
    return std::max<int64_t>(1, divide_up(length(s), kPagedPart) - first_part(s));
  }
  int64_t units(int64_t s) const { return a.key_heads * row_blocks(s) * parts(s); }
  /// Of what a part leaves behind for one row.
  int64_t part_floats() const { return AttentionParts::head_floats + AttentionBlocks::round_up(a.value_size, 16); }
  int64_t all_part_floats() const { return most_parts > 1 ? a.tokens * a.heads * most_parts * part_floats() : 0; }
  /// The part `part` of a row.
  float* part_of(float* parts, int64_t token, int64_t head, int64_t part) const {
    return parts + ((token * a.heads + head) * most_parts + part) * part_floats();
  }
};

/// One thread's.
struct PagedScratch {
  float *keys, *values, *dense, *scores, *queries, *vectors, *factor, *scales;
  float *sums, *largest, *total;                 // of the part that is being read …
  float *kept_sums, *kept_largest, *kept_total;  // … and of those before it
  int64_t* rows;                                 ///< of a chunk's keys: which of the caches'

  static int64_t floats(const PagedAttentionArgs& a, int64_t lanes) {
    PagedScratch none(a, lanes, nullptr);
    return none.used_;
  }
  PagedScratch(const PagedAttentionArgs& a, int64_t lanes, float* memory) : at_(memory) {
    const int64_t columns = AttentionBlocks::round_up(a.value_size, lanes);
    keys = place(4 * lanes * a.size);  // the widest panel
    values = place(kPagedChunk * columns);
    dense = place(reads_keys_in_place(a) ? 0 : kPagedChunk * a.size);
    scores = place(kAttentionRows * kPagedScores);
    for (float** part : {&sums, &kept_sums}) *part = place(kAttentionRows * columns);
    queries = place(kAttentionRows * a.size);
    vectors = place(kAttentionRows * lanes);
    for (float** part : {&largest, &total, &kept_largest, &kept_total, &factor}) *part = place(kAttentionRows);
    scales = place(kPagedChunk);
    rows = reinterpret_cast<int64_t*>(place(2 * kPagedChunk));
  }

  /// Whether keys can be packed from where they are.
  static bool reads_keys_in_place(const PagedAttentionArgs& a) { return a.key_type == DType::f32; }

 private:
  float* at_;
  int64_t used_ = 0;

  float* place(int64_t floats) {
    float* const part = at_ ? at_ + used_ : nullptr;
    used_ += AttentionScratch::whole_lines(floats);
    return part;
  }
};

}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

// Calls `f` with an address of elements of a type.
template <class F>
HWY_INLINE void with_elements(DType type, const std::byte* data, F&& f) {
  if (type == DType::f32) return f(reinterpret_cast<const float*>(data));
  if (type == DType::f16) return f(reinterpret_cast<const Half*>(data));
  if (type == DType::bf16) return f(reinterpret_cast<const BFloat*>(data));
  if (type == DType::i8) return f(reinterpret_cast<const int8_t*>(data));
  f(reinterpret_cast<const Float8*>(data));
}

template <class T>
HWY_INLINE void widen_row(const T* from, int64_t n, float* to) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  } else {
    int64_t i = 0;
    for (; i + panel_lanes() <= n; i += panel_lanes()) hn::StoreU(load_widened(from + i), PanelTag(), to + i);
    for (; i < n; ++i) to[i] = to_float(from[i]);
  }
}

// `n` elements as f32.
HWY_INLINE void read_row(DType type, const std::byte* from, int64_t n, float* to) {
  with_elements(type, from, [&](const auto* elements) HWY_ATTR { widen_row(elements, n, to); });
}

HWY_INLINE void write_row(DType type, const float* from, int64_t n, std::byte* to) {
  if (type == DType::f32) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  } else if (type == DType::f16) {
    for (int64_t i = 0; i < n; ++i) reinterpret_cast<Half*>(to)[i] = to_half(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) reinterpret_cast<BFloat*>(to)[i] = to_bfloat(from[i]);
  }
}

// What is known of a row after some of its keys: the largest score, the sum of exponentials, and of values by them.
struct PagedState {
  float *largest, *total, *sums;
};

// Adds another part's to a row's, of `n` values each.
void add_part(const PagedState& row, const PagedState& part, int64_t n) {
  const auto is_empty = [](const PagedState& s) { return *s.largest == kLowest && *s.total == 0; };
  if (is_empty(part)) return;
  if (is_empty(row)) {
    *row.largest = *part.largest;
    *row.total = *part.total;
    std::copy_n(part.sums, n, row.sums);
    return;
  }
  const float top = *part.largest > *row.largest || std::isnan(*part.largest) ? *part.largest : *row.largest;
  const auto factor_of = [&](float largest) {
    return largest == top ? 1.0F : std::exp2((largest - top) * 1.442695041F);
  };
  const float of_row = factor_of(*row.largest), of_part = factor_of(*part.largest);
  *row.largest = top;
  *row.total = *row.total * of_row + *part.total * of_part;
  for (int64_t i = 0; i < n; ++i) row.sums[i] = row.sums[i] * of_row + part.sums[i] * of_part;
}

// The result of head `head` of a token from all of its keys, to row `at` of the results.
void store_row(const PagedAttentionArgs& a, int64_t at, const PagedState& row) {
  float factor = 1, total = *row.total;
  if (a.sink) {
    const float sink = a.sink[at % a.heads], top = std::max(sink, *row.largest);
    factor = std::exp(*row.largest - top);
    total = total * factor + std::exp(sink - top);
  }
  const float inverse = factor / total;
  for (int64_t i = 0; i < a.value_size; ++i) row.sums[i] *= inverse;
  write_row(a.query_type, row.sums, a.value_size, a.result + at * a.value_size * (bit_width(a.query_type) / 8));
}

// The rows of one unit.
class PagedRows {
 public:
  PagedRows(const PagedUnits& units, PagedScratch& scratch, int64_t s, int64_t key_head, int64_t first_row,
            int64_t rows)
      : units_(units),
        a_(units.a),
        s_(scratch),
        columns_(AttentionBlocks::round_up(units.a.value_size, panel_lanes())),
        sequence_(s),
        key_head_(key_head),
        first_row_(first_row),
        rows_(rows) {
    for (int64_t r = 0; r < rows_; ++r) {
      // The scale goes into the queries, so that nothing is left to do for scores that all are seen.
      float* query = s_.queries + r * a_.size;
      read_row(a_.query_type, a_.query + place(r) * a_.size * bytes(a_.query_type), a_.size, query);
      for (int64_t i = 0; i < a_.size; ++i) query[i] *= a_.scale;
      queries_[r] = query;
    }
  }

  /// Chunks [begin, end) of the keys that the rows see.
  int64_t first_chunk() const { return seen(0).first / kPagedChunk; }
  int64_t end_chunk() const { return (seen(rows_ - 1).second + kPagedChunk - 1) / kPagedChunk; }

  /// All of them, by parts.
  void run_all() {
    const int64_t first = first_chunk() / part_chunks, end = divide_up(end_chunk(), part_chunks);
    if (!run_part(first)) {  // a sequence without keys
      std::fill_n(s_.largest, rows_, kLowest);
      std::fill_n(s_.total, rows_, 0.0F);
      std::fill_n(s_.sums, rows_ * columns_, 0.0F);
    }
    if (end <= first + 1) return;
    std::fill_n(s_.kept_largest, rows_, kLowest);
    std::fill_n(s_.kept_total, rows_, 0.0F);
    keep();
    for (int64_t part = first + 1; part < end; ++part) {
      run_part(part);
      keep();
    }
    std::swap(s_.sums, s_.kept_sums);
    std::swap(s_.largest, s_.kept_largest);
    std::swap(s_.total, s_.kept_total);
  }

  /// Those of part `part`; returns whether there are any.
  bool run_part(int64_t part) {
    const int64_t begin = std::max(first_chunk(), part * part_chunks),
                  end = std::min(end_chunk(), (part + 1) * part_chunks);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      cancellation_point();
      add_chunk(chunk, chunk == begin);
    }
    return begin < end;
  }

  /// What has been computed, as the part `part` of each row.
  void leave_part(int64_t part, bool is_empty, float* parts) const {
    for (int64_t r = 0; r < rows_; ++r) {
      float* to = units_.part_of(parts, place(r) / a_.heads, place(r) % a_.heads, part);
      to[0] = is_empty ? kLowest : s_.largest[r];
      to[1] = is_empty ? 0 : s_.total[r];
      if (!is_empty) std::copy_n(s_.sums + r * columns_, a_.value_size, to + AttentionParts::head_floats);
    }
  }

  void store() const {
    for (int64_t r = 0; r < rows_; ++r) store_row(a_, place(r), state(r));
  }

 private:
  static constexpr int64_t part_chunks = kPagedPart / kPagedChunk;

  PagedState state(int64_t r) const { return {s_.largest + r, s_.total + r, s_.sums + r * columns_}; }

  // Adds the part that was read to those before it.
  void keep() {
    for (int64_t r = 0; r < rows_; ++r)
      add_part({s_.kept_largest + r, s_.kept_total + r, s_.kept_sums + r * columns_}, state(r), a_.value_size);
  }

  void add_chunk(int64_t chunk, bool is_first) {
    // Before what the first row sees there may be blocks of anybody by now. Scores have the places of all of a chunk's
    // keys, so that totals are added up alike in whatever rows a row is among.
    const int64_t chunk_first = chunk * kPagedChunk, first = std::max(chunk_first, seen(0).first);
    const int64_t keys = std::min(chunk_first + kPagedChunk, seen(rows_ - 1).second) - first,
                  skipped = first - chunk_first;
    scores_ = s_.scores + skipped;
    find_rows(first, keys);
    HWY_ALIGN float tops[kAttentionRows];
    multiply_keys(keys);
    for (int64_t r = 0; r < rows_; ++r) {
      if (a_.relative_bias) add_bias(r, first, keys);
      const auto [begin, end] = seen(r);
      tops[r] = mask_row(s_.scores + r * kPagedScores, skipped + keys, begin - chunk_first, end - chunk_first);
    }
    add_exponentials<FloatWords>(s_.scores, kPagedScores, rows_, skipped + keys, 1, false, is_first, tops,
                                 {s_.largest, s_.total, s_.factor, s_.vectors});
    if (a_.has_value_scales) multiply_scores(a_.value_scales, keys);
    if (is_few()) {
      multiply_few_values(keys, !is_first);
    } else {
      bring_values(keys);
      multiply_values(keys, !is_first);
    }
  }

  static int64_t bytes(DType type) { return bit_width(type) / 8; }

  // The row among all tokens' heads.
  int64_t place(int64_t r) const {
    const int64_t row = first_row_ + r;
    return (a_.starts[sequence_] + row / units_.group) * a_.heads + key_head_ * units_.group + row % units_.group;
  }
  // Keys [first, second) that it sees; both grow with the row.
  std::pair<int64_t, int64_t> seen(int64_t r) const {
    const int64_t position = a_.past[sequence_] + (first_row_ + r) / units_.group;
    return {a_.window > 0 ? std::max<int64_t>(0, position + 1 - a_.window) : 0,
            a_.causal ? position + 1 : units_.length(sequence_)};
  }

  // Where keys [first, first + keys) lie: rows of the caches, of all key heads.
  void find_rows(int64_t first, int64_t keys) {
    const int32_t* table = a_.table + sequence_ * a_.width;
    for (int64_t k = 0; k < keys;) {
      const int64_t position = first + k, inside = position % a_.block_size;
      const int64_t row = int64_t{table[position / a_.block_size]} * a_.block_size + inside;
      const int64_t count = std::min(keys - k, a_.block_size - inside);
      for (int64_t i = 0; i < count; ++i) s_.rows[k + i] = (row + i) * a_.key_heads + key_head_;
      k += count;
    }
  }

  bool is_few() const { return rows_ <= kPagedFewRows; }

  // What there is for each of a chunk's keys times its scale.
  void multiply_scores(const float* scales, int64_t keys) {
    for (int64_t k = 0; k < keys; ++k) s_.scales[k] = scales[s_.rows[k]];
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t k = 0; k < keys; ++k) scores_[r * kPagedScores + k] *= s_.scales[k];
  }

  // Where the rows of a cache begin, counted in its elements.
  const int64_t* element_rows(int64_t keys, int64_t size) {
    for (int64_t k = 0; k < keys; ++k) offsets_[k] = s_.rows[k] * size;
    return offsets_;
  }

  void bring_values(int64_t keys) {
    for (int64_t k = 0; k < keys; ++k) {
      float* row = s_.values + k * columns_;
      read_row(a_.value_type, a_.values + s_.rows[k] * a_.value_size * bytes(a_.value_type), a_.value_size, row);
      for (int64_t i = a_.value_size; i < columns_; ++i) row[i] = 0;
    }
  }

  void multiply_keys(int64_t keys) {
    const int64_t* key_rows = element_rows(keys, a_.size);
    if (is_few()) {
      with_elements(a_.key_type, a_.keys, [&](const auto* base) HWY_ATTR {
        few_scores(queries_, rows_, base, key_rows, keys, a_.size, scores_, kPagedScores);
      });
    } else {
      const auto* base = reinterpret_cast<const float*>(a_.keys);
      if (!PagedScratch::reads_keys_in_place(a_)) {
        for (int64_t k = 0; k < keys; ++k) {
          read_row(a_.key_type, a_.keys + key_rows[k] * bytes(a_.key_type), a_.size, s_.dense + k * a_.size);
          offsets_[k] = k * a_.size;
        }
        base = s_.dense;
      }
      const int64_t width = panel_width(), lanes = panel_lanes();
      for (int64_t k = 0; k < keys; k += width) {
        const int64_t count = std::min(width, keys - k), stored = round_up(count, lanes);
        pack_key_rows(base, key_rows + k, count, stored, s_.keys);
        lane_scores(rows_, {.queries = queries_,
                            .panel = s_.keys,
                            .stored = stored,
                            .size = a_.size,
                            .out = scores_ + k,
                            .out_stride = kPagedScores});
      }
    }
    if (a_.has_key_scales) multiply_scores(a_.key_scales, keys);
  }

  // To a row's scores of keys [first, first + keys): within the reach the columns follow the keys, beyond it they stay.
  void add_bias(int64_t r, int64_t first, int64_t keys) {
    const int64_t head = place(r) % a_.heads, position = a_.past[sequence_] + (first_row_ + r) / units_.group;
    const float* middle = a_.relative_bias + head * (2 * a_.reach + 1) + a_.reach;
    float* x = scores_ + r * kPagedScores;
    const int64_t behind = std::clamp<int64_t>(position - a_.reach - first, 0, keys);
    const int64_t before = std::clamp<int64_t>(position + a_.reach + 1 - first, behind, keys);
    for (int64_t k = 0; k < behind; ++k) x[k] += middle[-a_.reach];
    for (int64_t k = behind; k < before; ++k) x[k] += middle[first + k - position];
    for (int64_t k = before; k < keys; ++k) x[k] += middle[a_.reach];
  }

  // Scores outside of [begin, end) become -inf; the largest of the others.
  float mask_row(float* x, int64_t keys, int64_t begin, int64_t end) {
    end = std::clamp<int64_t>(end, 0, keys);
    begin = std::clamp<int64_t>(begin, 0, end);
    float top = mask_scores(x, end, 1, a_.softcap, nullptr, 0);
    std::fill(x + end, x + keys, kLowest);
    if (begin == 0) return top;
    std::fill(x, x + begin, kLowest);
    top = kLowest;
    for (int64_t k = begin; k < end; ++k) top = x[k] > top || std::isnan(x[k]) ? x[k] : top;
    return top;
  }

  // Rows as columns of a panel: element d of row k at out[d * stored + k].
  void pack_key_rows(const float* base, const int64_t* rows, int64_t count, int64_t stored, float* out) {
    if (count < stored) {
      const PanelTag tag;
      for (int64_t d = 1; d <= a_.size; ++d) hn::Store(hn::Zero(tag), tag, out + d * stored - panel_lanes());
    }
    pack_columns(base, rows, count, a_.size, stored, out);
  }

  void multiply_few_values(int64_t keys, bool add) {
    const int64_t* value_rows = element_rows(keys, a_.value_size);
    with_elements(a_.value_type, a_.values, [&]<class T>(const T* base) HWY_ATTR {
      few_values(rows_, FewValues<T>{.p = scores_,
                                     .p_stride = kPagedScores,
                                     .base = base,
                                     .rows = value_rows,
                                     .keys = keys,
                                     .columns = a_.value_size,
                                     .sums = s_.sums,
                                     .sums_stride = columns_,
                                     .factor = add ? s_.factor : nullptr});
    });
  }

  void multiply_values(int64_t keys, bool add) {
    const int64_t width = panel_width(), lanes = panel_lanes();
    Ahead ahead;
    for (int64_t k = 0; k < keys; k += kAttentionDepth) {
      ValueTile tile;
      tile.p = scores_ + k;
      tile.p_stride = kPagedScores;
      tile.v_stride = columns_;
      tile.sums_stride = columns_;
      tile.depth = std::min(kAttentionDepth, keys - k);
      tile.add = add || k > 0;
      tile.rescale = add && k == 0;
      tile.factor = s_.factor;
      for (int64_t c = 0; c < columns_; c += width) {
        tile.v = s_.values + k * columns_ + c;
        tile.sums = s_.sums + c;
        value_tiles<FloatWords>((std::min(width, columns_ - c) + lanes - 1) / lanes, rows_, tile, ahead);
      }
    }
  }

  const PagedUnits& units_;
  const PagedAttentionArgs& a_;
  PagedScratch& s_;
  const int64_t columns_, sequence_, key_head_, first_row_, rows_;
  float* scores_ = nullptr;  // of the keys of a chunk that are read
  const float* queries_[kAttentionRows];
  int64_t offsets_[kPagedChunk];
};

// Unit `unit` of a sequence.
void run_unit(const PagedAttentionArgs& a, int64_t s, int64_t unit, float* memory, float* parts) {
  const PagedUnits units(a);
  PagedScratch scratch(a, panel_lanes(), memory);
  const int64_t count = units.parts(s), part = unit % count, block = unit / count % units.row_blocks(s);
  const int64_t first = block * kAttentionRows;
  PagedRows rows(units, scratch, s, unit / count / units.row_blocks(s), first,
                 std::min(kAttentionRows, units.rows(s) - first));
  if (count == 1) {
    rows.run_all();
    rows.store();
  } else {
    const bool any = rows.run_part(units.first_part(s) + part);
    rows.leave_part(part, !any, parts);
  }
}

// The rows of token `token` of sequence `s` from their parts.
void join_parts(const PagedAttentionArgs& a, int64_t s, int64_t token, float* parts) {
  const PagedUnits units(a);
  for (int64_t head = 0; head < a.heads; ++head) {
    const auto part = [&](int64_t i) {
      float* const at = units.part_of(parts, token, head, i);
      return PagedState{at, at + 1, at + AttentionParts::head_floats};
    };
    for (int64_t i = 1; i < units.parts(s); ++i) add_part(part(0), part(i), a.value_size);
    store_row(a, token * a.heads + head, part(0));
  }
}

int64_t paged_scratch_floats(const PagedAttentionArgs& a) {
  return PagedScratch::floats(a, panel_lanes());
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(run_unit);
HWY_EXPORT(join_parts);
HWY_EXPORT(paged_scratch_floats);

int64_t paged_attention_workspace_bytes(const PagedAttentionArgs& a, int threads) {
  if (a.tokens * a.heads == 0) return 0;
  const int64_t before = AttentionScratch::whole_lines(2 * (a.sequences + 1));
  return (before + PagedUnits(a).all_part_floats() + HWY_DYNAMIC_DISPATCH(paged_scratch_floats)(a) * threads) * 4;
}

void paged_attention(const PagedAttentionArgs& a, ThreadPool& pool, void* workspace) {
  const int64_t row_bytes = a.heads * a.value_size * bit_width(a.query_type) / 8;
  if (a.tokens * row_bytes == 0) return;
  const int64_t used = a.sequences > 0 ? a.starts[a.sequences] : 0;
  std::fill(a.result + used * row_bytes, a.result + a.tokens * row_bytes, std::byte());

  const PagedUnits units(a);
  auto* const first_unit = static_cast<int64_t*>(workspace);  // of each sequence, and the number of all
  float* const parts = static_cast<float*>(workspace) + AttentionScratch::whole_lines(2 * (a.sequences + 1));
  float* const memory = parts + units.all_part_floats();
  double work = 0;
  first_unit[0] = 0;
  for (int64_t s = 0; s < a.sequences; ++s) {
    first_unit[s + 1] = first_unit[s] + units.units(s);
    work += 4.0 * static_cast<double>(units.rows(s) * a.key_heads) * static_cast<double>(units.chunks(s)) *
            static_cast<double>(kPagedChunk * a.size);
  }
  const int64_t all = first_unit[a.sequences];
  const int64_t floats = HWY_DYNAMIC_DISPATCH(paged_scratch_floats)(a);
  // Threads are not woken for less than a few microseconds of work.
  const int threads = work < 1e6 ? 1 : static_cast<int>(std::min<int64_t>(pool.size(), all));
  // Units differ in length, so each thread takes the next one; what it computes depends on the unit alone.
  std::atomic<int64_t> next = 0;
  pool.run(threads, [&](int thread) {
    for (int64_t unit = next++; unit < all; unit = next++) {
      const int64_t s = std::upper_bound(first_unit, first_unit + a.sequences + 1, unit) - first_unit - 1;
      HWY_DYNAMIC_DISPATCH(run_unit)(a, s, unit - first_unit[s], memory + thread * floats, parts);
    }
  });
  if (units.most_parts == 1) return;
  for (int64_t s = 0; s < a.sequences; ++s)
    if (units.parts(s) > 1)
      for (int64_t token = a.starts[s]; token < a.starts[s + 1]; ++token)
        HWY_DYNAMIC_DISPATCH(join_parts)(a, s, token, parts);
}

}  // namespace camshaft::cpu
#endif
