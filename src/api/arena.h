// What lies where in an engine's arena, step by step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "runtime/engine.h"

namespace camshaft::api {

/// A buffer in the arena of a device, which its memory belongs to from one step to another, both included.
struct ArenaBuffer {
  std::string name;           ///< of the value, or of the step whose workspace it is
  bool is_workspace = false;  ///< scratch memory of one step
  std::string device;         ///< "cpu", "cuda:0"
  int64_t offset = 0, bytes = 0;
  int64_t first_step = 0, last_step = 0;  ///< in the order of Engine::layers()
};

/// For inputs of these shapes; fixed ones need not be named. Values that are computed in place of another lie where
/// that one lay. What is kept from run to run, what the caller binds, and what has a size that only running tells lie
/// elsewhere. `threads`: of the context, which workspaces depend on. Throws Error(invalid_argument) for shapes that
/// contradict the engine's.
std::vector<ArenaBuffer> arena_buffers(const Engine& engine, const std::map<std::string, Dims>& inputs, int threads);

}  // namespace camshaft::api
