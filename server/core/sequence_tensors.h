// What the server adds to the inputs of a sequence's requests.
#pragma once

#include <filesystem>
#include <vector>

#include "server/core/pending.h"
#include "server/core/signature.h"

namespace camshaft::server {

class SequenceTensors {
 public:
  /// Reads the files of initial states, which lie in `folder`/initial_state. Throws ServerError(invalid_argument) for
  /// one of another size than its tensor.
  SequenceTensors(const ModelConfig& config, const Signature& signature, const std::filesystem::path& folder);

  /// Of a sequence that starts.
  const std::vector<NamedTensor>& initial_states() const { return initial_; }
  /// Sets what of `pending.inputs` is not the client's. Throws ServerError(invalid_argument) for an identity that the
  /// model's CORRID input cannot hold.
  void add(Pending& pending, bool start, bool end, const std::vector<NamedTensor>& states) const;

 private:
  NamedTensor control(size_t index, const Pending& pending, bool start, bool end) const;

  std::vector<inference::ModelSequenceBatching::Control> controls_;
  std::vector<TensorSpec> specs_;  ///< of the controls
  size_t first_;                   ///< place of the first one
  bool batched_;
  std::vector<NamedTensor> initial_;
};

}  // namespace camshaft::server
