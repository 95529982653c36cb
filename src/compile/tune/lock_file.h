// The choices of one build, kept in a file, so that another build makes the same engine byte by byte.
#pragma once

#include <string>
#include <vector>

#include "compile/tune/tuning.h"

namespace camshaft {

struct LockedLayer {
  std::string name;
  std::string problem;  ///< hash of its problem_text()
  std::string tactic;
  std::vector<TacticTrial> tried;
  std::vector<std::string> further = {};  ///< see TacticChoice
  bool operator==(const LockedLayer&) const = default;
};

struct LockFile {
  std::string model;       ///< file name, for people
  std::string model_hash;  ///< of the file's bytes
  std::string device;      ///< kind and instruction set: packed weights differ between them
  std::string tuning;      ///< how the tactics were chosen, in words
  std::string made_by;     ///< version of what wrote it
  std::vector<LockedLayer> layers;
  std::vector<std::string> float_layers;  ///< layers of the model that int8, or fp8, would make slower
  bool is_fp8 = false;                    ///< the others are in fp8

  /// Throws Error(io) when the file cannot be read and Error(invalid_argument) when it is damaged or no lock file.
  static LockFile read(const std::string& path);
  /// Whole or not at all; the same choices give the same bytes. Throws Error(io).
  void write(const std::string& path) const;
};

}  // namespace camshaft
