// What the handles of tensors hold.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/camshaft.h"
#include "ir/tensor.h"
#include "runtime/tensor_view.h"

struct camshaft_tensor {
  camshaft::TensorView view;
  camshaft::Tensor owned;                 ///< what the view shows, where it is the tensor's own or shared with another
  bool writable = false;                  ///< made by camshaft_tensor_create, or the same pinned
  std::shared_ptr<const void> kept;       ///< the tensor's own memory of a device, or that a device reads
  std::vector<camshaft_tensor> elements;  ///< of a container
};

struct camshaft_tensors {
  std::vector<std::pair<std::string, camshaft_tensor>> items;
};

struct camshaft_shapes {
  std::map<std::string, std::vector<int64_t>> dims;
};

namespace camshaft::api {

camshaft_tensor handle_of(Tensor tensor);
/// Of memory that somebody else keeps; containers are copied.
camshaft_tensor handle_of(const TensorView& view);
/// On the host; shares the handle's memory, which must outlive it unless the handle has it of its own. Throws
/// Error(invalid_argument), which begins with `what`, for memory of a device.
Tensor tensor_of(const camshaft_tensor& tensor, const std::string& what);

/// The tensor itself, or a copy on the host of one in a device's memory.
camshaft_tensor host_tensor_of(const camshaft_tensor& tensor);

/// Throws Error(invalid_argument) for a number that is none.
DType checked_dtype(camshaft_dtype dtype);
/// Throws Error(invalid_argument) when `dims` is null and there are some.
std::vector<int64_t> checked_dims(size_t rank, const int64_t* dims);
/// Throws Error(invalid_argument) for a device that engines do not run on.
DeviceId device_id_of(camshaft_device device);
camshaft_device device_of(DeviceId device);

}  // namespace camshaft::api
