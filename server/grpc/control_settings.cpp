#include "server/grpc/control_settings.h"

#include <string>
#include <vector>

namespace camshaft::server {
namespace {

using LogValue = inference::LogSettingsRequest::SettingValue;

[[noreturn]] void wrong_log_setting(const std::string& name, const char* expected) {
  throw ServerError(StatusCode::invalid_argument,
                    "expect " + std::string(expected) + " for log setting '" + name + "'");
}
bool log_bool(const std::string& name, const LogValue& value) {
  if (value.parameter_choice_case() != LogValue::kBoolParam) wrong_log_setting(name, "a bool_param");
  return value.bool_param();
}
const std::string& log_string(const std::string& name, const LogValue& value) {
  if (value.parameter_choice_case() != LogValue::kStringParam) wrong_log_setting(name, "a string_param");
  return value.string_param();
}

void apply(const std::string& name, const LogValue& value, LogSettings::Values& to) {
  if (name == "log_file") {
    to.file = log_string(name, value);
  } else if (name == "log_info") {
    to.info = log_bool(name, value);
  } else if (name == "log_warning") {
    to.warning = log_bool(name, value);
  } else if (name == "log_error") {
    to.error = log_bool(name, value);
  } else if (name == "log_format") {
    to.format = log_string(name, value);
  } else if (name == "log_verbose_level") {
    if (value.parameter_choice_case() != LogValue::kUint32Param) wrong_log_setting(name, "a uint32_param");
    to.verbose_level = value.uint32_param();
  } else {
    throw ServerError(StatusCode::invalid_argument,
                      "unrecognized log setting '" + name +
                          "': there are log_file, log_info, log_warning, log_error, log_verbose_level, log_format");
  }
}

}  // namespace

void answer_memory_status(Server& server, const inference::SystemSharedMemoryStatusRequest& request,
                          inference::SystemSharedMemoryStatusResponse& response) {
  for (const SharedMemory::Region& from : server.shared_memory().status(request.name())) {
    auto& to = (*response.mutable_regions())[from.name];
    to.set_name(from.name);
    to.set_key(from.key);
    to.set_offset(from.offset);
    to.set_byte_size(from.byte_size);
  }
}

void answer_memory_register(Server& server, const inference::SystemSharedMemoryRegisterRequest& request,
                            inference::SystemSharedMemoryRegisterResponse&) {
  server.shared_memory().register_region(request.name(), request.key(), request.offset(), request.byte_size());
}

void answer_memory_unregister(Server& server, const inference::SystemSharedMemoryUnregisterRequest& request,
                              inference::SystemSharedMemoryUnregisterResponse&) {
  server.shared_memory().unregister(request.name());
}

void answer_cuda_memory_status(Server& server, const inference::CudaSharedMemoryStatusRequest& request,
                               inference::CudaSharedMemoryStatusResponse& response) {
  for (const SharedMemory::CudaRegion& from : server.shared_memory().cuda_status(request.name())) {
    auto& to = (*response.mutable_regions())[from.name];
    to.set_name(from.name);
    to.set_device_id(static_cast<uint64_t>(from.device));
    to.set_byte_size(from.byte_size);
  }
}

void answer_cuda_memory_register(Server& server, const inference::CudaSharedMemoryRegisterRequest& request,
                                 inference::CudaSharedMemoryRegisterResponse&) {
  server.shared_memory().register_cuda_region(request.name(), request.raw_handle(), request.device_id(),
                                              request.byte_size());
}

void answer_cuda_memory_unregister(Server& server, const inference::CudaSharedMemoryUnregisterRequest& request,
                                   inference::CudaSharedMemoryUnregisterResponse&) {
  server.shared_memory().unregister_cuda(request.name());
}

void answer_trace_setting(Server& server, const inference::TraceSettingRequest& request,
                          inference::TraceSettingResponse& response) {
  if (!request.model_name().empty()) server.models().find(request.model_name(), "");
  if (!request.settings().empty()) {
    std::map<std::string, std::vector<std::string>> settings;
    for (const auto& [name, value] : request.settings())
      settings.emplace(name, std::vector<std::string>(value.value().begin(), value.value().end()));
    server.trace().update(request.model_name(), settings);
  }
  const TraceSettings now = server.trace().get(request.model_name());
  auto& settings = *response.mutable_settings();
  settings["trace_file"].add_value(now.file);
  for (const std::string& level : now.level) settings["trace_level"].add_value(level);
  settings["trace_rate"].add_value(std::to_string(now.rate));
  settings["trace_count"].add_value(std::to_string(now.count));
  settings["log_frequency"].add_value(std::to_string(now.log_frequency));
  settings["trace_mode"].add_value(now.mode);
}

void answer_log_settings(Server& server, const inference::LogSettingsRequest& request,
                         inference::LogSettingsResponse& response) {
  LogSettings::Values values = server.log().values();
  for (const auto& [name, value] : request.settings()) apply(name, value, values);
  if (!request.settings().empty()) server.log().set(values);
  auto& settings = *response.mutable_settings();
  settings["log_file"].set_string_param(values.file);
  settings["log_info"].set_bool_param(values.info);
  settings["log_warning"].set_bool_param(values.warning);
  settings["log_error"].set_bool_param(values.error);
  settings["log_verbose_level"].set_uint32_param(values.verbose_level);
  settings["log_format"].set_string_param(values.format);
}

}  // namespace camshaft::server
