#include "reference/move/mapped_copy.h"

#include <algorithm>

#include "base/pieces.h"
#include "ir/ops/strides.h"
#include "reference/elements.h"

namespace camshaft::ops {

namespace {

constexpr int64_t columns_at_once = 1 << 16;  // of a long row, between two looks at the flag

}  // namespace

Tensor copy_mapped(const Tensor& packed, const std::vector<std::vector<int64_t>>& maps, const Tensor& packed_fill,
                   ThreadPool& pool) {
  const size_t rank = maps.size();
  if (rank == 0) return packed;
  const Tensor x = unpack_subbyte(packed), fill = unpack_subbyte(packed_fill);
  Dims dims;
  for (const auto& map : maps) dims.push_back(static_cast<int64_t>(map.size()));
  const Dims strides = row_major_strides(x.dims());
  Tensor out(x.dtype(), dims);
  if (out.size() == 0) return pack_subbyte(out, packed.dtype());
  const std::vector<int64_t>& columns = maps[rank - 1];
  const int64_t width = dims[rank - 1];
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    const T* from = x.as<T>();
    const T& value = *fill.as<T>();
    T* to = out.as_mutable<T>();
    for_pieces(pool, out.size() / width, 32768 / width, [&](int64_t begin, int64_t end) {
      PacedCancellation cancellation;
      for (int64_t row = begin; row < end; ++row) {
        int64_t offset = 0, rest = row;
        bool outside = false;
        for (size_t a = rank - 1; a-- > 0;) {
          const int64_t i = maps[a][static_cast<size_t>(rest % dims[a])];
          rest /= dims[a];
          outside = outside || i < 0;
          offset += i * strides[a];
        }
        T* line = to + row * width;
        for (int64_t first = 0; first < width; first += columns_at_once) {
          const int64_t past = std::min(width, first + columns_at_once);
          cancellation.did(past - first);
          for (int64_t c = first; c < past; ++c) {
            const int64_t i = outside ? -1 : columns[static_cast<size_t>(c)];
            write_element(line[c], i < 0 ? value : from[offset + i]);
          }
        }
      }
    });
  });
  return pack_subbyte(out, packed.dtype());
}

}  // namespace camshaft::ops
