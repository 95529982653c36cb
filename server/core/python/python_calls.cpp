#include "server/core/python/python_calls.h"

#include <array>

#include "server/core/status.h"

namespace camshaft::server {
namespace {

using nlohmann::json;

/// TritonError's codes in their order, from 0.
constexpr std::array triton_errors = {StatusCode::unknown,          StatusCode::internal,    StatusCode::not_found,
                                      StatusCode::invalid_argument, StatusCode::unavailable, StatusCode::unsupported,
                                      StatusCode::already_exists,   StatusCode::cancelled};

constexpr int sequence_start_flag = 1, sequence_end_flag = 2;

Request request_of_python(PythonLink& link, const json& message) {
  Request request;
  // First of all, so that the memory is freed whatever is wrong with the rest.
  for (const json& tensor : message.at("inputs")) request.inputs.push_back(link.get(tensor));
  request.model = message.at("model").get<std::string>();
  request.version = message.at("version").get<std::string>();
  request.id = message.at("id").get<std::string>();
  const json& sequence = message.at("sequence");
  if (sequence.is_string())
    request.sequence.text = sequence.get<std::string>();
  else
    request.sequence.number = sequence.get<uint64_t>();
  const int flags = message.at("flags").get<int>();
  request.sequence_start = (flags & sequence_start_flag) != 0;
  request.sequence_end = (flags & sequence_end_flag) != 0;
  request.timeout_us = message.at("timeout").get<uint64_t>();
  request.priority = message.at("priority").get<uint64_t>();
  request.parameters = parameters_of(message.at("parameters"));
  for (const json& name : message.at("outputs")) {
    RequestedOutput output;
    output.name = name.get<std::string>();
    request.outputs.push_back(std::move(output));
  }
  request.timeline.received = request.timeline.queued = Clock::now();
  return request;
}

/// Tells the process; that it has ended is its own affair.
void answer_python(PythonLink& link, uint64_t call, const Response& response) noexcept {
  try {
    json message = {{"op", "answer"},          {"call", call},     {"final", response.final},
                    {"empty", response.empty}, {"error", nullptr}, {"outputs", json::array()}};
    if (!response.status.ok())
      message["error"] = {triton_error_of(response.status.code), response.status.message};
    else
      for (const NamedTensor& tensor : response.outputs) message["outputs"].push_back(link.put(tensor, tensor.shape));
    link.send(message);
  } catch (...) {
    link.shut();  // it would wait for ever
  }
}

void answer_python(PythonLink& link, uint64_t call, const Status& status, bool value) noexcept {
  try {
    link.send(
        {{"op", "answer"}, {"call", call}, {"error", status.ok() ? json() : json(status.message)}, {"value", value}});
  } catch (...) {
    link.shut();
  }
}

std::string decode_base64(const std::string& text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) break;  // the padding
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<char>(bits >> (count -= 8) & 0xff));
  }
  return bytes;
}

}  // namespace

PythonCalls::~PythonCalls() {
  for (std::thread& thread : threads_) thread.join();
}

bool PythonCalls::handle(const std::shared_ptr<PythonLink>& link, const json& message) {
  const auto& op = message.at("op").get_ref<const std::string&>();
  if (op == "infer") {
    infer(link, message);
  } else if (op == "is_ready") {
    bool ready = true;
    try {
      models_.find(message.at("name").get<std::string>(), message.at("version").get<std::string>());
    } catch (const ServerError&) {
      ready = false;
    }
    answer_python(*link, message.at("call").get<uint64_t>(), {}, ready);
  } else if (op == "load" || op == "unload") {
    change(link, message);
  } else {
    return false;
  }
  return true;
}

void PythonCalls::infer(const std::shared_ptr<PythonLink>& link, const json& message) {
  const auto call = message.at("call").get<uint64_t>();
  try {
    Request request = request_of_python(*link, message);
    const std::shared_ptr<Model> model = models_.find(request.model, request.version);
    model->infer(std::move(request), [link, call](Response response) { answer_python(*link, call, response); });
  } catch (...) {
    Response response;
    response.status = current_exception_status();
    answer_python(*link, call, response);
  }
}

// On a thread of its own: it takes long, and the process goes on meanwhile.
void PythonCalls::change(const std::shared_ptr<PythonLink>& link, const json& message) {
  const std::lock_guard lock(mutex_);
  threads_.emplace_back([this, link, message] {
    Status status;
    try {
      const std::string name = message.at("name").get<std::string>();
      if (message.at("op") == "unload") {
        models_.unload(name, message.at("dependents").get<bool>());
      } else {
        LoadOverrides overrides;
        if (const std::string config = message.at("config").get<std::string>(); !config.empty())
          overrides.config_json = config;
        for (const auto& [file, text] : message.at("files").items())
          overrides.files.emplace(file, decode_base64(text.get<std::string>()));
        models_.load(name, overrides);
      }
    } catch (...) {
      status = current_exception_status();
    }
    answer_python(*link, message.at("call").get<uint64_t>(), status, true);
  });
}

Parameters parameters_of(const json& object) {
  Parameters parameters;
  for (const auto& [name, value] : object.items()) {
    if (value.is_boolean())
      parameters[name] = value.get<bool>();
    else if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)
      parameters[name] = value.get<uint64_t>();
    else if (value.is_number_integer())
      parameters[name] = value.get<int64_t>();
    else if (value.is_number())
      parameters[name] = value.get<double>();
    else if (value.is_string())
      parameters[name] = value.get<std::string>();
    else
      throw ServerError(StatusCode::invalid_argument,
                        "the parameter '" + name + "' of a Python model must be a bool, a number or a text");
  }
  return parameters;
}

json json_of(const Parameters& parameters) {
  json object = json::object();
  for (const auto& parameter : parameters)  // lambdas of clang 14 take no structured bindings
    std::visit([&](const auto& held) { object[parameter.first] = held; }, parameter.second);
  return object;
}

StatusCode status_code_of(int triton_error) {
  if (triton_error < 0 || triton_error >= static_cast<int>(triton_errors.size())) return StatusCode::unknown;
  return triton_errors[static_cast<size_t>(triton_error)];
}

int triton_error_of(StatusCode code) {
  for (size_t i = 0; i < triton_errors.size(); ++i)
    if (triton_errors[i] == code) return static_cast<int>(i);
  return code == StatusCode::resource_exhausted ? triton_error_of(StatusCode::unavailable) : 0;
}

}  // namespace camshaft::server
