// The protobuf wire format, one message at a time (https://protobuf.dev/programming-guides/encoding/).
//
// protozero's pbf_reader holds lengths in 32 bits and would silently cut those of 4 GB and more, which a model's graph
// field can have. Its varint decoder is used; lengths and bounds are kept here in 64 bits, with the place in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace camshaft::onnx {

/// The buffer that messages are read from; for messages about damage.
struct WireSource {
  std::string name;                  ///< of the file
  std::span<const std::byte> bytes;  ///< all of it
};

enum class WireType : uint8_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

/// Walks the fields of one message:
///
///   while (reader.next()) switch (reader.field()) { case 1: name = reader.string(); break; default: reader.skip(); }
///
/// After next() exactly one value function is called. All throw Error(invalid_model), naming the file, the byte and the
/// message, when the bytes end early, are no field, or hold another wire type than the function reads.
class WireReader {
 public:
  /// `message_name` (a literal) and `source` must outlive the reader; `message` lies in source.bytes.
  WireReader(const WireSource& source, std::span<const std::byte> message, const char* message_name);

  /// Moves to the next field; false at the end of the message.
  bool next();
  uint32_t field() const { return field_; }

  uint64_t varint();  ///< uint64; int64, int32, bool and enum after a cast
  int64_t int64() { return static_cast<int64_t>(varint()); }
  int32_t int32() { return static_cast<int32_t>(varint()); }
  float float32();
  std::span<const std::byte> bytes();  ///< points into the source
  std::string string();
  WireReader message(const char* message_name);
  void skip();

  // Repeated scalars, appended to `out`; both encodings (packed, and one field an element).
  void append(std::vector<float>& out);
  void append(std::vector<double>& out);
  void append(std::vector<int32_t>& out);
  void append(std::vector<int64_t>& out);
  void append(std::vector<uint64_t>& out);

  /// Throws Error(invalid_model): "FILE: PROBLEM (in MESSAGE, at byte N)".
  [[noreturn]] void fail(std::string_view problem) const;

 private:
  uint64_t decode_varint();
  std::span<const std::byte> take(uint64_t size);
  void expect(WireType type) const;
  template <class T>
  void append_fixed(std::vector<T>& out, WireType single);
  template <class T>
  void append_varints(std::vector<T>& out);

  const WireSource* source_;
  const char* message_name_;
  const std::byte* position_;
  const std::byte* end_;
  const std::byte* field_start_;
  uint32_t field_ = 0;
  WireType wire_type_ = WireType::varint;
};

}  // namespace camshaft::onnx
