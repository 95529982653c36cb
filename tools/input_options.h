// Where a run's inputs come from: files, or a seed.
#pragma once

#include <CLI/App.hpp>
#include <map>
#include <string>
#include <vector>

#include "camshaft/engine.hpp"
#include "camshaft/tensor.hpp"
#include "tools/shapes_option.h"

namespace camshaft::tools {

/// The options --inputs, --input, --shapes, --seed and --lora.
struct InputOptions {
  std::string archive;              ///< .npz
  std::vector<std::string> arrays;  ///< "name=file.npy"
  std::vector<std::string> shapes;
  std::string seed;
  std::string lora;  ///< the name of an adapter

  /// Adds the options to a command.
  void add_to(CLI::App& command);
};

/// Inputs as far as the command line gives them, before the engine is known.
class GivenInputs {
 public:
  /// Reads the files. Throws Error.
  explicit GivenInputs(const InputOptions& options);

  /// Of the arrays and of --shapes.
  const NamedShapes& shapes() const { return shapes_; }

  struct Complete {
    std::vector<Tensor> tensors;         ///< in the order of the engine's inputs
    std::vector<std::string> generated;  ///< "name: f32[1, 3]" of those that no file gave
  };
  /// One tensor for each input: from the files, else seeded, with sizes that --shapes, the engine's profile, or a guess
  /// decide; none of an engine's adapters without --lora. Throws Error(invalid_argument) for a name that is no input
  /// and no adapter, and for a wrong dtype or shape.
  Complete complete(const Engine& engine) const;

 private:
  struct Array {
    Tensor tensor;
    std::string place;  // "'in.npz': array 'x'", for messages
  };
  std::map<std::string, Array> arrays_;
  NamedShapes shapes_;
  uint64_t seed_ = 0;
  std::string lora_;
};

}  // namespace camshaft::tools
