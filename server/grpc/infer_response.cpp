#include "server/grpc/infer_response.h"

#include <algorithm>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "server/core/data_type.h"

namespace camshaft::server {
namespace {

using protozero::pbf_wire_type;
using protozero::pbf_writer;

void write_parameter(pbf_writer& writer, uint32_t field, const std::string& name, const Parameter& value) {
  pbf_writer entry(writer, field);
  entry.add_string(1, name);
  pbf_writer choice(entry, 2);
  if (const auto* boolean = std::get_if<bool>(&value))
    choice.add_bool(1, *boolean);
  else if (const auto* integer = std::get_if<int64_t>(&value))
    choice.add_int64(2, *integer);
  else if (const auto* text = std::get_if<std::string>(&value))
    choice.add_string(3, *text);
  else if (const auto* number = std::get_if<double>(&value))
    choice.add_double(4, *number);
  else
    choice.add_uint64(5, std::get<uint64_t>(value));
}

/// A message in the making: text that is written, and between it slices that others own.
class SlicedMessage {
 public:
  SlicedMessage() { text_.clear(); }

  std::string& text() { return text_; }
  size_t size() const { return size_ + text_.size(); }

  void add(const Bytes& bytes) {
    if (bytes.span.size() <= copied_output_bytes) {
      text_.append(reinterpret_cast<const char*>(bytes.span.data()), bytes.span.size());
      return;
    }
    flush();
    size_ += bytes.span.size();
    auto* owner = new std::shared_ptr<const void>(bytes.owner);
    slices_.emplace_back(const_cast<std::byte*>(bytes.span.data()), bytes.span.size(), release_owner, owner);
  }
  /// `prefix` goes before all that was written.
  grpc::ByteBuffer finish(const std::string& prefix = {}) {
    if (!prefix.empty()) slices_.insert(slices_.begin(), grpc::Slice(prefix));
    flush();
    return {slices_.data(), slices_.size()};
  }

 private:
  static void release_owner(void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }
  void flush() {
    if (text_.empty()) return;
    size_ += text_.size();
    slices_.emplace_back(text_);
    text_.clear();
  }

  /// Kept by the thread, so that it has its memory already.
  static thread_local std::string text_;
  std::vector<grpc::Slice> slices_;
  size_t size_ = 0;
};
thread_local std::string SlicedMessage::text_;

void write_head(std::string& text, const Response& response) {
  pbf_writer writer(text);
  if (!response.model.empty()) writer.add_string(1, response.model);
  if (!response.version.empty()) writer.add_string(2, response.version);
  if (!response.id.empty()) writer.add_string(3, response.id);
  for (const auto& [name, value] : response.parameters) write_parameter(writer, 4, name, value);
}

void write_response(SlicedMessage& message, const Response& response, const SharedOutputs& shared) {
  write_head(message.text(), response);
  {
    pbf_writer writer(message.text());
    for (const NamedTensor& output : response.outputs) {
      pbf_writer entry(writer, 5);
      entry.add_string(1, output.name);
      const std::string_view type = protocol_name(output.dtype);
      entry.add_string(2, type.data(), type.size());
      entry.add_packed_int64(3, output.shape.begin(), output.shape.end());
    }
  }
  for (const NamedTensor& output : response.outputs) {
    const bool elsewhere = std::ranges::find(shared, output.name) != shared.end();
    const Bytes data = elsewhere ? Bytes{} : output.data;
    protozero::add_varint_to_buffer(&message.text(), protozero::tag_and_type(6u, pbf_wire_type::length_delimited));
    protozero::add_varint_to_buffer(&message.text(), data.span.size());
    message.add(data);
  }
}

constexpr uint32_t stream_error_field = 1, stream_response_field = 2;

}  // namespace

grpc::ByteBuffer write_infer_response(const Response& response, const SharedOutputs& shared) {
  SlicedMessage message;
  write_response(message, response, shared);
  return message.finish();
}

grpc::ByteBuffer write_stream_response(const Response& response, const SharedOutputs& shared) {
  SlicedMessage message;
  write_response(message, response, shared);
  std::string prefix;
  protozero::add_varint_to_buffer(&prefix, (stream_response_field << 3) | 2);
  protozero::add_varint_to_buffer(&prefix, message.size());
  return message.finish(prefix);
}

grpc::ByteBuffer write_stream_error(const std::string& error, const Response& response) {
  std::string text;
  {
    pbf_writer writer(text);
    writer.add_string(stream_error_field, error);
    std::string head;
    write_head(head, response);
    writer.add_message(stream_response_field, head);
  }
  const grpc::Slice slice(text);
  return {&slice, 1};
}

}  // namespace camshaft::server
