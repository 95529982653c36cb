// What an engine file has of a constant.
#pragma once

#include <cstdint>

namespace camshaft {

enum class Keep : uint8_t {
  bytes,
  packed_only,  ///< no kernel reads it but through its packed forms
  nothing,      ///< a refit must bring it
};

}  // namespace camshaft
