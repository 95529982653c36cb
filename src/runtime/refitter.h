// Replacing the weights of an engine.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/replaceable.h"
#include "ir/tensor.h"
#include "runtime/engine.h"
#include "runtime/given_weights.h"

namespace camshaft {

/// An initializer of the model that an engine was built of.
struct EngineWeight {
  InitializerRecord initializer;
  std::vector<std::string> layers;  ///< those that read what is made of it, by name, in order
  bool is_set = false;              ///< in this refitter
};

/// Collects new weights for an engine that was built to be refitted, and gives them to it at once. Not thread-safe;
/// several refitters of one engine take turns.
///
///   Refitter refitter(engine);
///   refitter.set("conv1.weight", tensor);
///   refitter.refit();
///
/// The engine then computes what one that was built of the model with these weights would, with the same kernels; it is
/// the same byte for byte. Contexts take the new weights with their next run: one that runs meanwhile ends on the old
/// ones. Nothing is verified: the weights are taken for what they are.
class Refitter {
 public:
  /// Throws Error(invalid_argument) for an engine that was not built for this.
  explicit Refitter(Engine engine);
  Refitter(const Refitter&) = delete;
  Refitter& operator=(const Refitter&) = delete;

  /// All initializers that the model's nodes read, in order of their names.
  std::vector<EngineWeight> weights() const;
  /// Puts a tensor in the place of an initializer; its memory must stay as it is until refit() returns. Throws
  /// Error(invalid_argument), and leaves what was set before, for a name that the model does not have, for another type
  /// or shape, and for other elements than the present ones where something was decided by these, with what it was.
  void set(const std::string& name, Tensor tensor);
  /// The same for every initializer of a file that the engine has: a model (.onnx), of which others are left out, or
  /// .safetensors and .npz, where a name that the model does not have is an error. Nothing is set when it throws: what
  /// set() throws, Error(io), and Error(invalid_model) for a damaged file.
  void set_file(const std::string& path);
  /// The same for an adapter that the engine was built with (BuildOptions::lora), from a file as there: its numbers
  /// take the place of all of that adapter's, with zeros for products that it does not update. Throws
  /// Error(invalid_argument) also where it updates a product that no adapter did when the engine was built, and for a
  /// rank above the greatest of these.
  void set_lora(const std::string& adapter, const std::string& path);
  /// What must be set besides what is, because constants are made of both and the engine does not have it by itself:
  /// the statistics of a batch normalisation with the convolution before it. With these nothing is missing any more. Of
  /// an engine without weights all that it needs.
  std::vector<std::string> missing() const;
  /// Makes the engine's constants of what is set, on so many threads (0: one for each core), and forgets it. All or
  /// nothing: the engine is as it was when it throws. Throws Error(invalid_argument) while something is missing, or
  /// when the kernels do not take the new numbers: where they are operands of another kind than the old ones were.
  void refit(int threads = 0);

 private:
  void check(const std::string& name, const Tensor& tensor) const;

  std::map<std::string, const InitializerRecord*> known_;
  Engine engine_;
  std::vector<InitializerRecord> records_;
  GivenWeights given_;
};

}  // namespace camshaft
