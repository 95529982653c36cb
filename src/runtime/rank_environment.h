// Which rank a process is, as those who start several say in its environment.
#pragma once

#include <string>

namespace camshaft {

struct RankEnvironment {
  int rank = 0, size = 1;
  std::string name;  ///< of the communicator; the same for all processes of a job, and no other's at that time
};

/// By torchrun's variables: RANK, WORLD_SIZE and MASTER_PORT. Throws Error(invalid_argument) for one that is missing or
/// no number, and Error(unsupported) for ranks on several machines (LOCAL_WORLD_SIZE).
RankEnvironment rank_environment();

}  // namespace camshaft
