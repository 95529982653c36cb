// What the handles of engines and profilers hold.
#pragma once

#include "camshaft/camshaft.h"
#include "runtime/engine.h"
#include "runtime/profiler.h"

struct camshaft_engine {
  camshaft::Engine engine;
};

struct camshaft_profiler {
  camshaft::Profiler profiler;
};
