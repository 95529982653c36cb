// What a program of the user's thinks of an engine.
#pragma once

#include <string>

#include "camshaft/cancellation.hpp"
#include "camshaft/engine.hpp"

namespace camshaft::tools {

/// A command, to which the path of an engine file is added, and whose last line on stdout is a number: the more, the
/// better. A file that ends in .py is run by $CAMSHAFT_PYTHON, else by python3; anything else by the shell.
class MetricScript {
 public:
  MetricScript(std::string command, Cancellation cancellation);

  /// Throws Error(invalid_argument), with the last line of what it said, where the command fails or ends without a
  /// finite number; Error(cancelled).
  double score(const Engine& engine) const;

 private:
  std::string command_;
  Cancellation cancellation_;
};

/// How far the score may fall below that in floating point.
class ScoreDrop {
 public:
  /// "0.5%" of the score's magnitude, or "0.005" of whatever it counts. Throws Error(invalid_argument) for anything
  /// else, and what is below 0.
  explicit ScoreDrop(const std::string& text);

  /// The least score that is allowed beside one in floating point.
  double least(double in_float) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  double drop_ = 0;
  bool is_relative_ = false;
};

}  // namespace camshaft::tools
