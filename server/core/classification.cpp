#include "server/core/classification.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "server/core/data_type.h"

namespace camshaft::server {

namespace {

constexpr int64_t most_classified = 1'000'000;  // elements: sorting more would keep others waiting

template <class T>
void append_classes(std::string& out, const std::byte* data, size_t elements, size_t classes,
                    const std::vector<std::string>& labels) {
  std::vector<T> values(elements);
  std::memcpy(values.data(), data, elements * sizeof(T));
  std::vector<uint32_t> order(elements);
  std::iota(order.begin(), order.end(), 0u);
  const auto before = [&](uint32_t a, uint32_t b) {
    if constexpr (std::is_floating_point_v<T>) {
      const bool no_a = std::isnan(values[a]), no_b = std::isnan(values[b]);
      if (no_a || no_b) return no_a == no_b ? a < b : no_b;
    }
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(classes), order.end(), before);
  for (size_t i = 0; i < classes; ++i) {
    std::string text = std::to_string(values[order[i]]) + ":" + std::to_string(order[i]);
    if (order[i] < labels.size() && !labels[order[i]].empty()) text += ":" + labels[order[i]];
    const auto size = static_cast<uint32_t>(text.size());
    out.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  }
}

using AppendClasses = void (*)(std::string&, const std::byte*, size_t, size_t, const std::vector<std::string>&);

AppendClasses classes_of(const NamedTensor& tensor) {
  switch (tensor.dtype) {
    case DType::u8:
      return append_classes<uint8_t>;
    case DType::u16:
      return append_classes<uint16_t>;
    case DType::u32:
      return append_classes<uint32_t>;
    case DType::u64:
      return append_classes<uint64_t>;
    case DType::i8:
      return append_classes<int8_t>;
    case DType::i16:
      return append_classes<int16_t>;
    case DType::i32:
      return append_classes<int32_t>;
    case DType::i64:
      return append_classes<int64_t>;
    case DType::f32:
      return append_classes<float>;
    case DType::f64:
      return append_classes<double>;
    default:
      break;
  }
  throw ServerError(StatusCode::invalid_argument, "class result not available for output '" + tensor.name +
                                                      "' due to unsupported type '" +
                                                      std::string(protocol_name(tensor.dtype)) + "'");
}

}  // namespace

NamedTensor classified(const NamedTensor& tensor, int64_t classes, bool batched,
                       const std::vector<std::string>& labels) {
  const AppendClasses append = classes_of(tensor);
  const int64_t all = element_count(tensor.shape);
  if (all > most_classified)
    throw ServerError(StatusCode::invalid_argument, "classification of output '" + tensor.name + "', which has " +
                                                        std::to_string(all) + " elements: at most " +
                                                        std::to_string(most_classified) + " are classified");
  const bool has_batch = batched && !tensor.shape.empty();
  const int64_t batch = has_batch ? tensor.shape.front() : 1;
  const int64_t elements = batch == 0 ? 0 : all / batch;
  const int64_t taken = std::min(classes, elements);
  const size_t width = byte_size(tensor.dtype, 1);
  if (tensor.data.span.size() < static_cast<size_t>(all) * width)
    throw ServerError(StatusCode::internal, "output '" + tensor.name + "' is shorter than its shape says");
  auto text = std::make_shared<std::string>();
  for (int64_t i = 0; i < batch; ++i)
    append(*text, tensor.data.span.data() + static_cast<size_t>(i * elements) * width, static_cast<size_t>(elements),
           static_cast<size_t>(taken), labels);
  NamedTensor made;
  made.name = tensor.name;
  made.dtype = DType::string;
  if (has_batch) made.shape.push_back(batch);
  made.shape.push_back(taken);
  made.data = {std::as_bytes(std::span(*text)), text};
  return made;
}

void classify(const std::vector<RequestedOutput>& outputs, const Model& model, Response& response) {
  if (!response.status.ok()) return;
  try {
    for (const RequestedOutput& wanted : outputs) {
      if (wanted.classes <= 0) continue;
      for (NamedTensor& tensor : response.outputs)
        if (tensor.name == wanted.name)
          tensor = classified(tensor, wanted.classes, model.config().max_batch_size() > 0, model.labels(wanted.name));
    }
  } catch (...) {
    response.status = current_exception_status();
    response.outputs.clear();
  }
}

}  // namespace camshaft::server
