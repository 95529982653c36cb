// What every pass is given.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "camshaft/cancellation.h"
#include "ir/graph.h"
#include "ir/ops/contract.h"

namespace camshaft {

/// What passes have to say about values, by name: why a step was not taken. Kept for `camshaft inspect --explain`.
using PassNotes = std::map<std::string, std::vector<std::string>>;

/// Shared by all passes of a build. A pass is a function `void name(Graph&, const PassContext&)` in a file of its name;
/// it leaves a graph that the verifier accepts and that computes the same values (up to rounding, where the pass's
/// header says so).
struct PassContext {
  ThreadPool& pool;             ///< for evaluating constants
  bool channels_last = false;   ///< the layout that the backend's convolutions prefer
  bool chains = false;          ///< whether somebody takes those chains apart that do not pay
  bool squeeze_excite = false;  ///< the same of squeeze and excite as chains
  DType storage = DType::f32;   ///< of what passes between regions that can compute on it: f32, f16 or bf16
  const std::set<std::string>* keep_f32 = nullptr;  ///< values that stay f32 all the same; null: none
  ops::Rounding rounding = {};                      ///< that products of f32 may do to their operands
  std::set<std::string>* kept_constants = nullptr;  ///< filled with constants whose numbers `storage` cannot hold
  int stop_after = -1;                              ///< run only the first N passes of pass_names(); -1: all
  bool verify = false;                              ///< run the verifier after each pass, as debug builds always do
  Cancellation cancellation = {};
  PassNotes* notes = nullptr;  ///< null: nobody wants to know
};

}  // namespace camshaft
