// An engine's graph with other weights.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/engine_impl.h"
#include "runtime/given_weights.h"

namespace camshaft {

/// Redoes the constants of an engine that are made of some initializers. The engine and the tensors must outlive it.
class RefittedGraph {
 public:
  RefittedGraph(const Engine::Impl& engine, const GivenWeights& given);

  /// See Refitter::missing().
  std::vector<std::string> missing() const;
  /// The engine with the new weights. Throws what Refitter::refit() throws.
  std::shared_ptr<const Engine::Impl> compiled(int threads) const;

 private:
  /// Whether a constant is another one now.
  bool is_affected(const Value& value) const;
  /// A tensor that was given, or that the engine has by itself; undefined where it has not.
  Tensor find(const std::string& name) const;
  void collect_missing(const Graph& graph, std::set<std::string>& names) const;
  /// Whether its bytes are in memory that somebody else may change.
  bool is_callers(const Tensor& tensor) const;
  void check_holds_f16(const Provenance& made_of, const std::string& constant, const Tensor& made) const;
  /// Puts the new constants into a copy of the engine's graph, or of a body of it.
  void redo(Graph& graph, const std::vector<Keep>* keep, ThreadPool& pool) const;
  /// Lets go of the plain form of new constants that are packed.
  void elide(Engine::Impl& made, const std::vector<bool>& affected) const;

  const Engine::Impl& engine_;
  const GivenWeights& given_;
  std::map<std::string, const InitializerRecord*> records_;
  std::map<std::string, const Value*> plain_;  ///< initializers that a constant of the engine is
  std::map<std::string, Tensor> stacked_;      ///< adapters' beside given ones, from the constants that have both
};

}  // namespace camshaft
