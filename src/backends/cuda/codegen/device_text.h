// The texts of kernels, put together from the files of device/.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace camshaft::cuda {

/// What the text of every kernel begins with (device/numbers.h, intrinsics.cuh, divisor.h and scalar.cuh), and then
/// `parts` in this order: what host and device share before the functions that take it.
std::string device_text(std::initializer_list<std::string_view> parts);

}  // namespace camshaft::cuda
