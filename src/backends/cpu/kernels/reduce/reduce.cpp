#include "backends/cpu/kernels/reduce/reduce.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "backends/cpu/kernels/move/strided.h"
#include "backends/cpu/kernels/reduce/divide_totals.h"
#include "backends/cpu/kernels/reduce/reduce_rows.h"
#include "backends/cpu/kernels/reduce/reduce_units.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/pieces.h"

namespace camshaft::cpu {
namespace {

// Outputs of an item.
constexpr int64_t max_block = most_columns;
// Below this much work (additions of f32) for each thread, waking the others costs more than it saves.
constexpr int64_t least_work = 32 * 1024;
// A tile of computed elements, in L1 where that has 48 KB. Half of it was 1 to 5 % slower (silu over 168 to 1792
// channels): fewer rows are added up at once, and more of the time goes into calls.
constexpr int64_t tile_bytes = 32 * 1024;
// Where the tensor is in memory, pieces are no tiles. Multiples of the blocks that sums are added in double by.
constexpr int64_t dense_row = 32 * 1024, dense_rows = 256;
// Rows of few columns are taken several for one (reduce_dense_columns()), so many columns together.
constexpr int64_t filled_row = 64, fewest_together = 4;

// Offset of the index-th element of a sub-space of the first `rank` dims.
int64_t offset_of(int64_t index, size_t rank, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t d = rank; d-- > 0;) {
    offset += index % dims[d] * strides[d];
    index /= dims[d];
  }
  return offset;
}

// out[i] = finish(totals[i])
template <class T>
void finish_all(ReduceKind kind, const Partial<T>* totals, int64_t n, int64_t count, T* out) {
  if constexpr (std::is_same_v<T, float>) {
    if (kind == ReduceKind::mean) return divide_totals(totals, n, static_cast<double>(count), out);
  } else if constexpr (std::is_integral_v<T>) {
    if (kind == ReduceKind::mean && count > 0) return divide_totals<T>(totals, n, count, out);
  }
  if (kind == ReduceKind::mean)
    for (int64_t i = 0; i < n; ++i) out[i] = finish<T>(ReduceKind::mean, totals[i], count);
  else
    std::transform(totals, totals + n, out, [](Partial<T> total) { return static_cast<T>(total); });
}

}  // namespace

/// Rows of consecutive elements.
template <class T>
struct Reduce::Matrix {
  const T* data;
  int64_t stride;
};

struct Reduce::Item {
  int64_t offset;   // of its first element
  int64_t first;    // its first output
  int64_t units;    // neighbours of the innermost dim that stays
  int64_t columns;  // of each: outputs beside each other
};

Reduce::Reduce(ReduceKind kind, DType dtype, const std::vector<int64_t>& dims, const std::vector<int>& axes)
    : kind_(kind), dtype_(dtype) {
  with_type(dtype, "reduction", [](auto) {});
  std::vector<bool> goes(dims.size(), false);
  for (int axis : axes) {
    if (axis < 0 || axis >= static_cast<int>(dims.size()) || goes[static_cast<size_t>(axis)]) {
      throw Error(ErrorCode::internal, "a reduction of rank " + std::to_string(dims.size()) + " was given the axis " +
                                           std::to_string(axis) + ", out of range or twice");
    }
    goes[static_cast<size_t>(axis)] = true;
  }
  const std::vector<int64_t> strides = contiguous_strides(dims);
  int last = -1;  // of the previous dim: 1 goes, 0 stays
  for (size_t d = 0; d < dims.size(); ++d) {
    (goes[d] ? count_ : outputs_) *= dims[d];
    if (dims[d] == 1) continue;
    auto& sizes = goes[d] ? reduced_dims_ : kept_dims_;
    auto& steps = goes[d] ? reduced_strides_ : kept_strides_;
    if (last == static_cast<int>(goes[d])) {  // neighbours of a dense tensor always merge
      sizes.back() *= dims[d];
      steps.back() = strides[d];
    } else {
      sizes.push_back(dims[d]);
      steps.push_back(strides[d]);
    }
    last = goes[d];
  }
  inner_reduced_ = last != 0;
  if (!inner_reduced_) {
    width_ = kept_dims_.back();
    kept_dims_.pop_back();
    kept_strides_.pop_back();
  }
  if (reduced_dims_.empty()) {
    reduced_dims_ = {1};
    reduced_strides_ = {1};
  }
  if (kept_dims_.empty()) {
    kept_dims_ = {1};
    kept_strides_ = {1};
  }
  if (outputs_ > 0 && count_ > 0) lay_out();
}

void Reduce::compute_from(Pointwise before) {
  before_ = std::move(before);
  if (outputs_ > 0 && count_ > 0) lay_out();
}

// Depends on the shape alone, and so do the sums.
void Reduce::lay_out() {
  const int64_t tile = tile_bytes * 8 / bit_width(dtype_);
  const int64_t innermost = reduced_dims_.back();
  const int64_t unit = innermost * width_;  // consecutive elements
  batch_ = std::clamp<int64_t>(std::min(tile / unit, max_block / width_), 1, kept_dims_.back());
  blocks_ = divide_up(width_, max_block);
  block_ = std::min(width_, divide_up(divide_up(width_, blocks_), 16) * 16);
  blocks_ = divide_up(width_, block_);
  items_ = outputs_ / (width_ * kept_dims_.back()) * divide_up(kept_dims_.back(), batch_) * blocks_;
  // Rows that are taken several for one are as many of these: of 34788 x 4, 256 at a time were half of the time calls.
  const int64_t together = fewest_together * width_ <= filled_row ? filled_row / width_ : 1;
  const int64_t most = inner_reduced_ ? before_ ? tile : dense_row : before_ ? tile / block_ : dense_rows * together;
  // Blocks of columns are read with gaps, which what fetches memory ahead does not follow: sums over the middle axis of
  // 6250 x 40 x 40 took 4.8 ms, and all of them 3.2.
  constexpr int64_t least_ahead = 4 << 20;  // bytes: beyond most second-level caches
  ahead_ = !before_ && !inner_reduced_ && blocks_ == 1 && outputs_ * count_ * bit_width(dtype_) / 8 >= least_ahead;
  step_ = batch_ > 1 ? innermost : std::min(innermost, most);
  steps_ = divide_up(innermost, step_);
  pieces_ = count_ / innermost * steps_;
  // Rows of 200 took 1.1 times as long that way, of 64 0.8 times.
  constexpr int64_t least_layers = 4, longest_row = 128;
  // A computed tensor is computed several layers at once: 10,920 pieces of 4 f32 took 750 us one by one.
  const int64_t layer = kept_dims_.back() * unit;
  const bool is_read = !before_ || (batch_ == kept_dims_.back() && layer <= most_columns);
  layered_ = is_read && steps_ == 1 && blocks_ == 1 && reduced_dims_.size() > 1 &&
             reduced_dims_.end()[-2] >= least_layers && unit <= longest_row &&
             (!before_ || reduced_strides_.end()[-2] == layer);
  // Few outputs of much are shared out by pieces, where a part has enough to be worth a result of its own.
  constexpr int64_t many_items = 16, most_shares = 64, least_elements = 8 * 1024, least_rows = 64;
  // A part of layers begins with its columns' starts and ends with its rows: of 6 layers each half of the time.
  const int64_t share = std::max({least_elements, least_rows * block_, layered_ ? 32 * batch_ * unit : 0});
  parts_ = items_ < many_items ? std::min({most_shares / items_, batch_ * block_ * count_ / share, pieces_}) : 1;
  pieces_per_part_ = divide_up(pieces_, std::max<int64_t>(parts_, 1));
  parts_ = divide_up(pieces_, pieces_per_part_);
  // Of [.., 3, 2, 2] without the axes of 3 and of the last 2, 9268 blocks took 276 us one by one.
  constexpr int64_t most_stacked = 256, least_blocks = 64;
  is_stacked_ = !before_ && reduced_dims_.size() == 2 && kept_dims_.size() == 2 &&
                reduced_strides_[0] * reduced_dims_[0] <= most_stacked && kept_strides_[1] < reduced_strides_[0] &&
                kept_strides_[0] > reduced_strides_[0] && kept_dims_[0] >= least_blocks;
  is_of_few_rows_ = !inner_reduced_ && pieces_ == 1 && parts_ == 1 && takes_few_rows(kind_, dtype_, count_);
}

Reduce::Item Reduce::item_at(int64_t item) const {
  const int64_t beside = kept_dims_.back(), batches = divide_up(beside, batch_);
  const int64_t column = item % blocks_ * block_, batch = item / blocks_;
  const int64_t in_row = batch % batches * batch_, unit = batch / batches * beside + in_row;
  return {offset_of(unit, kept_dims_.size(), kept_dims_, kept_strides_) + column, unit * width_ + column,
          std::min(batch_, beside - in_row), std::min(block_, width_ - column)};
}

// `rows` rows of `columns` elements, `width_` apart unless there is only one of them.
template <class T>
Reduce::Matrix<T> Reduce::fetch(const ReduceOperands& operands, T* tile, int64_t begin, int64_t rows,
                                int64_t columns) const {
  if (!before_) return {static_cast<const T*>(operands.in) + begin, width_};
  void* to = tile;
  if (columns == width_) {
    before_->run_range(begin, rows * columns, operands.before, &to);
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      to = tile + r * columns;
      before_->run_range(begin + r * width_, columns, operands.before, &to);
    }
  }
  return {tile, columns};
}

// Rows of few columns are taken several for one, so that they fill vectors, and what is left of these is joined: 62,225
// rows of 3 i64 took 161 us.
template <class T, class P>
void Reduce::reduce_dense_columns(const T* x, int64_t rows, int64_t stride, int64_t columns, P* totals) const {
  const int64_t together = filled_row / columns;
  if (stride != columns || together < fewest_together || rows < fewest_together * together)
    return reduce_columns(kind_, x, rows, stride, columns, totals, ahead_);
  alignas(64) P wide[filled_row];
  std::fill_n(wide, together * columns, identity<T>(kind_));
  const int64_t whole = rows / together;
  reduce_columns(kind_, x, whole, together * stride, together * columns, wide, ahead_);
  for (int64_t k = 0; k < together; ++k) merge_into(kind_, wide + k * columns, columns, totals);
  const int64_t done = whole * together;
  if (done < rows) reduce_columns(kind_, x + done * stride, rows - done, stride, columns, totals, ahead_);
}

// Rows, or small matrices, that lie over each other, whole ones [begin, end): first the columns of all of them, then
// what is left, of the size of a layer. With a look across each row's vector, 10^6 f32 in 625 layers of 40 rows of 40
// took 250 us.
template <class T, class P>
void Reduce::reduce_layers(const ReduceOperands& operands, T* tile, const Item& item, int64_t begin, int64_t end,
                           P* totals) const {
  const size_t over = reduced_dims_.size() - 2;
  const int64_t n = reduced_dims_.back(), unit = n * width_, layers = reduced_dims_[over];
  const int64_t most = most_columns / unit;
  const bool is_extreme = kind_ == ReduceKind::max || kind_ == ReduceKind::min;
  const bool is_merged = is_extreme || kind_ == ReduceKind::prod;
  const ReduceKind merging = is_merged ? kind_ : ReduceKind::sum;
  alignas(64) P best[most_columns];
  alignas(64) T line[most_columns];
  for (int64_t u = 0; u < item.units; u += most) {
    const int64_t units = std::min(most, item.units - u), columns = units * unit;
    std::fill_n(best, columns, identity<T>(kind_));
    for (int64_t row = begin; row < end;) {
      int64_t count = std::min(end - row, layers - row % layers);
      const int64_t at = item.offset + u * unit + offset_of(row, over + 1, reduced_dims_, reduced_strides_);
      if (before_) {
        count = std::min(count, tile_bytes / static_cast<int64_t>(sizeof(T)) / columns);
        void* to = tile;
        before_->run_range(at, count * columns, operands.before, &to);
        reduce_dense_columns(tile, count, columns, columns, best);
      } else {
        reduce_dense_columns(static_cast<const T*>(operands.in) + at, count, reduced_strides_[over], columns, best);
      }
      row += count;
    }
    if (width_ > 1) {
      reduce_units<P>(merging, best, units, n, width_, totals + u * width_);
    } else if (is_extreme) {
      std::transform(best, best + columns, line, [](P extreme) { return static_cast<T>(extreme); });
      reduce_rows(kind_, line, units, n, totals + u);
    } else {
      reduce_rows<P>(merging, best, units, n, totals + u);
    }
  }
}

template <class T, class P>
void Reduce::reduce_pieces(const ReduceOperands& operands, T* tile, const Item& item, int64_t begin, int64_t end,
                           P* totals) const {
  if (layered_) return reduce_layers(operands, tile, item, begin, end, totals);
  const int64_t innermost = reduced_dims_.back();
  for (int64_t piece = begin; piece < end; ++piece) {
    const int64_t first = piece % steps_ * step_, n = std::min(step_, innermost - first);
    const int64_t at =
        item.offset + offset_of(piece / steps_, reduced_dims_.size() - 1, reduced_dims_, reduced_strides_);
    if (inner_reduced_) {
      const T* x = fetch(operands, tile, at + first, 1, item.units * n).data;
      reduce_rows(kind_, x, item.units, n, totals);
    } else {
      const Matrix<T> x = fetch(operands, tile, at + first * width_, item.units * n, item.columns);
      if (item.units > 1 && x.stride == item.columns && n <= 64) {
        reduce_units(kind_, x.data, item.units, n, item.columns, totals);
        continue;
      }
      for (int64_t u = 0; u < item.units; ++u)
        reduce_dense_columns(x.data + u * n * x.stride, n, x.stride, item.columns, totals + u * item.columns);
    }
  }
}

template <class T>
void Reduce::run_as(ThreadPool& pool, const ReduceOperands& operands) const {
  using P = Partial<T>;
  const P start = identity<T>(kind_);
  T* out = static_cast<T*>(operands.out);
  const auto go_on = [&](int64_t first, int64_t past) {
    void* to = out + first;
    if (behind_) behind_->run_range(first, past - first, operands.behind, &to);
  };
  if (count_ == 0) {
    std::fill_n(out, outputs_, finish<T>(kind_, start, 0));
    return go_on(0, outputs_);
  }
  P* partial = reinterpret_cast<P*>(operands.workspace);
  const int64_t works = items_ * parts_;
  const int64_t work = std::max<int64_t>(1, outputs_ * count_ / works * (before_ ? 1 + before_->cost() : 1));
  for_pieces(pool, works, divide_up(least_work, work), [&](int64_t begin, int64_t end) {
    alignas(64) T tile[tile_bytes / sizeof(T)];
    alignas(64) P totals[max_block];
    for (int64_t w = begin; w < end; ++w) {
      const Item item = item_at(w / parts_);
      if constexpr (sizeof(T) >= 4) {
        if (is_of_few_rows_) {
          const Matrix<T> x = fetch(operands, tile, item.offset, item.units * count_, item.columns);
          reduce_few_rows(kind_, x.data, item.units, count_, item.columns, x.stride, out + item.first);
          continue;
        }
      }
      const int64_t n = item.units * item.columns, part = w % parts_;
      P* sums = parts_ > 1 ? partial + part * outputs_ + item.first : totals;
      std::fill_n(sums, n, start);
      reduce_pieces(operands, tile, item, part * pieces_per_part_, std::min(pieces_, (part + 1) * pieces_per_part_),
                    sums);
      if (parts_ == 1) finish_all(kind_, sums, n, count_, out + item.first);
    }
    if (parts_ > 1) return;
    const Item last = item_at(end - 1);
    go_on(item_at(begin).first, last.first + last.units * last.columns);
  });
  if (parts_ == 1) return;
  for (int64_t part = 1; part < parts_; ++part) merge_into(kind_, partial + part * outputs_, outputs_, partial);
  finish_all(kind_, partial, outputs_, count_, out);
  go_on(0, outputs_);
}

// Blocks [outer axis that goes, axis that stays, inner axis that goes, columns]: first the inner axis of as many as a
// buffer takes, then the outer one of what is left.
template <class T>
void Reduce::run_stacked(ThreadPool& pool, const ReduceOperands& operands) const {
  using P = Partial<T>;
  constexpr int64_t most = 2048;
  const int64_t n = reduced_dims_[1], over = reduced_dims_[0], left = kept_dims_[1] * width_, block = over * left;
  const bool is_merged = kind_ == ReduceKind::max || kind_ == ReduceKind::min || kind_ == ReduceKind::prod;
  const ReduceKind merging = is_merged ? kind_ : ReduceKind::sum;
  const T* in = static_cast<const T*>(operands.in);
  T* out = static_cast<T*>(operands.out);
  // Groups begin where the shape says, not where a thread does: the last rows of one may be added up otherwise.
  const int64_t together = most / block, groups = divide_up(kept_dims_[0], together);
  for_pieces(pool, groups, divide_up(least_work, together * block * n), [&](int64_t first, int64_t last) {
    alignas(64) P inner[most], totals[most];
    const int64_t begin = first * together, end = std::min(kept_dims_[0], last * together);
    for (int64_t b = begin; b < end; b += together) {
      const int64_t blocks = std::min(together, end - b);
      const T* x = in + b * block * n;
      std::fill_n(inner, blocks * block, identity<T>(kind_));
      std::fill_n(totals, blocks * left, identity<T>(kind_));
      if (width_ == 1)
        reduce_rows(kind_, x, blocks * block, n, inner);
      else
        reduce_units(kind_, x, blocks * over * kept_dims_[1], n, width_, inner);
      reduce_units<P>(merging, inner, blocks, over, left, totals);
      finish_all(kind_, totals, blocks * left, count_, out + b * left);
    }
    void* to = out + begin * left;
    if (behind_) behind_->run_range(begin * left, (end - begin) * left, operands.behind, &to);
  });
}

void Reduce::run(ThreadPool& pool, const ReduceOperands& operands) const {
  if (outputs_ == 0) return;
  if (is_stacked_)
    return with_type(dtype_, "reduction", [&](auto element) { run_stacked<decltype(element)>(pool, operands); });
  with_type(dtype_, "reduction", [&](auto element) { run_as<decltype(element)>(pool, operands); });
}

}  // namespace camshaft::cpu
