#include "base/available_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace camshaft {
namespace {

int cores_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));  // more cores than the set has bits for
}

double quotient(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : no_core_quota;
}

// "200000 100000", or "max 100000" without a quota.
double quota_of_version_2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period ? quotient(quota, period) : no_core_quota;
}

// A quota of -1 is none.
double quota_of_version_1(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
  return quota_file >> quota && period_file >> period ? quotient(quota, period) : no_core_quota;
}

// A group can use no more than those above it. In a container the path may be the host's, of which only the last
// folder, the container's root, is there.
template <class Quota>
double least_quota(const std::string& root, std::string path, const Quota& quota) {
  double least = quota(root);
  for (; path.size() > 1; path.erase(path.rfind('/'))) least = std::min(least, quota(root + path));
  return least;
}

bool has_cpu_controller(std::string_view controllers) {
  for (;;) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
}

}  // namespace

double control_group_cores(const ControlGroupFiles& files) {
  double least = no_core_quota;
  std::ifstream groups(files.groups_of_process);
  // Lines of "hierarchy:controllers:/path"; version 2 has no controllers there.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, least_quota(files.root, path, quota_of_version_2));
    } else if (has_cpu_controller(controllers)) {
      for (const std::string& mount : {files.root + "/cpu", files.root + "/" + controllers})
        least = std::min(least, least_quota(mount, path, quota_of_version_1));
    }
  }
  return least;
}

int available_cores() {
  static const double quota = control_group_cores({});
  const int cores = std::max(1, cores_of_affinity());
  return quota < cores ? std::max(1, static_cast<int>(quota)) : cores;
}

}  // namespace camshaft
