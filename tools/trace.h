// Runs by time, as viewers of traces read them.
#pragma once

#include <string>
#include <vector>

#include "camshaft/engine.hpp"
#include "camshaft/profiler.hpp"

namespace camshaft::tools {

/// Runs of an engine, and what is known of its layers.
struct Trace {
  const Engine& engine;
  const std::vector<LayerCost>& costs;  ///< in the order of Engine::layers()
  const std::vector<RunSpan>& runs;
  const std::vector<std::string>& inputs;  ///< "x: f32[1, 3, 224, 224]"
  int threads = 0;                         ///< of the host, of a run
};

/// Writes the trace-event format of Chromium and Perfetto
/// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): times in microseconds, a complete
/// event for each run on the thread it was on, and inside of it one for each layer on the host; layers on a GPU are on
/// a track of their own, of the run's stream there. Throws Error(io).
void write_trace(const std::string& path, const Trace& trace);

}  // namespace camshaft::tools
