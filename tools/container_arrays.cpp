#include "tools/container_arrays.h"

namespace camshaft::tools {

void append_arrays(const std::string& name, const Tensor& value, NamedTensors& arrays) {
  if (!is_container(value.dtype())) {
    arrays.emplace_back(name, value);
    return;
  }
  for (int64_t i = 0; i < value.size(); ++i) {
    const std::string part = value.dtype() == DType::map ? (i == 0 ? "keys" : "values") : std::to_string(i);
    append_arrays(name + "/" + part, value.element(i), arrays);
  }
}

}  // namespace camshaft::tools
