#include "server/grpc/infer_request.h"

#include <gtest/gtest.h>

#include <cstring>

#include "inference.pb.h"
#include "server/seed.h"

namespace camshaft::server::grpc_infer_request_test {
namespace {

using Message = inference::ModelInferRequest;

/// Bytes of their own, so that reading too far is seen by a sanitizer.
struct Bytes {
  explicit Bytes(std::string text) : owner(std::make_shared<std::string>(std::move(text))) {}
  std::shared_ptr<std::string> owner;
  std::span<const std::byte> span() const { return std::as_bytes(std::span(*owner)); }
};

InferRequest decode(const Bytes& bytes) {
  const SharedMemory memory(true);
  InferMessage message;
  read_infer_message(bytes.span(), message);
  return make_infer_request(message, bytes.owner, memory);
}
InferRequest decode(const Message& message) {
  return decode(Bytes(message.SerializeAsString()));
}

std::string failure(const std::function<void()>& run) {
  try {
    run();
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), StatusCode::invalid_argument) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}
std::string failure(const Message& message) {
  return failure([&] { decode(message); });
}

Message one_input(const std::string& datatype, std::vector<int64_t> shape) {
  Message message;
  message.set_model_name("m");
  auto& input = *message.add_inputs();
  input.set_name("x");
  input.set_datatype(datatype);
  input.mutable_shape()->Assign(shape.begin(), shape.end());
  return message;
}

template <class T>
std::vector<T> elements(const NamedTensor& tensor) {
  std::vector<T> values(tensor.data.span.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.span.data(), values.size() * sizeof(T));
  return values;
}

TEST(GrpcInferRequest, ReadsAllFields) {
  Message message = one_input("INT32", {2, 1});
  message.set_model_version("3");
  message.set_id("the id");
  auto& parameters = *message.mutable_parameters();
  parameters["sequence_id"].set_string_param("s");
  parameters["sequence_start"].set_bool_param(true);
  parameters["sequence_end"].set_bool_param(false);
  parameters["priority"].set_uint64_param(2);
  parameters["timeout"].set_int64_param(5000);
  parameters["binary_data_output"].set_bool_param(true);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  parameters["own"].set_double_param(0.5);
  parameters["other"].set_string_param("text");
  message.add_raw_input_contents(std::string("\1\0\0\0\2\0\0\0", 8));
  auto& output = *message.add_outputs();
  output.set_name("y");
  (*output.mutable_parameters())["classification"].set_int64_param(3);

  const Bytes bytes(message.SerializeAsString());
  const InferRequest made = decode(bytes);
  const Request& request = made.request;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.version, "3");
  EXPECT_EQ(request.id, "the id");
  EXPECT_EQ(request.sequence.text, "s");
  EXPECT_TRUE(request.sequence_start);
  EXPECT_FALSE(request.sequence_end);
  EXPECT_EQ(request.priority, 2u);
  EXPECT_EQ(request.timeout_us, 5000u);
  EXPECT_TRUE(made.enable_empty_final_response);
  EXPECT_EQ(request.parameters, (Parameters{{"own", 0.5}, {"other", std::string("text")}}));
  ASSERT_EQ(request.inputs.size(), 1u);
  EXPECT_EQ(request.inputs[0].dtype, DType::i32);
  EXPECT_EQ(request.inputs[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(elements<int32_t>(request.inputs[0]), (std::vector<int32_t>{1, 2}));
  ASSERT_EQ(request.outputs.size(), 1u);
  EXPECT_EQ(request.outputs[0].classes, 3);
  // The tensor is a part of the message, not a copy.
  const std::byte* at = request.inputs[0].data.span.data();
  EXPECT_TRUE(at >= bytes.span().data() && at < bytes.span().data() + bytes.span().size());
  EXPECT_GT(bytes.owner.use_count(), 1);
}

TEST(GrpcInferRequest, TypedContentsOfAllTypes) {
  const auto typed = [](const char* datatype, auto fill) {
    Message message = one_input(datatype, {3});
    fill(*message.mutable_inputs(0)->mutable_contents());
    return decode(message).request.inputs.at(0);
  };
  using Contents = inference::InferTensorContents;
  const auto ints = [](Contents& c) {
    c.mutable_int_contents()->Add(-1), c.add_int_contents(0), c.add_int_contents(127);
  };
  EXPECT_EQ(elements<int8_t>(typed("INT8", ints)), (std::vector<int8_t>{-1, 0, 127}));
  EXPECT_EQ(elements<int16_t>(typed("INT16", ints)), (std::vector<int16_t>{-1, 0, 127}));
  EXPECT_EQ(elements<int32_t>(typed("INT32", ints)), (std::vector<int32_t>{-1, 0, 127}));
  const auto uints = [](Contents& c) { c.add_uint_contents(255), c.add_uint_contents(0), c.add_uint_contents(1); };
  EXPECT_EQ(elements<uint8_t>(typed("UINT8", uints)), (std::vector<uint8_t>{255, 0, 1}));
  EXPECT_EQ(elements<uint16_t>(typed("UINT16", uints)), (std::vector<uint16_t>{255, 0, 1}));
  EXPECT_EQ(elements<uint32_t>(typed("UINT32", uints)), (std::vector<uint32_t>{255, 0, 1}));
  const auto longs = [](Contents& c) {
    c.add_int64_contents(INT64_MIN), c.add_int64_contents(0), c.add_int64_contents(INT64_MAX);
  };
  EXPECT_EQ(elements<int64_t>(typed("INT64", longs)), (std::vector<int64_t>{INT64_MIN, 0, INT64_MAX}));
  const auto ulongs = [](Contents& c) { c.add_uint64_contents(UINT64_MAX); };
  EXPECT_EQ(elements<uint64_t>(typed("UINT64", ulongs)), (std::vector<uint64_t>{UINT64_MAX}));
  const auto truths = [](Contents& c) { c.add_bool_contents(true), c.add_bool_contents(false); };
  EXPECT_EQ(elements<uint8_t>(typed("BOOL", truths)), (std::vector<uint8_t>{1, 0}));
  const auto floats = [](Contents& c) { c.add_fp32_contents(0.5f), c.add_fp32_contents(-1); };
  EXPECT_EQ(elements<float>(typed("FP32", floats)), (std::vector<float>{0.5f, -1}));
  const auto doubles = [](Contents& c) { c.add_fp64_contents(0.1); };
  EXPECT_EQ(elements<double>(typed("FP64", doubles)), (std::vector<double>{0.1}));
  const auto texts = [](Contents& c) {
    c.add_bytes_contents("ab"), c.add_bytes_contents(""), c.add_bytes_contents("\xff");
  };
  const NamedTensor text = typed("BYTES", texts);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(text.data.span.data()), text.data.span.size()),
            std::string("\2\0\0\0ab\0\0\0\0\1\0\0\0\xff", 15));
}

TEST(GrpcInferRequest, ContentsThatAreNotPacked) {
  // As protobuf's second version writes them: a field for each element.
  std::string input("\x0a\x01x\x12\x05INT32\x18\x02\x2a\x04\x10\x05\x10\x07", 18);
  std::string message = "\x0a\x01m\x2a";
  message += static_cast<char>(input.size());
  const InferRequest made = decode(Bytes(message + input));
  EXPECT_EQ(made.request.inputs.at(0).shape, std::vector<int64_t>{2});
  EXPECT_EQ(elements<int32_t>(made.request.inputs.at(0)), (std::vector<int32_t>{5, 7}));
}

TEST(GrpcInferRequest, RefusesWhatContradictsItself) {
  Message message = one_input("INT32", {1});
  EXPECT_EQ(failure(message), "unable to find data for input tensor 'x' for model 'm' in request.");
  message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(
      failure(message),
      "unexpected explicit tensor data for input tensor 'x' for model 'm' of type 'INT32', expected datatype 'FP32'");
  message.mutable_inputs(0)->mutable_contents()->clear_fp32_contents();
  message.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  EXPECT_EQ(elements<int32_t>(decode(message).request.inputs.at(0)), std::vector<int32_t>{1});
  message.add_raw_input_contents("1234");
  EXPECT_EQ(failure(message),
            "contents field must not be specified when using raw_input_contents for 'x' for model 'm'");
  message.mutable_inputs(0)->clear_contents();
  message.add_raw_input_contents("5678");
  EXPECT_NE(failure(message).find("expected 1 raw_input_contents"), std::string::npos);

  Message narrow = one_input("INT8", {1});
  narrow.mutable_inputs(0)->mutable_contents()->add_int_contents(128);
  EXPECT_EQ(failure(narrow), "the value 128 of input tensor 'x' for model 'm' is out of the range of INT8");
  Message half = one_input("FP16", {1});
  half.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_NE(failure(half).find("of type 'FP16', expected datatype 'FP32'"), std::string::npos);
  EXPECT_NE(failure(one_input("FP17", {1})).find("FP17"), std::string::npos);
}

TEST(GrpcInferRequest, RefusesParametersOfTheWrongKind) {
  const auto with = [](const std::string& name, auto set) {
    Message message = one_input("BYTES", {0});
    message.add_raw_input_contents("");
    set((*message.mutable_parameters())[name]);
    return failure(message);
  };
  using Value = inference::InferParameter;
  EXPECT_EQ(with("sequence_id", [](Value& v) { v.set_bool_param(true); }),
            "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.");
  EXPECT_EQ(with("sequence_start", [](Value& v) { v.set_int64_param(1); }),
            "invalid value type for 'sequence_start' parameter, expected bool_param.");
  EXPECT_EQ(with("priority", [](Value& v) { v.set_int64_param(-1); }),
            "invalid value for 'priority', expected value >= 0.");
  EXPECT_EQ(with("priority", [](Value& v) { v.set_string_param("1"); }),
            "invalid value type for 'priority' parameter, expected int64_param or uint64_param.");
  EXPECT_EQ(with("timeout", [](Value& v) { v.set_double_param(1); }),
            "invalid value type for 'timeout' parameter, expected int64_param.");
  EXPECT_NE(with("triton_own", [](Value& v) { v.set_bool_param(true); }).find("reserved"), std::string::npos);
  EXPECT_EQ(with("own", [](Value&) {}), "the parameter 'own' has no value");
}

TEST(GrpcInferRequest, RefusesWrongSharedMemory) {
  const auto with = [](auto set) {
    Message message = one_input("INT8", {1});
    set(*message.mutable_inputs(0)->mutable_parameters());
    return failure(message);
  };
  using Values = google::protobuf::Map<std::string, inference::InferParameter>;
  EXPECT_EQ(with([](Values& v) {
              v["shared_memory_region"].set_int64_param(1);
              v["shared_memory_byte_size"].set_int64_param(1);
            }),
            "invalid value type for 'shared_memory_region' parameter for tensor 'x', expected string_param.");
  EXPECT_EQ(with([](Values& v) { v["shared_memory_offset"].set_int64_param(1); }),
            "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'x'");
  EXPECT_EQ(with([](Values& v) {
              v["shared_memory_region"].set_string_param("r");
              v["shared_memory_byte_size"].set_int64_param(-1);
            }),
            "invalid value for 'shared_memory_byte_size' parameter for tensor 'x', expected value >= 0.");
  EXPECT_NE(with([](Values& v) { v["shared_memory_region"].set_string_param("r"); }).find("must be specified"),
            std::string::npos);
}

TEST(GrpcInferRequest, BooleansAreWholeNumbers) {
  const auto with_value = [](const std::string& value) {
    const std::string entry = std::string("\x0a\x0esequence_start\x12") + static_cast<char>(value.size()) + value;
    return Bytes(std::string("\x22") + static_cast<char>(entry.size()) + entry);
  };
  EXPECT_TRUE(decode(with_value("\x08\x01")).request.sequence_start);
  EXPECT_FALSE(decode(with_value(std::string("\x08\x80\x00", 3))).request.sequence_start);  // a long zero
  EXPECT_NE(failure([&] { decode(with_value("\x08")); }), "nothing was thrown");
}

TEST(GrpcInferRequest, TextsMustBeUtf8) {
  EXPECT_EQ(failure([] { decode(Bytes(std::string("\x0a\x02\xc3\x28", 4))); }),
            "the ModelInferRequest's field 'model_name' is not UTF-8");
  EXPECT_EQ(decode(Bytes("\x0a\x02\xc3\xa4")).request.model, "ä");
}

TEST(GrpcInferRequest, TooManyItems) {
  std::string inputs;
  for (size_t i = 0; i <= infer_message_items; ++i) inputs += std::string("\x2a\x00", 2);
  EXPECT_NE(failure([&] { decode(Bytes(inputs)); }).find("more than 65536"), std::string::npos);
  // Sizes of a shape, a byte each.
  std::string shape(infer_message_items, '\1');
  Message message;
  auto& input = *message.add_inputs();
  for (size_t i = 0; i <= infer_message_items; ++i) input.add_shape(1);
  EXPECT_NE(failure(message).find("more than 65536"), std::string::npos);
}

// Every prefix and every message with bytes changed is either read or refused; what protobuf itself reads, we do not
// call damaged.
TEST(GrpcInferRequest, DamagedMessages) {
  Message message = one_input("INT64", {4});
  message.set_id("id");
  (*message.mutable_parameters())["p"].set_double_param(1);
  for (int i = 0; i < 4; ++i) message.mutable_inputs(0)->mutable_contents()->add_int64_contents(-i);
  message.add_outputs()->set_name("y");
  const std::string whole = message.SerializeAsString();
  std::mt19937_64 random = seeded_random();
  int damaged = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole.substr(0, i < static_cast<int>(whole.size()) ? i : random() % (whole.size() + 1));
    if (i >= static_cast<int>(whole.size()))
      for (uint64_t changes = random() % 4; changes > 0 && !text.empty(); --changes)
        text[random() % text.size()] = static_cast<char>(random());
    InferMessage read;
    const Bytes bytes(text);
    try {
      read_infer_message(bytes.span(), read);
      make_infer_request(read, bytes.owner, SharedMemory(true));
    } catch (const ServerError& error) {
      if (std::string(error.what()).find("is not a ModelInferRequest") == std::string::npos) continue;
      ++damaged;
      // Groups are a wire type that proto3 does not have; protobuf passes over them.
      if (std::string(error.what()).find("unknown pbf field type") != std::string::npos) continue;
      Message other;
      EXPECT_FALSE(other.ParseFromString(text)) << testing::PrintToString(text);
    }
  }
  EXPECT_GT(damaged, 1000);
}

}  // namespace
}  // namespace camshaft::server::grpc_infer_request_test
