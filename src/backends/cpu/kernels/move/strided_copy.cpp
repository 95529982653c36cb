#include "backends/cpu/kernels/move/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/move/element_bytes.h"
#include "backends/cpu/kernels/move/fill.h"
#include "backends/cpu/kernels/move/row_copy.h"
#include "backends/cpu/kernels/move/strided.h"
#include "backends/cpu/kernels/move/transpose_tile.h"
#include "base/error.h"

namespace camshaft::cpu {
namespace {

template <class T>
void strided_row(const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = load<T>(in + i * in_step);
    std::memcpy(out + i * out_step, &value, sizeof(T));
  }
}

struct RowSteps {
  int64_t rows, in, out;  // bytes from one to the next
};

template <class T>
void strided_rows(const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count, RowSteps steps) {
  for (int64_t r = 0; r < steps.rows; ++r, in += steps.in, out += steps.out)
    strided_row<T>(in, in_step, out, out_step, count);
}

// Rows are written in order, and heads of 256 bytes then read with gaps, each page of the input once for each head:
// beyond L2 they are read in order instead, and written to a few places that each go on in order. 4 heads of 10^7 f32
// took 4.3 ms, and take 2.6. Returns whether they are.
bool read_in_order(StridedSpace& space, int last) {
  constexpr int64_t l2_bytes = 1 << 20, page = 4096, most_places = 64;
  auto &out = space.strides[0], &in = space.strides[1];
  const int64_t places = space.dims[last - 2], rows = space.dims[last - 1], bytes = in[last] * space.dims[last];
  if (in[last - 2] >= in[last - 1] || in[last - 2] > page || places > most_places || places * rows * bytes <= l2_bytes)
    return false;
  std::swap(space.dims[last - 2], space.dims[last - 1]);
  std::swap(out[last - 2], out[last - 1]);
  std::swap(in[last - 2], in[last - 1]);
  return true;
}

// Such rows are written past the caches where these would not hold them: whole lines then, which nothing reads first. 4
// heads of 10^7 i64 took 6.1 ms, and take 3.2.
constexpr int64_t least_streamed = 32 << 20, least_streamed_row = 256, line_bytes = 64;

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
  if (find_permutation(space)) {
    kind_ = Kind::permute;
  } else if (out[last] == width_ && in[last] == width_) {
    kind_ = Kind::rows;
    const int64_t row = space.dims[last] * width_;
    streams_ = last >= 2 && read_in_order(space, last) && space.count() * width_ >= least_streamed &&
               row >= least_streamed_row && row % line_bytes == 0;
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
  find_repeats();
  lengthen_batches();
}

// Short items that the innermost of the outer dims has few of are taken along a longer dim, where what these see stays
// in L1: each few cost a call. DepthToSpace of 16 x 48 x 32 x 2 f32 by 4 took 45 us, two items of 16 bytes at a time.
void StridedCopy::lengthen_batches() {
  constexpr int64_t short_item = 64, few = 8, far_longer = 4, l1_bytes = 16 * 1024;
  const bool is_short = (kind_ == Kind::rows || kind_ == Kind::strided) && item_bytes_ <= short_item;
  if (!is_short || streams_ || dims_.size() < 3 || std::find(in_.begin(), in_.end(), 0) != in_.end()) return;
  const size_t innermost = dims_.size() - 2;
  if (dims_[innermost] >= few) return;
  size_t best = innermost;
  for (size_t d = innermost; d-- > 0;) {
    if (dims_[d] * std::max(std::abs(in_[d]), std::abs(out_[d])) > l1_bytes) break;
    if (dims_[d] >= far_longer * dims_[innermost] && dims_[d] > dims_[best]) best = d;
  }
  std::swap(dims_[best], dims_[innermost]);
  std::swap(in_[best], in_[innermost]);
  std::swap(out_[best], out_[innermost]);
}

// The innermost dims are short blocks in both tensors, whose elements change places: 10^5 matrices of 2 x 2 i64 took
// 494 us as transposes of their own, and take 75.
bool StridedCopy::find_permutation(const StridedSpace& space) {
  const auto &out = space.strides[0], &in = space.strides[1];
  const int last = space.rank() - 1;
  int64_t count = 1;
  for (int d = last; d > 0 && out[d] == count * width_; --d) {
    count *= space.dims[d];
    const int64_t bytes = count * width_;
    if (bytes > BlockPermutation::most_bytes) return false;
    if (out[d - 1] != bytes || in[d - 1] != bytes) continue;
    // Of few blocks in a row the tables take longer than the blocks.
    constexpr int64_t least_blocks = 8;
    if (space.dims[d - 1] < least_blocks) return false;
    // Where each element comes from; each once.
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::vector<bool> taken(order.size());
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, from = 0;
      for (int k = last; k >= d; rest /= space.dims[k--]) from += rest % space.dims[k] * in[k];
      if (from < 0 || from >= bytes || from % width_ != 0 || taken[static_cast<size_t>(from / width_)]) return false;
      order[static_cast<size_t>(i)] = from / width_;
      taken[static_cast<size_t>(from / width_)] = true;
    }
    if (std::is_sorted(order.begin(), order.end())) return false;
    permutation_ = BlockPermutation(width_, order);
    if (permutation_.empty()) return false;
    inner_ = last - d + 1;
    return true;
  }
  return false;
}

void StridedCopy::find_repeats() {
  // What is still in L2 when it is copied. Tile of 1620 rows of 31 f32, twice each and five of them three times, took
  // 177 us row by row (a Zen 3).
  constexpr int64_t most_block_bytes = 256 * 1024;
  // Short rows take longer than a copy of all of them from L3: Tile of 14,856 blocks of 6 rows of 2 f32, the rows and
  // the blocks twice each and all of it three times, took 735 us with a call for each of 44,568 blocks.
  constexpr int64_t short_row = 256, most_of_short_rows = 8 << 20;
  const int64_t most_bytes = item_bytes_ <= short_row ? most_of_short_rows : most_block_bytes;
  const size_t outer = dims_.size() - static_cast<size_t>(inner_);
  for (size_t d = 0; d < outer; ++d) {
    const bool is_single_row = kind_ == Kind::rows && d + 1 == outer;  // which copy_rows() repeats
    if (in_[d] != 0 || is_single_row) continue;
    int64_t bytes = width_, end = width_;
    for (size_t k = d + 1; k < dims_.size(); ++k) bytes *= dims_[k], end += (dims_[k] - 1) * out_[k];
    if (bytes != end || out_[d] != bytes || bytes > most_bytes) continue;
    // The width may be that of several elements, and the block counts in it: rows of three pairs lie 12 bytes apart.
    const auto counts = [&](int64_t stride) { return stride % width_ == 0; };
    if (!std::all_of(in_.begin() + static_cast<std::ptrdiff_t>(d) + 1, in_.end(), counts)) continue;
    const auto inside = [&](const std::vector<int64_t>& of, int64_t unit) {
      std::vector<int64_t> result(of.begin() + static_cast<std::ptrdiff_t>(d) + 1, of.end());
      for (int64_t& value : result) value /= unit;
      return result;
    };
    block_.push_back(StridedCopy(width_, inside(dims_, 1), inside(in_, width_), inside(out_, width_)));
    block_dims_ = d;
    block_bytes_ = bytes;
    repeats_ = dims_[d];
    blocks_ = 1;
    for (size_t k = 0; k < d; ++k) blocks_ *= dims_[k];
    return;
  }
}

void StridedCopy::run_blocks(int64_t begin, int64_t end, const char* in, char* out) const {
  for (int64_t block = begin; block < end; ++block) {
    const auto [from, to] = block_at(block);
    block_.front().run(in + from, out + to);
    copy_rows(block_bytes_, out + to, 0, out + to + block_bytes_, block_bytes_, repeats_ - 1);
  }
}

std::pair<int64_t, int64_t> StridedCopy::block_at(int64_t block) const {
  int64_t from = 0, to = 0;
  for (size_t d = block_dims_; d-- > 0; block /= dims_[d]) {
    from += block % dims_[d] * in_[d];
    to += block % dims_[d] * out_[d];
  }
  return {from, to};
}

// Large blocks, of which threads share each.
void StridedCopy::run_shared_blocks(ThreadPool& pool, const char* in, char* out) const {
  for (int64_t block = 0; block < blocks_; ++block) {
    const auto [from, to] = block_at(block);
    char* first = out + to;
    block_.front().run(pool, in + from, first);
    pool.parallel_for(block_bytes_, least_bytes, [&](int64_t begin, int64_t end) {
      for (int64_t r = 1; r < repeats_; ++r)
        std::memcpy(first + r * block_bytes_ + begin, first + begin, static_cast<size_t>(end - begin));
    });
  }
}

namespace {

// Rows of kBytes to 2 · kBytes.
template <size_t kBytes>
void repeat_two_parts(int64_t bytes, const char* in, int64_t in_step, int64_t repeats, char* out, int64_t group_step,
                      int64_t groups) {
  const int64_t second = bytes - static_cast<int64_t>(kBytes);
  for (int64_t g = 0; g < groups; ++g, in += in_step, out += group_step) {
    char front[kBytes], back[kBytes];
    std::memcpy(front, in, kBytes);
    std::memcpy(back, in + second, kBytes);
    char* to = out;
    for (int64_t r = 0; r < repeats; ++r, to += bytes) {
      std::memcpy(to, front, kBytes);
      std::memcpy(to + second, back, kBytes);
    }
  }
}

// `groups` rows, in_step apart, each of them `repeats` times behind itself; group_step from one to the next in `out`.
void repeat_rows(int64_t bytes, const char* in, int64_t in_step, int64_t repeats, char* out, int64_t group_step,
                 int64_t groups) {
  if (bytes < 4 || bytes > 64) {
    for (int64_t g = 0; g < groups; ++g, in += in_step, out += group_step) copy_rows(bytes, in, 0, out, bytes, repeats);
  } else if (bytes < 8) {
    repeat_two_parts<4>(bytes, in, in_step, repeats, out, group_step, groups);
  } else if (bytes < 16) {
    repeat_two_parts<8>(bytes, in, in_step, repeats, out, group_step, groups);
  } else if (bytes <= 32) {
    repeat_two_parts<16>(bytes, in, in_step, repeats, out, group_step, groups);
  } else {
    repeat_two_parts<32>(bytes, in, in_step, repeats, out, group_step, groups);
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
  const auto advance = [&] {
    for (int d = outer; d-- > 0;) {
      in += in_[d];
      out += out_[d];
      if (++at[d] < dims_[d]) break;
      in -= at[d] * in_[d];
      out -= at[d] * out_[d];
      at[d] = 0;
    }
  };
  for (int64_t item = begin; item < end; ++item) {
    // As many at once as the innermost of the outer dims still has.
    const int64_t batch = outer == 0 ? 1 : std::min(end - item, dims_[outer - 1] - at[outer - 1]);
    const int64_t in_step = outer == 0 ? 0 : in_[outer - 1], out_step = outer == 0 ? 0 : out_[outer - 1];
    // Rows that are repeated a few times each, many of them at once: 12480 rows of 28 bytes twice took 130 us.
    constexpr int64_t few = 16;
    const bool repeats = kind_ == Kind::rows && outer >= 2 && in_step == 0 && out_step == item_bytes_ && batch <= few &&
                         batch == dims_[outer - 1];
    if (repeats) {
      const int64_t groups = std::min((end - item) / batch, dims_[outer - 2] - at[outer - 2]);
      const int64_t from_step = in_[outer - 2], to_step = out_[outer - 2];
      repeat_rows(item_bytes_, in, from_step, batch, out, to_step, groups);
      item += groups * batch - 1;
      at[outer - 2] += groups - 1;
      at[outer - 1] = batch - 1;
      in += (groups - 1) * from_step;
      out += (groups - 1) * to_step + (batch - 1) * out_step;
      advance();
      continue;
    }
    switch (kind_) {
      case Kind::rows:
        if (streams_) {
          for (int64_t r = 0; r < batch; ++r) stream_copy(in + r * in_step, out + r * out_step, item_bytes_);
        } else {
          copy_rows(item_bytes_, in, in_step, out, out_step, batch);
        }
        break;
      case Kind::fill:
        fill_rows(width_, count, in, in_step, out, out_step, batch);
        break;
      case Kind::transpose:
        transpose_2d(width_, {dims_[last - 1], count, in_[last], out_[last - 1]}, in, out, {batch, in_step, out_step});
        break;
      case Kind::permute:
        permutation_.run(in, out, batch);  // which lie one behind the other
        break;
      case Kind::strided:
        with_any_width(width_, [&](auto e) {
          strided_rows<decltype(e)>(in, in_[last], out, out_[last], count, {batch, in_step, out_step});
        });
        break;
      case Kind::empty:
        break;
    }
    if (batch > 1) {  // all but the last, which the step below leaves
      item += batch - 1;
      at[outer - 1] += batch - 1;
      in += (batch - 1) * in_step;
      out += (batch - 1) * out_step;
    }
    advance();
  }
  if (streams_) finish_streams();
}

void StridedCopy::run(const void* in, void* out) const {
  if (kind_ == Kind::empty) return;
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  block_.empty() ? run_items(0, items_, from, to) : run_blocks(0, blocks_, from, to);
}

void StridedCopy::run(ThreadPool& pool, const void* in, void* out) const {
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  if (kind_ == Kind::empty) return;
  const int64_t total = items_ * item_bytes_;
  if (pool.size() == 1 || total < 2 * least_bytes) return run(in, out);
  if (!block_.empty() && blocks_ >= 4 * pool.size()) {
    pool.parallel_for(blocks_, std::max<int64_t>(1, least_bytes / (block_bytes_ * repeats_)),
                      [&](int64_t begin, int64_t end) { run_blocks(begin, end, from, to); });
    return;
  }
  if (!block_.empty() && block_bytes_ >= least_bytes * pool.size()) return run_shared_blocks(pool, from, to);
  if (items_ >= 4 * pool.size() || kind_ == Kind::permute) {
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
          fill_elements(width_, a, b, n);
          break;
        case Kind::transpose:
          transpose_2d(width_, {cut == d ? n : dims_[d], cut == d ? dims_[last] : n, in_[last], out_[d]}, a, b);
          break;
        case Kind::strided:
          with_any_width(width_, [&](auto e) { strided_row<decltype(e)>(a, in_[last], b, out_[last], n); });
          break;
        case Kind::permute:  // whose items are small
        case Kind::empty:
          break;
      }
    });
  }
}

}  // namespace camshaft::cpu
