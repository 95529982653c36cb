// libFuzzer target: any bytes as config.pbtxt, or as the JSON that clients bring, of a model that is there: what is
// read is completed, checked, made into rules and written again. The first byte says which of both, and of which model.
#include <algorithm>
#include <string>

#include "server/core/batch_queue.h"
#include "server/core/complete_config.h"
#include "server/core/log.h"
#include "server/core/rate_limiter.h"
#include "server/core/sequence_batcher.h"
#include "server/core/warm_up.h"

namespace camshaft::server {
namespace {

// As if the machine were small: warm-ups beyond are what a real one has memory and time for.
constexpr int64_t most_elements = 1 << 16;
constexpr uint32_t most_runs = 4;

class Echo : public Instance {
 public:
  void run(std::vector<PendingPtr> batch) noexcept override {
    for (const PendingPtr& pending : batch) {
      size_t touched = 0;
      for (const NamedTensor* tensor : pending->inputs)
        if (tensor != nullptr)
          for (const std::byte byte : tensor->data.span) touched += static_cast<size_t>(byte);
      pending->succeed({});
      if (touched == 1) pending->batch = 0;  // so that it is used
    }
  }
};

TensorInfo info_of(const char* name, DType dtype, Dims dims) {
  TensorInfo info;
  info.name = name;
  info.dtype = dtype;
  info.dims = std::move(dims);
  return info;
}

// Of a model as an engine says it of itself.
ModelFacts facts_of(int kind) {
  ModelFacts facts;
  facts.inputs = {info_of("x", (kind & 1) != 0 ? DType::string : DType::f32, {-1, 8})};
  facts.outputs = {info_of("y", DType::f32, (kind & 2) != 0 ? Dims{-1, -1} : Dims{4})};
  if ((kind & 4) != 0) facts.inputs.push_back(info_of("INPUT0", DType::i32, {-1, 16}));
  if ((kind & 8) != 0) facts.most_batch = 8;
  return facts;
}

bool is_small(const inference::ModelWarmup& sample) {
  for (const auto& [name, input] : sample.inputs()) {
    int64_t elements = std::max<int64_t>(1, sample.batch_size());
    for (const int64_t size : input.dims())
      elements = std::min(elements, most_elements + 1) * std::min(size, most_elements);
    if (elements > most_elements) return false;
  }
  return sample.count() <= most_runs;
}

// As LoadedModel does it, with a model that does nothing.
void load(ModelConfig config, int kind) {
  complete_tensors(config, facts_of(kind), (kind & 16) != 0);
  complete_defaults(config, inference::ModelInstanceGroup::KIND_CPU, (kind & 16) != 0);
  check_model_config(config);
  const Signature signature = make_signature(config);
  if (std::all_of(config.model_warmup().begin(), config.model_warmup().end(), is_small)) {
    std::vector<PlacedInstance> instances;
    instances.push_back({std::make_unique<Echo>(), 0});
    warm_up(config, signature, "/nonexistent", instances);
  }
  if (config.has_sequence_batching()) {
    ModelStatistics statistics;
    const SequenceBatcher batcher({}, config, signature, "/nonexistent", statistics);
  } else {
    make_batch_policy(config);
  }
  RateLimiter limiter;
  for (const auto& group : config.instance_group())
    limiter.admit(make_claim(group, group.gpus().empty() ? 0 : group.gpus(0)), config.name());
}

// What clients are shown they may bring again.
void check_round_trip(const ModelConfig& config) {
  const std::string json = model_config_json(config);
  if (model_config_json(parse_model_config_json(json)) != json) std::abort();
}

}  // namespace
}  // namespace camshaft::server

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  using camshaft::server::LogSettings;
  LogSettings::Values quiet;
  quiet.info = quiet.warning = quiet.error = false;
  LogSettings().set(quiet);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace camshaft::server;
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const ModelConfig config =
        (data[0] & 1) != 0 ? parse_model_config_json(text) : parse_model_config_text(text, "config.pbtxt");
    check_round_trip(config);
    load(config, data[0] >> 1);
  } catch (const ServerError&) {
  }
  return 0;
}
