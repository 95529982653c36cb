// The handle of a communicator, for the functions that take one.
#pragma once

#include <memory>

#include "base/communicator.h"
#include "camshaft/camshaft.h"

struct camshaft_communicator {
  std::shared_ptr<camshaft::Communicator> communicator;
};
