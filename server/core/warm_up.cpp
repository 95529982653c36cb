#include "server/core/warm_up.h"

#include <algorithm>
#include <fstream>
#include <random>

#include "server/core/data_type.h"
#include "server/core/engine_backend.h"
#include "server/core/log.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

// The best of so many runs counts: a first run plans memory, others may be disturbed.
constexpr int runs_a_size = 3;
// A context of an engine keeps what it needs for 16 sets of shapes.
constexpr size_t most_ready_sizes = 14;
// Inputs of zeros for it: nobody knows whether batches of that size come.
constexpr size_t most_zeros = size_t{512} << 20;

NamedTensor tensor_of(const std::string& name, DType dtype, Dims shape, std::vector<std::byte> bytes) {
  auto held = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  return {name, dtype, std::move(shape), {*held, held}};
}

size_t bytes_of(DType dtype, const Dims& shape) {
  const auto count = static_cast<size_t>(element_count(shape));
  return dtype == DType::string ? count * sizeof(uint32_t) : byte_size(dtype, static_cast<int64_t>(count));
}

// Numbers that every model bears: [0, 1) as floats, 0 or 1 as integers; empty texts.
std::vector<std::byte> random_bytes(DType dtype, const Dims& shape) {
  std::vector<std::byte> bytes(bytes_of(dtype, shape));
  std::minstd_rand random(1);
  if (dtype == DType::f32) {
    for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
      const float value = static_cast<float>(random() % 1024) / 1024;
      std::copy_n(reinterpret_cast<const std::byte*>(&value), sizeof(value), bytes.begin() + static_cast<long>(i));
    }
  } else if (is_integer(dtype) || dtype == DType::boolean) {
    const size_t width = byte_size(dtype, 1);
    for (size_t i = 0; i < bytes.size(); i += width) bytes[i] = static_cast<std::byte>(random() >> 8 & 1);
  }
  return bytes;
}

std::vector<std::byte> file_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(in ? static_cast<size_t>(in.tellg()) : 0);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

Request sample_request(const ModelConfig& config, const inference::ModelWarmup& sample,
                       const std::filesystem::path& folder) {
  Request request;
  request.model = config.name();
  for (const auto& [name, input] : sample.inputs()) {
    const DType dtype = parse_config_type(inference::DataType_Name(input.data_type()));
    Dims shape(input.dims().begin(), input.dims().end());
    if (config.max_batch_size() > 0) shape.insert(shape.begin(), std::max<int64_t>(1, sample.batch_size()));
    std::vector<std::byte> bytes;
    if (input.has_input_data_file())
      bytes = file_bytes(file_in(folder / "warmup", input.input_data_file(), config.name()));
    else if (input.random_data())
      bytes = random_bytes(dtype, shape);
    else
      bytes.resize(bytes_of(dtype, shape));
    request.inputs.push_back(tensor_of(name, dtype, std::move(shape), std::move(bytes)));
  }
  return request;
}

// Runs it as a client's would be, and throws what it was answered.
void run_sample(const Signature& signature, Request request, Instance& instance, bool iterative = false) {
  ModelStatistics uncounted;
  Status status;
  auto pending = std::make_unique<Pending>(
      std::move(request), [&](Response response) { status = response.status; }, uncounted, nullptr);
  try {
    check_request(signature, *pending);
    for (const TensorSpec& spec : signature.added) {
      Dims shape = spec.dims;
      for (int64_t& size : shape) size = std::max<int64_t>(size, 1);
      if (signature.max_batch > 0) shape.insert(shape.begin(), pending->batch);
      pending->added.push_back(
          tensor_of(spec.name, spec.dtype, shape, std::vector<std::byte>(bytes_of(spec.dtype, shape))));
    }
    for (size_t i = 0; i < pending->added.size(); ++i)
      pending->inputs[signature.inputs.size() + i] = &pending->added[i];
  } catch (...) {
    status = current_exception_status();
    pending->fail(status, FailureReason::other);
    throw ServerError(status.code, status.message);
  }
  while (pending) {
    PendingPtr again;
    if (iterative) pending->reschedule = [&again](PendingPtr given_back) { again = std::move(given_back); };
    std::vector<PendingPtr> batch;
    batch.push_back(std::move(pending));
    instance.run(std::move(batch));
    pending = std::move(again);
  }
  if (!status.ok()) throw ServerError(status.code, status.message);
}

bool has_fixed_sizes(const Signature& signature) {
  return std::none_of(signature.inputs.begin(), signature.inputs.end(),
                      [](const TensorSpec& spec) { return std::count(spec.dims.begin(), spec.dims.end(), -1) > 0; });
}

void run_zeros(const Signature& signature, int64_t batch, Instance& instance) {
  Request request;
  for (const TensorSpec& spec : signature.inputs) {
    Dims shape = spec.dims;
    if (signature.max_batch > 0) shape.insert(shape.begin(), batch);
    std::vector<std::byte> bytes(bytes_of(spec.dtype, shape));
    request.inputs.push_back(tensor_of(spec.name, spec.dtype, std::move(shape), std::move(bytes)));
  }
  run_sample(signature, std::move(request), instance);
}

// 1, 2, 4, … and the largest, then the preferred ones, then those between: as many as a context keeps what it needs
// for.
std::set<int64_t> sizes_to_get_ready(const Signature& signature, const std::set<int64_t>& preferred) {
  size_t item = 1;
  for (const TensorSpec& spec : signature.inputs) item += bytes_of(spec.dtype, spec.dims);
  const int64_t largest = std::min(signature.max_batch, static_cast<int64_t>(most_zeros / item));
  if (largest < 1) return {};
  std::set<int64_t> sizes{largest};
  for (int64_t size = 1; size < largest; size *= 2) sizes.insert(size);
  std::vector<int64_t> others(preferred.begin(), preferred.end());
  for (int64_t size = 3; size < largest; size *= 2) others.push_back(size);
  for (const int64_t size : others)
    if (size <= largest && sizes.size() < most_ready_sizes) sizes.insert(size);
  return sizes;
}

// From the largest size on: each smaller one finds the memory that it needs. Empty: it is ready. Else why it is not.
std::string get_instance_ready(const Signature& signature, int64_t size, Instance& instance) {
  try {
    for (int i = 0; i < 2; ++i) run_zeros(signature, size, instance);  // what is run again is recorded
    return "";
  } catch (const std::exception& error) {  // for lack of memory, or of a model that zeros are nothing for
    return error.what();
  }
}

}  // namespace

void warm_up(const ModelConfig& config, const Signature& signature, const std::filesystem::path& folder,
             std::vector<PlacedInstance>& instances) {
  for (const inference::ModelWarmup& sample : config.model_warmup())
    for (PlacedInstance& placed : instances)
      for (uint32_t i = 0; i < std::max<uint32_t>(1, sample.count()); ++i) {
        try {
          run_sample(signature, sample_request(config, sample, folder), *placed.instance,
                     config.sequence_batching().iterative_sequence());
        } catch (const ServerError& error) {
          throw ServerError(error.code(),
                            "model '" + config.name() + "', warm-up '" + sample.name() + "': " + error.what());
        }
      }
}

void measure_batches(const Signature& signature, Instance& instance, BatchTimes& times) {
  if (!has_fixed_sizes(signature)) return;
  const int64_t most = std::max<int64_t>(1, signature.max_batch);
  for (int64_t batch = 1;; batch = std::min(batch * 2, most)) {
    Clock::duration best = Clock::duration::max();
    for (int i = 0; i < runs_a_size; ++i) {
      const Clock::time_point start = Clock::now();
      run_zeros(signature, batch, instance);
      best = std::min(best, Clock::now() - start);
    }
    times.add(batch, best);
    if (batch == most) return;
  }
}

std::set<int64_t> get_ready(const ModelConfig& config, const Signature& signature,
                            std::vector<PlacedInstance>& instances, const std::set<int64_t>& preferred) {
  const bool are_needed = std::all_of(instances.begin(), instances.end(), [](const PlacedInstance& placed) {
    return placed.instance->gets_ready_for_sizes();
  });
  if (!are_needed || !has_fixed_sizes(signature) || signature.max_batch <= 1) return {};
  std::set<int64_t> ready = sizes_to_get_ready(signature, preferred);
  const std::vector<int64_t> largest_first(ready.rbegin(), ready.rend());
  for (PlacedInstance& placed : instances)
    for (const int64_t size : largest_first) {
      if (!ready.contains(size)) continue;
      const std::string problem = get_instance_ready(signature, size, *placed.instance);
      if (problem.empty()) continue;
      log(LogKind::warning,
          "model '" + config.name() + "' cannot get ready for batches of " + std::to_string(size) + ": " + problem);
      ready.erase(size);
    }
  return ready;
}

}  // namespace camshaft::server
