#include "onnx/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/limits.h"

namespace camshaft::onnx {

namespace {

using nlohmann::json;

// Parsed, a hostile one takes some 20 times as much memory. The format allows 100 MB; ten thousand tensors take 1.
constexpr uint64_t most_header_bytes = 16 << 20;

std::optional<DType> dtype_of(std::string_view text) {
  constexpr std::pair<std::string_view, DType> types[] = {
      {"F64", DType::f64},        {"F32", DType::f32},        {"F16", DType::f16},     {"BF16", DType::bf16},
      {"F8_E4M3", DType::f8e4m3}, {"F8_E5M2", DType::f8e5m2}, {"I64", DType::i64},     {"I32", DType::i32},
      {"I16", DType::i16},        {"I8", DType::i8},          {"U64", DType::u64},     {"U32", DType::u32},
      {"U16", DType::u16},        {"U8", DType::u8},          {"BOOL", DType::boolean}};
  for (const auto& [name, dtype] : types)
    if (text == name) return dtype;
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::shared_ptr<const MappedFile>& file) : file_(file), bytes_(file->bytes()) {}

  std::map<std::string, Tensor> read() {
    uint64_t size = 0;
    if (bytes_.size() < sizeof(size)) fail("it is too short for a header");
    std::memcpy(&size, bytes_.data(), sizeof(size));
    if (size > most_header_bytes || size > bytes_.size() - sizeof(size))
      fail(fmt::format("its header of {} bytes does not fit into it", size));
    const auto text = bytes_.subspan(sizeof(size), size);
    data_ = bytes_.subspan(sizeof(size) + size);
    const json header = parse({reinterpret_cast<const char*>(text.data()), text.size()});
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__") tensors.emplace(name, tensor(name, entry));
    check_layout();
    return tensors;
  }

 private:
  [[noreturn]] void fail(const std::string& what, ErrorCode code = ErrorCode::invalid_model) const {
    throw Error(code, fmt::format("'{}' is no safetensors file that can be read: {}", file_->path(), what));
  }

  json parse(std::string_view text) const {
    std::set<std::string> names;
    bool has_twice = false;
    const json::parser_callback_t watch = [&](int depth, json::parse_event_t event, json& parsed) {
      if (event == json::parse_event_t::key && depth == 1)
        has_twice = !names.insert(parsed.get<std::string>()).second || has_twice;
      return true;
    };
    json header = json::parse(text, watch, false);
    if (header.is_discarded() || !header.is_object()) fail("its header is no JSON object");
    if (has_twice) fail("a tensor is in its header twice");
    return header;
  }

  Tensor tensor(const std::string& name, const json& entry) {
    const auto wrong = [&](const std::string& what, ErrorCode code = ErrorCode::invalid_model) {
      fail(fmt::format("the tensor '{}' {}", name, what), code);
    };
    const auto has = [&](const char* key, json::value_t kind) {
      return entry.is_object() && entry.contains(key) && entry.at(key).type() == kind;
    };
    if (!has("dtype", json::value_t::string) || !has("shape", json::value_t::array) ||
        !has("data_offsets", json::value_t::array))
      wrong("lacks dtype, shape or data_offsets");
    const auto& type = entry.at("dtype").get_ref<const std::string&>();
    const auto dtype = dtype_of(type);
    if (!dtype) wrong(fmt::format("is of type {}, which Camshaft does not have", type), ErrorCode::unsupported);
    Dims dims;
    for (const json& size : entry.at("shape")) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(most_tensor_elements))
        wrong("has a size that is none");
      dims.push_back(size.get<int64_t>());
      if (dims.size() > static_cast<size_t>(most_axes)) wrong("has too many axes");
    }
    const json& offsets = entry.at("data_offsets");
    if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
      wrong("does not say where it begins and ends");
    const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > data_.size()) wrong("lies outside the file");
    int64_t count = 0;
    try {
      count = element_count(dims);
    } catch (const Error&) {
      wrong("is larger than any memory");
    }
    if (byte_size(*dtype, count) != end - begin)
      wrong(fmt::format("has {} bytes; {}{} takes {}", end - begin, to_string(*dtype), to_string(dims),
                        byte_size(*dtype, count)));
    parts_.emplace_back(begin, end);
    const auto bytes = data_.subspan(begin, end - begin);
    const Tensor view(*dtype, dims, bytes, file_);
    return reinterpret_cast<uintptr_t>(bytes.data()) % byte_size(*dtype, 1) == 0 ? view : view.copy();
  }

  // Every byte belongs to one tensor.
  void check_layout() {
    std::sort(parts_.begin(), parts_.end());
    uint64_t at = 0;
    for (const auto& [begin, end] : parts_) {
      if (begin != at) fail("its tensors overlap, or have gaps between them");
      at = end;
    }
    if (at != data_.size()) fail("there are bytes behind its tensors");
  }

  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_, data_;
  std::vector<std::pair<uint64_t, uint64_t>> parts_;
};

}  // namespace

std::map<std::string, Tensor> read_safetensors(const std::shared_ptr<const MappedFile>& file) {
  return Reader(file).read();
}

}  // namespace camshaft::onnx
