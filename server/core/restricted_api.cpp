#include "server/core/restricted_api.h"

#include <array>
#include <fstream>

namespace camshaft::server {

namespace {

constexpr std::array<std::pair<std::string_view, Api>, 9> api_names = {{{"health", Api::health},
                                                                        {"metadata", Api::metadata},
                                                                        {"inference", Api::inference},
                                                                        {"shared-memory", Api::shared_memory},
                                                                        {"model-config", Api::model_config},
                                                                        {"model-repository", Api::model_repository},
                                                                        {"statistics", Api::statistics},
                                                                        {"trace", Api::trace},
                                                                        {"logging", Api::logging}}};

Api api_of(std::string_view name) {
  std::string known;
  for (const auto& [own, api] : api_names) {
    if (own == name) return api;
    known.append(known.empty() ? "" : ", ").append(own);
  }
  throw ServerError(StatusCode::invalid_argument,
                    "unknown restricted api '" + std::string(name) + "': there are " + known);
}

}  // namespace

void RestrictedApis::add(std::string_view text, std::string_view prefix) {
  const size_t colon = text.find(':');
  const size_t equals = colon == text.npos ? text.npos : text.find('=', colon);
  if (equals == text.npos || equals == colon + 1)
    throw ServerError(StatusCode::invalid_argument,
                      "restricted apis are '<api>,<api>:<key>=<value>', and this is '" + std::string(text) + "'");
  const std::string key = std::string(prefix) + std::string(text.substr(colon + 1, equals - colon - 1));
  const std::string value(text.substr(equals + 1));
  std::string_view names = text.substr(0, colon);
  while (true) {
    const size_t comma = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, comma);
    if (!keys_.emplace(api_of(name), std::pair(key, value)).second)
      throw ServerError(StatusCode::invalid_argument,
                        "restricted api '" + std::string(name) + "' can not be specified in multiple config groups");
    if (comma == names.size()) return;
    names.remove_prefix(comma + 1);
  }
}

const std::pair<std::string, std::string>* RestrictedApis::key(Api api) const {
  const auto found = keys_.find(api);
  return found == keys_.end() ? nullptr : &found->second;
}

bool same_secret(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const char c = given.empty() ? '\0' : given[i % given.size()];
    difference |= static_cast<unsigned char>(c ^ expected[i]);
  }
  return difference == 0;
}

BearerTokens::BearerTokens(std::filesystem::path file) : file_(std::move(file)) {
  read();
  if (tokens_.empty())
    throw ServerError(StatusCode::invalid_argument,
                      "the file of tokens '" + file_.string() + "' cannot be read or has none");
}

void BearerTokens::read() {
  std::error_code error;
  written_ = std::filesystem::last_write_time(file_, error);
  tokens_.clear();
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') tokens_.push_back(line);
  }
}

bool BearerTokens::accepts(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() <= scheme.size()) return false;
  for (size_t i = 0; i + 1 < scheme.size(); ++i)
    if ((authorization[i] | 0x20) != scheme[i]) return false;
  if (authorization[scheme.size() - 1] != ' ') return false;
  authorization.remove_prefix(scheme.size());
  const std::lock_guard lock(mutex_);
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file_, error);
  if (error) return false;
  if (written != written_) read();
  bool accepted = false;
  for (const std::string& token : tokens_) accepted |= same_secret(authorization, token);
  return accepted;
}

}  // namespace camshaft::server
