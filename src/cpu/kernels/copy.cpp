#include "cpu/kernels/copy.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "camshaft/error.h"
#include "cpu/kernels/strided.h"
#include "cpu/kernels/transpose_tile.h"
#include "cpu/kernels/with_type.h"

namespace camshaft::cpu {
namespace {

// A thread of its own pays from here: the time to copy this from L2 is about that of waking one.
constexpr int64_t least_bytes = 64 * 1024;

struct Bytes16 {
  uint64_t low, high;
};

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void fill_row(const char* in, char* out, int64_t count) {
  const T value = load<T>(in);
  for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <class T>
void strided_row(const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = load<T>(in + i * in_step);
    std::memcpy(out + i * out_step, &value, sizeof(T));
  }
}

// Of 16 bytes too, and of any other size.
template <class Visit>
void with_any_width(int64_t width, Visit&& visit) {
  if (width == 1 || width == 2 || width == 4 || width == 8) return with_width(width, visit);
  visit(Bytes16());
}

}  // namespace

StridedCopy::StridedCopy(int64_t width, const std::vector<int64_t>& dims, const std::vector<int64_t>& in_strides,
                         const std::vector<int64_t>& out_strides)
    : width_(width) {
  StridedSpace space{dims, {out_strides.empty() ? contiguous_strides(dims) : out_strides, in_strides}};
  const bool known = width == 1 || width == 2 || width == 4 || width == 8 || width == 16;
  if (!known || space.strides[0].size() != dims.size() || in_strides.size() != dims.size()) {
    throw Error(ErrorCode::internal, "a strided copy of rank " + std::to_string(dims.size()) + " and element width " +
                                         std::to_string(width) + " was given strides of another rank or a wrong width");
  }
  if (space.count() == 0) return;
  space.sort_by(0);
  space.coalesce();
  if (space.rank() == 0) space = {{1}, {{1}, {1}}};
  for (auto& strides : space.strides) {
    for (int64_t& stride : strides) stride *= width;
  }
  // A short innermost run of consecutive elements is one wider element: [.., 2] pairs of f32 move as 8 bytes.
  auto& out = space.strides[0];
  auto& in = space.strides[1];
  while (space.rank() > 1 && out.back() == width_ && in.back() == width_) {
    const int64_t wide = space.dims.back() * width_;
    if (wide != 2 && wide != 4 && wide != 8 && wide != 16) break;
    width_ = wide;
    space.dims.pop_back();
    out.pop_back();
    in.pop_back();
  }

  if (space.rank() > most_strided_dims) {
    throw Error(ErrorCode::unsupported, "a copy's strides leave " + std::to_string(space.rank()) +
                                            " dims that cannot be merged, more than " +
                                            std::to_string(most_strided_dims));
  }
  const int last = space.rank() - 1;
  if (out[last] == width_ && in[last] == width_) {
    kind_ = Kind::rows;
  } else if (out[last] == width_ && in[last] == 0) {
    kind_ = Kind::fill;
  } else {
    kind_ = Kind::strided;
    // Rows of the output are columns of the input: take the two dims together.
    for (int d = last - 1; d >= 0 && out[last] == width_; --d) {
      // Two tiny dims are not worth the call.
      if (in[d] != width_ || std::min(space.dims[d], space.dims[last]) < 2 || space.dims[d] * space.dims[last] < 16)
        continue;
      kind_ = Kind::transpose;
      inner_ = 2;
      std::swap(space.dims[d], space.dims[last - 1]);
      std::swap(in[d], in[last - 1]);
      std::swap(out[d], out[last - 1]);
      break;
    }
  }
  dims_ = space.dims;
  in_ = in;
  out_ = out;
  items_ = 1;
  for (size_t d = 0; d + static_cast<size_t>(inner_) < dims_.size(); ++d) items_ *= dims_[d];
  item_bytes_ = width_;
  for (size_t d = dims_.size() - static_cast<size_t>(inner_); d < dims_.size(); ++d) item_bytes_ *= dims_[d];
}

namespace {

template <size_t kBytes>
void copy_short_rows(const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i, in += in_step, out += out_step) std::memcpy(out, in, kBytes);
}

// `count` rows of `bytes`. Short ones take a call of memcpy longer than it takes to copy them (sub-pixels of 3 x 3: 36
// us for 12288 rows of 12 bytes).
void copy_rows(size_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  switch (bytes) {
    case 8:
      return copy_short_rows<8>(in, in_step, out, out_step, count);
    case 12:
      return copy_short_rows<12>(in, in_step, out, out_step, count);
    case 16:
      return copy_short_rows<16>(in, in_step, out, out_step, count);
    case 24:
      return copy_short_rows<24>(in, in_step, out, out_step, count);
    case 32:
      return copy_short_rows<32>(in, in_step, out, out_step, count);
    case 64:
      return copy_short_rows<64>(in, in_step, out, out_step, count);
    default:
      for (int64_t i = 0; i < count; ++i, in += in_step, out += out_step) std::memcpy(out, in, bytes);
  }
}

}  // namespace

void StridedCopy::run_items(int64_t begin, int64_t end, const char* in, char* out) const {
  int64_t at[most_strided_dims];
  const int outer = static_cast<int>(dims_.size()) - inner_;
  int64_t rest = begin;
  for (int d = outer; d-- > 0;) {
    at[d] = rest % dims_[d];
    rest /= dims_[d];
    in += at[d] * in_[d];
    out += at[d] * out_[d];
  }
  const int64_t last = static_cast<int64_t>(dims_.size()) - 1;
  const int64_t count = dims_[last];
  for (int64_t item = begin; item < end; ++item) {
    switch (kind_) {
      case Kind::rows: {
        // As many as the innermost of the outer dims still has, but the last, which the step below leaves.
        const int64_t rows = outer == 0 ? 1 : std::min(end - item, dims_[outer - 1] - at[outer - 1]);
        const int64_t in_step = outer == 0 ? 0 : in_[outer - 1], out_step = outer == 0 ? 0 : out_[outer - 1];
        copy_rows(static_cast<size_t>(item_bytes_), in, in_step, out, out_step, rows);
        if (outer == 0) break;
        item += rows - 1;
        at[outer - 1] += rows - 1;
        in += (rows - 1) * in_step;
        out += (rows - 1) * out_step;
        break;
      }
      case Kind::fill:
        with_any_width(width_, [&](auto element) { fill_row<decltype(element)>(in, out, count); });
        break;
      case Kind::transpose:
        transpose_2d(width_, dims_[last - 1], count, in, in_[last], out, out_[last - 1]);
        break;
      case Kind::strided:
        with_any_width(width_, [&](auto e) { strided_row<decltype(e)>(in, in_[last], out, out_[last], count); });
        break;
      case Kind::empty:
        break;
    }
    for (int d = outer; d-- > 0;) {
      in += in_[d];
      out += out_[d];
      if (++at[d] < dims_[d]) break;
      in -= at[d] * in_[d];
      out -= at[d] * out_[d];
      at[d] = 0;
    }
  }
}

void StridedCopy::run(ThreadPool& pool, const void* in, void* out) const {
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  if (kind_ == Kind::empty) return;
  const int64_t total = items_ * item_bytes_;
  if (pool.size() == 1 || total < 2 * least_bytes) return run_items(0, items_, from, to);
  if (items_ >= 4 * pool.size()) {
    pool.parallel_for(items_, std::max<int64_t>(1, least_bytes / item_bytes_),
                      [&](int64_t begin, int64_t end) { run_items(begin, end, from, to); });
    return;
  }
  // Few large items: share out one dim inside each.
  const size_t d = dims_.size() - static_cast<size_t>(inner_);
  for (int64_t item = 0; item < items_; ++item) {
    int64_t rest = item, in_offset = 0, out_offset = 0;
    for (size_t k = d; k-- > 0;) {
      in_offset += rest % dims_[k] * in_[k];
      out_offset += rest % dims_[k] * out_[k];
      rest /= dims_[k];
    }
    const char* item_in = from + in_offset;
    char* item_out = to + out_offset;
    const auto last = static_cast<int64_t>(dims_.size()) - 1;
    // The longer dim of a transpose: the other may be three channels.
    const size_t cut = dims_[static_cast<size_t>(last)] > dims_[d] ? static_cast<size_t>(last) : d;
    const int64_t slice_bytes = item_bytes_ / dims_[cut];
    const int64_t grain = (std::max<int64_t>(1, least_bytes / slice_bytes) + 15) / 16 * 16;
    pool.parallel_for(dims_[cut], grain, [&](int64_t begin, int64_t end) {
      const char* a = item_in + begin * in_[cut];
      char* b = item_out + begin * out_[cut];
      const int64_t n = end - begin;
      switch (kind_) {
        case Kind::rows:
          std::memcpy(b, a, static_cast<size_t>(n * width_));
          break;
        case Kind::fill:
          with_any_width(width_, [&](auto element) { fill_row<decltype(element)>(a, b, n); });
          break;
        case Kind::transpose:
          transpose_2d(width_, cut == d ? n : dims_[d], cut == d ? dims_[last] : n, a, in_[last], b, out_[d]);
          break;
        case Kind::strided:
          with_any_width(width_, [&](auto e) { strided_row<decltype(e)>(a, in_[last], b, out_[last], n); });
          break;
        case Kind::empty:
          break;
      }
    });
  }
}

void concat(ThreadPool& pool, int64_t outer, int parts, const int64_t* bytes, const void* const* in, void* out) {
  int64_t row = 0;
  for (int k = 0; k < parts; ++k) row += bytes[k];
  if (row == 0) return;
  int64_t offset = 0;
  for (int k = 0; k < parts && outer == 1; offset += bytes[k], ++k) {
    // One block a part: split the bytes.
    pool.parallel_for(bytes[k], least_bytes, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(out) + offset + begin, static_cast<const char*>(in[k]) + begin,
                  static_cast<size_t>(end - begin));
    });
  }
  if (outer <= 1) return;
  pool.parallel_for(outer, (least_bytes + row - 1) / row, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      char* to = static_cast<char*>(out) + o * row;
      for (int k = 0; k < parts; to += bytes[k], ++k) {
        if (bytes[k] == 0) continue;  // an empty part may have no memory
        std::memcpy(to, static_cast<const char*>(in[k]) + o * bytes[k], static_cast<size_t>(bytes[k]));
      }
    }
  });
}

Pad::Pad(int64_t width, const std::vector<int64_t>& dims, const std::vector<int64_t>& before,
         const std::vector<int64_t>& after, PadMode mode)
    : width_(width), mode_(mode), in_strides_(contiguous_strides(dims)) {
  for (size_t d = 0; d < dims.size(); ++d) {
    // Negative amounts crop first; what is left is then continued.
    const int64_t first = std::max<int64_t>(-before[d], 0), begin = std::max<int64_t>(before[d], 0);
    const int64_t n = dims[d] - first - std::max<int64_t>(-after[d], 0);
    const int64_t size = begin + n + std::max<int64_t>(after[d], 0);
    if (n < 0 || (mode != PadMode::constant && n == 0 && size > 0)) {
      throw Error(ErrorCode::invalid_argument, "padding dim " + std::to_string(d) + " of size " +
                                                   std::to_string(dims[d]) + " by " + std::to_string(before[d]) +
                                                   " and " + std::to_string(after[d]) + " is not possible");
    }
    out_dims_.push_back(size);
    axes_.push_back({begin, first, n});
  }
  if (out_dims_.empty()) {
    out_dims_ = {1};
    in_strides_ = {1};
    axes_ = {{}};
  }
  const bool empty = std::find(out_dims_.begin(), out_dims_.end(), 0) != out_dims_.end();
  rows_ = empty ? 0 : 1;
  for (size_t d = 0; d + 1 < out_dims_.size() && !empty; ++d) rows_ *= out_dims_[d];
  const int64_t begin = before.empty() ? 0 : std::max<int64_t>(before.back(), 0);
  const int64_t end = after.empty() ? 0 : std::max<int64_t>(after.back(), 0);
  run_begin_ = begin;
  run_end_ = out_dims_.back() - end;
  if (dims.empty()) out_dims_.clear();
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

void Pad::run(ThreadPool& pool, const void* in, void* out, const void* value) const {
  if (rows_ == 0) return;
  const size_t last = axes_.size() - 1;
  const int64_t row = out_dims_.empty() ? 1 : out_dims_.back();
  uint64_t fill = 0;
  if (value) std::memcpy(&fill, value, static_cast<size_t>(width_));
  const char* constant = reinterpret_cast<const char*>(&fill);
  with_any_width(width_, [&](auto element) {
    using T = decltype(element);
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    pool.parallel_for(rows_, (least_bytes + row * size - 1) / (row * size), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t rest = r, offset = 0;
        bool padding = false;
        for (size_t d = last; d-- > 0;) {
          const int64_t n = out_dims_[d];
          const int64_t at = source(d, rest % n);
          rest /= n;
          padding |= at < 0;
          offset += at * in_strides_[d];
        }
        char* to = static_cast<char*>(out) + r * row * size;
        if (padding) {
          fill_row<T>(constant, to, row);
          continue;
        }
        const char* from = static_cast<const char*>(in) + offset * size;
        const auto put = [&](int64_t i) {
          const int64_t at = source(last, i);
          std::memcpy(to + i * size, at < 0 ? constant : from + at * size, sizeof(T));
        };
        for (int64_t i = 0; i < run_begin_; ++i) put(i);
        if (run_end_ > run_begin_) {
          std::memcpy(to + run_begin_ * size, from + source(last, run_begin_) * size,
                      static_cast<size_t>((run_end_ - run_begin_) * size));
        }
        for (int64_t i = run_end_; i < row; ++i) put(i);
      }
    });
  });
}

namespace {

int64_t index_at(const void* indices, bool wide, int64_t k) {
  return wide ? static_cast<const int64_t*>(indices)[k] : static_cast<const int32_t*>(indices)[k];
}

bool check_indices(const char* what, const void* indices, DType type, int64_t count, int64_t size) {
  if (type != DType::i64 && type != DType::i32) {
    throw Error(ErrorCode::invalid_argument,
                std::string(what) + " takes indices of type i64 or i32, not " + std::string(to_string(type)));
  }
  const bool wide = type == DType::i64;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t index = index_at(indices, wide, k);
    if (index >= -size && index < size) continue;
    throw Error(ErrorCode::invalid_argument, std::string(what) + ": index " + std::to_string(index) + " (number " +
                                                 std::to_string(k) + " of " + std::to_string(count) +
                                                 ") is outside the axis of size " + std::to_string(size));
  }
  return wide;
}

}  // namespace

void Gather::run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const {
  const bool wide = check_indices("gather", indices, index_type, count, size);
  if (outer == 0 || count == 0 || inner_bytes == 0) return;
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  const auto copy = [&](auto element, int64_t begin, int64_t end) {
    using T = decltype(element);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t index = index_at(indices, wide, item % count);
      const int64_t row = item / count * size + (index < 0 ? index + size : index);
      const size_t bytes = sizeof(T) == 16 ? static_cast<size_t>(inner_bytes) : sizeof(T);
      std::memcpy(to + item * inner_bytes, from + row * inner_bytes, bytes);
    }
  };
  const int64_t cost = std::max<int64_t>(inner_bytes, 16);
  pool.parallel_for(outer * count, (least_bytes + cost - 1) / cost, [&](int64_t begin, int64_t end) {
    // Single elements move as such; Bytes16 stands for any other size.
    const bool element = inner_bytes == 1 || inner_bytes == 2 || inner_bytes == 4 || inner_bytes == 8;
    with_any_width(element ? inner_bytes : 16, [&](auto e) { copy(e, begin, end); });
  });
}

void GatherElements::run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const {
  const int rank = static_cast<int>(dims.size());
  int64_t count = 1;
  for (int64_t n : index_dims) count *= n;
  const int64_t size = dims.at(static_cast<size_t>(axis));
  const bool wide = check_indices("gather_elements", indices, index_type, count, size);
  if (count == 0) return;
  with_any_width(width, [&](auto element) {
    using T = decltype(element);
    pool.parallel_for(count, 8192, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        int64_t rest = k, offset = 0, step = 1;
        for (int d = rank; d-- > 0;) {
          const int64_t at = d == axis ? index_at(indices, wide, k) : rest % index_dims[d];
          rest /= index_dims[d];
          offset += (at < 0 ? at + size : at) * step;
          step *= dims[d];
        }
        std::memcpy(static_cast<char*>(out) + k * static_cast<int64_t>(sizeof(T)),
                    static_cast<const char*>(in) + offset * static_cast<int64_t>(sizeof(T)), sizeof(T));
      }
    });
  });
}

}  // namespace camshaft::cpu
