// What the handles of engines and profilers hold.
#pragma once

#include "camshaft/camshaft.h"
#include "camshaft/engine.h"
#include "camshaft/profiler.h"

struct camshaft_engine {
  camshaft::Engine engine;
};

struct camshaft_profiler {
  camshaft::Profiler profiler;
};
