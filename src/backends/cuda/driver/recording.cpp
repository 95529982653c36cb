#include "backends/cuda/driver/recording.h"

#include <optional>
#include <tuple>
#include <utility>

#include "backends/cuda/driver/check.h"

namespace camshaft::cuda {

namespace {

// A graph that nobody has instantiated.
class RecordedGraph {
 public:
  // Of what the stream has recorded, which ends.
  explicit RecordedGraph(const Stream& stream) : driver_(stream.device().driver()) {
    check(driver_, driver_.cuStreamEndCapture(stream.handle(), &graph_), "recording kernels");
  }
  ~RecordedGraph() {
    if (graph_) driver_.cuGraphDestroy(graph_);
  }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;
  api::Handle handle() const { return graph_; }
  api::Handle release() { return std::exchange(graph_, nullptr); }

 private:
  const api::Driver& driver_;
  api::Handle graph_ = nullptr;
};

// What a node that is a kernel launches; nothing for another one. The pointers in it are the node's.
std::optional<api::KernelNode> kernel_of(const api::Driver& driver, api::Handle node) {
  int type = -1;
  api::KernelNode kernel;
  if (driver.cuGraphNodeGetType(node, &type) != api::success || type != api::node_of_kernel ||
      driver.cuGraphKernelNodeGetParams_v2(node, &kernel) != api::success)
    return std::nullopt;
  return kernel;
}

bool is_same_launch(const api::KernelNode& a, const api::KernelNode& b) {
  const auto key = [](const api::KernelNode& k) {
    return std::tie(k.function, k.kernel, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z,
                    k.shared_bytes);
  };
  return key(a) == key(b);
}

}  // namespace

std::optional<RecordingParts::Recorded> RecordingParts::recorded(const Stream& stream) {
  const Current current(stream.device());
  const api::Driver& driver = stream.device().driver();
  if (!driver.cuStreamGetCaptureInfo_v3) return std::nullopt;
  int status = 0;
  api::Handle graph = nullptr;
  const api::Handle* latest = nullptr;
  const void* edges = nullptr;  // how they are waited for, without which the driver does not name them
  size_t latest_count = 0;
  Recorded recorded;
  if (driver.cuStreamGetCaptureInfo_v3(stream.handle(), &status, nullptr, &graph, &latest, &edges, &latest_count) !=
          api::success ||
      !graph || driver.cuGraphGetNodes(graph, nullptr, &recorded.count) != api::success)
    return std::nullopt;
  if (latest_count == 1) recorded.latest = latest[0];
  return recorded;
}

void RecordingParts::begin(const Stream& stream) {
  if (const auto now = recorded(stream)) recorded_ = now->count;
}

void RecordingParts::finish(const Stream& stream) {
  const auto now = recorded(stream);
  nodes_.push_back(now && now->count == recorded_ + 1 ? now->latest : nullptr);
  if (now) recorded_ = now->count;
}

void Recording::begin(const Stream& stream) {
  const Current current(stream.device());
  const api::Driver& driver = stream.device().driver();
  check(driver, driver.cuStreamBeginCapture_v2(stream.handle(), api::capture_of_this_thread), "beginning to record");
}

Recording::Recording(const Stream& stream, const RecordingParts& parts)
    : device_(stream.device()), parts_(parts.nodes()) {
  const Current current(stream.device());
  const api::Driver& driver = stream.device().driver();
  RecordedGraph graph(stream);
  check(driver, driver.cuGraphInstantiateWithFlags(&executable_, graph.handle(), 0),
        "making a graph of recorded kernels");
  graph_ = graph.release();
}

Recording::~Recording() {
  release_on(device_, [&](const api::Driver& driver) {
    driver.cuGraphExecDestroy(executable_);
    driver.cuGraphDestroy(graph_);
  });
}

void Recording::launch(const Stream& stream) const {
  const Current current(device_);
  const api::Driver& driver = device_.driver();
  const api::Result result = driver.cuGraphLaunch(executable_, stream.handle());
  if (result != api::success) check(driver, result, "launching recorded kernels");
}

bool Recording::replace(size_t part, const Stream& stream) {
  const Current current(device_);
  const api::Driver& driver = device_.driver();
  const RecordedGraph graph(stream);
  api::Handle node = nullptr;
  size_t count = 0;
  if (part >= parts_.size() || !parts_[part] ||
      driver.cuGraphGetNodes(graph.handle(), nullptr, &count) != api::success || count != 1 ||
      driver.cuGraphGetNodes(graph.handle(), &node, &count) != api::success)
    return false;
  const auto before = kernel_of(driver, parts_[part]), now = kernel_of(driver, node);
  return before && now && is_same_launch(*before, *now) &&
         driver.cuGraphExecKernelNodeSetParams_v2(executable_, parts_[part], &*now) == api::success;
}

}  // namespace camshaft::cuda
