// Everything a C++ program needs of the library: a layer over camshaft.h that is compiled into the program, so that
// nothing of C++ crosses the border of libcamshaft.so.
#pragma once

#include "camshaft/builder.hpp"
#include "camshaft/calibration.hpp"
#include "camshaft/cancellation.hpp"
#include "camshaft/context.hpp"
#include "camshaft/dtype.hpp"
#include "camshaft/engine.hpp"
#include "camshaft/error.hpp"
#include "camshaft/load_plugin.hpp"
#include "camshaft/logger.hpp"
#include "camshaft/network.hpp"
#include "camshaft/options.hpp"
#include "camshaft/profiler.hpp"
#include "camshaft/quantize.hpp"
#include "camshaft/record.hpp"
#include "camshaft/reference.hpp"
#include "camshaft/refitter.hpp"
#include "camshaft/report.hpp"
#include "camshaft/simplify.hpp"
#include "camshaft/system.hpp"
#include "camshaft/tensor.hpp"
