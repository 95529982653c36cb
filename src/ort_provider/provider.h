// The provider of one session.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "ort_provider/copy_kernels.h"
#include "ort_provider/host.h"
#include "ort_provider/options.h"
#include "ort_provider/partition.h"
#include "ort_provider/subgraph.h"

namespace camshaft::ort_provider {

/// ONNX Runtime asks it which nodes it takes, graph by graph, and then for what runs them. Engines are built before it
/// answers, so that what cannot be built is left to other providers; where that is the options' fault, or memory runs
/// out, the nodes are taken and the session fails, which it would not for an error in the answer. Nothing is taken
/// within the body of a control flow node: the whole node may be, when its graph's turn comes.
class Provider : public Ep {
 public:
  Provider(const Host& host, const char* provider, const ProviderOptions& options, const Log& log);

 private:
  /// What was offered of the graph that was asked about last.
  struct Offer {
    std::vector<std::string> outputs;  ///< sorted
    Engine engine;
  };
  struct ComputeInfo;

  void find_nodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  std::vector<bool> nodes_that_can(const GraphFacts& facts) const;
  void offer(const GraphFacts& facts, OrtEpGraphSupportInfo* support);
  void offer_nodes(const GraphFacts& facts, const Group& group, OrtEpGraphSupportInfo* support) const;
  void explain(const GraphFacts& facts, const std::vector<std::string>& reasons) const;
  std::unique_ptr<Subgraph> subgraph_of(const OrtGraph* graph, const OrtNode* fused, OrtNode** context_node);

  const Host& host_;
  const char* name_;
  ProviderOptions options_;
  Log log_;
  std::vector<Offer> offers_;
  std::exception_ptr failure_;  ///< why what was taken cannot be had
  std::string compatibility_;
  std::unique_ptr<CopyKernels> copies_;  ///< of one whose tensors are on a GPU
};

}  // namespace camshaft::ort_provider
