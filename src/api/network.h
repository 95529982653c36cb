// What the handle of a network holds.
#pragma once

#include <memory>

#include "camshaft/camshaft.h"
#include "onnx/network.h"

struct camshaft_network {
  std::shared_ptr<camshaft::onnx::Network> network;
};
