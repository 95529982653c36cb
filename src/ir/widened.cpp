#include "ir/widened.h"

#include "base/float_types.h"

namespace camshaft {

Tensor widened(const Tensor& tensor) {
  Tensor made(DType::f32, tensor.dims());
  convert_to_float(tensor.dtype(), tensor.data(), made.as_mutable<float>(), tensor.size());
  return made;
}

}  // namespace camshaft
