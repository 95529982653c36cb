#include "onnx/tensor_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/memory_limit.h"
#include "onnx/onnx_dtype.h"
#include "onnx/quote.h"

namespace camshaft::onnx {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Error(ErrorCode::invalid_model, fmt::format("{} {}", where, why));
}

/// byte_size() after a check that the count of bits fits.
uint64_t checked_byte_size(DType dtype, int64_t count, const std::string& where) {
  if (count > std::numeric_limits<int64_t>::max() / 8 / 8) refuse(where, fmt::format("has {} elements", count));
  return byte_size(dtype, count);
}

void check_length(uint64_t have, uint64_t need, const char* unit, const TensorData& tensor, const std::string& where) {
  if (have != need)
    refuse(where, fmt::format("holds {} {}, but {} elements of {} (dims [{}]) take {}", have, unit, tensor.count,
                              to_string(tensor.dtype), fmt::join(tensor.dims, ", "), need));
}

std::span<std::byte> own(TensorData& tensor, size_t size) {
  auto buffer = std::make_shared<std::vector<std::byte>>(size);
  const std::span<std::byte> bytes(*buffer);
  tensor.bytes = bytes;
  tensor.owner = std::move(buffer);
  return bytes;
}

/// Fields whose elements are stored as they are in memory.
template <class T>
void copy_elements(const std::vector<T>& data, TensorData& out, const std::string& where) {
  check_length(data.size(), static_cast<uint64_t>(out.count), "elements", out, where);
  const auto bytes = std::as_bytes(std::span(data));
  std::copy(bytes.begin(), bytes.end(), own(out, bytes.size()).begin());
}

/// Fields that are wider than the data type: `bytes_per_value` low bytes are kept. Values must be in range for the
/// width as signed or unsigned, as writers disagree on the sign of bit patterns.
template <class T>
void narrow_elements(const std::vector<T>& data, size_t bytes_per_value, TensorData& out, const std::string& where) {
  const uint64_t need = checked_byte_size(out.dtype, out.count, where) / bytes_per_value;
  check_length(data.size(), need, "values", out, where);
  const auto bytes = own(out, data.size() * bytes_per_value);
  const auto bits = static_cast<int>(8 * bytes_per_value);
  for (size_t i = 0; i < data.size(); ++i) {
    if (bytes_per_value < sizeof(T)) {
      const auto value = static_cast<int64_t>(data[i]);  // a u64 beyond i64 turns negative and out of range
      if (value < -(int64_t{1} << (bits - 1)) || value >= int64_t{1} << bits)
        refuse(where, fmt::format("holds the value {}, which {} cannot", data[i], to_string(out.dtype)));
    }
    std::memcpy(bytes.data() + i * bytes_per_value, &data[i], bytes_per_value);
  }
}

/// DType::boolean promises 0 or 1; a file may hold any byte.
void normalise_booleans(TensorData& tensor) {
  if (tensor.dtype != DType::boolean) return;
  const auto clean = [](std::byte b) { return b <= std::byte{1}; };
  if (std::all_of(tensor.bytes.begin(), tensor.bytes.end(), clean)) return;
  const auto dirty = tensor.bytes;
  const auto keep = tensor.owner;
  const auto bytes = own(tensor, dirty.size());
  std::transform(dirty.begin(), dirty.end(), bytes.begin(), [](std::byte b) { return std::byte{b != std::byte{0}}; });
}

/// The typed field that `dtype` uses, by the table in onnx.proto.
void read_typed_field(const TensorProto& tensor, TensorData& out, const std::string& where) {
  switch (out.dtype) {
    case DType::f32:
      return copy_elements(tensor.float_data, out, where);
    case DType::f64:
      return copy_elements(tensor.double_data, out, where);
    case DType::i64:
      return copy_elements(tensor.int64_data, out, where);
    case DType::u64:
      return copy_elements(tensor.uint64_data, out, where);
    case DType::u32:
      return narrow_elements(tensor.uint64_data, 4, out, where);
    case DType::i32:
      return narrow_elements(tensor.int32_data, 4, out, where);
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return narrow_elements(tensor.int32_data, 2, out, where);
    case DType::i8:
    case DType::u8:
    case DType::boolean:
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
    case DType::f8e8m0:
    case DType::i4:  // each value is a byte of several elements
    case DType::u4:
    case DType::f4e2m1:
    case DType::i2:
    case DType::u2:
      return narrow_elements(tensor.int32_data, 1, out, where);
    case DType::string:
      check_length(tensor.string_data.size(), static_cast<uint64_t>(out.count), "strings", out, where);
      out.strings = tensor.string_data;
      return;
    case DType::sequence:  // no data type of ONNX tensors
    case DType::optional:
    case DType::map:
      return;
  }
}

/// Which data fields are in use, as printed; more than one is a contradiction.
std::vector<const char*> used_fields(const TensorProto& tensor) {
  std::vector<const char*> used;
  if (!tensor.raw_data.empty()) used.push_back("raw_data");
  if (!tensor.float_data.empty()) used.push_back("float_data");
  if (!tensor.double_data.empty()) used.push_back("double_data");
  if (!tensor.int32_data.empty()) used.push_back("int32_data");
  if (!tensor.int64_data.empty()) used.push_back("int64_data");
  if (!tensor.uint64_data.empty()) used.push_back("uint64_data");
  if (!tensor.string_data.empty()) used.push_back("string_data");
  if (tensor.external) used.push_back("external_data");
  return used;
}

std::string place(const std::string& file, const std::string& role, const std::string& name) {
  return name.empty() ? fmt::format("{}: {}", file, role) : fmt::format("{}: {} {}", file, role, quote(name));
}

/// Zeroed by the system page by page, so that a huge and mostly empty tensor costs what is written to it.
std::span<std::byte> own_zeroed(TensorData& tensor, size_t size, const std::string& where) {
  const auto refuse_size = [&] {
    throw Error(ErrorCode::out_of_memory, fmt::format("{} takes {} bytes when dense", where, size));
  };
  if (size > largest_buffer()) refuse_size();
  std::shared_ptr<void> buffer(std::calloc(std::max<size_t>(size, 1), 1), std::free);
  if (!buffer) refuse_size();
  const std::span<std::byte> bytes(static_cast<std::byte*>(buffer.get()), size);
  tensor.bytes = bytes;
  tensor.owner = std::move(buffer);
  return bytes;
}

}  // namespace

int64_t checked_element_count(const std::vector<int64_t>& dims, std::string_view where) {
  constexpr size_t kLargestRank = 64;  // also keeps the messages short
  if (dims.size() > kLargestRank)
    throw Error(ErrorCode::invalid_model,
                fmt::format("{} has {} dims; at most {} are read", where, dims.size(), kLargestRank));
  int64_t count = 1;
  bool empty = false;
  for (const int64_t dim : dims) {
    empty |= dim == 0;
    if (dim < 0 || __builtin_mul_overflow(count, std::max<int64_t>(dim, 1), &count))
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{} has dims [{}], which no tensor can have", where, fmt::join(dims, ", ")));
  }
  return empty ? 0 : count;
}

TensorReader::TensorReader(const ModelProto& model)
    : file_(model.file), storage_(model.storage), external_files_(model.folder) {}

TensorData TensorReader::read(const TensorProto& tensor, const std::string& role) {
  const std::string where = place(file_, role, tensor.name);
  TensorData out;
  out.dtype = dtype_from_onnx(tensor.data_type, where);
  out.dims = tensor.dims;
  out.count = checked_element_count(tensor.dims, where);
  if (tensor.segmented)
    throw Error(ErrorCode::unsupported, where + " is stored in segments, which Camshaft does not support");
  const auto used = used_fields(tensor);
  if (used.size() > 1) refuse(where, fmt::format("keeps its data in several fields: {}", fmt::join(used, ", ")));

  if (!tensor.external && (tensor.raw_data.empty() || out.dtype == DType::string)) {
    if (out.dtype == DType::string && !tensor.raw_data.empty())
      refuse(where, "holds strings as raw bytes; ONNX keeps them in string_data");
    read_typed_field(tensor, out, where);
    normalise_booleans(out);
    return out;
  }
  if (out.dtype == DType::string) refuse(where, "holds strings in an external file; ONNX keeps them in string_data");
  const uint64_t need = checked_byte_size(out.dtype, out.count, where);
  if (tensor.external) {
    const ExternalData& external = *tensor.external;
    check_length(external.length.value_or(need), need, "bytes", out, where);
    auto file = external_files_.open(external.location, where);
    if (external.offset > file->size() || need > file->size() - external.offset)
      refuse(where, fmt::format("needs bytes {}+{} of external data file {}, which has {}", external.offset, need,
                                quote(external.location), file->size()));
    out.bytes = file->bytes().subspan(external.offset, need);
    out.owner = std::move(file);
  } else {
    check_length(tensor.raw_data.size(), need, "bytes", out, where);
    out.bytes = tensor.raw_data;
    out.owner = tensor.owner ? tensor.owner : storage_;
  }
  normalise_booleans(out);
  return out;
}

TensorData TensorReader::read(const SparseTensorProto& sparse, const std::string& role) {
  constexpr uint64_t kLargestDense = uint64_t{4} << 30;
  const std::string where = place(file_, role, sparse.values.name);
  const TensorData values = read(sparse.values, role + " values");
  const TensorData indices = read(sparse.indices, role + " indices of " + quote(sparse.values.name));
  TensorData out;
  out.dtype = values.dtype;
  out.dims = sparse.dims;
  out.count = checked_element_count(sparse.dims, where);

  const size_t rank = sparse.dims.size();
  const auto stored = static_cast<size_t>(values.count);
  const bool linear = indices.dims.size() == 1;
  const bool fits = values.dims.size() == 1 && indices.dtype == DType::i64 && indices.dims.size() <= 2 &&
                    !indices.dims.empty() && indices.dims[0] == values.count &&
                    (linear || indices.dims[1] == static_cast<int64_t>(rank));
  if (!fits)
    refuse(where,
           fmt::format("has values [{}] and {} indices [{}]; ONNX has values [n] and i64 indices [n] or [n, {}]",
                       fmt::join(values.dims, ", "), to_string(indices.dtype), fmt::join(indices.dims, ", "), rank));
  if (values.dtype == DType::string || bit_width(values.dtype) < 8)
    throw Error(ErrorCode::unsupported, fmt::format("{} holds {}, which Camshaft supports only in dense tensors", where,
                                                    to_string(values.dtype)));
  const uint64_t size = checked_byte_size(out.dtype, out.count, where);
  if (size > kLargestDense)
    throw Error(ErrorCode::unsupported,
                fmt::format("{} takes {} bytes when dense; the limit is {}", where, size, kLargestDense));

  const auto bytes = own_zeroed(out, size, where);
  const size_t width = byte_size(out.dtype, 1);
  const auto index_at = [&](size_t i) {
    int64_t index;
    std::memcpy(&index, indices.bytes.data() + i * sizeof index, sizeof index);
    return index;
  };
  for (size_t i = 0; i < stored; ++i) {
    int64_t position = 0;
    bool inside = true;
    if (linear) {
      position = index_at(i);
      inside = position >= 0 && position < out.count;
    } else {
      for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t index = index_at(i * rank + axis);
        inside &= index >= 0 && index < sparse.dims[axis];
        if (!inside) break;
        position = position * sparse.dims[axis] + index;
      }
    }
    if (!inside || position >= out.count)
      refuse(where, fmt::format("has value {} at coordinates outside dims [{}]", i, fmt::join(sparse.dims, ", ")));
    std::memcpy(bytes.data() + static_cast<size_t>(position) * width, values.bytes.data() + i * width, width);
  }
  return out;
}

}  // namespace camshaft::onnx
