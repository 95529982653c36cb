#include "ir/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

#include "base/budget.h"
#include "base/error.h"
#include "base/float_types.h"
#include "base/large_memory.h"
#include "base/memory_limit.h"
#include "base/work_scope.h"
#include "base/written_texts.h"

namespace camshaft {

int64_t element_count(const Dims& dims) {
  int64_t count = 1;
  bool is_empty = false;
  for (const int64_t d : dims) {
    is_empty = is_empty || d == 0;
    if (d < 0 || __builtin_mul_overflow(count, d == 0 ? 1 : d, &count) || count > most_tensor_elements)
      throw Error(ErrorCode::invalid_argument, "impossible tensor size " + to_string(dims));
  }
  return is_empty ? 0 : count;
}

size_t storage_bytes(DType dtype, int64_t count) {
  if (!holds_objects(dtype)) return byte_size(dtype, count);
  size_t bytes;
  const size_t each = dtype == DType::string ? sizeof(std::string) : sizeof(Tensor);
  if (count < 0 || __builtin_mul_overflow(static_cast<size_t>(count), each, &bytes))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a tensor of {} elements of {} is too large", count, to_string(dtype)));
  return bytes;
}

void check_fits_memory(DType dtype, const Dims& dims) {
  const size_t bytes = storage_bytes(dtype, element_count(dims));
  if (bytes > largest_buffer())
    throw Error(ErrorCode::out_of_memory, fmt::format("out of memory: a tensor {}{} needs {} bytes",
                                                      camshaft::to_string(dtype), to_string(dims), bytes));
}

std::string to_string(const Dims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
  return out + "]";
}

namespace {

// What objects hold beside themselves is not in the claim: that of texts comes later, by claim_texts().
template <class T>
std::pair<const std::byte*, std::shared_ptr<const void>> make_objects(int64_t count,
                                                                      std::shared_ptr<const MemoryClaim> claim) {
  struct Objects {
    std::shared_ptr<const MemoryClaim> claim;
    std::vector<T> list;
  };
  auto objects = std::make_shared<Objects>(Objects{std::move(claim), {}});
  std::vector<T>& list = objects->list;
  list.reserve(static_cast<size_t>(count));
  while (list.size() < static_cast<size_t>(count)) {
    constexpr size_t at_once = size_t{1} << 18;
    cancellation_point();
    list.resize(std::min(static_cast<size_t>(count), list.size() + at_once));
  }
  const auto* data = reinterpret_cast<const std::byte*>(list.data());
  return {data, std::move(objects)};
}

// What a tensor of one element takes: its dims, owner and claim, each an allocation of its own. Without it a file of
// 200 bytes, which splits 3·10^8 elements into a sequence, took more than 22 GB where 6 were allowed.
constexpr size_t least_claim = 256;

// Null where nobody counts.
std::shared_ptr<const MemoryClaim> claim_memory(size_t bytes, DType dtype, const Dims& dims) {
  if (!current_budget()) return nullptr;
  try {
    return std::make_shared<const MemoryClaim>(std::max(bytes, least_claim));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("no memory for a tensor {}{}: {}", camshaft::to_string(dtype),
                                      camshaft::to_string(dims), e.what()));
  }
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool in_pages = false;  // a mapping has no red zone behind it
#else
constexpr bool in_pages = true;
#endif

// `clear`: of zeros. Large ones in huge pages: 80 MB that are asked for anew in each run took 26 ms in small pages and
// another 10 to clear once more.
std::shared_ptr<std::byte> make_bytes(size_t bytes, bool clear, std::shared_ptr<const MemoryClaim> claim) {
  if (in_pages && bytes >= least_large) {
    std::shared_ptr<std::byte> large = make_large(bytes, clear);
    if (!large) return nullptr;
    std::byte* const data = large.get();
    return {data, [large = std::move(large), claim = std::move(claim)](std::byte*) {}};
  }
  // To the byte, so that AddressSanitizer sees a kernel read past the end. An empty tensor has an address too.
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, std::max<size_t>(bytes, 1)) != 0) return nullptr;
  if (clear) std::memset(memory, 0, bytes);
  return {static_cast<std::byte*>(memory), [claim = std::move(claim)](std::byte* data) { std::free(data); }};
}

}  // namespace

Tensor::Tensor(DType dtype, Dims dims) : Tensor(dtype, std::move(dims), true) {}

Tensor Tensor::uncleared(DType dtype, Dims dims) {
  return {dtype, std::move(dims), false};
}

Tensor::Tensor(DType dtype, Dims dims, bool clear)
    : dtype_(dtype), defined_(true), writable_(true), dims_(std::move(dims)) {
  check_fits_memory(dtype, dims_);
  size_ = element_count(dims_);
  bytes_ = storage_bytes(dtype, size_);
  std::shared_ptr<const MemoryClaim> claim = claim_memory(bytes_, dtype, dims_);
  if (holds_objects(dtype)) {
    std::tie(data_, owner_) = dtype == DType::string ? make_objects<std::string>(size_, std::move(claim))
                                                     : make_objects<Tensor>(size_, std::move(claim));
    return;
  }
  std::shared_ptr<std::byte> made = make_bytes(bytes_, clear, std::move(claim));
  if (!made)
    throw Error(ErrorCode::out_of_memory, fmt::format("out of memory: a tensor {}{} needs {} bytes",
                                                      camshaft::to_string(dtype), to_string(dims_), bytes_));
  data_ = made.get();
  owner_ = std::move(made);
}

Tensor::Tensor(DType dtype, Dims dims, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : dtype_(dtype), defined_(true), dims_(std::move(dims)), data_(bytes.data()), owner_(std::move(owner)) {
  size_ = element_count(dims_);
  bytes_ = storage_bytes(dtype, size_);
  if (bytes.size() != bytes_)
    throw Error(ErrorCode::internal, fmt::format("a tensor {}{} needs {} bytes, got {}", camshaft::to_string(dtype),
                                                 to_string(dims_), bytes_, bytes.size()));
}

Tensor Tensor::elided(DType dtype, Dims dims) {
  check_fits_memory(dtype, dims);  // the packed form, which is a little larger, is sized from these
  Tensor t;
  t.dtype_ = dtype;
  t.defined_ = true;
  t.dims_ = std::move(dims);
  t.size_ = element_count(t.dims_);
  t.bytes_ = storage_bytes(dtype, t.size_);
  return t;
}

namespace {

// Truncated. What 64 bits cannot hold becomes the nearest that they can, NaN becomes 0; narrower types keep the low
// bits.
template <class T>
T to_integer(double value) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  if (std::isnan(value)) return 0;
  if (value >= (std::is_signed_v<T> ? 0x1p63 : 0x1p64)) return static_cast<T>(std::numeric_limits<Wide>::max());
  if (value < -0x1p63) return static_cast<T>(std::numeric_limits<int64_t>::min());
  return value < 0 ? static_cast<T>(static_cast<int64_t>(value)) : static_cast<T>(static_cast<Wide>(value));
}

}  // namespace

Tensor Tensor::scalar(DType dtype, double value) {
  Tensor t(dtype, {});
  switch (dtype) {
    case DType::f64:
      *t.as_mutable<double>() = value;
      break;
    case DType::f32:
      *t.as_mutable<float>() = static_cast<float>(value);
      break;
    case DType::f16:
      *t.as_mutable<uint16_t>() = double_to_f16(value);
      break;
    case DType::bf16:
      *t.as_mutable<uint16_t>() = double_to_bf16(value);
      break;
    case DType::i64:
      *t.as_mutable<int64_t>() = to_integer<int64_t>(value);
      break;
    case DType::u64:
      *t.as_mutable<uint64_t>() = to_integer<uint64_t>(value);
      break;
    case DType::i32:
      *t.as_mutable<int32_t>() = to_integer<int32_t>(value);
      break;
    case DType::u32:
      *t.as_mutable<uint32_t>() = to_integer<uint32_t>(value);
      break;
    case DType::i16:
      *t.as_mutable<int16_t>() = to_integer<int16_t>(value);
      break;
    case DType::u16:
      *t.as_mutable<uint16_t>() = to_integer<uint16_t>(value);
      break;
    case DType::i8:
      *t.as_mutable<int8_t>() = to_integer<int8_t>(value);
      break;
    case DType::u8:
      *t.as_mutable<uint8_t>() = to_integer<uint8_t>(value);
      break;
    case DType::boolean:
      *t.as_mutable<uint8_t>() = value != 0;
      break;
    case DType::f8e4m3:
      *t.as_mutable<uint8_t>() = double_to_f8e4m3(value);
      break;
    case DType::f8e5m2:
      *t.as_mutable<uint8_t>() = double_to_f8e5m2(value);
      break;
    case DType::f4e2m1:
      *t.as_mutable<uint8_t>() = double_to_f4e2m1(value);
      break;
    case DType::f8e4m3fnuz:
      *t.as_mutable<uint8_t>() = double_to_f8e4m3fnuz(value);
      break;
    case DType::f8e5m2fnuz:
      *t.as_mutable<uint8_t>() = double_to_f8e5m2fnuz(value);
      break;
    case DType::f8e8m0:
      *t.as_mutable<uint8_t>() = double_to_f8e8m0(value);
      break;
    case DType::i4:
    case DType::u4:
      *t.as_mutable<uint8_t>() = static_cast<uint8_t>(to_integer<int64_t>(value) & 15);
      break;
    case DType::i2:
    case DType::u2:
      *t.as_mutable<uint8_t>() = static_cast<uint8_t>(to_integer<int64_t>(value) & 3);
      break;
    case DType::string:
    case DType::sequence:
    case DType::optional:
    case DType::map:
      throw Error(ErrorCode::invalid_model,
                  fmt::format("a number cannot become a scalar of dtype {}", camshaft::to_string(dtype)));
  }
  return t;
}

Tensor Tensor::from_ints(const std::vector<int64_t>& values) {
  return of(DType::i64, {static_cast<int64_t>(values.size())}, values);
}

Tensor Tensor::sequence(std::vector<Tensor> elements) {
  for (Tensor& element : elements) element = element.owned();
  return of(DType::sequence, {static_cast<int64_t>(elements.size())}, elements);
}

Tensor Tensor::optional(Tensor element) {
  return of(DType::optional, {}, std::vector<Tensor>{element.owned()});
}

Tensor Tensor::map(Tensor keys, Tensor values) {
  return of(DType::map, {2}, std::vector<Tensor>{keys.owned(), values.owned()});
}

namespace {

// Of a text that is copied, in some nanoseconds.
constexpr int64_t bytes_of_a_step = 16;

// With a cancellation_point() once in a while.
template <class T>
void copy_in_pieces(const T* from, T* to, int64_t count) {
  constexpr int64_t at_once = (int64_t{4} << 20) / static_cast<int64_t>(sizeof(T));
  for (int64_t first = 0; first < count; first += at_once) {
    cancellation_point();
    std::copy_n(from + first, std::min(at_once, count - first), to + first);
  }
}

// What they hold is counted before it is copied: 10^5 long texts took 8 GB where 6 were allowed.
void copy_texts(const std::string* from, std::string* to, int64_t count) {
  PacedCancellation cancellation;
  size_t bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    cancellation.did(1);
    bytes += bytes_of_text(from[i].size());
  }
  const MemoryClaim claim(bytes);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = from[i];
    cancellation.did(1 + static_cast<int64_t>(to[i].size()) / bytes_of_a_step);
  }
}

}  // namespace

Tensor Tensor::copy() const {
  Tensor out(dtype_, dims_);
  if (dtype_ == DType::string) {
    copy_texts(as<std::string>(), out.as_mutable<std::string>(), size_);
    if (current_budget()) out.claim_texts();
  } else if (is_container(dtype_)) {
    copy_in_pieces(as<Tensor>(), out.as_mutable<Tensor>(), size_);
  } else if (bytes_ > 0) {
    copy_in_pieces(data_, out.mutable_data(), static_cast<int64_t>(bytes_));
  }
  return out;
}

namespace {

struct ClaimedTexts {
  std::shared_ptr<const void> owner;
  MemoryClaim claim;
};

/// By which owners that have claimed are known: tensors that share texts come back from operators, again and again.
struct EndsClaim {
  void operator()(const ClaimedTexts* claimed) const { delete claimed; }
};

}  // namespace

size_t Tensor::claim_texts() {
  if (std::get_deleter<EndsClaim>(owner_) != nullptr) return 0;
  size_t bytes = 0;
  PacedCancellation cancellation;
  for (int64_t i = 0; i < size_; ++i) {
    cancellation.did(1);
    bytes += bytes_of_text(as<std::string>()[i].capacity());
  }
  if (bytes == 0) return 0;
  auto claimed = std::make_unique<ClaimedTexts>(ClaimedTexts{owner_, MemoryClaim(bytes)});
  owner_ = std::shared_ptr<const ClaimedTexts>(claimed.release(), EndsClaim());
  return bytes;
}

std::byte* Tensor::mutable_data() {
  if (!writable_ || owner_.use_count() != 1) throw Error(ErrorCode::internal, "a shared tensor cannot be written");
  return const_cast<std::byte*>(data_);
}

Tensor Tensor::reshaped(Dims dims) const {
  if (element_count(dims) != size_)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cannot reshape {} to {}: {} elements against {}", to_string(dims_), to_string(dims), size_,
                            element_count(dims)));
  Tensor t = *this;
  t.dims_ = std::move(dims);
  return t;
}

namespace detail {

void throw_element_mismatch(const Tensor& tensor, size_t given) {
  throw Error(ErrorCode::internal, fmt::format("a tensor {}{} takes {} bytes, {} are given", to_string(tensor.dtype()),
                                               to_string(tensor.dims()), tensor.bytes(), given));
}

}  // namespace detail

namespace {

template <class Out, class Load>
std::vector<Out> convert(int64_t count, Load load) {
  std::vector<Out> out(static_cast<size_t>(count));
  constexpr int64_t at_once = 1 << 16;  // a fraction of a millisecond
  for (int64_t i = 0; i < count; ++i) {
    if (i % at_once == 0) cancellation_point();
    const auto element = load(i);
    if constexpr (std::is_integral_v<Out> && std::is_floating_point_v<decltype(element)>) {
      constexpr double limit = 0x1p63;
      if (!(element >= -limit && element < limit))
        throw Error(ErrorCode::invalid_model, fmt::format("{} is given where an integer is due", element));
    }
    out[static_cast<size_t>(i)] = static_cast<Out>(element);
  }
  return out;
}

template <class Out>
std::vector<Out> numbers(const Tensor& t) {
  const int64_t n = t.size();
  switch (t.dtype()) {
    case DType::f64:
      return convert<Out>(n, [p = t.as<double>()](int64_t i) { return p[i]; });
    case DType::f32:
      return convert<Out>(n, [p = t.as<float>()](int64_t i) { return p[i]; });
    case DType::f16:
      return convert<Out>(n, [p = t.as<uint16_t>()](int64_t i) { return f16_to_float(p[i]); });
    case DType::bf16:
      return convert<Out>(n, [p = t.as<uint16_t>()](int64_t i) { return bf16_to_float(p[i]); });
    case DType::f8e4m3:
      return convert<Out>(n, [p = t.as<uint8_t>()](int64_t i) { return f8e4m3_to_float(p[i]); });
    case DType::f8e5m2:
      return convert<Out>(n, [p = t.as<uint8_t>()](int64_t i) { return f8e5m2_to_float(p[i]); });
    case DType::i64:
      return convert<Out>(n, [p = t.as<int64_t>()](int64_t i) { return p[i]; });
    case DType::u64:
      return convert<Out>(n, [p = t.as<uint64_t>()](int64_t i) { return p[i]; });
    case DType::i32:
      return convert<Out>(n, [p = t.as<int32_t>()](int64_t i) { return p[i]; });
    case DType::u32:
      return convert<Out>(n, [p = t.as<uint32_t>()](int64_t i) { return p[i]; });
    case DType::i16:
      return convert<Out>(n, [p = t.as<int16_t>()](int64_t i) { return p[i]; });
    case DType::u16:
      return convert<Out>(n, [p = t.as<uint16_t>()](int64_t i) { return p[i]; });
    case DType::i8:
      return convert<Out>(n, [p = t.as<int8_t>()](int64_t i) { return static_cast<int>(p[i]); });
    case DType::u8:
    case DType::boolean:
      return convert<Out>(n, [p = t.as<uint8_t>()](int64_t i) { return p[i]; });
    case DType::f8e4m3fnuz:
      return convert<Out>(n, [p = t.as<uint8_t>()](int64_t i) { return f8e4m3fnuz_to_float(p[i]); });
    case DType::f8e5m2fnuz:
      return convert<Out>(n, [p = t.as<uint8_t>()](int64_t i) { return f8e5m2fnuz_to_float(p[i]); });
    case DType::f8e8m0:
      return convert<Out>(n, [p = t.as<uint8_t>()](int64_t i) { return f8e8m0_to_float(p[i]); });
    case DType::i4:
    case DType::u4:
    case DType::i2:
    case DType::u2:
    case DType::f4e2m1: {
      const bool is_float = t.dtype() == DType::f4e2m1, has_sign = is_signed(t.dtype());
      const int bits = bit_width(t.dtype()), in_a_byte = 8 / bits, mask = (1 << bits) - 1;
      return convert<Out>(n, [=, p = t.as<uint8_t>()](int64_t i) {
        const auto code = static_cast<uint8_t>((p[i / in_a_byte] >> (i % in_a_byte * bits)) & mask);
        if (is_float) return f4e2m1_to_float(code);
        return static_cast<float>(has_sign && code >> (bits - 1) ? code - mask - 1 : code);
      });
    }
    case DType::string:
    case DType::sequence:
    case DType::optional:
    case DType::map:
      break;
  }
  throw Error(ErrorCode::invalid_model, fmt::format("a tensor of {} has no numbers", to_string(t.dtype())));
}

}  // namespace

std::vector<double> Tensor::to_doubles() const {
  return numbers<double>(*this);
}
std::vector<int64_t> Tensor::to_ints() const {
  return numbers<int64_t>(*this);
}

bool Tensor::operator==(const Tensor& other) const {
  if (defined_ != other.defined_ || dtype_ != other.dtype_ || dims_ != other.dims_) return false;
  if (dtype_ == DType::string) {
    const auto* a = as<std::string>();
    return std::equal(a, a + size_, other.as<std::string>());
  }
  if (is_container(dtype_)) return std::equal(as<Tensor>(), as<Tensor>() + size_, other.as<Tensor>());
  if (bytes_ == 0) return true;
  if (data_ == nullptr || other.data_ == nullptr) return data_ == other.data_;  // elided
  if (const int64_t used = size_ * bit_width(dtype_) % 8; used != 0) {
    // The last byte's high bits hold no element.
    const auto mask = static_cast<std::byte>((1 << used) - 1);
    if (((data_[bytes_ - 1] ^ other.data_[bytes_ - 1]) & mask) != std::byte{0}) return false;
    return std::memcmp(data_, other.data_, bytes_ - 1) == 0;
  }
  return std::memcmp(data_, other.data_, bytes_) == 0;
}

}  // namespace camshaft
