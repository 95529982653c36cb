#include "server/http/infer_request.h"

#include <gtest/gtest.h>

#include <cstring>

#include "server/http/generate_request.h"
#include "server/http/infer_response.h"

namespace camshaft::server::infer_request_test {
namespace {

Bytes body_of(const std::string& text) {
  auto owner = std::make_shared<std::string>(text);
  return {std::as_bytes(std::span(*owner)), owner};
}

Request decoded(const std::string& json, const std::string& tail, ResponseForm& form) {
  const SharedMemory memory(false);
  Request request;
  request.model = "m";
  decode_request(body_of(json + tail), json.size(), memory, 1 << 20, request, form);
  return request;
}

std::string refusal(const std::string& json, const std::string& tail) {
  ResponseForm form;
  try {
    decoded(json, tail, form);
  } catch (const ServerError& error) {
    return error.what();
  }
  return "";
}

const std::string two_inputs =
    R"({"inputs":[{"name":"a","shape":[2],"datatype":"INT32","parameters":{"binary_data_size":8}},)"
    R"({"name":"b","shape":[1],"datatype":"FP16","parameters":{"binary_data_size":2}}]})";

TEST(InferRequest, TensorsLieInTheBody) {
  ResponseForm form;
  const Request request = decoded(two_inputs, std::string("\1\0\0\0\2\0\0\0\3\4", 10), form);
  ASSERT_EQ(request.inputs.size(), 2u);
  int32_t values[2];
  std::memcpy(values, request.inputs[0].data.span.data(), 8);
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(request.inputs[1].data.span.size(), 2u);
  EXPECT_EQ(request.inputs[1].data.span.data(), request.inputs[0].data.span.data() + 8);
  EXPECT_NE(request.inputs[0].data.owner, nullptr);
}

TEST(InferRequest, TailOfAnotherLength) {
  EXPECT_NE(refusal(two_inputs, std::string(9, 'x')).find("expecting 1 additional bytes"), std::string::npos);
  EXPECT_NE(refusal(two_inputs, std::string(11, 'x')).find("unexpected additional input data"), std::string::npos);
  EXPECT_NE(refusal(two_inputs, ""), "");
  const std::string huge =
      R"({"inputs":[{"name":"a","shape":[1],"datatype":"INT32","parameters":{"binary_data_size":18446744073709551615}}]})";
  EXPECT_NE(refusal(huge, "abcd").find("unexpected size for input 'a'"), std::string::npos);
  const SharedMemory memory(false);
  Request request;
  ResponseForm form;
  EXPECT_THROW(decode_request(body_of("{}"), 3, memory, 100, request, form), ServerError);
  EXPECT_THROW(decode_request(body_of(two_inputs), std::nullopt, memory, 100, request, form), ServerError);
}

TEST(InferRequest, LengthHeader) {
  EXPECT_EQ(document_length(""), std::nullopt);
  EXPECT_EQ(document_length("12"), 12u);
  for (const char* wrong : {"-1", "1x", " 1", "0x10", "99999999999999999999", "1.0"})
    EXPECT_THROW(document_length(wrong), ServerError) << wrong;
}

TEST(InferRequest, ParametersThatHaveAMeaning) {
  Request request;
  ResponseForm form;
  take_parameters({{"sequence_id", std::string("s")},
                   {"sequence_start", true},
                   {"sequence_end", false},
                   {"priority", int64_t{3}},
                   {"timeout", int64_t{1000}},
                   {"binary_data_output", true},
                   {"own", 1.5}},
                  request, form);
  EXPECT_EQ(request.sequence.text, "s");
  EXPECT_TRUE(request.sequence_start);
  EXPECT_EQ(request.priority, 3u);
  EXPECT_EQ(request.timeout_us, 1000u);
  EXPECT_TRUE(form.all_binary);
  ASSERT_EQ(request.parameters.size(), 1u);
  EXPECT_THROW(take_parameters({{"priority", int64_t{-1}}}, request, form), ServerError);
  EXPECT_THROW(take_parameters({{"sequence_start", int64_t{1}}}, request, form), ServerError);
  EXPECT_THROW(take_parameters({{"triton_x", true}}, request, form), ServerError);
}

ModelConfig one_input(inference::DataType type, std::vector<int64_t> dims, int max_batch) {
  ModelConfig config;
  config.set_name("m");
  config.set_max_batch_size(max_batch);
  auto* input = config.add_input();
  input->set_name("x");
  input->set_data_type(type);
  for (const int64_t size : dims) input->add_dims(size);
  return config;
}

TEST(InferRequest, RawBinary) {
  Request request;
  ResponseForm form;
  decode_raw_request(body_of(std::string(48, 'x')), one_input(inference::TYPE_FP32, {-1, 3}, 8), request, form);
  EXPECT_EQ(request.inputs[0].shape, (std::vector<int64_t>{1, 4, 3}));
  EXPECT_TRUE(form.all_binary);
  Request text;
  decode_raw_request(body_of("hello"), one_input(inference::TYPE_STRING, {1}, 0), text, form);
  EXPECT_EQ(text.inputs[0].data.span.size(), 9u);
  EXPECT_EQ(text.inputs[0].shape, (std::vector<int64_t>{1}));
  for (const auto& config :
       {one_input(inference::TYPE_FP32, {-1, -1}, 0), one_input(inference::TYPE_FP32, {-1, 5}, 0),
        one_input(inference::TYPE_STRING, {2}, 0), one_input(inference::TYPE_FP32, {-1, 0}, 0), ModelConfig()})
    EXPECT_THROW(decode_raw_request(body_of(std::string(48, 'x')), config, text, form), ServerError);
}

TEST(InferRequest, Generate) {
  ModelConfig config = one_input(inference::TYPE_STRING, {1}, 4);
  auto* stop = config.add_input();
  stop->set_name("stop");
  stop->set_data_type(inference::TYPE_INT32);
  stop->add_dims(-1);
  Request request;
  decode_generate(R"({"id":"9","x":"hello","stop":[1,2,3],"temperature":0.5,"parameters":{"stream":true,"n":2}})",
                  config, 1000, request);
  EXPECT_EQ(request.id, "9");
  ASSERT_EQ(request.inputs.size(), 2u);
  for (const NamedTensor& tensor : request.inputs) {
    if (tensor.name == "x")
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{1, 1}));
    else
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{1, 3}));
  }
  EXPECT_EQ(std::get<double>(request.parameters.at("temperature")), 0.5);
  EXPECT_TRUE(std::get<bool>(request.parameters.at("stream")));
  for (const char* wrong : {"[]", "{", R"({"x":{}})", R"({"x":[["a"]]})", R"({"stop":[1.5]})", R"({"other":[1]})",
                            R"({"parameters":1})", R"({"id":1})"})
    EXPECT_THROW(decode_generate(wrong, config, 1000, request), ServerError) << wrong;
  EXPECT_THROW(decode_generate("{\"x\":\"" + std::string(2000, 'a') + "\"}", config, 1000, request), ServerError);
}

TEST(InferResponse, BinaryAndJson) {
  const std::vector<int32_t> values = {1, -2};
  Response response;
  response.model = "m\"";
  response.version = "1";
  response.id = "i";
  response.parameters = {{"p", int64_t{5}}, {"t", std::string("x")}};
  for (const char* name : {"a", "b", "c"})
    response.outputs.push_back({name, DType::i32, {2}, {std::as_bytes(std::span(values)), nullptr}});
  response.outputs[2].shape = {0};
  response.outputs[2].data.span = {};
  ResponseForm form;
  form.binary = {"a", "c"};
  const HttpReply reply = encode_response(response, form);
  EXPECT_EQ(reply.text, R"({"id":"i","model_name":"m\"","model_version":"1","parameters":{"p":5,"t":"x"},"outputs":[)"
                        R"({"name":"a","datatype":"INT32","shape":[2],"parameters":{"binary_data_size":8}},)"
                        R"({"name":"b","datatype":"INT32","shape":[2],"data":[1,-2]},)"
                        R"({"name":"c","datatype":"INT32","shape":[0],"parameters":{"binary_data_size":0}}]})");
  ASSERT_EQ(reply.tensors.size(), 1u);
  EXPECT_EQ(reply.tensors[0].span.data(), std::as_bytes(std::span(values)).data());  // not copied
  EXPECT_EQ(reply.content_type, "application/octet-stream");
  EXPECT_EQ(reply.headers[0].second, std::to_string(reply.text.size()));
  response.outputs.resize(1);
  response.outputs[0].shape = {1};
  response.outputs[0].data.span = response.outputs[0].data.span.first(4);
  EXPECT_EQ(encode_generated(response), R"({"id":"i","model_name":"m\"","model_version":"1","p":5,"t":"x","a":1})");
}

}  // namespace
}  // namespace camshaft::server::infer_request_test
