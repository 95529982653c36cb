// Adapters of LoRA (Hu et al., https://arxiv.org/abs/2106.09685) in files as PEFT writes them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace camshaft::onnx {

/// A product x·W then computes x·(W + transposed(a)·transposed(b)), with W as [in, out].
struct LowRankUpdate {
  Tensor a;  ///< f32 [rank, in]
  Tensor b;  ///< f32 [out, rank], times the adapter's scale
};

struct LoraAdapter {
  std::string name, file;
  std::map<std::string, LowRankUpdate> updates;  ///< by the path of the module: "encoder.layer.0.attention.self.query"
};

/// Reads the tensors `[base_model.model.]<module>.lora_A[.<any>].weight` and `….lora_B…` of a .safetensors file, or of
/// adapter_model.safetensors in a folder. The adapter_config.json beside it says the scale (lora_alpha over the rank,
/// or over its root with use_rslora; alpha_pattern); without one it is 1. Throws Error(io), Error(invalid_model) for
/// damaged files and for tensors that do not fit each other, and Error(unsupported) for what is no such update: DoRA's
/// magnitudes, embeddings, convolutions, biases, whole weights. Each names the file and the tensor.
LoraAdapter read_lora_adapter(const std::string& name, const std::string& path);

/// Which of `known` each module is. All may have a path in front that the known ones lack, or lack one, as where a part
/// of the adapted model was exported. `who` begins the message of Error(invalid_argument) for a module that is none,
/// and where several paths in front would do.
std::map<std::string, std::string> match_modules(const std::vector<std::string>& modules,
                                                 const std::set<std::string>& known, const std::string& who);

}  // namespace camshaft::onnx
