// Requests that are run before a model is ready.
#pragma once

#include <filesystem>
#include <set>
#include <vector>

#include "server/core/backend.h"
#include "server/core/batch_times.h"

namespace camshaft::server {

/// Runs what model_warmup says on each instance; files come from `folder`/warmup. Throws ServerError for one that
/// fails, naming it.
void warm_up(const ModelConfig& config, const Signature& signature, const std::filesystem::path& folder,
             std::vector<PlacedInstance>& instances);

/// Runs batches of 1, 2, 4, … and max_batch_size zeros and keeps what they take. Of a model with other sizes that are
/// not fixed nothing: what they are shows with the first requests.
void measure_batches(const Signature& signature, Instance& instance, BatchTimes& times);

/// Runs batches of zeros on instances that have to get ready for a size (Instance::gets_ready_for_sizes()), and gives
/// the sizes that all are ready for, 14 at most, of inputs up to 512 MiB: 1, 2, 4, … and max_batch_size, `preferred`,
/// 3, 6, 12, …. Those that fail are left out, with a line in the log. Of other instances, and of a model as above,
/// none.
std::set<int64_t> get_ready(const ModelConfig& config, const Signature& signature,
                            std::vector<PlacedInstance>& instances, const std::set<int64_t>& preferred);

}  // namespace camshaft::server
