#include "cuda/recording.h"

#include "cuda/check.h"

namespace camshaft::cuda {

void Recording::begin(const Stream& stream) {
  const Current current(stream.device());
  const api::Driver& driver = stream.device().driver();
  check(driver, driver.cuStreamBeginCapture_v2(stream.handle(), api::capture_of_this_thread), "beginning to record");
}

Recording::Recording(const Stream& stream) : device_(stream.device()) {
  const Current current(stream.device());
  const api::Driver& driver = stream.device().driver();
  api::Handle graph = nullptr;
  check(driver, driver.cuStreamEndCapture(stream.handle(), &graph), "recording kernels");
  const api::Result result = driver.cuGraphInstantiateWithFlags(&executable_, graph, 0);
  driver.cuGraphDestroy(graph);
  check(driver, result, "making a graph of recorded kernels");
}

Recording::~Recording() {
  const Current current(device_);
  device_.driver().cuGraphExecDestroy(executable_);
}

void Recording::launch(const Stream& stream) const {
  const Current current(device_);
  const api::Driver& driver = device_.driver();
  const api::Result result = driver.cuGraphLaunch(executable_, stream.handle());
  if (result != api::success) check(driver, result, "launching recorded kernels");
}

}  // namespace camshaft::cuda
