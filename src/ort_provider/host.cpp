#include "ort_provider/host.h"

#include <fmt/format.h>

namespace camshaft::ort_provider {

namespace {

ort::StatusCode code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::invalid_model:
      return ort::invalid_argument;
    case ErrorCode::unsupported:
      return ort::not_implemented;
    default:
      return ort::failed;
  }
}

}  // namespace

Host::Host(const ort::ApiBase& base) : version_(base.version()) {
  api_ = base.get_api(interface_version);
  if (!api_)
    throw Error(ErrorCode::unsupported,
                fmt::format("ONNX Runtime {} is too old for Camshaft's execution provider: it needs 1.{} or later",
                            version_, interface_version));
  ep_ = call<const EpApi*>(ort::slot("GetEpApi"));
  editor_ = call<const ModelEditorApi*>(ort::slot("GetModelEditorApi"));
}

void Host::check(OrtStatus* status, size_t slot) const {
  if (!status) return;
  const std::string message =
      fmt::format("ONNX Runtime's {} failed: {}", ort::slot_name(slot),
                  call<const char*>(ort::slot("GetErrorMessage"), static_cast<const OrtStatus*>(status)));
  call<void>(ort::slot("ReleaseStatus"), status);
  throw Error(ErrorCode::internal, message);
}

OrtStatus* Host::failure(ErrorCode code, const char* message) const noexcept {
  return call<OrtStatus*>(ort::slot("CreateStatus"), code_of(code), message);
}

std::map<std::string, std::string> Host::pairs(const OrtKeyValuePairs* pairs) const {
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  call<void>(ort::slot("GetKeyValuePairs"), pairs, &keys, &values, &count);
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < count; ++i) out.emplace(keys[i], values[i]);
  return out;
}

bool Log::hears(Severity severity) const {
  return severity >= host_->get<Severity>(ort::slot("Logger_GetLoggingSeverityLevel"), logger_);
}

void Log::write(Severity severity, const std::string& message) const {
  host_->ask(ort::slot("Logger_LogMessage"), logger_, severity, message.c_str(), "camshaft", 0, "camshaft");
}

}  // namespace camshaft::ort_provider
