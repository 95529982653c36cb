#include "server/grpc/infer_response.h"

#include <gtest/gtest.h>

#include "inference.pb.h"
#include "server/grpc/stream_outbox.h"
#include "server/seed.h"

namespace camshaft::server::grpc_infer_response_test {
namespace {

NamedTensor tensor(const std::string& name, size_t bytes) {
  auto data = std::make_shared<std::vector<std::byte>>(bytes);
  for (size_t i = 0; i < bytes; ++i) (*data)[i] = static_cast<std::byte>(i * 31 + bytes);
  return {name, DType::u8, {static_cast<int64_t>(bytes)}, {*data, data}};
}
std::string text_of(const NamedTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.span.data()), tensor.data.span.size()};
}

std::string text_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

Response response_of(std::vector<size_t> sizes) {
  Response response;
  response.model = "m";
  response.version = "7";
  response.id = "id";
  response.parameters = {{"b", true}, {"i", int64_t{-1}}, {"u", UINT64_MAX}, {"d", 0.5}, {"s", std::string("t")}};
  for (size_t i = 0; i < sizes.size(); ++i) response.outputs.push_back(tensor("y" + std::to_string(i), sizes[i]));
  return response;
}

void expect_same(const inference::ModelInferResponse& read, const Response& response) {
  EXPECT_EQ(read.model_name(), "m");
  EXPECT_EQ(read.model_version(), "7");
  EXPECT_EQ(read.id(), "id");
  EXPECT_TRUE(read.parameters().at("b").bool_param());
  EXPECT_EQ(read.parameters().at("i").int64_param(), -1);
  EXPECT_EQ(read.parameters().at("u").uint64_param(), UINT64_MAX);
  EXPECT_EQ(read.parameters().at("d").double_param(), 0.5);
  EXPECT_EQ(read.parameters().at("s").string_param(), "t");
  ASSERT_EQ(read.outputs_size(), static_cast<int>(response.outputs.size()));
  ASSERT_EQ(read.raw_output_contents_size(), read.outputs_size());
  for (int i = 0; i < read.outputs_size(); ++i) {
    EXPECT_EQ(read.outputs(i).name(), response.outputs[i].name);
    EXPECT_EQ(read.outputs(i).datatype(), "UINT8");
    EXPECT_EQ(read.outputs(i).shape(0), response.outputs[i].shape[0]);
    EXPECT_EQ(read.raw_output_contents(i), text_of(response.outputs[i]));
  }
}

TEST(GrpcInferResponse, ProtobufReadsWhatIsWritten) {
  std::mt19937_64 random = seeded_random();
  for (int i = 0; i < 50; ++i) {
    std::vector<size_t> sizes(random() % 5);
    for (size_t& size : sizes) size = random() % 3 == 0 ? random() % 100000 : random() % 200;
    const Response response = response_of(sizes);
    inference::ModelInferResponse read;
    ASSERT_TRUE(read.ParseFromString(text_of(write_infer_response(response, {}))));
    expect_same(read, response);
    inference::ModelStreamInferResponse stream;
    ASSERT_TRUE(stream.ParseFromString(text_of(write_stream_response(response, {}))));
    EXPECT_EQ(stream.error_message(), "");
    expect_same(stream.infer_response(), response);
  }
}

TEST(GrpcInferResponse, LargeOutputsAreNotCopied) {
  Response response = response_of({copied_output_bytes, copied_output_bytes + 1});
  const std::byte* large = response.outputs[1].data.span.data();
  const std::weak_ptr<const void> owner = response.outputs[1].data.owner;
  grpc::ByteBuffer buffer = write_infer_response(response, {});
  response.outputs.clear();
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].begin(), reinterpret_cast<const uint8_t*>(large));
  EXPECT_FALSE(owner.expired());
  slices.clear();
  buffer.Clear();
  EXPECT_TRUE(owner.expired());
}

TEST(GrpcInferResponse, OutputsInSharedMemoryHaveNoContents) {
  const Response response = response_of({3, 4});
  inference::ModelInferResponse read;
  ASSERT_TRUE(read.ParseFromString(text_of(write_infer_response(response, {"y0"}))));
  ASSERT_EQ(read.raw_output_contents_size(), 2);
  EXPECT_EQ(read.raw_output_contents(0), "");
  EXPECT_EQ(read.raw_output_contents(1).size(), 4u);
}

TEST(GrpcInferResponse, ErrorsOfStreamsNameTheirRequest) {
  Response response;
  response.id = "5";
  inference::ModelStreamInferResponse read;
  ASSERT_TRUE(read.ParseFromString(text_of(write_stream_error("no", response))));
  EXPECT_EQ(read.error_message(), "no");
  EXPECT_EQ(read.infer_response().id(), "5");
}

grpc::ByteBuffer buffer_of(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

TEST(GrpcStreamOutbox, ResponsesComeInTheOrderOfTheirRequests) {
  StreamOutbox outbox;
  const uint64_t first = outbox.reserve(), second = outbox.reserve(), third = outbox.reserve();
  outbox.put(second, buffer_of("2"));
  EXPECT_TRUE(outbox.empty());
  outbox.put(buffer_of("decoupled"));
  EXPECT_EQ(text_of(outbox.take()), "decoupled");
  outbox.put(first, buffer_of("1"));
  EXPECT_EQ(outbox.bytes(), 2u);
  EXPECT_EQ(text_of(outbox.take()), "1");
  EXPECT_EQ(text_of(outbox.take()), "2");
  EXPECT_TRUE(outbox.empty());
  outbox.put(third, buffer_of("3"));
  outbox.clear();
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(outbox.bytes(), 0u);
}

}  // namespace
}  // namespace camshaft::server::grpc_infer_response_test
