#include "backends/cpu/kernels/move/gather.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/move/element_bytes.h"
#include "backends/cpu/kernels/move/gather_words.h"
#include "backends/cpu/kernels/move/index_runs.h"
#include "backends/cpu/kernels/move/row_copy.h"
#include "backends/cpu/kernels/move/strided.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/pieces.h"
#include "base/work_scope.h"

namespace camshaft::cpu {
namespace {

int64_t index_at(const void* indices, bool wide, int64_t k) {
  return wide ? static_cast<const int64_t*>(indices)[k] : static_cast<const int32_t*>(indices)[k];
}

void require_index_type(const char* what, DType type) {
  if (type != DType::i64 && type != DType::i32) {
    throw Error(ErrorCode::invalid_argument,
                std::string(what) + " takes indices of type i64 or i32, not " + std::string(to_string(type)));
  }
}

void check_indices(const char* what, const void* indices, DType type, int64_t count, int64_t size) {
  for (int64_t k = 0; k < count; ++k) {
    const int64_t index = index_at(indices, type == DType::i64, k);
    if (index >= -size && index < size) continue;
    throw Error(ErrorCode::invalid_argument, std::string(what) + ": index " + std::to_string(index) + " (number " +
                                                 std::to_string(k) + " of " + std::to_string(count) +
                                                 ") is outside the axis of size " + std::to_string(size));
  }
}

// visit(const int64_t*) or visit(const int32_t*)
template <class Visit>
void with_indices(const void* indices, DType type, Visit&& visit) {
  if (type == DType::i64) return visit(static_cast<const int64_t*>(indices));
  visit(static_cast<const int32_t*>(indices));
}

// out[k] = from[indices[k] * step + k * kStays]. False when an index is outside of the axis: checked on the way, as a
// pass of its own over 8 bytes an element takes as long as the rest.
template <class T, bool kStays, class Index>
bool gather_row(const char* from, const Index* indices, int64_t count, int64_t size, int64_t step, char* out) {
  constexpr auto bytes = static_cast<int64_t>(sizeof(T));
  constexpr int64_t least_vectors = 32;
  int64_t k = 0;
  if constexpr (sizeof(T) == 4) {
    if (count >= least_vectors)
      k = gather_words(reinterpret_cast<const uint32_t*>(from), indices, count, size, step, kStays,
                       reinterpret_cast<uint32_t*>(out));
  } else if constexpr (sizeof(T) < 4 && !kStays) {
    if (count >= least_vectors && step == 1)
      k = gather_words(reinterpret_cast<const T*>(from), indices, count, size, reinterpret_cast<T*>(out));
  }
  for (; k < count; ++k) {
    const int64_t index = indices[k], at = index < 0 ? index + size : index;
    if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(size)) [[unlikely]]
      return false;
    std::memcpy(out + k * bytes, from + (kStays ? at * step + k : at * step) * bytes, sizeof(T));
  }
  return true;
}

// Elements at index, index + step, …
template <class T>
void copy_run(const char* from, const IndexRun& run, char* out) {
  constexpr auto bytes = static_cast<int64_t>(sizeof(T));
  const char* first = from + run.index * bytes;
  if (run.step == 1) {
    std::memcpy(out, first, static_cast<size_t>(run.count * bytes));
  } else if (sizeof(T) == 4 && run.step == -1) {
    reverse_words(reinterpret_cast<const uint32_t*>(first), run.count, reinterpret_cast<uint32_t*>(out));
  } else {
    for (int64_t k = 0; k < run.count; ++k) std::memcpy(out + k * bytes, first + k * run.step * bytes, sizeof(T));
  }
}

// A list that short is looked at once for all slices; then only elements move.
constexpr int64_t few_places = 64;

// Nothing is read again from one slice to the next: what a processor looks ahead over then has twice as many of the
// lines that it waits for. Five elements of each of 10^4 rows of 1000 took 135 us with 25 instructions between the
// rows.
template <class T>
void pick(const char* slices, int64_t slice_bytes, int64_t n, const int64_t* offsets, int64_t count, char* out) {
  for (int64_t i = 0; i < n; ++i, slices += slice_bytes, out += count * int64_t{sizeof(T)})
    for (int64_t k = 0; k < count; ++k) std::memcpy(out + k * int64_t{sizeof(T)}, slices + offsets[k], sizeof(T));
}

// The same of rows of kBytes to 2 * kBytes, as two parts that overlap: with a call of memcpy for each, 7784 rows of 20
// bytes took 20 us.
template <size_t kBytes>
void pick_rows(const char* slices, int64_t slice_bytes, int64_t n, const int64_t* offsets, int64_t count, int64_t bytes,
               char* out) {
  const int64_t second = bytes - static_cast<int64_t>(kBytes);
  for (int64_t i = 0; i < n; ++i, slices += slice_bytes)
    for (int64_t k = 0; k < count; ++k, out += bytes) {
      const char* row = slices + offsets[k];
      std::memcpy(out, row, kBytes);
      std::memcpy(out + second, row + second, kBytes);
    }
}

constexpr int64_t least_picked = 2, most_picked = 64;  // bytes of a row
auto row_picker(int64_t bytes) {
  return bytes < 4    ? pick_rows<2>
         : bytes < 8  ? pick_rows<4>
         : bytes < 16 ? pick_rows<8>
         : bytes < 32 ? pick_rows<16>
                      : pick_rows<32>;
}

// Whether the indices are neighbours from the first on.
template <class Index>
bool is_one_run(ThreadPool& pool, const Index* indices, int64_t count, int64_t size) {
  if (indices[0] < 0 || indices[0] > size - count || indices[count - 1] != indices[0] + count - 1) return false;
  constexpr int64_t grain = 16 * 1024;
  std::atomic<bool> rises = true;
  for_pieces(pool, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end && rises.load(std::memory_order_relaxed);) {
      const int64_t past = std::min(end, k + grain);
      for (; k < past && indices[k] == indices[0] + k; ++k) {
      }
      if (k < past) rises = false;
    }
  });
  return rises;
}

// From here on it pays to look for runs, and to cut a list into parts by threads.
constexpr int64_t least_slices = 8, least_shared = 1024;

constexpr int64_t most_whole_run = 1 << 20;  // bytes that a thread copies at once

}  // namespace

// Slices that share a list which is mostly runs, as the heads of attention share relative positions: the runs are found
// once for all slices. Element by element took three times as long for 12 heads of 128 positions.
template <class T, class Index>
bool Gather::copy_runs(ThreadPool& pool, const char* in, const Index* indices, char* out) const {
  constexpr auto bytes = static_cast<int64_t>(sizeof(T));
  constexpr int64_t part = 4096;  // indices whose runs are kept: of 32 rows of 128 positions
  std::atomic<bool> inside = true;
  const int64_t grain = std::max<int64_t>(part / 16, least_bytes / (16 * outer));
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    IndexRun runs[most_runs(part)];
    for (int64_t first = begin; first < end; first += part) {
      const int64_t found = find_runs(indices + first, std::min(part, end - first), size, runs);
      for (int64_t o = 0; o < outer; ++o) {
        cancellation_point();
        const char* slice = in + o * size * bytes;
        char* to = out + (o * count + first) * bytes;
        for (const IndexRun* run = runs; run != runs + found; ++run) {
          char* row = to + run->first * bytes;
          if (!run->is_any) {
            copy_run<T>(slice, *run, row);
          } else if (!gather_row<T, false>(slice, indices + first + run->first, run->count, size, 1, row)) {
            inside = false;
            return;
          }
        }
      }
    }
  });
  return inside;
}

void Gather::check(const void* indices, DType index_type) const {
  require_index_type("gather", index_type);
  check_indices("gather", indices, index_type, count, size);
}

void Gather::run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const {
  require_index_type("gather", index_type);
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  // Single elements move as such; Bytes16 stands for any other size.
  const bool element = inner_bytes == 1 || inner_bytes == 2 || inner_bytes == 4 || inner_bytes == 8;
  if (size == 0 || outer == 0 || inner_bytes == 0 || !element)
    check_indices("gather", indices, index_type, count, size);
  if (outer == 0 || count == 0 || inner_bytes == 0) return;
  const int64_t cost = std::max<int64_t>(inner_bytes, 16), grain = (least_bytes + cost - 1) / cost;
  std::atomic<bool> inside = true;
  // visit(slice, first, past, out): all of one slice of the outer dims. 590,000 elements took 1.5 ms with a division
  // for each.
  const auto each_slice = [&](auto&& visit) {
    for_pieces(pool, outer * count, grain, [&](int64_t begin, int64_t end) {
      int64_t first = begin % count;
      const char* slice = from + begin / count * size * inner_bytes;
      for (int64_t item = begin; item < end; first = 0, slice += size * inner_bytes) {
        const int64_t past = std::min(count, first + end - item);
        visit(slice, first, past, to + item * inner_bytes);
        item += past - first;
      }
    });
  };
  with_indices(indices, index_type, [&](const auto* index) {
    // One row of each slice, or all that there is: the only one of an axis of 1, by Compress, took 42,000 rows of 84
    // bytes, and 245 us.
    if (outer > 1 && is_one_run(pool, index, count, size)) {
      const int64_t row = count * inner_bytes, step = size * inner_bytes;
      from += index[0] * inner_bytes;
      // Few long rows are shared by their bytes, and cut where they are longer than a piece: [2, 65536, 1024] has two.
      if (row >= most_whole_run)
        return for_pieces(pool, outer * row, least_bytes, [&](int64_t begin, int64_t end) {
          for (int64_t at = begin, n; at < end; at += n) {
            const int64_t o = at / row, first = at % row;
            n = std::min(end - at, row - first);
            std::memcpy(to + at, from + o * step + first, static_cast<size_t>(n));
          }
        });
      return for_pieces(pool, outer, divide_up(least_bytes, row), [&](int64_t begin, int64_t end) {
        if (row == step)
          std::memcpy(to + begin * row, from + begin * row, static_cast<size_t>((end - begin) * row));
        else
          copy_rows(row, from + begin * step, step, to + begin * row, row, end - begin);
      });
    }
    if (!element) {
      if (outer >= least_slices && count <= few_places && inner_bytes >= least_picked && inner_bytes <= most_picked) {
        int64_t offsets[few_places];
        for (int64_t k = 0; k < count; ++k)
          offsets[k] = (index[k] < 0 ? index[k] + size : int64_t{index[k]}) * inner_bytes;
        const auto picked = row_picker(inner_bytes);
        return for_pieces(pool, outer, divide_up(grain, count), [&](int64_t begin, int64_t end) {
          const int64_t slice_bytes = size * inner_bytes;
          picked(from + begin * slice_bytes, slice_bytes, end - begin, offsets, count, inner_bytes,
                 to + begin * count * inner_bytes);
        });
      }
      if (inner_bytes >= least_gathered_row && inner_bytes <= most_vector_row) {
        return each_slice([&](const char* slice, int64_t first, int64_t past, char* row) {
          int64_t offsets[few_places];
          for (int64_t k = first; k < past; k += few_places) {
            const int64_t n = std::min(few_places, past - k);
            for (int64_t i = 0; i < n; ++i)
              offsets[i] = (index[k + i] < 0 ? index[k + i] + size : int64_t{index[k + i]}) * inner_bytes;
            gather_vector_rows(inner_bytes, slice, offsets, n, row + (k - first) * inner_bytes);
          }
        });
      }
      return each_slice([&](const char* slice, int64_t first, int64_t past, char* row) {
        for (int64_t k = first; k < past; ++k, row += inner_bytes)
          std::memcpy(row, slice + (index[k] < 0 ? index[k] + size : int64_t{index[k]}) * inner_bytes,
                      static_cast<size_t>(inner_bytes));
      });
    }
    with_width(inner_bytes, [&](auto e) {
      if (outer >= least_slices && count >= least_shared && are_mostly_runs(index, count)) {
        inside = copy_runs<decltype(e)>(pool, from, index, to);
        return;
      }
      if (outer >= least_slices && count <= few_places) {
        int64_t offsets[few_places];
        for (int64_t k = 0; k < count; ++k) {
          const int64_t at = index[k] < 0 ? index[k] + size : int64_t{index[k]};
          if (at < 0 || at >= size) inside = false;
          offsets[k] = at * inner_bytes;
        }
        if (inside)
          for_pieces(pool, outer, divide_up(grain, count), [&](int64_t begin, int64_t end) {
            const int64_t slice_bytes = size * inner_bytes;
            pick<decltype(e)>(from + begin * slice_bytes, slice_bytes, end - begin, offsets, count,
                              to + begin * count * inner_bytes);
          });
        return;
      }
      each_slice([&](const char* slice, int64_t first, int64_t past, char* row) {
        if (!gather_row<decltype(e), false>(slice, index + first, past - first, size, 1, row)) inside = false;
      });
    });
  });
  if (!inside) check_indices("gather", indices, index_type, count, size);
}

GatherElements::GatherElements(int64_t width, const std::vector<int64_t>& dims, const std::vector<int64_t>& index_dims,
                               int axis)
    : width_(width), size_(dims.at(static_cast<size_t>(axis))) {
  const std::vector<int64_t> strides = contiguous_strides(dims);
  const auto at = static_cast<size_t>(axis);
  step_ = strides[at];
  // A row goes along the axis where nothing is behind it, else along what lies together behind it.
  stays_ = std::any_of(index_dims.begin() + axis + 1, index_dims.end(), [](int64_t n) { return n != 1; });
  size_t first = stays_ ? dims.size() - 1 : at;
  while (first > at && dims[first] == 1) --first;
  row_ = index_dims[first];
  while (stays_ && first > at + 1 && row_ == strides[first - 1]) row_ *= index_dims[--first];
  for (size_t d = 0; d < first; ++d) {
    if (index_dims[d] == 1) continue;
    dims_.push_back(index_dims[d]);
    strides_.push_back(d == at ? 0 : strides[d]);
  }
  for (const int64_t n : index_dims) count_ *= n;
  in_bytes_ = width * strides.front() * dims.front();
}

template <class T, class Index>
bool GatherElements::gather(const char* in, const Index* indices, int64_t begin, int64_t end, char* out) const {
  constexpr auto bytes = static_cast<int64_t>(sizeof(T));
  int64_t at[most_strided_dims];
  int64_t offset = 0;
  for (int64_t rest = begin / row_, d = static_cast<int64_t>(dims_.size()); d-- > 0;
       rest /= dims_[static_cast<size_t>(d)]) {
    const auto axis = static_cast<size_t>(d);
    at[d] = rest % dims_[axis];
    offset += at[d] * strides_[axis];
  }
  constexpr int64_t most_ahead = 32 * 1024, l2_bytes = 1 << 20;
  const int64_t reach = size_ * step_ * bytes;
  // Along rows only where most lines are read: one element of each row of 1000 took twice as long otherwise.
  const bool reads_most = in_bytes_ > l2_bytes && row_ * 64 >= reach;
  const bool fetches = reach <= most_ahead && (stays_ || reads_most);
  int64_t before = -1;  // offset of the rows before
  int64_t first = begin % row_;
  for (int64_t item = begin; item < end; first = 0) {
    const int64_t n = std::min(row_ - first, end - item);
    const char* from = in + (offset + (stays_ ? first : 0)) * bytes;
    // What the next rows read, in the order of memory: they themselves read it in any, and wait for each line.
    if (fetches && offset != before)
      for (int64_t ahead = reach; ahead < std::min(2 * reach, in_bytes_ - offset * bytes); ahead += 64)
        __builtin_prefetch(in + offset * bytes + ahead);
    before = offset;
    const bool inside = stays_ ? gather_row<T, true>(from, indices + item, n, size_, step_, out + item * bytes)
                               : gather_row<T, false>(from, indices + item, n, size_, step_, out + item * bytes);
    if (!inside) return false;
    item += n;
    for (size_t d = dims_.size(); d-- > 0; at[d] = 0) {
      offset += strides_[d];
      if (++at[d] < dims_[d]) break;
      offset -= dims_[d] * strides_[d];
    }
  }
  return true;
}

void GatherElements::run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const {
  require_index_type("gather_elements", index_type);
  if (size_ == 0) check_indices("gather_elements", indices, index_type, count_, size_);
  std::atomic<bool> inside = true;
  with_indices(indices, index_type, [&](const auto* index) {
    with_width(width_, [&](auto element) {
      for_pieces(pool, count_, 8192, [&](int64_t begin, int64_t end) {
        if (!gather<decltype(element)>(static_cast<const char*>(in), index, begin, end, static_cast<char*>(out)))
          inside = false;
      });
    });
  });
  if (!inside) check_indices("gather_elements", indices, index_type, count_, size_);
}

}  // namespace camshaft::cpu
