// How many cores the process may use.
#pragma once

#include <limits>
#include <string>

namespace camshaft {

/// Cores that the process may keep busy: those of its affinity, or what the CPU quota of its control group (version 2
/// or 1, the group's own and those above it) comes to, whole cores of it, where that is less. At least 1.
int available_cores();

/// Where the kernel says what a control group may use.
struct ControlGroupFiles {
  std::string groups_of_process = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// The least CPU quota of the process's control groups, in cores; infinity where there is none.
double control_group_cores(const ControlGroupFiles& files);
inline constexpr double no_core_quota = std::numeric_limits<double>::infinity();

}  // namespace camshaft
