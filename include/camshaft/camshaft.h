// Everything a user of the library needs.
#pragma once

#include "camshaft/builder.h"
#include "camshaft/cancellation.h"
#include "camshaft/context.h"
#include "camshaft/device_id.h"
#include "camshaft/dtype.h"
#include "camshaft/engine.h"
#include "camshaft/error.h"
#include "camshaft/logger.h"
#include "camshaft/profile.h"
#include "camshaft/profiler.h"
#include "camshaft/tensor.h"
#include "camshaft/tuning.h"
