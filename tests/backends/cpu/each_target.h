// Runs a test body once on every instruction set that the kernels are compiled for and this machine has.
#pragma once

#include <gtest/gtest.h>

#include "backends/cpu/kernels/targets.h"
// After targets.h.
#include "hwy/highway.h"

namespace camshaft::cpu {

template <class Body>
void for_each_target(Body&& body) {
  const int64_t available = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = available; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace camshaft::cpu
