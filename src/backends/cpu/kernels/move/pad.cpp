#include "backends/cpu/kernels/move/pad.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/move/element_bytes.h"
#include "backends/cpu/kernels/move/fill.h"
#include "backends/cpu/kernels/move/row_copy.h"
#include "backends/cpu/kernels/move/strided.h"
#include "base/error.h"
#include "base/pieces.h"

namespace camshaft::cpu {

Pad::Pad(int64_t width, const std::vector<int64_t>& dims, const std::vector<int64_t>& before,
         const std::vector<int64_t>& after, PadMode mode)
    : width_(width), mode_(mode) {
  const std::vector<int64_t> strides = contiguous_strides(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    // Negative amounts crop first; what is left is then continued.
    const int64_t first = std::max<int64_t>(-before[d], 0), begin = std::max<int64_t>(before[d], 0);
    const int64_t n = dims[d] - first - std::max<int64_t>(-after[d], 0);
    const int64_t size = begin + n + std::max<int64_t>(after[d], 0);
    // What is put before an empty axis and cropped behind it leaves it empty.
    if (n < 0 ? dims[d] != 0 || size != 0 : mode != PadMode::constant && n == 0 && size > 0) {
      throw Error(ErrorCode::invalid_argument, "padding dim " + std::to_string(d) + " of size " +
                                                   std::to_string(dims[d]) + " by " + std::to_string(before[d]) +
                                                   " and " + std::to_string(after[d]) + " is not possible");
    }
    out_dims_.push_back(size);
    axes_.push_back({begin, first, n, size, strides[d]});
  }
  const bool empty = std::find(out_dims_.begin(), out_dims_.end(), 0) != out_dims_.end();
  if (!empty) merge();
  if (axes_.empty()) axes_.push_back({});
  // Whole lines that could not be merged are what is repeated: 8 x 29 x 119 x 18 x 1 elements, all axes but the last
  // wrapped around, took 9.6 ms as rows of one element, and take 0.62.
  if (const size_t n = axes_.size(); !empty && n > 1 && is_whole(axes_[n - 1], axes_[n - 2])) {
    unit_ = axes_.back().size;
    axes_.pop_back();
  }
  rows_ = empty ? 0 : 1;
  for (size_t d = 0; d + 1 < axes_.size() && !empty; ++d) rows_ *= axes_[d].out;
  run_begin_ = axes_.back().begin;
  run_end_ = axes_.back().begin + axes_.back().size;
}

bool Pad::is_whole(const Axis& axis, const Axis& before) {
  return axis.begin == 0 && axis.first == 0 && axis.size == axis.out && before.stride == axis.size * axis.stride;
}

// Whole axes are taken with the one before them: 128 lines of 136 rows of one element each took 250 us, row by row.
void Pad::merge() {
  std::vector<Axis> merged;
  for (const Axis& axis : axes_) {
    const bool joins = !merged.empty() && is_whole(axis, merged.back()) &&
                       (mode_ == PadMode::constant || merged.back().size == merged.back().out);
    if (!joins) {
      merged.push_back(axis);
      continue;
    }
    Axis& last = merged.back();
    last = {last.begin * axis.size, last.first * axis.size, last.size * axis.size, last.out * axis.size, axis.stride};
  }
  axes_ = std::move(merged);
}

// Computed and not looked up: a table of a long dim of an empty tensor would be all that takes memory.
int64_t Pad::source(size_t d, int64_t i) const {
  const Axis& axis = axes_[d];
  const int64_t n = axis.size;
  int64_t at = i - axis.begin;
  if (at < 0 || at >= n) {
    switch (mode_) {
      case PadMode::constant:
        return -1;
      case PadMode::edge:
        at = std::clamp<int64_t>(at, 0, n - 1);
        break;
      case PadMode::wrap:
        at = (at % n + n) % n;
        break;
      case PadMode::reflect: {
        const int64_t period = std::max<int64_t>(1, 2 * (n - 1));
        at = (at % period + period) % period;
        at = n == 1 ? 0 : at < n ? at : period - at;
        break;
      }
    }
  }
  return axis.first + at;
}

namespace {

// Two parts that overlap, where a call of memcpy would take longer.
template <size_t kBytes>
void copy_two_parts(const char* from, size_t bytes, char* to) {
  char first[kBytes], second[kBytes];
  std::memcpy(first, from, kBytes);
  std::memcpy(second, from + bytes - kBytes, kBytes);
  std::memcpy(to, first, kBytes);
  std::memcpy(to + bytes - kBytes, second, kBytes);
}

void copy_line(const char* from, size_t bytes, char* to) {
  if (bytes > 64 || bytes < 4) {
    std::memcpy(to, from, bytes);
  } else if (bytes >= 32) {
    copy_two_parts<32>(from, bytes, to);
  } else if (bytes >= 16) {
    copy_two_parts<16>(from, bytes, to);
  } else if (bytes >= 8) {
    copy_two_parts<8>(from, bytes, to);
  } else {
    copy_two_parts<4>(from, bytes, to);
  }
}

}  // namespace

template <class T>
void Pad::run_rows(int64_t begin, int64_t end, const char* in, char* out, const char* constant) const {
  constexpr auto width = static_cast<int64_t>(sizeof(T));
  const int64_t size = unit_ * width;  // of what the last axis counts
  const size_t last = axes_.size() - 1;
  const int64_t row = axes_[last].out;
  // Where the elements at the ends of a row come from, the same for all rows: computed once for short ends.
  constexpr int64_t most_edges = 64;
  int64_t edges[most_edges];
  const bool repeats = mode_ == PadMode::constant, listed = !repeats && row - (run_end_ - run_begin_) <= most_edges;
  int64_t count = 0;
  const auto each_edge = [&](auto&& visit) {
    for (int64_t i = 0; i < run_begin_; ++i) visit(i);
    for (int64_t i = run_end_; i < row; ++i) visit(i);
  };
  if (listed) each_edge([&](int64_t i) { edges[count++] = source(last, i) * size; });
  // Of each axis but the last, the position in the result and where that is in the input; -1 for the constant.
  int64_t at[most_strided_dims], from[most_strided_dims];
  int64_t rest = begin;
  const auto look_up = [&](size_t d) {
    const int64_t index = source(d, at[d]);
    from[d] = index < 0 ? -1 : index * axes_[d].stride * width;
  };
  for (size_t d = last; d-- > 0; rest /= axes_[d].out) {
    at[d] = rest % axes_[d].out;
    look_up(d);
  }
  const int64_t inside = (run_end_ - run_begin_) * size;
  const int64_t first = inside > 0 ? source(last, run_begin_) * size : 0;
  // Few constants are copied from where they are side by side: one by one, 3 and 5 rows of 3 at the ends of 7910 lines
  // took a third of the time.
  alignas(64) char constants[256];
  for (size_t i = 0; i < sizeof(constants); i += sizeof(T)) std::memcpy(constants + i, constant, sizeof(T));
  const auto fill_end = [&](char* to, int64_t n) {
    const auto bytes = static_cast<size_t>(n) * sizeof(T);
    if (bytes > sizeof(constants)) return fill_elements(width, constant, to, n);
    if (bytes > 0) copy_line(constants, bytes, to);
  };
  const auto write_row = [&](const char* line, char* to) {
    if (inside > 0) copy_line(line + first, static_cast<size_t>(inside), to + run_begin_ * size);
    if (repeats) {
      fill_end(to, run_begin_);
      fill_end(to + run_end_ * size, row - run_end_);
    } else if (unit_ > 1) {
      const int64_t* edge = edges;
      each_edge([&](int64_t i) {
        const int64_t offset_of_edge = listed ? *edge++ : source(last, i) * size;
        std::memcpy(to + i * size, line + offset_of_edge, static_cast<size_t>(size));
      });
    } else if (listed) {
      const int64_t* edge = edges;
      each_edge([&](int64_t i) { std::memcpy(to + i * size, line + *edge++, sizeof(T)); });
    } else {
      each_edge([&](int64_t i) { std::memcpy(to + i * size, line + source(last, i) * size, sizeof(T)); });
    }
  };
  // Short rows: what is the same of all, some at a time, which stay in L1. One by one, 29,200 of 2 elements and a
  // constant took 155 us.
  constexpr int64_t short_row = 64, together = 16 * 1024;  // bytes
  const auto write_some_rows = [&](const char* line, int64_t step, char* to, int64_t rows) {
    if (repeats) fill_elements(width, constant, to, rows * row * unit_);
    if (inside > 0) copy_rows(inside, line + first, step, to + run_begin_ * size, row * size, rows);
    if (repeats) return;
    const int64_t* edge = edges;
    each_edge([&](int64_t i) {
      const char* from_edge = line + (listed ? *edge++ : source(last, i) * size);
      char* to_edge = to + i * size;
      if (unit_ > 1) return copy_rows(size, from_edge, step, to_edge, row * size, rows);
      for (int64_t k = 0; k < rows; ++k) std::memcpy(to_edge + k * row * size, from_edge + k * step, sizeof(T));
    });
  };
  const auto write_rows = [&](const char* line, int64_t step, char* to, int64_t rows) {
    constexpr int64_t least_rows = 4;
    if (row * size > short_row || rows < least_rows) {
      for (int64_t i = 0; i < rows; ++i, line += step, to += row * size) write_row(line, to);
      return;
    }
    const int64_t most = together / (row * size);
    for (; rows > 0; rows -= most, line += most * step, to += most * row * size)
      write_some_rows(line, step, to, std::min(rows, most));
  };
  for (int64_t r = begin; r < end; ++r) {
    int64_t offset = 0;
    size_t outside = last;  // the outermost axis along which the row is padding
    for (size_t d = last; d-- > 0;) {
      if (from[d] < 0) outside = d;
      offset += from[d];
    }
    char* to = out + r * row * size;
    if (outside < last) {
      // As are those that follow until that axis has an element, or ends.
      int64_t rows = 1, done = 0;
      for (size_t d = outside + 1; d < last; ++d) {
        rows *= axes_[d].out;
        done = done * axes_[d].out + at[d];
        at[d] = axes_[d].out - 1;
      }
      const Axis& axis = axes_[outside];
      const int64_t past = at[outside] < axis.begin ? std::min(axis.begin, axis.out) : axis.out;
      rows = std::min(rows * (past - at[outside]) - done, end - r);
      at[outside] = past - 1;
      fill_elements(width, constant, to, rows * row * unit_);
      r += rows - 1;
    } else {
      // Those that lie one behind the other in the input follow at once.
      int64_t rows = 1, step = 0;
      if (last > 0) {
        const Axis& axis = axes_[last - 1];
        const int64_t index = at[last - 1] - axis.begin;
        if (index >= 0 && index < axis.size) rows = std::min(axis.size - index, end - r);
        step = axis.stride * width;
      }
      write_rows(in + offset, step, to, rows);
      r += rows - 1;
      if (last > 0) at[last - 1] += rows - 1;
    }
    for (size_t d = last; d-- > 0;) {
      at[d] = at[d] + 1 == axes_[d].out ? 0 : at[d] + 1;
      look_up(d);
      if (at[d] != 0) break;
    }
  }
}

void Pad::run(ThreadPool& pool, const void* in, void* out, const void* value) const {
  if (rows_ == 0) return;
  uint64_t fill = 0;
  if (value) std::memcpy(&fill, value, static_cast<size_t>(width_));
  const auto* constant = reinterpret_cast<const char*>(&fill);
  const int64_t bytes = axes_.back().out * unit_ * width_;
  with_width(width_, [&](auto element) {
    for_pieces(pool, rows_, (least_bytes + bytes - 1) / bytes, [&](int64_t begin, int64_t end) {
      run_rows<decltype(element)>(begin, end, static_cast<const char*>(in), static_cast<char*>(out), constant);
    });
  });
}

}  // namespace camshaft::cpu
