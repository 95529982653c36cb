#include "reference/move/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/pieces.h"
#include "ir/ops/strides.h"
#include "reference/elements.h"
#include "reference/move/axis_slice.h"

namespace camshaft::ops {

namespace {

constexpr int64_t copied_a_piece = 1 << 15;  // a piece below some 10 µs costs more to hand out than it saves
constexpr int64_t tile = 16;                 // 16 floats are a cache line: each line read is used whole

// Drops axes of size 1 and merges neighbours that both sides walk as one.
StridedBox simplified(const StridedBox& box) {
  StridedBox out;
  out.source_offset = box.source_offset;
  out.target_offset = box.target_offset;
  for (size_t i = 0; i < box.sizes.size(); ++i) {
    if (box.sizes[i] == 1) continue;
    if (!out.sizes.empty() && out.source_strides.back() == box.source_strides[i] * box.sizes[i] &&
        out.target_strides.back() == box.target_strides[i] * box.sizes[i]) {
      out.sizes.back() *= box.sizes[i];
      out.source_strides.back() = box.source_strides[i];
      out.target_strides.back() = box.target_strides[i];
      continue;
    }
    out.sizes.push_back(box.sizes[i]);
    out.source_strides.push_back(box.source_strides[i]);
    out.target_strides.push_back(box.target_strides[i]);
  }
  return out;
}

// Calls visit(source, target) with the offsets of positions [begin, end) of the first `axes` axes.
template <class Visit>
void walk(const StridedBox& box, size_t axes, int64_t begin, int64_t end, Visit&& visit) {
  Dims at(axes, 0);
  int64_t source = box.source_offset, target = box.target_offset, rest = begin;
  for (size_t a = axes; a-- > 0;) {
    at[a] = rest % box.sizes[a];
    rest /= box.sizes[a];
    source += at[a] * box.source_strides[a];
    target += at[a] * box.target_strides[a];
  }
  for (int64_t i = begin; i < end; ++i) {
    visit(source, target);
    for (size_t a = axes; a-- > 0;) {
      source += box.source_strides[a];
      target += box.target_strides[a];
      if (++at[a] < box.sizes[a]) break;
      source -= at[a] * box.source_strides[a];
      target -= at[a] * box.target_strides[a];
      at[a] = 0;
    }
  }
}

// What is filled is copied on: copies move 64 bytes at a time wherever the machine can, and this file's loops 16.
template <class T>
void fill_row(const T& value, T* to, int64_t count) {
  constexpr int64_t most = 16 * 1024 / static_cast<int64_t>(sizeof(T));  // of which copies come from L1
  if constexpr (!std::is_trivially_copyable_v<T>) {
    for (int64_t i = 0; i < count; ++i) write_element(to[i], value);
  } else {
    int64_t filled = std::min<int64_t>(count, 64);
    std::fill_n(to, filled, value);
    while (filled < count) {
      const int64_t n = std::min({filled, most, count - filled});
      std::memcpy(to + filled, to, static_cast<size_t>(n) * sizeof(T));
      filled += n;
    }
  }
}

template <class T>
void copy_row(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t count) {
  if (from_stride == 1 && to_stride == 1) return copy_elements(from, to, count);
  if (from_stride == 0 && to_stride == 1) return fill_row(*from, to, count);
  for (int64_t i = 0; i < count; ++i) write_element(to[i * to_stride], from[i * from_stride]);
}

template <class T>
void copy_rows(const StridedBox& box, const T* from, T* to, ThreadPool& pool) {
  const size_t outer = box.sizes.size() - 1;
  const int64_t count = box.sizes[outer], from_stride = box.source_strides[outer],
                to_stride = box.target_strides[outer];
  if (outer == 0) {
    for_pieces(pool, count, copied_a_piece, [&](int64_t begin, int64_t end) {
      copy_row(from + box.source_offset + begin * from_stride, from_stride, to + box.target_offset + begin * to_stride,
               to_stride, end - begin);
    });
    return;
  }
  for_pieces(pool, product(box.sizes, 0, outer), copied_a_piece / count, [&](int64_t begin, int64_t end) {
    walk(box, outer, begin, end,
         [&](int64_t source, int64_t target) { copy_row(from + source, from_stride, to + target, to_stride, count); });
  });
}

// The last two axes cross: one is contiguous in the source, the other in the target.
template <class T>
void copy_tiles(const StridedBox& box, const T* from, T* to, ThreadPool& pool) {
  const size_t outer = box.sizes.size() - 2;
  const int64_t rows = box.sizes[outer], columns = box.sizes[outer + 1];
  const int64_t from_row = box.source_strides[outer], from_column = box.source_strides[outer + 1];
  const int64_t to_row = box.target_strides[outer], to_column = box.target_strides[outer + 1];
  const int64_t strips = (rows + tile - 1) / tile, planes = product(box.sizes, 0, outer);
  const int64_t grain = std::max<int64_t>(1, copied_a_piece / (tile * columns));
  for_pieces(pool, planes * strips, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      walk(box, outer, piece / strips, piece / strips + 1, [&](int64_t source, int64_t target) {
        const int64_t r0 = piece % strips * tile, r1 = std::min(rows, r0 + tile);
        for (int64_t c0 = 0; c0 < columns; c0 += tile) {
          const int64_t c1 = std::min(columns, c0 + tile);
          for (int64_t r = r0; r < r1; ++r) {
            for (int64_t c = c0; c < c1; ++c)
              write_element(to[target + r * to_row + c * to_column], from[source + r * from_row + c * from_column]);
          }
        }
      });
    }
  });
}

}  // namespace

void copy_strided(const StridedBox& full, const Tensor& source, std::byte* target, ThreadPool& pool) {
  if (std::find(full.sizes.begin(), full.sizes.end(), 0) != full.sizes.end()) return;
  StridedBox box = simplified(full);
  if (box.sizes.empty()) box.sizes = box.source_strides = box.target_strides = {1};
  const size_t last = box.sizes.size() - 1;
  bool crossed = false;
  if (box.source_strides[last] != 1 && box.source_strides[last] != 0) {
    const auto contiguous = std::find(box.source_strides.begin(), box.source_strides.end(), 1);
    if (contiguous != box.source_strides.end()) {
      const auto axis = contiguous - box.source_strides.begin();
      for (Dims* d : {&box.sizes, &box.source_strides, &box.target_strides})
        std::rotate(d->begin() + axis, d->begin() + axis + 1, d->end() - 1);
      crossed = true;
    }
  }
  visit_storage(source.dtype(), [&]<class T>(const T&) {
    const T* from = source.as<T>();
    T* to = reinterpret_cast<T*>(target);
    if (crossed) {
      copy_tiles(box, from, to, pool);
    } else {
      copy_rows(box, from, to, pool);
    }
  });
}

Tensor copied(const StridedBox& box, const Tensor& source, ThreadPool& pool) {
  Tensor out = Tensor::uncleared(source.dtype(), box.sizes);
  copy_strided(box, source, out.mutable_data(), pool);
  return out;
}

}  // namespace camshaft::ops
