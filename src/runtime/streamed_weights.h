// A weight budget and what becomes of it, for one set of an engine's weights.
#pragma once

#include <memory>

#include "runtime/engine_impl.h"
#include "runtime/weight_image.h"
#include "runtime/weight_stream.h"
#include "runtime/weight_streaming.h"

namespace camshaft {

/// What is known of an engine's weights before there is a budget.
class StreamableWeights {
 public:
  /// The engine is planned.
  explicit StreamableWeights(const Engine::Impl& engine);

  int64_t weight_bytes() const { return streamable_bytes_ + fixed_bytes_; }
  int64_t least_budget() const;
  int64_t automatic_budget() const;
  /// Throws Error(invalid_argument) for a budget below the least, which it names. Null where all weights fit. The
  /// weights that a device reads are placed there, in `plan`, the engine's, in any case.
  std::unique_ptr<WeightStream> make_stream(int64_t budget, Plan& plan) const;
  bool fits(int64_t budget) const { return budget >= weight_bytes(); }
  int64_t streamable_bytes() const { return streamable_bytes_; }
  /// Checks the same, without a stream.
  StreamingPlan plan(int64_t budget) const { return plan(budget, blocks_within(budget)); }
  const WeightBlocks& blocks() const { return blocks_; }
  int64_t fixed_bytes() const { return fixed_bytes_; }
  /// Whether a device reads them, in its memory.
  bool is_on_device() const { return queue_ != nullptr; }

 private:
  size_t least_blocks(const StepBlocks& steps) const;
  bool has_room(int64_t budget, const StepBlocks& steps) const;
  WeightBlocks blocks_within(int64_t budget) const;
  StreamingPlan plan(int64_t budget, const WeightBlocks& blocks) const;
  void find_on_device();
  void find_in_file();
  bool is_placed() const;
  FarUses far_uses() const { return is_on_device() ? FarUses::stay : FarUses::come_again; }
  std::unique_ptr<WeightStream> make_device_stream(int64_t budget, Plan& plan) const;

  const Engine::Impl& engine_;
  std::unique_ptr<DeviceQueue> queue_;  // of the device that reads them; null: the host
  WeightImage image_;                   // on it
  WeightBlocks blocks_;
  StepBlocks without_tables_;  // of blocks_, but for tables whose rows are looked up
  int64_t streamable_bytes_ = 0;
  int64_t fixed_bytes_ = 0;  // not in the file, or not in the form that kernels read
};

/// Of an engine as it is now.
WeightStreaming describe_streaming(const Engine::Impl& engine);

}  // namespace camshaft
