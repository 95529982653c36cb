// What was measured before, kept in a file.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace camshaft {

/// Nanoseconds of each tactic, by name.
using TacticTimes = std::map<std::string, int64_t>;

/// Times by machine (device, instruction set, code that made the kernels, threads, how cold the model that they were
/// measured for leaves its weights) and problem. One file may hold the
/// times of several machines, and serves all models: they share problems. JSON, so that people can read and edit it.
class TimingCache {
 public:
  /// The content of a file; empty when there is none yet. Throws Error(io) when it cannot be read, and
  /// Error(invalid_argument) when it is damaged or no timing cache.
  static TimingCache read(const std::string& path);
  /// Takes in what another process may have written since read(), then replaces the file whole or not at all. Throws
  /// like read(), and Error(io) when it cannot be written.
  void write(const std::string& path) const;

  /// Null when the problem was never measured there.
  const TacticTimes* find(const std::string& machine, const std::string& problem) const;
  void set(const std::string& machine, const std::string& problem, TacticTimes times);

 private:
  std::map<std::string, std::map<std::string, TacticTimes>> machines_;
};

}  // namespace camshaft
