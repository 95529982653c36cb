#include "engine/engine_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "engine/container.h"
#include "engine/damaged.h"
#include "engine/field_codec.h"
#include "engine/graph_codec.h"

namespace camshaft {

namespace {

flatbuffers::Offset<format::Profile> encode_profile(flatbuffers::FlatBufferBuilder& b, const Profile& profile) {
  std::vector<flatbuffers::Offset<format::Range>> ranges;
  for (const auto& [name, range] : profile.inputs)
    ranges.push_back(format::CreateRangeDirect(b, name.c_str(), &range.min, &range.opt, &range.max));
  return format::CreateProfileDirect(b, &ranges);
}

Profile decode_profile(const format::Profile& stored, CopyBudget& budget) {
  Profile profile;
  const auto dims = [&](const flatbuffers::Vector<int64_t>* list) { return copy_numbers<int64_t>(list, budget); };
  if (stored.inputs())
    for (const format::Range* r : *stored.inputs()) {
      budget.take(r->input()->size());
      profile.inputs[r->input()->str()] = {dims(r->min()), dims(r->opt()), dims(r->max())};
    }
  return profile;
}

flatbuffers::Offset<format::Explanation> encode_explanation(flatbuffers::FlatBufferBuilder& b,
                                                            const LayerExplanation& explanation) {
  std::vector<flatbuffers::Offset<format::Trial>> tried;
  for (const TacticTrial& t : explanation.tried)
    tried.push_back(format::CreateTrialDirect(b, t.tactic.c_str(), t.estimated_ns, t.measured_ns, t.refused));
  std::vector<flatbuffers::Offset<flatbuffers::String>> notes;
  for (const std::string& note : explanation.notes) notes.push_back(b.CreateString(note));
  return format::CreateExplanationDirect(b, &tried, &notes);
}

LayerExplanation decode_explanation(const format::Explanation& stored, CopyBudget& budget) {
  LayerExplanation explanation;
  if (stored.tried())
    for (const format::Trial* t : *stored.tried()) {
      budget.take(t->tactic()->size() + 16);  // a stored trial is larger
      explanation.tried.push_back({t->tactic()->str(), t->estimated_ns(), t->measured_ns(), t->refused()});
    }
  if (stored.notes())
    for (const flatbuffers::String* note : *stored.notes()) {
      budget.take(note->size() + 4);
      explanation.notes.push_back(note->str());
    }
  return explanation;
}

flatbuffers::Offset<format::Initializer> encode_initializer(flatbuffers::FlatBufferBuilder& b,
                                                            const InitializerRecord& record) {
  const auto name = b.CreateString(record.name);
  const auto dims = b.CreateVector(record.dims);
  flatbuffers::Offset<flatbuffers::String> fixed_by;
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> inlined;
  if (!record.fixed_by.empty()) fixed_by = b.CreateString(record.fixed_by);
  if (record.value.defined()) {
    b.ForceVectorAlignment(record.value.bytes(), sizeof(uint8_t), 16);
    inlined = b.CreateVector(element_bytes(record.value));
  }
  std::vector<flatbuffers::Offset<format::InitializerUse>> uses;
  for (const InitializerUse& use : record.uses) {
    const auto node = b.CreateString(use.node), op = b.CreateString(use.op);
    uses.push_back(format::CreateInitializerUse(b, node, op, use.input));
  }
  const auto use_list = b.CreateVector(uses);
  format::InitializerBuilder i(b);
  i.add_name(name);
  i.add_dtype(static_cast<uint8_t>(record.dtype));
  i.add_dims(dims);
  if (!fixed_by.IsNull()) i.add_fixed_by(fixed_by);
  i.add_hash(record.hash);
  if (!inlined.IsNull()) i.add_inlined(inlined);
  i.add_uses(use_list);
  return i.Finish();
}

InitializerRecord decode_initializer(const format::Initializer& stored, CopyBudget& budget) {
  InitializerRecord record;
  record.name = decode_text(stored.name(), budget);
  if (stored.dtype() >= dtype_count)
    throw Error(ErrorCode::corrupt_engine, fmt::format("there is no dtype {}", stored.dtype()));
  record.dtype = static_cast<DType>(stored.dtype());
  record.dims = copy_numbers<int64_t>(stored.dims(), budget);
  const bool is_negative = std::any_of(record.dims.begin(), record.dims.end(), [](int64_t d) { return d < 0; });
  const TensorType type{record.dtype, Shape(record.dims.begin(), record.dims.end())};
  if (is_container(record.dtype) || is_negative || !too_large(type).empty())
    throw Error(ErrorCode::corrupt_engine,
                fmt::format("the initializer '{}' is recorded as {}", record.name, to_string(type)));
  record.fixed_by = decode_text(stored.fixed_by(), budget);
  record.hash = stored.hash();
  if (stored.inlined())
    record.value = decode_elements(record.dtype, record.dims, stored.inlined(), record.name, budget);
  if (stored.uses())
    for (const format::InitializerUse* use : *stored.uses())
      record.uses.push_back({decode_text(use->node(), budget), decode_text(use->op(), budget), use->input()});
  return record;
}

// Bodies of branches and loops among them.
bool is_stripped(const format::Graph& graph) {
  if (graph.values())
    for (const format::Value* v : *graph.values())
      if (v->constant() == format::ConstantStorage::stripped) return true;
  if (graph.nodes())
    for (const format::Node* n : *graph.nodes())
      if (n->bodies())
        for (const format::Graph* body : *n->bodies())
          if (is_stripped(*body)) return true;
  return false;
}

// Where the constants are that are read only where another layout is wanted. They are a third of the weights where
// Winograd's transform is stored: loading does not look at them.
constexpr char fallback_section[] = "fallback";

EngineFile decode(const std::shared_ptr<const Container>& opened, std::shared_ptr<const void> owner) {
  const Container& container = *opened;
  const auto bytes = container.section("graph");
  // A file has no more tables than it has offsets; usually a million are accepted, which is some 200,000 layers.
  constexpr flatbuffers::uoffset_t most_depth = 64;
  const auto most_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / sizeof(flatbuffers::soffset_t));
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), most_depth, most_tables);
  if (!format::VerifyEngineBuffer(verifier)) throw Error(ErrorCode::corrupt_engine, "the graph section is malformed");
  const format::Engine& stored = *format::GetEngine(bytes.data());
  const WeightBytes weights{container.section("weights"), owner};

  CopyBudget budget(bytes.size());
  EngineFile file;
  file.device_kind = stored.device_kind()->str();
  const ProvenanceList provenances = decode_provenances(stored, budget);
  file.graph = decode_graph(*stored.graph(), weights, provenances, budget, &file.tactics);
  file.packed = std::make_shared<PackedConstants>();
  const auto fallback =
      container.has(fallback_section) ? container.section(fallback_section) : std::span<const std::byte>();
  struct Verified {
    std::mutex mutex;
    bool done = false;
  };
  // std::call_once() is not for what may throw: under ThreadSanitizer, and on some systems, the next call waits for
  // ever.
  const auto verify_fallback = [opened, verified = std::make_shared<Verified>()] {
    const std::lock_guard lock(verified->mutex);
    if (verified->done) return;
    opened->verify(fallback_section);
    verified->done = true;
  };
  if (stored.packed()) {
    for (const format::Packed* p : *stored.packed()) {
      const bool is_fallback = p->layout()->string_view() == fallback_layout;
      const std::span<const std::byte> section = is_fallback ? fallback : weights.bytes;
      if (p->offset() % 64 != 0 || p->offset() > section.size() || p->bytes() > section.size() - p->offset())
        throw Error(ErrorCode::corrupt_engine,
                    fmt::format("the packed constant '{}' lies outside the weights", p->constant()->string_view()));
      budget.take(p->constant()->size() + p->layout()->size());
      PackedConstant packed{p->constant()->str(), p->layout()->str(), section.subspan(p->offset(), p->bytes()), owner};
      if (is_fallback) packed.verify = verify_fallback;
      file.packed->add(std::move(packed));
    }
  }
  if (stored.initializers()) {
    file.initializers.emplace();
    for (const format::Initializer* i : *stored.initializers())
      file.initializers->push_back(decode_initializer(*i, budget));
  }
  file.is_stripped = is_stripped(*stored.graph());
  if (file.is_stripped && !file.initializers)
    throw Error(ErrorCode::corrupt_engine, "it has no weights, and does not say which it needs");
  if (stored.profiles())
    for (const format::Profile* p : *stored.profiles()) file.profiles.push_back(decode_profile(*p, budget));
  if (stored.optimum())
    for (const format::Symbol* s : *stored.optimum()) {
      budget.take(s->name()->size());
      file.optimum[s->name()->str()] = s->value();
    }
  if (stored.metadata())
    for (const format::Entry* e : *stored.metadata()) {
      budget.take(e->key()->size() + (e->value() ? e->value()->size() : 0));
      file.metadata[e->key()->str()] = e->value() ? e->value()->str() : "";
    }
  if (stored.explanations() && stored.explanations()->size() == file.graph.nodes.size())
    for (const format::Explanation* e : *stored.explanations())
      file.explanations.push_back(decode_explanation(*e, budget));
  file.storage = std::move(owner);
  return file;
}

// Calls `write` with the sections, whose bytes live until it returns.
template <class Write>
auto with_sections(const EngineFile& engine, Write&& write) {
  SectionSource weights("weights"), fallback(fallback_section);
  const auto store = [&](const Tensor& tensor) { return weights.add(tensor.span()); };
  flatbuffers::FlatBufferBuilder b(1 << 16);
  ProvenanceEncoder provenances;
  const auto graph = encode_graph(b, engine.graph, &engine.tactics, &engine.keep, store, provenances, engine.left_out);
  std::vector<flatbuffers::Offset<format::Packed>> packed;
  for (const PackedConstant* p : engine.packed->all()) {
    if (p->verify) p->verify();
    SectionSource& section = p->layout == fallback_layout ? fallback : weights;
    packed.push_back(
        format::CreatePackedDirect(b, p->constant.c_str(), p->layout.c_str(), section.add(p->bytes), p->bytes.size()));
  }
  std::vector<flatbuffers::Offset<format::Profile>> profiles;
  for (const Profile& profile : engine.profiles) profiles.push_back(encode_profile(b, profile));
  std::vector<flatbuffers::Offset<format::Symbol>> optimum;
  for (const auto& [name, value] : engine.optimum)
    optimum.push_back(format::CreateSymbolDirect(b, name.c_str(), value));
  std::vector<flatbuffers::Offset<format::Entry>> metadata;
  for (const auto& [key, value] : engine.metadata)
    metadata.push_back(format::CreateEntryDirect(b, key.c_str(), value.c_str()));
  std::vector<flatbuffers::Offset<format::Explanation>> explanations;
  for (const LayerExplanation& e : engine.explanations) explanations.push_back(encode_explanation(b, e));
  const auto kind = b.CreateString(engine.device_kind);
  const auto packed_list = b.CreateVector(packed);
  const auto profile_list = b.CreateVector(profiles);
  const auto optimum_list = b.CreateVector(optimum);
  const auto metadata_list = b.CreateVector(metadata);
  const auto explanation_list = b.CreateVector(explanations);
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<format::Initializer>>> initializer_list;
  if (engine.initializers) {
    std::vector<flatbuffers::Offset<format::Initializer>> initializers;
    for (const InitializerRecord& record : *engine.initializers) initializers.push_back(encode_initializer(b, record));
    initializer_list = b.CreateVector(initializers);
  }
  const auto operators = provenances.operators(b);
  const auto provenance_list = provenances.provenances(b);
  format::FinishEngineBuffer(
      b, format::CreateEngine(b, kind, graph, packed_list, profile_list, optimum_list, metadata_list, explanation_list,
                              operators, provenance_list, initializer_list));

  std::vector<SectionSource> sections;
  sections.emplace_back("graph", std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize())));
  sections.push_back(std::move(weights));
  if (!fallback.pieces().empty()) sections.push_back(std::move(fallback));
  return write(sections);
}

}  // namespace

void write_engine_file(const std::string& path, const EngineFile& engine) {
  with_sections(engine, [&](const std::vector<SectionSource>& sections) { write_container(path, sections); });
}

std::vector<std::byte> engine_file_bytes(const EngineFile& engine) {
  return with_sections(engine, [](const std::vector<SectionSource>& sections) { return container_bytes(sections); });
}

EngineFile read_engine_file(const std::shared_ptr<const MappedFile>& mapped, bool releases) {
  const auto container = std::make_shared<const Container>(open_container(mapped, fallback_section, releases));
  return name_damaged_engine(mapped->path(), [&] { return decode(container, mapped); });
}

EngineFile read_engine_file(const std::string& path) {
  return read_engine_file(MappedFile::open(path));
}

}  // namespace camshaft
