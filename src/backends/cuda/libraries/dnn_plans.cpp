#include "backends/cuda/libraries/dnn_plans.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "backends/cuda/libraries/libraries.h"
#include "base/error.h"

namespace camshaft::cuda {

std::shared_ptr<const DnnPlan> kept_plan(const std::string& key,
                                         const std::function<std::shared_ptr<const DnnPlan>()>& make) {
  static std::mutex mutex;
  static auto& plans = *new std::deque<std::pair<std::string, std::shared_ptr<const DnnPlan>>>;  // the oldest first
  const auto find = [&] { return std::find_if(plans.begin(), plans.end(), [&](auto& p) { return p.first == key; }); };
  {
    const std::lock_guard lock(mutex);
    if (const auto known = find(); known != plans.end()) return known->second;
  }
  std::shared_ptr<const DnnPlan> made;
  try {
    made = make();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::internal) throw;
    warn_of_refusal("cuDNN", dnn_library().file.path(), e.what());
    throw Error(ErrorCode::unsupported, e.what());
  }
  const std::lock_guard lock(mutex);
  if (find() == plans.end()) plans.emplace_back(key, made);
  constexpr size_t most_plans = 256;
  if (plans.size() > most_plans) plans.pop_front();
  return made;
}

}  // namespace camshaft::cuda
