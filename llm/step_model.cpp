#include "llm/step_model.h"

#include "camshaft/error.hpp"

namespace camshaft::llm {

namespace {

[[noreturn]] void refuse_host_blocks() {
  throw Error(ErrorCode::unsupported,
              "this model's blocks cannot be kept in the host's memory: leave num_host_blocks 0");
}

}  // namespace

void StepModel::make_host_blocks(int32_t) {
  refuse_host_blocks();
}

void StepModel::offload_blocks(std::span<const BlockCopy>) {
  refuse_host_blocks();
}

void StepModel::restore_blocks(std::span<const BlockCopy>) {
  refuse_host_blocks();
}

void StepModel::start(const StepInputs&, bool) {
  throw Error(ErrorCode::unsupported, "this model's steps are not started ahead: run() does them");
}

StepOutputs StepModel::finish() {
  throw Error(ErrorCode::unsupported, "this model's steps are not started ahead: run() does them");
}

}  // namespace camshaft::llm
