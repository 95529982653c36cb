#include "compile/tune/lock_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compile/tune/json_file.h"

namespace camshaft {

namespace {

constexpr JsonFormat lock_file_format{"lock file", "camshaft_lock", 2, "write it anew with --write-lock"};

nlohmann::json to_json(const TacticTrial& trial) {
  nlohmann::json json = {{"tactic", trial.tactic}, {"estimated_ns", trial.estimated_ns}};
  if (trial.measured_ns >= 0) json["measured_ns"] = trial.measured_ns;
  if (trial.refused) json["refused"] = true;
  return json;
}

TacticTrial trial_of(const nlohmann::json& json) {
  TacticTrial trial;
  trial.tactic = json.at("tactic").get<std::string>();
  trial.estimated_ns = json.at("estimated_ns").get<int64_t>();
  trial.measured_ns = json.value("measured_ns", int64_t{-1});
  trial.refused = json.value("refused", false);
  return trial;
}

}  // namespace

LockFile LockFile::read(const std::string& path) {
  const nlohmann::json json = read_json(path, lock_file_format);
  LockFile lock;
  try {
    json.at("model").get_to(lock.model);
    json.at("model_xxh3").get_to(lock.model_hash);
    json.at("device").get_to(lock.device);
    json.at("tuning").get_to(lock.tuning);
    json.at("made_by").get_to(lock.made_by);
    lock.float_layers = json.value("float_layers", std::vector<std::string>());
    lock.is_fp8 = json.value("fp8", false);
    for (const nlohmann::json& layer : json.at("layers")) {
      LockedLayer& l = lock.layers.emplace_back();
      layer.at("layer").get_to(l.name);
      layer.at("problem").get_to(l.problem);
      layer.at("tactic").get_to(l.tactic);
      l.further = layer.value("of_further_profiles", std::vector<std::string>());
      for (const nlohmann::json& trial : layer.at("tried")) l.tried.push_back(trial_of(trial));
    }
  } catch (const nlohmann::json::exception& e) {
    damaged(path, lock_file_format, e.what());
  }
  return lock;
}

void LockFile::write(const std::string& path) const {
  nlohmann::json list = nlohmann::json::array();
  for (const LockedLayer& layer : layers) {
    nlohmann::json tried = nlohmann::json::array();
    for (const TacticTrial& trial : layer.tried) tried.push_back(to_json(trial));
    list.push_back(
        {{"layer", layer.name}, {"problem", layer.problem}, {"tactic", layer.tactic}, {"tried", std::move(tried)}});
    if (!layer.further.empty()) list.back()["of_further_profiles"] = layer.further;
  }
  nlohmann::json json = {{"model", model},   {"model_xxh3", model_hash}, {"device", device},
                         {"tuning", tuning}, {"made_by", made_by},       {"layers", std::move(list)}};
  if (!float_layers.empty()) json["float_layers"] = float_layers;
  if (is_fp8) json["fp8"] = true;
  write_json(path, lock_file_format, json);
}

}  // namespace camshaft
