// Runs an engine on batches and looks at the numbers of some of its tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "quantize/channel_magnitudes.h"
#include "quantize/histogram.h"
#include "quantize/signal_powers.h"
#include "quantize/watched_tensors.h"
#include "runtime/engine.h"

namespace camshaft {

/// A tensor for each input of the engine; the memory is the caller's until the next one is asked for.
using Batch = std::vector<std::pair<std::string, TensorView>>;
/// Fills in the next batch of what `inputs` describe; false: there is no more.
using NextBatch = std::function<bool(const std::vector<TensorInfo>& inputs, Batch& batch)>;

struct CollectOptions {
  int threads = 0;             ///< 0: one for each core
  bool extremes_only = false;  ///< no bins
  /// Of each watched value the axis of which each index is to be looked at; or empty.
  std::vector<ChannelAxis> channels = {};
  Cancellation cancellation;
};

struct CollectedNumbers {
  std::vector<Histogram> histograms;        ///< of each watched value
  std::vector<ChannelMagnitudes> channels;  ///< of each watched value; with none where they are not asked for
  std::vector<SignalPowers> powers;         ///< of each watched value
  int64_t batches = 0;
  int64_t samples = 0;                       ///< sum of the first input's first sizes; a batch of a scalar is one
  double data_seconds = 0, run_seconds = 0;  ///< waiting for batches, and all else
};

/// The same for the same batches, however many threads there are. Throws Error(invalid_argument) that says which batch
/// it is and what is wrong with it (a missing or unknown input, a type or shape that the engine does not take), what
/// `next` throws, Error(cancelled), and whatever a run throws.
CollectedNumbers collect_numbers(const Engine& engine, const std::vector<WatchedValue>& watched, const NextBatch& next,
                                 const CollectOptions& options = {});

}  // namespace camshaft
