// What a pass is, and what every pass is given.
#pragma once

#include <bit>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "ir/graph.h"
#include "ir/ops/contract.h"
#include "optimize/precision_rules.h"

namespace camshaft {

/// What passes have to say about values, by name: why a step was not taken. Kept for `camshaft inspect --explain`.
using PassNotes = std::map<std::string, std::vector<std::string>>;

/// The passes that have run, by name, in order.
struct PassRuns {
  std::vector<std::string> names;
  int most = -1;  ///< no pass runs after so many; -1: all do
};

/// Shared by all passes of a build.
struct PassContext {
  ThreadPool& pool;            ///< for evaluating constants
  DType storage = DType::f32;  ///< of what passes between regions that can compute on it: f32, f16 or bf16
  const std::set<std::string>* keep_f32 = nullptr;  ///< values that stay f32 all the same; null: none
  ops::Rounding rounding = {};                      ///< that products of f32 may do to their operands
  const PrecisionRules* rules = nullptr;            ///< of layers that may not be computed in `storage`; null: none
  std::set<std::string>* kept_constants = nullptr;  ///< filled with constants whose numbers `storage` cannot hold
  PassRuns* runs = nullptr;                         ///< filled, and asked how many passes may run; null: all
  bool verify = false;                              ///< run the verifier after each pass, as debug builds always do
  Cancellation cancellation = {};
  SymbolBindings optimum = {};  ///< of the first profile: sizes that the model is run with, as far as they are known
  PassNotes* notes = nullptr;   ///< null: nobody wants to know
};

/// What is settled about a graph once some pass has run: what passes need, or must not find yet.
enum class Fact : uint8_t {
  layouts,    ///< convolutions have the layout that the backend wants
  attention,  ///< attention and rotary embeddings are operators
  joined,     ///< parallel contractions are one
  regions,    ///< the graph consists of regions and plain nodes
  storage,    ///< values have the types in which they are stored
  images,     ///< what brings an image to its first convolution is one region
  chains,     ///< some regions are chains, which only the tuner takes apart
};
std::string_view to_string(Fact fact);

/// A set of facts.
class Facts {
 public:
  constexpr Facts() = default;
  constexpr Facts(std::initializer_list<Fact> facts) {
    for (const Fact fact : facts) bits_ |= bit(fact);
  }
  constexpr bool has(Fact fact) const { return (bits_ & bit(fact)) != 0; }
  constexpr void add(Facts others) { bits_ |= others.bits_; }
  /// Those of these that `others` lacks.
  constexpr Facts without(Facts others) const { return Facts(bits_ & ~others.bits_); }
  constexpr Facts common(Facts others) const { return Facts(bits_ & others.bits_); }
  constexpr bool empty() const { return bits_ == 0; }
  /// The first of a set that is not empty.
  constexpr Fact first() const { return static_cast<Fact>(std::countr_zero(bits_)); }

 private:
  constexpr explicit Facts(unsigned bits) : bits_(bits) {}
  static constexpr unsigned bit(Fact fact) { return 1U << static_cast<unsigned>(fact); }
  unsigned bits_ = 0;
};

/// A pass is a function in a file of its name, and this constant beside it. It leaves a graph that the verifier accepts
/// and that computes the same values (up to rounding, where the pass's header says so).
struct Pass {
  std::string_view name;
  void (*run)(Graph&, const PassContext&) = nullptr;
  Facts needs = {};    ///< settled by passes before this one
  Facts before = {};   ///< not settled yet: this pass does not know what to do with what they leave
  Facts settles = {};  ///< by this pass
};

}  // namespace camshaft
