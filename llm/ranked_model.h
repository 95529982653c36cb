// A model in several ranks: engines with a part of its weights and caches each, which compute a step together. The
// first rank has the generator and says what is done; the others follow.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "camshaft/communicator.hpp"
#include "camshaft/engine.hpp"
#include "llm/engine_model.h"
#include "llm/step_model.h"

namespace camshaft::llm {

/// The first rank's. Every call is passed on to the others, and then done by this rank's engine. What goes wrong on any
/// rank is the Error of run(), then and in all later calls.
class RankedModel : public StepModel {
 public:
  /// `others` of them in this process, rank by rank, each on a thread of its own; see EngineModel.
  RankedModel(const Engine& first, const std::vector<Engine>& others, int32_t num_blocks, int threads);
  /// The others follow in processes of theirs (follow_ranks()).
  RankedModel(const Engine& first, const Communicator& communicator, int32_t num_blocks, int threads);
  /// Lets them go.
  ~RankedModel() override;
  RankedModel(const RankedModel&) = delete;
  RankedModel& operator=(const RankedModel&) = delete;

  int32_t vocabulary() const override { return own_->vocabulary(); }
  int32_t hidden_size() const override { return own_->hidden_size(); }
  void copy_blocks(std::span<const BlockCopy> copies) override;
  void make_host_blocks(int32_t count) override;
  void offload_blocks(std::span<const BlockCopy> copies) override;
  void restore_blocks(std::span<const BlockCopy> copies) override;
  StepOutputs run(const StepInputs& inputs) override;

 private:
  RankedModel(const Engine& first, std::vector<Communicator> ends, const std::vector<Engine>& others,
              int32_t num_blocks, int threads);
  void begin(int32_t num_blocks, const Engine& first, int threads);
  void send_copies(int32_t command, std::span<const BlockCopy> copies);
  /// Does what may throw, and then no other rank waits for this one.
  template <class Work>
  void telling_others(const Work& work);

  Communicator communicator_;
  std::unique_ptr<EngineModel> own_;
  std::vector<std::thread> followers_;
  std::vector<int32_t> message_;
};

/// Of any rank but the first: does what that says until it is done with. Throws Error where a rank fails or dies.
void follow_ranks(const Engine& engine, const Communicator& communicator, int threads);

}  // namespace camshaft::llm
