// The reference evaluation of gather, gather_elements and scatter_nd.
#include <algorithm>

#include "base/pieces.h"
#include "base/thread_pool.h"
#include "ir/ops/move.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"
#include "reference/elements.h"
#include "reference/move/number_lists.h"
#include "reference/move/scatter_combine.h"

namespace camshaft::ops {

namespace {

constexpr int64_t gathered_a_piece = 1 << 15;

// Indices into an axis of `size` elements, counted from the front and checked.
std::vector<int64_t> read_indices(const Tensor& indices, int64_t size, int64_t axis) {
  std::vector<int64_t> out = indices.to_ints();
  for (int64_t& i : out) i = checked_index(i, size, axis);
  return out;
}

}  // namespace

std::vector<Tensor> Gather::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const auto at = static_cast<size_t>(axis);
  const int64_t size = x.dims().at(at);
  const MemoryClaim claim = claim_numbers(context.input(1).size());
  const std::vector<int64_t> indices = read_indices(context.input(1), size, axis);
  const int64_t outer = product(x.dims(), 0, at), inner = product(x.dims(), at + 1, x.dims().size());
  Dims dims(x.dims().begin(), x.dims().begin() + axis);
  dims.insert(dims.end(), context.input(1).dims().begin(), context.input(1).dims().end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  Tensor out = Tensor::uncleared(x.dtype(), dims);
  if (out.size() == 0) return {pack_subbyte(out, context.input(0).dtype())};  // of any number of empty slices
  const auto count = static_cast<int64_t>(indices.size());
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    const T* from = x.as<T>();
    T* to = out.as_mutable<T>();
    const int64_t grain = gathered_a_piece / std::max<int64_t>(inner, 1);
    for_pieces(context.pool, outer * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        copy_elements(from + (i / count * size + indices[static_cast<size_t>(i % count)]) * inner, to + i * inner,
                      inner);
    });
  });
  return {pack_subbyte(out, context.input(0).dtype())};
}

std::vector<Tensor> GatherElements::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const auto at = static_cast<size_t>(axis);
  const Dims& dims = context.input(1).dims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != at && dims[i] > x.dims().at(i))
      fail_rule("the indices have {} elements on axis {}, the input {}", dims[i], i, x.dims()[i]);
  const MemoryClaim claim = claim_numbers(context.input(1).size());
  const std::vector<int64_t> indices = read_indices(context.input(1), x.dims().at(at), axis);
  const Dims strides = row_major_strides(x.dims());
  Tensor out(x.dtype(), dims);
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    const T* from = x.as<T>();
    T* to = out.as_mutable<T>();
    for_pieces(context.pool, out.size(), gathered_a_piece / 8, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        int64_t offset = indices[static_cast<size_t>(o)] * strides[at], rest = o;
        for (size_t a = dims.size(); a-- > 0;) {
          if (a != at) offset += rest % dims[a] * strides[a];
          rest /= dims[a];
        }
        write_element(to[o], from[offset]);
      }
    });
  });
  return {pack_subbyte(out, context.input(0).dtype())};
}

std::vector<Tensor> ScatterND::evaluate(const EvalContext& context) const {
  const Tensor updates = unpack_subbyte(context.input(2));
  const Tensor& indices = context.input(1);
  Tensor out = unpack_subbyte(context.input(0)).copy();
  const Dims& dims = out.dims();
  const int64_t depth = indices.dims().back();
  Dims expected(indices.dims().begin(), indices.dims().end() - 1);
  const int64_t count = product(expected, 0, expected.size());
  expected.insert(expected.end(), dims.begin() + depth, dims.end());
  if (updates.dims() != expected)
    fail_rule("the updates have shape {}, indices and input ask for {}", to_string(updates.dims()),
              to_string(expected));

  if (updates.size() == 0) return {pack_subbyte(out, context.input(0).dtype())};  // of any number of empty slices
  const MemoryClaim claim = claim_numbers(indices.size() + count);
  const std::vector<int64_t> raw = indices.to_ints();
  std::vector<int64_t> slices(static_cast<size_t>(count), 0);  // which slice of the input each update goes to
  for (int64_t i = 0; i < count; ++i) {
    int64_t& slice = slices[static_cast<size_t>(i)];
    for (int64_t a = 0; a < depth; ++a) {
      const int64_t size = dims[static_cast<size_t>(a)];
      slice = slice * size + checked_index(raw[static_cast<size_t>(i * depth + a)], size, a);
    }
  }
  const auto split = static_cast<size_t>(depth);
  const int64_t inner = product(dims, split, dims.size());
  const auto scatter = [&](auto&& apply) {
    // Threads share out the slices, not the updates: of repeated indices the later one wins, however many threads.
    const int64_t grain = std::max<int64_t>(1, count * inner < gathered_a_piece ? product(dims, 0, split) : 1);
    context.pool.parallel_for(product(dims, 0, split), grain, [&](int64_t begin, int64_t end) {
      PacedCancellation cancellation;
      for (int64_t i = 0; i < count; ++i) {
        cancellation.did(1);
        const int64_t slice = slices[static_cast<size_t>(i)];
        if (slice >= begin && slice < end) apply(slice * inner, i * inner);
      }
    });
  };
  if (kind == ScatterKind::assign) {
    visit_storage(out.dtype(), [&]<class T>(const T&) {
      T* to = out.as_mutable<T>();
      const T* from = updates.as<T>();
      scatter([&](int64_t target, int64_t source) { copy_elements(from + source, to + target, inner); });
    });
  } else {
    std::byte* to = out.mutable_data();
    with_wide_type(out.dtype(), [&]<class T>(const T&) {
      scatter([&](int64_t target, int64_t source) {
        constexpr int64_t chunk = 64;
        T a[chunk], b[chunk];
        for (int64_t done = 0; done < inner; done += chunk) {
          const int64_t n = std::min(chunk, inner - done);
          load_elements(out.dtype(), to, target + done, 1, n, a);
          load_elements(out.dtype(), updates.data(), source + done, 1, n, b);
          for (int64_t k = 0; k < n; ++k) a[k] = combine(kind, a[k], b[k]);
          store_elements(out.dtype(), to, target + done, 1, n, a);
        }
      });
    });
  }
  return {pack_subbyte(out, context.input(0).dtype())};
}

}  // namespace camshaft::ops
