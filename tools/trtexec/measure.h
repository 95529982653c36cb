// Runs an engine as trtexec does: so many queries at a time, for so long, each timed.
#pragma once

#include <cstdint>
#include <vector>

#include "camshaft/context.hpp"
#include "camshaft/engine.hpp"
#include "tools/trtexec/settings.h"

namespace camshaft::tools::trtexec {

/// In milliseconds since the measurement began.
struct Query {
  double begin = 0, end = 0;
  double latency() const { return end - begin; }
};

struct Measured {
  std::vector<Query> queries;  ///< in the order in which they ended
  double seconds = 0;          ///< of the whole
  int64_t warmup_queries = 0;
  double warmup_ms = 0;
};

/// Contexts whose inputs are bound, one a stream, and what they are bound to.
class Streams {
 public:
  /// `inputs`: in the order of the engine's, which must live as long as this. Outputs stay on a GPU without
  /// `data_transfers`.
  Streams(const Engine& engine, const std::vector<Tensor>& inputs, int count, bool data_transfers);

  Measured measure(const InferenceSettings& settings);
  Context& first() { return contexts_.front(); }

 private:
  std::vector<Tensor> on_device_;
  std::vector<Context> contexts_;
};

/// The times of a layer in milliseconds: all together, a run's mean and median.
struct LayerMilliseconds {
  std::string name;
  double total = 0, mean = 0, median = 0;
};
/// In execution order, of `runs` runs by themselves.
std::vector<LayerMilliseconds> profile_layers(Context& context, int64_t runs);

}  // namespace camshaft::tools::trtexec
