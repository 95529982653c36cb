// Tensors at the boundary of the library: row-major and dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/dtype.hpp"
#include "camshaft/error.hpp"

namespace camshaft {
inline namespace v1 {

/// Concrete sizes.
using Dims = std::vector<int64_t>;

/// Whose memory something is in, as DLPack numbers devices.
struct Device {
  enum Type : int32_t { cpu = 1, cuda = 2, cuda_pinned = 3, cuda_managed = 13 };
  int32_t type = cpu;
  int32_t ordinal = 0;
  bool is_host() const { return type == cpu || type == cuda_pinned; }
  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:0", "cuda:1", …
inline std::string to_string(Device device) {
  return device.is_host() ? "cpu" : "cuda:" + std::to_string(device.ordinal);
}
/// The reverse, and "cuda", which is the first GPU. Throws Error(invalid_argument) for anything else.
inline Device parse_device(const std::string& text) {
  camshaft_device device;
  detail::check(camshaft_device_parse(text.c_str(), &device));
  return {device.type, device.ordinal};
}

/// A tensor, or a sequence, an optional or a map of tensors. Copies share it.
class Tensor {
 public:
  /// None.
  Tensor() = default;
  /// Zeros, or empty strings. Throws Error(out_of_memory) naming the size.
  Tensor(DType dtype, const Dims& dims) {
    camshaft_tensor* made = nullptr;
    detail::check(camshaft_tensor_create(static_cast<camshaft_dtype>(dtype), dims.size(), dims.data(), &made));
    *this = Tensor(made);
  }
  /// Zeros in memory of the host that a device ("cuda:0") reads and writes by itself; of "cpu" any is. No strings.
  /// Throws Error(out_of_memory) naming the size.
  static Tensor pinned(const std::string& device, DType dtype, const Dims& dims) {
    camshaft_tensor* made = nullptr;
    detail::check(camshaft_tensor_create_pinned(device.c_str(), static_cast<camshaft_dtype>(dtype), dims.size(),
                                                dims.data(), &made));
    return Tensor(made);
  }
  /// Takes over what a call of the C interface gave.
  explicit Tensor(camshaft_tensor* taken)
      : held_(taken, [taken](const void*) { camshaft_tensor_free(taken); }), handle_(taken), own_(taken) {}
  /// What `owner` keeps; null: the caller does.
  static Tensor borrowed(const camshaft_tensor* handle, std::shared_ptr<const void> owner = nullptr) {
    Tensor tensor;
    tensor.handle_ = handle;
    tensor.held_ = std::move(owner);
    return tensor;
  }
  /// Memory of the caller's, which must outlive the tensor and its copies. Throws Error(invalid_argument) for too few
  /// bytes, strings and containers.
  static Tensor view(DType dtype, const Dims& dims, const void* data, size_t bytes, Device device = {}) {
    camshaft_tensor* made = nullptr;
    detail::check(camshaft_tensor_view(static_cast<camshaft_dtype>(dtype), dims.size(), dims.data(), data, bytes,
                                       {device.type, device.ordinal}, &made));
    return Tensor(made);
  }
  /// From elements as they are stored: T is as wide as the dtype, or holds packed elements; std::string for strings.
  /// Throws Error(invalid_argument) when the number of them does not fit the dims.
  template <class T>
  static Tensor of(DType dtype, const Dims& dims, const std::vector<T>& values) {
    Tensor tensor(dtype, dims);
    constexpr bool is_text = std::is_same_v<T, std::string>;
    if (is_text ? static_cast<size_t>(tensor.size()) != values.size() : tensor.bytes() != values.size() * sizeof(T))
      throw Error(ErrorCode::invalid_argument, "a tensor of " + std::to_string(tensor.size()) + " elements is given " +
                                                   std::to_string(values.size()));
    if constexpr (is_text) {
      for (size_t i = 0; i < values.size(); ++i) tensor.set_text(static_cast<int64_t>(i), values[i]);
    } else {
      if (!values.empty()) std::memcpy(tensor.mutable_data(), values.data(), tensor.bytes());
    }
    return tensor;
  }
  /// A container of copies of tensors. Throws Error(invalid_argument).
  static Tensor container(DType dtype, const std::vector<Tensor>& elements) {
    std::vector<const camshaft_tensor*> handles;
    for (const Tensor& element : elements) handles.push_back(element.handle_);
    camshaft_tensor* made = nullptr;
    detail::check(camshaft_tensor_container(static_cast<camshaft_dtype>(dtype), handles.data(), handles.size(), &made));
    return Tensor(made);
  }

  bool defined() const { return handle_ != nullptr; }
  DType dtype() const { return static_cast<DType>(camshaft_tensor_dtype(handle_)); }
  Dims dims() const {
    const int64_t* begin = camshaft_tensor_dims(handle_);
    return {begin, begin + camshaft_tensor_rank(handle_)};
  }
  /// Elements; the values of a container.
  int64_t size() const {
    if (is_container(dtype())) return static_cast<int64_t>(camshaft_tensor_count(handle_));
    int64_t count = 1;
    for (size_t i = 0; i < camshaft_tensor_rank(handle_); ++i) count *= camshaft_tensor_dims(handle_)[i];
    return count;
  }
  size_t bytes() const { return camshaft_tensor_bytes(handle_); }
  Device device() const {
    const camshaft_device device = camshaft_tensor_device(handle_);
    return {device.type, device.ordinal};
  }
  /// Null for strings and containers.
  const std::byte* data() const { return static_cast<const std::byte*>(camshaft_tensor_data(handle_)); }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data());
  }
  std::span<const std::byte> span() const { return {data(), bytes()}; }
  /// For writing, of a tensor that was made with its own memory; null of others.
  std::byte* mutable_data() {
    return own_ == nullptr ? nullptr : static_cast<std::byte*>(camshaft_tensor_mutable_data(own_));
  }
  template <class T>
  T* as_mutable() {
    return reinterpret_cast<T*>(mutable_data());
  }
  /// An element of strings.
  std::string text(int64_t index) const {
    size_t length = 0;
    const char* begin = camshaft_tensor_text(handle_, static_cast<size_t>(index), &length);
    return {begin == nullptr ? "" : begin, length};
  }
  void set_text(int64_t index, std::string_view text) {
    detail::check(camshaft_tensor_set_text(own_, static_cast<size_t>(index), text.data(), text.size()));
  }
  /// Of a container.
  Tensor element(int64_t index) const {
    return borrowed(camshaft_tensor_element(handle_, static_cast<size_t>(index)), held_);
  }

  /// In memory of its own on a device: "cpu", "cuda" (the first GPU), "cuda:1".
  Tensor copy(const std::string& device = "cpu") const {
    camshaft_tensor* made = nullptr;
    detail::check(camshaft_tensor_copy(handle_, device.c_str(), &made));
    return Tensor(made);
  }
  /// The elements of a tensor on the host as another type: a float as any float (rounded to the nearest, infinities
  /// stay), any number as f64. Throws Error(invalid_argument) for others.
  Tensor converted(DType dtype) const {
    camshaft_tensor* made = nullptr;
    detail::check(camshaft_tensor_convert(handle_, static_cast<camshaft_dtype>(dtype), &made));
    return Tensor(made);
  }

  /// Same dtype, dims and bytes (NaNs equal when their bits are), or equal strings or elements; of the host's memory.
  bool operator==(const Tensor& other) const {
    if (dtype() != other.dtype() || dims() != other.dims() || size() != other.size()) return false;
    for (int64_t i = 0; dtype() == DType::string && i < size(); ++i)
      if (text(i) != other.text(i)) return false;
    for (int64_t i = 0; is_container(dtype()) && i < size(); ++i)
      if (!(element(i) == other.element(i))) return false;
    return bytes() == 0 || std::memcmp(data(), other.data(), bytes()) == 0;
  }

  const camshaft_tensor* handle() const { return handle_; }

 private:
  std::shared_ptr<const void> held_;
  const camshaft_tensor* handle_ = nullptr;
  camshaft_tensor* own_ = nullptr;  // as it may be written
};

/// Tensors by name.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// Shapes by name.
using NamedShapes = std::map<std::string, Dims>;

namespace detail {

inline std::shared_ptr<camshaft_tensors> tensors_of(const NamedTensors& tensors) {
  camshaft_tensors* made = nullptr;
  check(camshaft_tensors_create(&made));
  std::shared_ptr<camshaft_tensors> list(made, camshaft_tensors_free);
  for (const auto& [name, tensor] : tensors) check(camshaft_tensors_add(made, name.c_str(), tensor.handle()));
  return list;
}

/// The items share the list.
inline NamedTensors named_tensors(const std::shared_ptr<camshaft_tensors>& list) {
  NamedTensors tensors;
  for (size_t i = 0; i < camshaft_tensors_count(list.get()); ++i)
    tensors.emplace_back(camshaft_tensors_name(list.get(), i),
                         Tensor::borrowed(camshaft_tensors_get(list.get(), i), list));
  return tensors;
}

inline std::shared_ptr<camshaft_shapes> shapes_of(const NamedShapes& shapes) {
  camshaft_shapes* made = nullptr;
  check(camshaft_shapes_create(&made));
  std::shared_ptr<camshaft_shapes> held(made, camshaft_shapes_free);
  for (const auto& [name, dims] : shapes) check(camshaft_shapes_set(made, name.c_str(), dims.size(), dims.data()));
  return held;
}

}  // namespace detail

/// All arrays of a .npz file of NumPy's, in its order; of a .npy file its one, by the name "". Throws Error(io).
inline NamedTensors read_arrays(const std::string& path) {
  camshaft_tensors* arrays = nullptr;
  detail::check(camshaft_read_arrays(path.c_str(), &arrays));
  return detail::named_tensors(std::shared_ptr<camshaft_tensors>(arrays, camshaft_tensors_free));
}

}  // namespace v1
}  // namespace camshaft
