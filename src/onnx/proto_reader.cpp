#include "onnx/proto_reader.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/out_of_memory.h"
#include "onnx/proto_decoder.h"
#include "onnx/wire_reader.h"

namespace camshaft::onnx {
namespace {

/// Files often taken for models get a message that says what they are.
void refuse_other_formats(const WireSource& source) {
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::invalid_model, fmt::format("{}: not an ONNX file: {}", source.name, why));
  };
  const std::string_view text(reinterpret_cast<const char*>(source.bytes.data()), source.bytes.size());
  if (text.empty()) refuse("it is empty");
  if (text.starts_with("version https://git-lfs"))
    refuse("it is a Git LFS pointer; fetch the model itself with `git lfs pull`");
  if (text.starts_with("PK\x03\x04")) refuse("it is a zip archive (a PyTorch checkpoint?); export the model to ONNX");
  if (text.starts_with("\x89HDF")) refuse("it is an HDF5 file (a Keras model?); export the model to ONNX");
  // A model starts with a known field of ModelProto: 1-8, 14, 20, 25, 26 with wire type 0 (for 1 and 5) or 2.
  const auto key = static_cast<unsigned char>(text[0]);
  const unsigned first =
      key < 0x80 ? key : key - 0x80 + (text.size() > 1 ? static_cast<unsigned char>(text[1]) : 0) * 128;
  const unsigned field = first >> 3;
  const bool known = (field >= 1 && field <= 8) || field == 14 || field == 20 || field == 25 || field == 26;
  const unsigned type = field == 1 || field == 5 ? 0 : 2;
  if (!known || (first & 7) != type)
    refuse(fmt::format("its first field is {} with wire type {}", field, first & 7).c_str());
}

}  // namespace

ModelProto read_model(std::span<const std::byte> bytes, const std::string& name, std::shared_ptr<const void> owner,
                      const std::filesystem::path& folder) {
  ModelProto out;
  out.file = name;
  out.folder = folder;
  out.storage = std::move(owner);
  const WireSource source{name, bytes};
  refuse_other_formats(source);
  name_out_of_memory([&] { return fmt::format("{}: not enough memory to read the model's graph", name); },
                     [&] { Decoder(source).model(out); });
  return out;
}

ModelProto read_model(const std::filesystem::path& file) {
  auto mapped = MappedFile::open(file.string());
  const auto bytes = mapped->bytes();
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  return read_model(bytes, file.string(), std::move(mapped), folder);
}

}  // namespace camshaft::onnx
