#include "llm/ranked_model.h"

#include <algorithm>
#include <array>

#include "camshaft/error.hpp"

namespace camshaft::llm {

namespace {

enum class Command : int32_t { begin, make_host_blocks, run, copy, offload, restore, end };

// In front of each message, so that all know how long it is.
struct MessageHeader {
  Command command = Command::end;
  int32_t table_width = 0, reads_logits = 0;
  std::array<int32_t, 6> sizes{};  // of the parts that follow
};

constexpr int first_rank = 0;

void send_header(const Communicator& communicator, MessageHeader header) {
  communicator.broadcast(first_rank, &header, sizeof(header));
}

MessageHeader received_header(const Communicator& communicator) {
  MessageHeader header;
  communicator.broadcast(first_rank, &header, sizeof(header));
  return header;
}

size_t whole_size(const MessageHeader& header) {
  size_t size = 0;
  for (const int32_t each : header.sizes) size += static_cast<size_t>(each);
  return size;
}

void check_ranks(const Engine& engine, int size) {
  if (engine.ranks() == size) return;
  throw Error(ErrorCode::invalid_argument, engine.ranks() == 0
                                               ? "the engine is of no rank: it was built without --tensor-parallel-size"
                                               : "the engine is one of " + std::to_string(engine.ranks()) +
                                                     " ranks, of which " + std::to_string(size) + " are there");
}

StepInputs inputs_of(const MessageHeader& header, const std::vector<int32_t>& message) {
  std::array<std::span<const int32_t>, 6> parts;
  const int32_t* at = message.data();
  for (size_t p = 0; p < parts.size(); ++p) {
    parts[p] = {at, static_cast<size_t>(header.sizes[p])};
    at += header.sizes[p];
  }
  StepInputs inputs;
  inputs.input_ids = parts[0], inputs.positions = parts[1], inputs.cumulative = parts[2];
  inputs.past = parts[3], inputs.block_table = parts[4], inputs.logits_indices = parts[5];
  inputs.table_width = header.table_width;
  inputs.reads_logits = header.reads_logits != 0;
  return inputs;
}

}  // namespace

RankedModel::RankedModel(const Engine& first, const std::vector<Engine>& others, int32_t num_blocks, int threads)
    : RankedModel(first, Communicator::local(static_cast<int>(others.size()) + 1), others, num_blocks, threads) {}

RankedModel::RankedModel(const Engine& first, std::vector<Communicator> ends, const std::vector<Engine>& others,
                         int32_t num_blocks, int threads)
    : communicator_(ends.front()) {
  for (const Engine& each : others) check_ranks(each, communicator_.size());
  try {
    for (size_t r = 0; r < others.size(); ++r)
      followers_.emplace_back([engine = others[r], end = ends[r + 1], threads] {
        try {
          follow_ranks(engine, end, threads);
        } catch (const std::exception&) {  // which the first rank is told, too
        }
      });
    begin(num_blocks, first, threads);
  } catch (...) {
    communicator_.abort("rank 0 could not begin");
    for (std::thread& each : followers_) each.join();
    throw;
  }
}

RankedModel::RankedModel(const Engine& first, const Communicator& communicator, int32_t num_blocks, int threads)
    : communicator_(communicator) {
  if (communicator_.rank() != first_rank)
    throw Error(ErrorCode::invalid_argument,
                "a generator is of rank 0, not of rank " + std::to_string(communicator_.rank()));
  telling_others([&] { begin(num_blocks, first, threads); });
}

template <class Work>
void RankedModel::telling_others(const Work& work) {
  try {
    work();
  } catch (const std::exception& e) {
    communicator_.abort(std::string("rank 0: ") + e.what());
    throw;
  }
}

void RankedModel::begin(int32_t num_blocks, const Engine& first, int threads) {
  check_ranks(first, communicator_.size());
  for (const TensorInfo& input : first.inputs())
    for (const char* other : {"image_embeddings", "cross_block_table", "lora_ids"})
      if (input.name == std::string_view(other))
        throw Error(ErrorCode::unsupported, std::string("an engine with the input ") + other + " runs in one rank");
  own_ = std::make_unique<EngineModel>(first, num_blocks, threads);
  if (own_->has_mrope())
    throw Error(ErrorCode::unsupported, "an engine with positions along three axes runs in one rank");
  own_->set_communicator(communicator_);
  MessageHeader header{.command = Command::begin};
  header.sizes[0] = num_blocks;
  send_header(communicator_, header);
}

RankedModel::~RankedModel() {
  try {
    send_header(communicator_, {});
  } catch (const std::exception&) {  // they have heard of what went wrong
  }
  for (std::thread& each : followers_) each.join();
}

void RankedModel::make_host_blocks(int32_t count) {
  MessageHeader header{.command = Command::make_host_blocks};
  header.sizes[0] = count;
  send_header(communicator_, header);
  telling_others([&] { own_->make_host_blocks(count); });
}

void RankedModel::send_copies(int32_t command, std::span<const BlockCopy> copies) {
  message_.clear();
  for (const BlockCopy& copy : copies) message_.insert(message_.end(), {copy.from, copy.to});
  MessageHeader header{.command = static_cast<Command>(command)};
  header.sizes[0] = static_cast<int32_t>(message_.size());
  send_header(communicator_, header);
  communicator_.broadcast(first_rank, message_.data(), message_.size() * sizeof(int32_t));
}

void RankedModel::copy_blocks(std::span<const BlockCopy> copies) {
  send_copies(static_cast<int32_t>(Command::copy), copies);
  telling_others([&] { own_->copy_blocks(copies); });
}

void RankedModel::offload_blocks(std::span<const BlockCopy> copies) {
  send_copies(static_cast<int32_t>(Command::offload), copies);
  telling_others([&] { own_->offload_blocks(copies); });
}

void RankedModel::restore_blocks(std::span<const BlockCopy> copies) {
  send_copies(static_cast<int32_t>(Command::restore), copies);
  telling_others([&] { own_->restore_blocks(copies); });
}

StepOutputs RankedModel::run(const StepInputs& inputs) {
  MessageHeader header{
      .command = Command::run, .table_width = inputs.table_width, .reads_logits = inputs.reads_logits ? 1 : 0};
  const std::array parts{inputs.input_ids, inputs.positions,   inputs.cumulative,
                         inputs.past,      inputs.block_table, inputs.logits_indices};
  message_.clear();
  for (size_t p = 0; p < parts.size(); ++p) {
    header.sizes[p] = static_cast<int32_t>(parts[p].size());
    message_.insert(message_.end(), parts[p].begin(), parts[p].end());
  }
  send_header(communicator_, header);
  communicator_.broadcast(first_rank, message_.data(), message_.size() * sizeof(int32_t));
  StepOutputs outputs;
  telling_others([&] { outputs = own_->run(inputs); });
  return outputs;
}

void follow_ranks(const Engine& engine, const Communicator& communicator, int threads) {
  std::unique_ptr<EngineModel> model;
  std::vector<int32_t> message;
  try {
    check_ranks(engine, communicator.size());
    for (;;) {
      const MessageHeader header = received_header(communicator);
      if (header.command == Command::end) return;
      if (header.command == Command::begin) {
        model = std::make_unique<EngineModel>(engine, header.sizes[0], threads);
        model->set_communicator(communicator);
        continue;
      }
      if (!model) throw Error(ErrorCode::internal, "rank 0 has begun with a step");
      if (header.command == Command::make_host_blocks) {
        model->make_host_blocks(header.sizes[0]);
        continue;
      }
      message.resize(whole_size(header));
      communicator.broadcast(first_rank, message.data(), message.size() * sizeof(int32_t));
      if (header.command == Command::run) {
        model->run(inputs_of(header, message));
        continue;
      }
      std::vector<BlockCopy> copies;
      for (size_t i = 0; i + 1 < message.size(); i += 2) copies.push_back({message[i], message[i + 1]});
      if (header.command == Command::copy) model->copy_blocks(copies);
      if (header.command == Command::offload) model->offload_blocks(copies);
      if (header.command == Command::restore) model->restore_blocks(copies);
    }
  } catch (const std::exception& e) {
    communicator.abort("rank " + std::to_string(communicator.rank()) + ": " + e.what());
    throw;
  }
}

}  // namespace camshaft::llm
