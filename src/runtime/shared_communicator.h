// Communicators over memory that ranks share: threads of a process, or processes of a machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/communicator.h"

namespace camshaft {

/// Seconds that an exchange waits for the other ranks, and a process for them to join.
constexpr double usual_communicator_timeout = 300;

/// One for each of `size` ranks, for threads of this process. Throws Error(invalid_argument) for less than one rank or
/// more than 1024, and for a timeout that is not positive.
std::vector<std::shared_ptr<Communicator>> local_communicators(int size, double timeout = usual_communicator_timeout);

/// That of `rank`, once `size` processes of this machine and user have asked for one of that name, a file name without
/// folders. The name is free again then. A process that ends, in whatever way, is noticed by the others within a
/// second. Throws Error(invalid_argument) as above, for ranks that there are not, that another process has, and where
/// the processes name different sizes; Error(io) where they do not come within the timeout, and where there is no
/// shared memory.
std::shared_ptr<Communicator> join_communicator(const std::string& name, int rank, int size,
                                                double timeout = usual_communicator_timeout);

}  // namespace camshaft
