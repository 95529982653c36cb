// Sequences, optionals and maps as arrays of an archive.
#pragma once

#include <string>

#include "tools/npz.h"

namespace camshaft::tools {

/// Appends what `value` is made of: a plain tensor as `name`; the elements of a sequence as "name/0", "name/1", …; that
/// of an optional, if it has one, as "name/0"; keys and values of a map as "name/keys" and "name/values".
void append_arrays(const std::string& name, const Tensor& value, NamedTensors& arrays);

}  // namespace camshaft::tools
