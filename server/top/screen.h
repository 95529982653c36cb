// The text that `camshaft top` shows.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "server/top/figures.h"

namespace camshaft::server {

enum class TopOrder { name, requests, waiting, latency };

struct ScreenForm {
  int columns = 100;
  int rows = 0;         ///< 0: as many as there are
  bool colour = false;  ///< by ANSI's sequences
  bool blocks = true;   ///< bars of Unicode's blocks, else of ASCII
  TopOrder order = TopOrder::name;
  size_t first = 0;         ///< of the models, when there are more than rows
  std::string notice = {};  ///< why the figures are old, and the like; empty: nothing
};

/// Requests a second of each model (its name and version) at the last looks, the newest last.
using RateHistory = std::map<std::string, std::deque<double>>;

/// The name under which a model is in the history.
std::string history_key(const ModelFigures& model);

/// Lines that end with a line feed each, none wider than the form says. What came from the server is free of control
/// characters.
std::string screen_text(const Figures& figures, const RateHistory& history, const ScreenForm& form);

/// "1.5 ms", "-" for nothing, "> 100 s" for what is infinite.
std::string duration_text(const std::optional<double>& us);

}  // namespace camshaft::server
