// Facts that leave the library, as trees of named values.
#pragma once

#include <nlohmann/json.hpp>

#include "camshaft/camshaft.h"

namespace camshaft::api {

/// The value as a handle that the caller frees.
camshaft_record* new_record(nlohmann::json value);

}  // namespace camshaft::api
