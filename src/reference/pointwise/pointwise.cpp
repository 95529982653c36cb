// The reference evaluation of pointwise and cast.
#include "ir/ops/pointwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/pieces.h"
#include "base/text/number_text.h"
#include "base/written_texts.h"
#include "ir/ops/broadcast.h"
#include "reference/element_io.h"
#include "reference/pointwise/scalar_math.h"

namespace camshaft::ops {

namespace {

using F = ScalarFunction;

// Elements at a time: four operands as 8-byte numbers stay in the first-level cache.
constexpr int64_t chunk = 1024;

LoopNest nest_of(const EvalContext& context, const Dims& out) {
  std::vector<Dims> strides;
  for (const Tensor& t : context.inputs) strides.push_back(broadcast_strides(t.dims(), out));
  return collapse(out, strides);
}

template <class T>
void evaluate_numbers(F function, const EvalContext& context, const LoopNest& nest, Tensor& out) {
  std::byte* target = out.mutable_data();
  const size_t operands = context.inputs.size();
  for_pieces(context.pool, out.size(), chunk, [&](int64_t begin, int64_t end) {
    std::vector<T> buffers(static_cast<size_t>(chunk) * 4);
    const std::array<T*, 4> buffer = {&buffers[0], &buffers[chunk], &buffers[2 * chunk], &buffers[3 * chunk]};
    for (int64_t first = begin; first < end; first += chunk) {
      const int64_t last = std::min(first + chunk, end);
      for_runs(nest, first, last, [&](int64_t position, const Dims& offsets, int64_t count) {
        for (size_t o = 0; o < operands; ++o)
          load_elements(context.inputs[o].dtype(), context.inputs[o].data(), offsets[o], nest.strides[o].back(), count,
                        buffer[o] + (position - first));
      });
      apply(function, buffer[0], buffer[1], buffer[2], buffer[3], last - first);
      store_elements(out.dtype(), target, first, 1, last - first, buffer[3]);
    }
  });
}

void evaluate_strings(F function, const EvalContext& context, const LoopNest& nest, Tensor& out) {
  PacedCancellation cancellation;
  for_runs(nest, 0, out.size(), [&](int64_t position, const Dims& offsets, int64_t count) {
    const auto at = [&](size_t o, int64_t i) { return offsets[o] + i * nest.strides[o].back(); };
    const auto text = [&](size_t o, int64_t i) -> const std::string& {
      return context.inputs[o].as<std::string>()[at(o, i)];
    };
    for (int64_t i = 0; i < count; ++i) {
      cancellation.did(1);
      if (function == F::equal) {
        out.as_mutable<uint8_t>()[position + i] = text(0, i) == text(1, i);
      } else {
        const bool condition = context.inputs[0].as<uint8_t>()[at(0, i)] != 0;
        write_text(out.as_mutable<std::string>()[position + i], text(condition ? 1 : 2, i));
      }
    }
  });
}

}  // namespace

std::vector<Tensor> Pointwise::evaluate(const EvalContext& context) const {
  Dims dims;
  size_t rank = 0;
  for (const Tensor& t : context.inputs) rank = std::max(rank, t.dims().size());
  dims.assign(rank, 1);
  for (const Tensor& t : context.inputs)
    for (size_t i = 0; i < t.dims().size(); ++i) {
      int64_t& d = dims[rank - t.dims().size() + i];
      if (t.dims()[i] != 1) d = t.dims()[i];  // a mismatch is reported by broadcast_strides
    }
  const DType operand = context.inputs.back().dtype();
  Tensor out(result_dtype(function, operand), dims);  // first: it refuses sizes whose products overflow
  const LoopNest nest = nest_of(context, dims);
  if (operand == DType::string) {
    evaluate_strings(function, context, nest, out);
  } else {
    with_wide_type(operand, [&](auto type) { evaluate_numbers<decltype(type)>(function, context, nest, out); });
  }
  return {std::move(out)};
}

namespace {

double parse_number(const std::string& text, DType to) {
  std::string_view rest = text;
  while (!rest.empty() && (rest.front() == ' ' || rest.front() == '+')) rest.remove_prefix(1);
  while (!rest.empty() && rest.back() == ' ') rest.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (rest.empty() || error == std::errc::invalid_argument || end != rest.data() + rest.size())
    throw Error(ErrorCode::invalid_argument, fmt::format("cannot cast the string '{}' to {}", text, to_string(to)));
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(rest).c_str(), nullptr);
  return value;
}

// Integers exactly, where a double would round them.
bool read_natural(const std::string& text, uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

int64_t parse_integer(const std::string& text, DType to) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  int64_t truncated;
  const double number = parse_number(text, to);
  store_elements(DType::i64, reinterpret_cast<std::byte*>(&truncated), 0, 1, 1, &number);
  return truncated;
}

Tensor cast_from_strings(const Tensor& in, const Cast& cast) {
  const DType to = cast.to;
  Tensor out(to, in.dims());
  PacedCancellation cancellation;
  for (int64_t i = 0; i < in.size(); ++i) {
    const std::string& text = in.as<std::string>()[i];
    cancellation.did(1 + static_cast<int64_t>(text.size()));
    if (is_floating(to) || to == DType::boolean) {  // 0.5 is true, as it is where it comes as a number
      const double value = parse_number(text, to);
      store_elements(to, out.mutable_data(), i, 1, 1, &value, cast.saturate, cast.rounding);
    } else if (uint64_t natural = 0; to == DType::u64 && read_natural(text, natural)) {
      store_elements(to, out.mutable_data(), i, 1, 1, &natural);
    } else {
      const int64_t value = parse_integer(text, to);
      store_elements(to, out.mutable_data(), i, 1, 1, &value);
    }
  }
  return out;
}

// The shortest text that reads back as the same number of the type that it comes from.
std::string print_number(double value, DType from) {
  if (value != value) return "NaN";
  if (value - value != 0) return value > 0 ? "INF" : "-INF";
  return shortest_text(value, from);
}

Tensor cast_to_strings(const Tensor& in, ThreadPool& pool) {
  Tensor out(DType::string, in.dims());
  auto* texts = out.as_mutable<std::string>();
  with_wide_type(in.dtype(), [&](auto type) {
    constexpr int64_t at_once = 1024;
    for_pieces(pool, in.size(), at_once, [&](int64_t begin, int64_t end) {
      decltype(type) values[at_once];
      for (int64_t first = begin; first < end; first += at_once) {
        cancellation_point();
        const int64_t count = std::min(at_once, end - first);
        load_elements(in.dtype(), in.data(), first, 1, count, values);
        for (int64_t i = 0; i < count; ++i) {
          if constexpr (std::is_floating_point_v<decltype(type)>) {
            texts[first + i] = print_number(values[i], in.dtype());
          } else {
            texts[first + i] = std::to_string(values[i]);
          }
          count_text(texts[first + i].size());
        }
      }
    });
  });
  return out;
}

}  // namespace

std::vector<Tensor> Cast::evaluate(const EvalContext& context) const {
  const Tensor& in = context.input(0);
  if (in.dtype() == to) return {in};
  if (in.dtype() == DType::string) return {cast_from_strings(in, *this)};
  if (to == DType::string) return {cast_to_strings(in, context.pool)};
  Tensor out(to, in.dims());
  std::byte* target = out.mutable_data();
  with_wide_type(in.dtype(), [&](auto type) {
    for_pieces(context.pool, in.size(), chunk, [&](int64_t begin, int64_t end) {
      std::vector<decltype(type)> buffer(chunk);
      for (int64_t first = begin; first < end; first += chunk) {
        const int64_t count = std::min(chunk, end - first);
        load_elements(in.dtype(), in.data(), first, 1, count, buffer.data());
        store_elements(to, target, first, 1, count, buffer.data(), saturate, rounding);
      }
    });
  });
  return {std::move(out)};
}

}  // namespace camshaft::ops
