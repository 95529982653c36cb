// Which initializers of a model can be replaced in the engine that is built of it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// A node of the model that reads an initializer.
struct InitializerUse {
  std::string node;  ///< its name, or "Conv_3" of one without, the fourth node
  std::string op;    ///< "Conv"
  uint32_t input = 0;
};

/// An initializer of the model that an engine was built of, as the engine remembers it.
struct InitializerRecord {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;
  /// What was decided by its numbers, so that it cannot be replaced by other ones; empty: it can be.
  std::string fixed_by = {};
  /// Of one that is fixed: XXH3-64 of its elements, by which the same ones are known.
  uint64_t hash = 0;
  /// Of one that is fixed and has at most most_kept_bytes: its elements, for constants that are made of it and of
  /// others. Undefined for others.
  Tensor value = {};
  /// By nodes of the model's main graph, in its order.
  std::vector<InitializerUse> uses = {};

  static constexpr size_t most_kept_bytes = 64 << 10;
};

/// Kept by a build whose weights are to be replaced later. What looks at the numbers of a constant that stems from one
/// of these, in order to decide something by them, either says so, which fixes the initializer, or does without.
class Replaceable {
 public:
  /// `names`: of the initializers that may be replaced, as provenances have them.
  explicit Replaceable(std::set<std::string> names) : names_(std::move(names)) {}

  /// Something reads the initializer; nothing for a name that may not be replaced. Keeps the tensor.
  void add(const std::string& name, const Tensor& tensor);
  /// Whether it is one of `names`.
  bool may_be_added(const std::string& name) const { return names_.contains(name); }
  /// By which nodes of the model, by the initializer's name.
  void set_uses(std::map<std::string, std::vector<InitializerUse>> uses) { uses_ = std::move(uses); }
  /// Names of integers that are weights: nothing makes sizes of them.
  void set_integer_weights(std::set<std::string> names) { integer_weights_ = std::move(names); }
  bool is_integer_weight(const std::string& name) const { return integer_weights_.contains(name); }
  /// Whether it was added and is not fixed.
  bool contains(const std::string& name) const;
  /// The first reason is kept. Nothing for a name that was not added.
  void fix(const std::string& name, std::string_view reason);
  /// That something was not done because it would have fixed an initializer: "a product with ones stays".
  void note(const std::string& name, std::string_view what);

  /// In order of their names.
  std::vector<InitializerRecord> records() const;
  /// What was said with note(), by initializer.
  const std::map<std::string, std::string>& notes() const { return notes_; }

 private:
  struct Entry {
    Tensor tensor;
    std::string fixed_by;
  };
  const std::set<std::string> names_;
  std::set<std::string> integer_weights_;
  std::map<std::string, std::vector<InitializerUse>> uses_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> notes_;
};

/// From its construction on until its end what the calling thread imports and optimises is noted there; null: nowhere.
class ReplaceableScope {
 public:
  explicit ReplaceableScope(Replaceable* of_build);
  ~ReplaceableScope();
  ReplaceableScope(const ReplaceableScope&) = delete;
  ReplaceableScope& operator=(const ReplaceableScope&) = delete;

  /// That of the calling thread; null in other builds.
  static Replaceable* current();

 private:
  Replaceable* const before_;
};

/// Whether a constant may be another one after a refit, so that nothing may be decided by its numbers without
/// fix_numbers(); false for null, and in builds whose weights stay.
bool may_be_replaced(const Provenance::Pointer& provenance);
/// Whether a constant is made of integers alone that are weights and may be other ones after a refit.
bool may_be_replaced_as_integers(const Provenance::Pointer& provenance);
/// Says that `reason` depends on what the numbers of a constant are: other ones cannot take their place in the engine.
void fix_numbers(const Provenance::Pointer& provenance, std::string_view reason);
/// The same of a value of a graph; nothing for no_value.
void fix_numbers(const Graph& graph, ValueId id, std::string_view reason);
/// Says that something was not done because the numbers of a constant may be replaced.
void note_replaceable(const Provenance::Pointer& provenance, std::string_view what);

}  // namespace camshaft
