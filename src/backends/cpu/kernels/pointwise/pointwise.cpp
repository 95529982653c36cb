#include "backends/cpu/kernels/pointwise/pointwise.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/move/fill.h"
#include "backends/cpu/kernels/move/row_copy.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/work_scope.h"

namespace camshaft::cpu {
namespace {

// Rows shorter than this are not run one by one: the calls a row costs (about 15 ns a loop) would outweigh the work.
// Tiles then span rows, and operands that are not dense are first copied together.
constexpr int64_t short_row = 192, short_row_bytes = 4 * short_row;  // the longer of both
// But a single loop for each costs little, and nothing is copied for it, of 16 f64 and 32 f32 on. Of rows of a vector
// of bytes it costs more: 20,408 of 49 took 127 us.
constexpr int64_t least_loop_row = 16, least_loop_bytes = 128;
constexpr int64_t stage_bytes = 64 * 1024;
// Of outputs beyond the caches so much is computed in L1 before it is written. Reads wait for longer bursts of writes:
// a sum of 10^7 f32 took 4.9 ms by 2 KB on a Zen 5, where it takes 2.1 by 512 bytes and 2.4 through the caches.
constexpr int64_t streamed_bytes = 1024;
// Below this much work (additions of f32) for each thread, waking the others costs more than it saves: about 3 us.
constexpr int64_t work_per_thread = 32 * 1024;

// Copies `count` elements with a stride to consecutive ones, or the other way round.
template <class T, bool kScatter>
void move_row(const char* source, char* target, int64_t stride, int64_t count) {
  if constexpr (kScatter) {
    const auto* from = reinterpret_cast<const T*>(source);
    auto* to = reinterpret_cast<T*>(target);
    if (stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    } else {
      for (int64_t i = 0; i < count; ++i) to[i * stride] = from[i];
    }
  } else {
    const auto* from = reinterpret_cast<const T*>(source);
    auto* to = reinterpret_cast<T*>(target);
    if (stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    } else if (stride == 0) {
      std::fill_n(to, count, *from);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
    }
  }
}

// `rows` rows of `count` elements, `step` elements apart in the strided operand. DequantizeLinear of 4693 rows of 48
// i16 took 194 us when each row was staged by calls of its own (a Zen 3).
template <class T, bool kScatter>
void move_rows(char* strided, char* dense, int64_t stride, int64_t step, int64_t count, int64_t rows) {
  constexpr auto width = static_cast<int64_t>(sizeof(T));
  if (stride == 1) {
    if constexpr (kScatter) return copy_rows(count * width, dense, count * width, strided, step * width, rows);
    return copy_rows(count * width, strided, step * width, dense, count * width, rows);
  }
  if constexpr (!kScatter) {
    if (stride == 0) return fill_rows(width, count, strided, step * width, dense, count * width, rows);
  }
  for (int64_t r = 0; r < rows; ++r, strided += step * width, dense += count * width) {
    if constexpr (kScatter) {
      move_row<T, true>(dense, strided, stride, count);
    } else {
      move_row<T, false>(strided, dense, stride, count);
    }
  }
}

// Elements start … start+count-1, in row-major order of `dims`, of a strided operand to or from consecutive memory.
template <class T, bool kScatter>
void move_elements(int rank, const int64_t* dims, const int64_t* strides, int64_t start, int64_t count, char* strided,
                   char* dense) {
  int64_t at[most_strided_dims];
  int64_t offset = 0;
  for (int d = rank; d-- > 0;) {
    at[d] = start % dims[d];
    start /= dims[d];
    offset += at[d] * strides[d];
  }
  const int last = rank - 1;
  while (count > 0) {
    const int64_t n = std::min(count, dims[last] - at[last]);
    // Whole rows side by side, without a call for each.
    if (last > 0 && at[last] == 0 && count >= 2 * n && at[last - 1] + 2 <= dims[last - 1]) {
      const int64_t rows = std::min(count / n, dims[last - 1] - at[last - 1]);
      move_rows<T, kScatter>(strided + offset * static_cast<int64_t>(sizeof(T)), dense, strides[last],
                             strides[last - 1], n, rows);
      dense += rows * n * static_cast<int64_t>(sizeof(T));
      count -= rows * n;
      offset += rows * strides[last - 1];
      at[last - 1] += rows;
      for (int d = last - 1; d > 0 && at[d] == dims[d]; --d) {
        offset += strides[d - 1] - at[d] * strides[d];
        at[d] = 0;
        ++at[d - 1];
      }
      continue;
    }
    char* place = strided + offset * static_cast<int64_t>(sizeof(T));
    if constexpr (kScatter) {
      move_row<T, true>(dense, place, strides[last], n);
    } else {
      move_row<T, false>(place, dense, strides[last], n);
    }
    dense += n * static_cast<int64_t>(sizeof(T));
    count -= n;
    offset += n * strides[last];
    at[last] += n;
    for (int d = last; d > 0 && at[d] == dims[d]; --d) {
      offset += strides[d - 1] - at[d] * strides[d];
      at[d] = 0;
      ++at[d - 1];
    }
  }
}

// The same for an operand that repeats its last dim over all others, as a bias does: one period, then doubled. A bias
// of 3 elements took 0.96 ns an element when copied period by period, and takes 0.12 this way.
void repeat_period(int64_t width, int64_t period, int64_t start, int64_t count, const char* source, char* dense) {
  const int64_t phase = start % period;
  const int64_t total = count * width;
  int64_t filled = std::min(period - phase, count) * width;
  std::memcpy(dense, source + phase * width, static_cast<size_t>(filled));
  const int64_t rest = std::min(phase * width, total - filled);
  std::memcpy(dense + filled, source, static_cast<size_t>(rest));
  filled += rest;
  while (filled < total) {
    const int64_t n = std::min(filled, total - filled);
    std::memcpy(dense + filled, dense, static_cast<size_t>(n));
    filled += n;
  }
}

template <bool kScatter>
void move_any(int64_t width, int rank, const int64_t* dims, const int64_t* strides, int64_t start, int64_t count,
              char* strided, char* dense) {
  switch (width) {
    case 1:
      return move_elements<uint8_t, kScatter>(rank, dims, strides, start, count, strided, dense);
    case 2:
      return move_elements<uint16_t, kScatter>(rank, dims, strides, start, count, strided, dense);
    case 4:
      return move_elements<uint32_t, kScatter>(rank, dims, strides, start, count, strided, dense);
    default:
      return move_elements<uint64_t, kScatter>(rank, dims, strides, start, count, strided, dense);
  }
}

// Elements after which an operand begins again.
int64_t period_of(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  const auto first = std::find_if(strides.begin(), strides.end(), [](int64_t s) { return s != 0; });
  return std::accumulate(dims.begin() + (first - strides.begin()), dims.end(), int64_t{1}, std::multiplies<>());
}
// Rows that are short enough to be run one by one take longer than elements in tiles whose factors stay: 19,584 rows of
// 41 took 210 us.
constexpr int64_t most_period = 2048;

}  // namespace

// Where a thread stands: the base of every operand in the current row.
struct Pointwise::Cursor {
  static constexpr int max_operands = 64;
  char* base[max_operands];
  int rank;             // of the space that a row spans
  const int64_t* dims;  // its dims
  int first_dim;        // of them, in space_
  char* stage;
  bool streams;
};

Pointwise::Pointwise(const ScalarProgram& program, const std::vector<int64_t>& dims,
                     const std::vector<std::vector<int64_t>>& input_strides,
                     const std::vector<std::vector<int64_t>>& output_strides)
    : inputs_(program.inputs), operands_(program.inputs + static_cast<int>(program.outputs.size())) {
  space_.dims = dims;
  space_.strides = input_strides;
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    space_.strides.push_back(output_strides.empty() ? contiguous_strides(dims) : output_strides.at(k));
  }
  bool consistent = static_cast<int>(input_strides.size()) == program.inputs && operands_ > program.inputs;
  for (const auto& strides : space_.strides) consistent &= strides.size() == dims.size();
  if (!consistent) throw Error(ErrorCode::internal, "a pointwise region's strides do not match its program and dims");
  if (operands_ > Cursor::max_operands) {
    throw Error(ErrorCode::unsupported, "a pointwise region has " + std::to_string(operands_) +
                                            " inputs and outputs, more than " + std::to_string(Cursor::max_operands) +
                                            "; split it");
  }
  total_ = space_.count();
  space_.sort_by(static_cast<size_t>(inputs_));
  space_.coalesce();
  if (space_.rank() == 0) {
    space_.dims = {1};
    for (auto& strides : space_.strides) strides = {1};
  }
  if (space_.rank() > most_strided_dims) {
    throw Error(ErrorCode::unsupported, "a pointwise region's strides leave " + std::to_string(space_.rank()) +
                                            " dims that cannot be merged, more than " +
                                            std::to_string(most_strided_dims));
  }

  const int rank = space_.rank();
  // Does the operand run through the whole space as through one dense row?
  const std::vector<int64_t> dense = contiguous_strides(space_.dims);
  bool all_plain = true;
  std::vector<Access> flat_access, row_access;
  for (int k = 0; k < operands_; ++k) {
    const auto& strides = space_.strides[k];
    const bool zero = k < inputs_ && std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
    flat_access.push_back(zero ? Access::uniform : strides == dense ? Access::direct : Access::staged);
    const int64_t inner = strides[rank - 1];
    row_access.push_back(k < inputs_ && inner == 0 ? Access::uniform : inner == 1 ? Access::direct : Access::staged);
    all_plain &= flat_access.back() != Access::staged;
  }
  int64_t widest = 1;
  for (const auto& instruction : program.instructions)
    widest = std::max<int64_t>(widest, bit_width(instruction.dtype) / 8);
  const int64_t last = space_.dims[rank - 1];
  flat_ = all_plain || last < std::max(short_row, short_row_bytes / widest);
  const auto forms_of = [&](const std::vector<Access>& access) {
    std::vector<RowForm> forms;
    for (int k = 0; k < inputs_; ++k)
      forms.push_back(access[static_cast<size_t>(k)] == Access::uniform ? RowForm::uniform : RowForm::vector);
    return forms;
  };
  const bool is_direct = std::find(row_access.begin(), row_access.end(), Access::staged) == row_access.end();
  // What repeats in tiles is not copied again.
  int64_t period = 1;
  for (int k = 0; k < operands_ && period <= most_period; ++k) {
    if (flat_access[k] != Access::staged) continue;
    const int64_t own = k < inputs_ ? period_of(space_.dims, space_.strides[k]) : most_period + 1;
    period = own > most_period ? most_period + 1 : std::lcm(period, own);
  }
  if (flat_ && !all_plain && period > most_period && last >= least_loop_row && last * widest >= least_loop_bytes &&
      is_direct)
    flat_ = !TileProgram(program, forms_of(row_access)).is_one_loop(last);
  // Nor do rows of some vectors that take several loops: 10^4 rows of 1000 bytes, the greatest of two and of a row,
  // took 2.2 ms, where one tile holds two of them.
  constexpr int64_t most_tiled_bytes = 2048;
  if (!flat_ && period <= most_period && last * widest <= most_tiled_bytes)
    flat_ = !TileProgram(program, forms_of(row_access)).is_one_loop(last);
  access_ = flat_ ? flat_access : row_access;
  row_ = flat_ ? total_ : space_.dims[rank - 1];
  rows_ = row_ == 0 ? 0 : total_ / row_;

  program_ = TileProgram(program, forms_of(access_));
  for (int k = 0; k < operands_; ++k) {
    const DType type = k < inputs_ ? program_.input_type(k) : program_.output_type(k - inputs_);
    widths_.push_back(bit_width(type) / 8);
    staged_ |= access_[k] == Access::staged;
    const auto& strides = space_.strides[k];
    const bool is_last = flat_ && k < inputs_ && access_[k] == Access::staged && strides.back() == 1 &&
                         std::all_of(strides.begin(), strides.end() - 1, [](int64_t s) { return s == 0; });
    patterns_.push_back(is_last ? repeats_last_dim : 0);
  }
  one_loop_ = !flat_ && !staged_ && program_.is_one_loop(row_);
  // What is made of far less: booleans as 80 MB of f64 took 3.9 ms through the 32 MB that a core of a Zen 5 reaches,
  // and take 1.9. Where as much is read, loops that read and write at once are as fast. What computes for longer leaves
  // memory idle meanwhile, as writes past the caches are waited for: square roots took 12.1 ms, and past them 15.6.
  constexpr int64_t most_streamed_cost = 12;
  streams_ = program_.cost() <= most_streamed_cost && !staged_;
  int64_t read = 0, written = 0;  // bytes an element
  for (int k = 0; k < operands_; ++k)
    if (access_[k] != Access::uniform) (k < inputs_ ? read : written) += widths_[k];
  streams_ &= 2 * read <= written;
  for (int k = inputs_; k < operands_; ++k)
    streams_ &= access_[k] == Access::direct && total_ * widths_[k] >= least_streamed_bytes;
  const auto is_in_stage = [&](int k) { return access_[k] == Access::staged || (streams_ && k >= inputs_); };
  int64_t staged_width = 0;
  for (int k = 0; k < operands_; ++k) staged_width += is_in_stage(k) ? (widths_[k] + 7) / 8 * 8 : 0;
  tile_ = program_.tile();
  if (staged_width > 0) tile_ = std::clamp<int64_t>(stage_bytes / staged_width / 64 * 64, 64, tile_);
  for (int k = inputs_; k < operands_ && streams_; ++k) tile_ = std::min(tile_, streamed_bytes / widths_[k]);
  find_repeats(staged_width);
  int64_t offset = 0;
  for (int k = 0; k < operands_; ++k) {
    stage_offsets_.push_back(offset);
    // Tiles of whole periods may end anywhere, and the next operand may be wider.
    if (is_in_stage(k)) offset += round_up(tile_ * widths_[k], 64);
  }
}

// What is copied together may be the same in each tile, as the factors of few channels of small images are: 2436 x 2
// channels of 9 pixels took 29 us.
void Pointwise::find_repeats(int64_t staged_width) {
  constexpr int64_t kept_bytes = 16 * 1024;  // in L1, beside what passes through it
  int64_t period = 1;
  for (int k = 0; k < inputs_ && flat_; ++k) {
    const auto& strides = space_.strides[k];
    if (access_[k] != Access::staged) continue;
    const int64_t own = period_of(space_.dims, strides);
    const int64_t both = own > tile_ / 2 ? own : std::lcm(period, own);
    if (own == total_ || both > tile_ / 2) continue;
    patterns_[static_cast<size_t>(k)] |= repeats_in_tiles;
    period = both;
  }
  if (period > 1) tile_ = std::max<int64_t>(1, std::min(tile_, kept_bytes / staged_width) / period) * period;
}

void Pointwise::run_tiles(Cursor& cursor, int64_t begin, int64_t count) const {
  const void* in[Cursor::max_operands];
  void* out[Cursor::max_operands];
  const int64_t step = staged_ || cursor.streams ? tile_ : count, end = begin + count;
  int64_t n = step;
  if (cursor.streams) {
    // Lines are written whole: two tiles that share one would have it written past the caches and through them.
    const char* out_begin = cursor.base[inputs_] + begin * widths_[inputs_];
    const int64_t before = elements_before_line(out_begin, widths_[inputs_], count);
    if (before > 0) n = step - 64 / widths_[inputs_] + before;
  }
  for (int64_t i = begin; i < end; i += n, n = step) {
    n = std::min(n, end - i);
    for (int k = 0; k < operands_; ++k) {
      char* place = cursor.base[k];
      if (access_[k] == Access::direct) {
        place += i * widths_[k];
        if (cursor.streams && k >= inputs_) place = cursor.stage + stage_offsets_[k];
      }
      if (access_[k] == Access::staged) {
        place = cursor.stage + stage_offsets_[k];
        const bool is_there = (patterns_[k] & repeats_in_tiles) && i != begin;  // from the tile before
        if ((patterns_[k] & repeats_last_dim) && !is_there) {
          repeat_period(widths_[k], space_.dims.back(), i, n, cursor.base[k], place);
        } else if (k < inputs_ && !is_there) {
          move_any<false>(widths_[k], cursor.rank, cursor.dims, &space_.strides[k][cursor.first_dim], i, n,
                          cursor.base[k], place);
        }
      }
      if (k < inputs_) {
        in[k] = place;
      } else {
        out[k - inputs_] = place;
      }
    }
    program_.run_row(n, in, out);
    for (int k = inputs_; k < operands_; ++k) {
      if (cursor.streams)
        stream_copy(cursor.stage + stage_offsets_[k], cursor.base[k] + i * widths_[k], n * widths_[k]);
      if (access_[k] != Access::staged) continue;
      move_any<true>(widths_[k], cursor.rank, cursor.dims, &space_.strides[k][cursor.first_dim], i, n, cursor.base[k],
                     cursor.stage + stage_offsets_[k]);
    }
  }
}

// Elements [begin, end) of the space as it is iterated, row by row.
void Pointwise::run_span(int64_t begin, int64_t end, const void* const* inputs, void* const* outputs,
                         bool streams) const {
  if (one_loop_ && !streams) {
    const int64_t row = divide_up(begin, row_), past = end / row_;
    if (row >= past) return walk_span(begin, end, inputs, outputs, nullptr, false);
    if (begin < row * row_) walk_span(begin, row * row_, inputs, outputs, nullptr, false);
    walk_rows(row, past, inputs, outputs);
    if (past * row_ < end) walk_span(past * row_, end, inputs, outputs, nullptr, false);
    return;
  }
  if (!staged_ && !streams) return walk_span(begin, end, inputs, outputs, nullptr, false);
  run_staged(begin, end, inputs, outputs, streams);
  if (streams) finish_streams();
}

// What lies in the caches, as an input has just been read, is written there.
bool Pointwise::can_stream(const void* const* inputs, void* const* outputs) const {
  for (int k = 0; k < inputs_ && streams_; ++k)
    if (std::find(outputs, outputs + operands_ - inputs_, inputs[k]) != outputs + operands_ - inputs_) return false;
  return streams_;
}

// Never inlined: what stages nothing must not touch the pages of the stage. Spans of 1024 elements took 60 ns longer.
[[gnu::noinline]] void Pointwise::run_staged(int64_t begin, int64_t end, const void* const* inputs,
                                             void* const* outputs, bool streams) const {
  // Room for 64 operands of 8 bytes at the smallest tile; run_row's own scratch comes on top.
  alignas(64) char stage[stage_bytes];
  walk_span(begin, end, inputs, outputs, stage, streams);
}

namespace {

constexpr int64_t most_at_once = 1 << 18;

}  // namespace

void Pointwise::walk_span(int64_t begin, int64_t end, const void* const* inputs, void* const* outputs, char* stage,
                          bool streams) const {
  Cursor cursor;
  cursor.stage = stage;
  cursor.streams = streams;
  cursor.first_dim = flat_ ? 0 : space_.rank() - 1;
  cursor.rank = space_.rank() - cursor.first_dim;
  cursor.dims = space_.dims.data() + cursor.first_dim;

  const int outer = cursor.first_dim;
  int64_t at[most_strided_dims];
  int64_t row = begin / row_;
  PacedCancellation cancellation;
  for (int64_t rest = row, d = outer; d-- > 0; rest /= space_.dims[d]) at[d] = rest % space_.dims[d];
  while (begin < end) {
    for (int k = 0; k < operands_; ++k) {
      int64_t offset = 0;
      for (int d = 0; d < outer; ++d) offset += at[d] * space_.strides[k][d];
      char* base = k < inputs_ ? const_cast<char*>(static_cast<const char*>(inputs[k]))
                               : static_cast<char*>(outputs[k - inputs_]);
      cursor.base[k] = base + offset * widths_[k];
    }
    // A row may be all there is, and is asked in between whether it is to stop.
    const int64_t past_row = (row + 1) * row_, past = std::min({end, past_row, begin + most_at_once});
    run_tiles(cursor, begin - row * row_, past - begin);
    cancellation.did(past - begin);
    begin = past;
    if (begin < past_row) continue;
    ++row;
    for (int d = outer; d-- > 0;) {
      if (++at[d] < space_.dims[d]) break;
      at[d] = 0;
    }
  }
}

// Rows [row, past) of one loop each: as many at once as follow each other along the innermost of the other dims. One by
// one each took 15 ns: 1000 rows of 1000 bytes 50 us.
void Pointwise::walk_rows(int64_t row, int64_t past, const void* const* inputs, void* const* outputs) const {
  const int outer = space_.rank() - 1;
  int64_t at[most_strided_dims] = {};
  for (int64_t rest = row, d = outer; d-- > 0; rest /= space_.dims[d]) at[d] = rest % space_.dims[d];
  int64_t steps[Cursor::max_operands] = {};
  for (int k = 0; k < operands_ && outer > 0; ++k) steps[k] = space_.strides[k][outer - 1] * widths_[k];
  const int64_t most_rows = std::max<int64_t>(1, most_at_once / row_);
  PacedCancellation cancellation;
  while (row < past) {
    const void* in[Cursor::max_operands];
    void* out[Cursor::max_operands];
    for (int k = 0; k < operands_; ++k) {
      int64_t offset = 0;
      for (int d = 0; d < outer; ++d) offset += at[d] * space_.strides[k][d];
      if (k < inputs_)
        in[k] = static_cast<const char*>(inputs[k]) + offset * widths_[k];
      else
        out[k - inputs_] = static_cast<char*>(outputs[k - inputs_]) + offset * widths_[k];
    }
    const int64_t rows = outer == 0 ? 1 : std::min({past - row, space_.dims[outer - 1] - at[outer - 1], most_rows});
    program_.run_loops(row_, rows, in, out, steps);
    cancellation.did(rows * row_);
    row += rows;
    if (outer > 0) at[outer - 1] += rows;
    for (int d = outer; d-- > 1 && at[d] == space_.dims[d];) {
      at[d] = 0;
      ++at[d - 1];
    }
  }
}

int PointwiseShares::useful(int64_t work, int most) {
  return static_cast<int>(std::clamp<int64_t>(work / work_per_thread, 1, most));
}

int64_t PointwiseShares::begin(int thread) const {
  constexpr int64_t grain = 16;  // a cache line of f32
  const int64_t all = rows * row, at = all / threads * thread + all % threads * thread / threads;
  const int64_t first = at / row * row;
  if (thread == threads) return all;
  return rows >= 8 * threads ? first : first + (at - first) / grain * grain;
}

void Pointwise::run(ThreadPool& pool, const void* const* inputs, void* const* outputs) const {
  if (total_ == 0) return;
  const int threads = PointwiseShares::useful(total_ * cost(), pool.size());
  const bool streams = can_stream(inputs, outputs);
  if (threads == 1) return run_span(0, total_, inputs, outputs, streams);
  const PointwiseShares shares{rows_, row_, threads};
  pool.run(threads, [&](int thread) {
    const int64_t begin = shares.begin(thread), end = shares.begin(thread + 1);
    if (begin < end) run_span(begin, end, inputs, outputs, streams);
  });
}

void Pointwise::run_range(int64_t begin, int64_t count, const void* const* inputs, void* const* outputs) const {
  if (count == 0) return;
  // Where element 0 of each output would be. Never read or written: a number and no pointer until it is in range again.
  void* origins[Cursor::max_operands];
  for (int k = inputs_; k < operands_; ++k)
    origins[k - inputs_] = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(outputs[k - inputs_]) -
                                                   static_cast<uintptr_t>(begin * widths_[k]));
  run_span(begin, begin + count, inputs, origins, false);
}

}  // namespace camshaft::cpu
