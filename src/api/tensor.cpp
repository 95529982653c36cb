#include "api/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "api/status.h"
#include "base/float_types.h"
#include "compile/backend.h"
#include "compile/device_queue.h"
#include "ir/widened.h"
#include "onnx/npz.h"
#include "runtime/backends.h"
#include "runtime/tensor_view.h"

namespace camshaft::api {

static_assert(CAMSHAFT_U2 == static_cast<int>(DType::u2) && CAMSHAFT_MAP == static_cast<int>(DType::map) &&
              CAMSHAFT_STRING == static_cast<int>(DType::string) && CAMSHAFT_BOOL == static_cast<int>(DType::boolean));

DType checked_dtype(camshaft_dtype dtype) {
  if (dtype < 0 || dtype >= dtype_count)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} is the number of no element type", dtype));
  return static_cast<DType>(dtype);
}

std::vector<int64_t> checked_dims(size_t rank, const int64_t* dims) {
  if (rank > 0) given(dims, "dims");
  return {dims, dims + rank};
}

DeviceId device_id_of(camshaft_device device) {
  constexpr int32_t cpu = 1, cuda = 2, cuda_pinned = 3, cuda_managed = 13;  // as DLPack numbers them
  if (device.type == cpu || device.type == cuda_pinned) return DeviceId::host;
  if ((device.type == cuda || device.type == cuda_managed) && device.ordinal >= 0) return DeviceId::gpu(device.ordinal);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("device {} of DLPack's type {}: memory may be of the CPU or of a CUDA device", device.ordinal,
                          device.type));
}

camshaft_device device_of(DeviceId device) {
  return device.is_host() ? camshaft_device{1, 0} : camshaft_device{2, device.ordinal()};
}

camshaft_tensor handle_of(Tensor tensor) {
  camshaft_tensor handle;
  handle.view = view_of(tensor);
  if (is_container(tensor.dtype()))
    for (int64_t i = 0; i < tensor.size(); ++i)
      if (tensor.element(i).defined()) handle.elements.push_back(handle_of(tensor.element(i)));
  handle.owned = std::move(tensor);
  return handle;
}

camshaft_tensor handle_of(const TensorView& view) {
  if (is_container(view.dtype)) return handle_of(copy_of(view));
  camshaft_tensor handle;
  handle.view = view;
  return handle;
}

Tensor tensor_of(const camshaft_tensor& tensor, const std::string& what) {
  if (tensor.owned.defined()) return tensor.owned;
  const TensorView& view = tensor.view;
  if (view.device.is_gpu())
    throw Error(ErrorCode::invalid_argument, what + " is in memory of a device: copy it to the host first");
  const size_t needed = storage_bytes(view.dtype, element_count(view.dims));
  return Tensor(view.dtype, view.dims, {static_cast<const std::byte*>(view.data), needed}, nullptr);
}

namespace {

/// Converted where the reference evaluation's casts would need a model.
Tensor converted(const Tensor& from, DType to) {
  if (from.dtype() == to) return from;
  if (to == DType::f64 && !holds_objects(from.dtype())) {
    Tensor out(to, from.dims());
    const std::vector<double> values = from.to_doubles();
    std::copy(values.begin(), values.end(), out.as_mutable<double>());
    return out;
  }
  if (!is_floating(from.dtype()) || !is_floating(to))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("elements are converted from float to float, or to f64, not from {} to {}",
                            to_string(from.dtype()), to_string(to)));
  const Tensor wide = widened(from);
  if (to == DType::f32) return wide;
  Tensor out(to, from.dims());
  // Without saturation: an infinity stays one.
  convert_from_float(to, wide.as<float>(), out.mutable_data(), wide.size(), false);
  return out;
}

Tensor copied_to_host(const camshaft_tensor& tensor) {
  if (tensor.view.device.is_host()) return tensor_of(tensor, "the tensor").copy();
  Tensor on_host(tensor.view.dtype, tensor.view.dims);
  const auto queue = find_backend(to_string(tensor.view.device))->make_queue();
  queue->copy_to_host({on_host.mutable_data(), on_host.bytes()}, static_cast<const std::byte*>(tensor.view.data));
  queue->synchronize();
  return on_host;
}

camshaft_tensor copied(const camshaft_tensor& tensor, const std::string& device) {
  Tensor on_host = copied_to_host(tensor);
  if (device == "cpu") return handle_of(std::move(on_host));
  const std::shared_ptr<DeviceQueue> queue = find_backend(device)->make_queue();
  if (holds_objects(on_host.dtype()))
    throw Error(ErrorCode::invalid_argument, fmt::format("tensors of {} are the host's: they cannot be copied to '{}'",
                                                         to_string(on_host.dtype()), device));
  const auto memory = queue->allocate(std::max<size_t>(on_host.bytes(), 1), "a tensor");
  queue->copy_to_device(memory.get(), on_host.span());
  queue->synchronize();
  camshaft_tensor handle;
  handle.view = {on_host.dtype(), on_host.dims(), memory.get(), on_host.bytes(), {}, queue->device()};
  struct OnDevice {
    std::shared_ptr<DeviceQueue> queue;  // which the memory goes back to
    std::shared_ptr<std::byte> memory;
  };
  handle.kept = std::make_shared<OnDevice>(OnDevice{queue, memory});
  return handle;
}

}  // namespace

camshaft_tensor host_tensor_of(const camshaft_tensor& tensor) {
  return tensor.view.device.is_host() ? tensor : handle_of(copied_to_host(tensor));
}

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

const char* camshaft_dtype_name(camshaft_dtype dtype) {
  // The names are literals, which end with a zero byte.
  return dtype < 0 || dtype >= dtype_count ? nullptr : to_string(static_cast<DType>(dtype)).data();
}

camshaft_status camshaft_dtype_parse(const char* name, camshaft_dtype* dtype) {
  return guarded([&] { *given(dtype, "dtype") = static_cast<camshaft_dtype>(parse_dtype(given(name, "name"))); });
}

camshaft_status camshaft_device_parse(const char* text, camshaft_device* device) {
  return guarded([&] { *given(device, "device") = device_of(parse_device_id(given(text, "text"))); });
}

int32_t camshaft_dtype_bits(camshaft_dtype dtype) {
  if (dtype < 0 || dtype >= dtype_count || holds_objects(static_cast<DType>(dtype))) return 0;
  return bit_width(static_cast<DType>(dtype));
}

camshaft_status camshaft_tensor_create(camshaft_dtype dtype, size_t rank, const int64_t* dims,
                                       camshaft_tensor** tensor) {
  return guarded([&] {
    given(tensor, "tensor");
    const DType checked = checked_dtype(dtype);
    if (is_container(checked))
      throw Error(ErrorCode::invalid_argument, "sequences, optionals and maps are made by camshaft_tensor_container");
    auto made = std::make_unique<camshaft_tensor>(handle_of(Tensor(checked, checked_dims(rank, dims))));
    made->writable = true;
    *tensor = made.release();
  });
}

camshaft_status camshaft_tensor_create_pinned(const char* device, camshaft_dtype dtype, size_t rank,
                                              const int64_t* dims, camshaft_tensor** tensor) {
  const std::string where = device == nullptr ? "" : device;
  if (where == "cpu") return camshaft_tensor_create(dtype, rank, dims, tensor);
  return guarded([&] {
    given(device, "device");
    given(tensor, "tensor");
    TensorView view{checked_dtype(dtype), checked_dims(rank, dims), nullptr, 0};
    if (holds_objects(view.dtype))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a device reads no {}: pinned memory is of numbers", to_string(view.dtype)));
    view.bytes = storage_bytes(view.dtype, element_count(view.dims));
    const std::shared_ptr<DeviceQueue> queue = find_backend(where)->make_queue();
    const std::shared_ptr<std::byte> memory = queue->allocate_pinned(std::max<size_t>(view.bytes, 1), "a tensor");
    std::memset(memory.get(), 0, view.bytes);
    view.data = memory.get();
    auto made = std::make_unique<camshaft_tensor>(handle_of(view));
    made->kept = memory;
    made->writable = true;
    *tensor = made.release();
  });
}

camshaft_status camshaft_tensor_view(camshaft_dtype dtype, size_t rank, const int64_t* dims, const void* data,
                                     size_t bytes, camshaft_device device, camshaft_tensor** tensor) {
  return guarded([&] {
    given(tensor, "tensor");
    TensorView view{checked_dtype(dtype), checked_dims(rank, dims), data, bytes, {}, device_id_of(device)};
    if (holds_objects(view.dtype))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("memory of the caller's cannot hold {}: make a tensor for it", to_string(view.dtype)));
    const size_t needed = storage_bytes(view.dtype, element_count(view.dims));
    if (bytes < needed || (data == nullptr && needed > 0))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a tensor {}{} needs {} bytes, {} are given", to_string(view.dtype), to_string(view.dims),
                              needed, data == nullptr ? 0 : bytes));
    *tensor = new camshaft_tensor(handle_of(view));
  });
}

camshaft_status camshaft_tensor_container(camshaft_dtype dtype, const camshaft_tensor* const* elements, size_t count,
                                          camshaft_tensor** tensor) {
  return guarded([&] {
    given(tensor, "tensor");
    TensorView view{checked_dtype(dtype), {}, nullptr, 0};
    if (!is_container(view.dtype))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is no sequence, optional or map", to_string(view.dtype)));
    for (size_t i = 0; i < count; ++i) view.elements.push_back(given(given(elements, "elements")[i], "elements")->view);
    *tensor = new camshaft_tensor(handle_of(copy_of(view)));
  });
}

camshaft_status camshaft_tensor_copy(const camshaft_tensor* tensor, const char* device, camshaft_tensor** copy) {
  return guarded([&] {
    given(copy, "copy");
    auto made = std::make_unique<camshaft_tensor>(copied(*given(tensor, "tensor"), given(device, "device")));
    *copy = made.release();
  });
}

camshaft_status camshaft_tensor_convert(const camshaft_tensor* tensor, camshaft_dtype dtype,
                                        camshaft_tensor** converted) {
  return guarded([&] {
    given(converted, "converted");
    const Tensor from = tensor_of(*given(tensor, "tensor"), "the tensor");
    *converted = new camshaft_tensor(handle_of(api::converted(from, checked_dtype(dtype)).owned()));
  });
}

camshaft_dtype camshaft_tensor_dtype(const camshaft_tensor* tensor) {
  return static_cast<camshaft_dtype>(tensor->view.dtype);
}

size_t camshaft_tensor_rank(const camshaft_tensor* tensor) {
  return tensor->view.dims.size();
}

const int64_t* camshaft_tensor_dims(const camshaft_tensor* tensor) {
  return tensor->view.dims.data();
}

camshaft_device camshaft_tensor_device(const camshaft_tensor* tensor) {
  return device_of(tensor->view.device);
}

const void* camshaft_tensor_data(const camshaft_tensor* tensor) {
  return holds_objects(tensor->view.dtype) ? nullptr : tensor->view.data;
}

void* camshaft_tensor_mutable_data(camshaft_tensor* tensor) {
  return tensor->writable && !holds_objects(tensor->view.dtype) ? const_cast<void*>(tensor->view.data) : nullptr;
}

size_t camshaft_tensor_bytes(const camshaft_tensor* tensor) {
  return holds_objects(tensor->view.dtype) ? 0 : tensor->view.bytes;
}

const char* camshaft_tensor_text(const camshaft_tensor* tensor, size_t index, size_t* length) {
  const TensorView& view = tensor->view;
  const bool is_there =
      view.dtype == DType::string && index < static_cast<size_t>(element_count(view.dims)) && view.data != nullptr;
  const std::string* text = is_there ? static_cast<const std::string*>(view.data) + index : nullptr;
  if (length != nullptr) *length = text == nullptr ? 0 : text->size();
  return text == nullptr ? nullptr : text->c_str();
}

camshaft_status camshaft_tensor_set_text(camshaft_tensor* tensor, size_t index, const char* text, size_t length) {
  return guarded([&] {
    if (!given(tensor, "tensor")->writable || tensor->view.dtype != DType::string)
      throw Error(ErrorCode::invalid_argument, "text is set in tensors of strings that camshaft_tensor_create made");
    if (index >= static_cast<size_t>(element_count(tensor->view.dims)))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("string {} of a tensor of {}", index, element_count(tensor->view.dims)));
    auto* strings = static_cast<std::string*>(const_cast<void*>(tensor->view.data));
    strings[index].assign(given(text, "text"), length);
  });
}

size_t camshaft_tensor_count(const camshaft_tensor* tensor) {
  return tensor->elements.size();
}

const camshaft_tensor* camshaft_tensor_element(const camshaft_tensor* tensor, size_t index) {
  return index < tensor->elements.size() ? &tensor->elements[index] : nullptr;
}

void camshaft_tensor_free(camshaft_tensor* tensor) {
  delete tensor;
}

camshaft_status camshaft_tensors_create(camshaft_tensors** tensors) {
  return guarded([&] { give(tensors, "tensors", [&] { return new camshaft_tensors(); }); });
}

camshaft_status camshaft_tensors_add(camshaft_tensors* tensors, const char* name, const camshaft_tensor* tensor) {
  return guarded([&] {
    camshaft_tensor shared = *given(tensor, "tensor");
    shared.writable = false;
    given(tensors, "tensors")->items.emplace_back(given(name, "name"), std::move(shared));
  });
}

size_t camshaft_tensors_count(const camshaft_tensors* tensors) {
  return tensors->items.size();
}

const char* camshaft_tensors_name(const camshaft_tensors* tensors, size_t index) {
  return index < tensors->items.size() ? tensors->items[index].first.c_str() : nullptr;
}

const camshaft_tensor* camshaft_tensors_get(const camshaft_tensors* tensors, size_t index) {
  return index < tensors->items.size() ? &tensors->items[index].second : nullptr;
}

void camshaft_tensors_free(camshaft_tensors* tensors) {
  delete tensors;
}

camshaft_status camshaft_read_arrays(const char* path, camshaft_tensors** arrays) {
  return guarded([&] {
    give(arrays, "arrays", [&] {
      auto list = std::make_unique<camshaft_tensors>();
      for (auto& [name, tensor] : onnx::read_arrays(given(path, "path")))
        list->items.emplace_back(name, handle_of(std::move(tensor)));
      return list.release();
    });
  });
}

camshaft_status camshaft_shapes_create(camshaft_shapes** shapes) {
  return guarded([&] { give(shapes, "shapes", [&] { return new camshaft_shapes(); }); });
}

camshaft_status camshaft_shapes_set(camshaft_shapes* shapes, const char* name, size_t rank, const int64_t* dims) {
  return guarded([&] { given(shapes, "shapes")->dims[given(name, "name")] = checked_dims(rank, dims); });
}

void camshaft_shapes_free(camshaft_shapes* shapes) {
  delete shapes;
}
