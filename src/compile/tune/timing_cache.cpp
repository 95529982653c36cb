#include "compile/tune/timing_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "compile/tune/json_file.h"

namespace camshaft {

namespace {

constexpr JsonFormat timing_cache_format{"timing cache", "camshaft_timing_cache", 1, "delete it to measure anew"};

}  // namespace

TimingCache TimingCache::read(const std::string& path) {
  TimingCache cache;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return cache;
  const nlohmann::json json = read_json(path, timing_cache_format);
  try {
    using Object = nlohmann::json::object_t;
    for (const auto& [machine, problems] : json.at("machines").get_ref<const Object&>())
      for (const auto& [problem, times] : problems.get_ref<const Object&>()) {
        TacticTimes& known = cache.machines_[machine][problem];
        for (const auto& [tactic, ns] : times.get_ref<const Object&>()) {
          known[tactic] = ns.get<int64_t>();
          if (!ns.is_number_integer() || known[tactic] <= 0)
            damaged(path, timing_cache_format, fmt::format("the time of tactic '{}' is {}", tactic, ns.dump()));
        }
      }
  } catch (const nlohmann::json::exception& e) {
    damaged(path, timing_cache_format, e.what());
  }
  return cache;
}

void TimingCache::write(const std::string& path) const {
  TimingCache all = read(path);
  for (const auto& [machine, problems] : machines_)
    for (const auto& [problem, times] : problems) all.machines_[machine][problem] = times;
  write_json(path, timing_cache_format, {{"machines", all.machines_}});
}

const TacticTimes* TimingCache::find(const std::string& machine, const std::string& problem) const {
  const auto problems = machines_.find(machine);
  if (problems == machines_.end()) return nullptr;
  const auto times = problems->second.find(problem);
  return times == problems->second.end() ? nullptr : &times->second;
}

void TimingCache::set(const std::string& machine, const std::string& problem, TacticTimes times) {
  machines_[machine][problem] = std::move(times);
}

}  // namespace camshaft
