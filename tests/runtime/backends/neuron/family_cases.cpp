// Whole models: the tiny ones of tests/model/goldens, prefilled in chunks of one slot and decoded for some steps, at
// several degrees.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/backends/neuron/neuron.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "shards/shard_graphs.h"
#include "tests/conformance/backend/drawing.h"
#include "tests/model/golden.h"
#include "tests/runtime/backends/neuron/oracle_case.h"

namespace lockstep::neuron {
namespace {

using conformance::Contents;
using conformance::int_tensor;
using conformance::TensorData;

constexpr int64_t kSlots = 3;
constexpr int64_t kChunk = 8;
constexpr int64_t kCapacity = 40;
constexpr int kDecodeSteps = 14;
constexpr int32_t kScoredRows = 13;

/// How a golden's model is run.
struct FamilyRun {
  std::string golden;
  int ranks = 1;
  std::string variant = "";  // the case's particular feature, part of its name
  DType dtype = DType::kFloat32;
  double tolerance = 1e-4;
  bool draws = false;
  int64_t drafts = 0;                       // above 0: verify steps instead of decode steps
  std::vector<int64_t> token_buckets = {};  // of all steps
  std::vector<int64_t> batch_sizes = {};    // used by turns, with slot 0 alone running
  partition::ExpertSplit experts = partition::ExpertSplit::kColumns;
  partition::GqaMode gqa = partition::GqaMode::kAuto;
  int64_t int8_group = 0;  // above 0: weights in 8 bits
  int64_t top = -1;        // from 0: a text is scored in slot 1 at last, with so many likeliest ids
};

/// A directory that the destructor removes.
class ModelDirectory {
 public:
  explicit ModelDirectory(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / fmt::format("lockstep_neuron_{}_{}", ::getpid(), name)) {
    std::filesystem::create_directories(path_);
  }
  ~ModelDirectory() { std::filesystem::remove_all(path_); }
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

model::Golden golden_of(const FamilyRun& run) { return model::read_golden(LOCKSTEP_GOLDENS_DIR, run.golden); }

checkpoint::ModelSpec spec_of(const model::Golden& golden) {
  const ModelDirectory directory(golden.name);
  std::ofstream(directory.path() / "config.json") << golden.config;
  return checkpoint::read_spec(directory.path() / "config.json").value();
}

shards::ShardOptions sizes_of(const FamilyRun& run) {
  return {.slots = kSlots,
          .chunk = kChunk,
          .capacity = kCapacity,
          .drafts = run.drafts,
          .score_rows = run.top < 0 ? 0 : kChunk,
          .score_top = std::max<int64_t>(run.top, 0),
          .batch_sizes = run.batch_sizes,
          .token_buckets = run.token_buckets,
          .bucketed = shards::bucketed_steps(capabilities()),
          .dtype = run.dtype,
          .logits = families::StepShape::Logits::kOutput};
}

std::vector<shards::ShardGraphs> graphs_of(const FamilyRun& run, const checkpoint::ModelSpec& spec) {
  const auto partition =
      partition::make_partition(spec, run.ranks, run.experts, partition::Numerics::kInvariant, run.gqa).value();
  const shards::ShardOptions options = sizes_of(run);
  std::vector<shards::ShardGraphs> graphs;
  for (int rank = 0; rank < run.ranks; ++rank) {
    graphs.push_back(shards::build_graphs(spec, partition, rank, options, {}).value());
  }
  return graphs;
}

/// The sampling states of the slots, with slots 0 and 2 in use.
Contents states_of(const FamilyRun& run) {
  std::vector<sampling::SlotRule> rules(kSlots, conformance::plain_rule());
  rules[2].parameters.repetition_penalty = 1.1f;
  if (run.draws) {
    for (size_t i = 0; i < rules.size(); ++i) rules[i].parameters.seed = 11 + i;
    rules[0].parameters.do_sample = rules[2].parameters.do_sample = true;
    rules[0].parameters.top_k = 20;
    rules[2].parameters.top_p = 0.9f;
  }
  conformance::CaseBuilder b({.name = "states", .rows = 1, .slots = kSlots});
  add_drawing_states(b, rules);
  Contents states = std::move(b).finish().contents;
  states.insert_or_assign("active", int_tensor({kSlots}, {1, 0, run.batch_sizes.empty() ? 1 : 0}));
  states.insert_or_assign("long_rope", int_tensor({kSlots}, {0, 0, 1}));  // where a family has it
  states.insert_or_assign("step", int_tensor({2}, {1, 2}));
  states.insert_or_assign("parameter_hash", int_tensor({kSlots}, {5, 6, 7}));
  return states;
}

std::vector<Contents> contents_of(const FamilyRun& run) {
  const model::Golden golden = golden_of(run);
  const ModelDirectory directory(golden.name);
  model::write_hashed_model(directory.path(), golden.config, golden.tensors, golden.seed, {});
  checkpoint::ModelSpec spec = checkpoint::read_spec(directory.path() / "config.json").value();
  if (run.int8_group > 0)
    spec.formats = checkpoint::served_formats(*checkpoint::served_format(fmt::format("int8:{}", run.int8_group)));
  const auto checkpoint = checkpoint::open_model_checkpoint(directory.path(), spec).value();
  std::vector<Contents> contents;
  for (const shards::ShardGraphs& graphs : graphs_of(run, spec)) {
    Contents& own = contents.emplace_back(states_of(run));
    const graph::Graph& graph = graphs.decode.front();
    for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) {
      const graph::Value& weight = graph.value(id);
      TensorData data{weight.type, std::vector<std::byte>(static_cast<size_t>(weight.type.bytes()))};
      std::span<std::byte> rest(data.bytes);
      for (const graph::WeightSlice& slice : weight.slices) {
        size_t bytes = size_of(weight.type.dtype);
        for (const Range& range : slice.range) bytes *= static_cast<size_t>(range.size());
        checkpoint
            ->read(slice.tensor, graphs.tensors.at(slice.tensor), slice.range, weight.type.dtype, rest.first(bytes))
            .value();
        rest = rest.subspan(bytes);
      }
      own.insert_or_assign(weight.name, std::move(data));
    }
  }
  return contents;
}

/// The inputs of a verify step: `rows` a slot from its position on, one fewer in slot 0, none in slot 1.
Contents verify_inputs(int64_t rows, int32_t step, int64_t vocabulary) {
  std::vector<int32_t> ids, slots, position, wanted;
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    wanted.push_back(slot == 1 ? -1 : static_cast<int32_t>(slot * rows));
    for (int32_t i = 0; i < rows; ++i) {
      const bool is_padding = slot == 1 || (slot == 0 && i + 1 == rows);
      ids.push_back(static_cast<int32_t>((step * 29 + slot * 7 + i * 13 + 1) % vocabulary));
      slots.push_back(is_padding ? -1 : slot);
      position.push_back((slot == 2 ? 13 : 5) + step + i);
    }
  }
  const Shape shape{kSlots * rows};
  return {{"ids", int_tensor(shape, ids)},
          {"slot", int_tensor(shape, slots)},
          {"position", int_tensor(shape, position)},
          {"logit_rows", int_tensor({kSlots}, wanted)}};
}

/// The inputs of a score step: tokens `from` to `to` of a text in slot 1.
Contents score_inputs(int32_t from, int32_t to, int64_t vocabulary) {
  const auto id_at = [&](int32_t p) { return static_cast<int32_t>((p * 31 + 5) % vocabulary); };
  std::vector<int32_t> ids(kChunk, 0), slots(kChunk, -1), position(kChunk, 0), targets(kChunk, -1);
  for (int32_t p = from; p < to; ++p) {
    const auto row = static_cast<size_t>(p - from);
    ids[row] = id_at(p);
    slots[row] = 1;
    position[row] = p;
    targets[row] = id_at(p + 1);
  }
  return {{"ids", int_tensor({kChunk}, ids)},
          {"slot", int_tensor({kChunk}, slots)},
          {"position", int_tensor({kChunk}, position)},
          {"logit_rows", int_tensor({kSlots}, {-1, to - from - 1, -1})},
          {"targets", int_tensor({kChunk}, targets)}};
}

/// A prompt of 13 in slot 2 (two chunks), one of 5 in slot 0, then decode steps; their bucket grows with them.
std::vector<ScriptedStep> script_of(const FamilyRun& run, int64_t vocabulary) {
  std::vector<ScriptedStep> script;
  const std::vector<shards::PrefillSize> prefill = sizes_of(run).prefill_sizes();
  const size_t lengths = std::max<size_t>(1, run.token_buckets.size());
  const auto add = [&](size_t graph, Contents inputs) {
    script.push_back({graph, std::vector<Contents>(static_cast<size_t>(run.ranks), inputs)});
  };
  const auto add_chunk = [&](int32_t slot, int32_t from, int32_t to, bool is_last) {
    std::vector<int32_t> ids(kChunk, 0), slots(kChunk, -1), position(kChunk, 0), wanted(kSlots, -1);
    for (int32_t p = from; p < to; ++p) {
      const auto row = static_cast<size_t>(p - from);
      ids[row] = static_cast<int32_t>((p * 37 + slot * 11 + 3) % vocabulary);
      slots[row] = slot;
      position[row] = p;
    }
    if (is_last) wanted[static_cast<size_t>(slot)] = to - from - 1;
    add(shards::smallest_prefill(prefill, {kChunk, to}), {{"ids", int_tensor({kChunk}, ids)},
                                                          {"slot", int_tensor({kChunk}, slots)},
                                                          {"position", int_tensor({kChunk}, position)},
                                                          {"logit_rows", int_tensor({kSlots}, wanted)}});
  };
  add_chunk(2, 0, 8, false);
  add_chunk(2, 8, 13, true);
  add_chunk(0, 0, 5, true);
  for (int i = 0; i < kDecodeSteps; ++i) {
    const size_t length = shards::smallest_bucket(run.token_buckets, 13 + i + 1 + run.drafts);
    if (run.drafts > 0) {
      add(prefill.size() + lengths + length, verify_inputs(run.drafts + 1, i, vocabulary));
      continue;
    }
    const size_t batch = run.batch_sizes.empty() ? 0 : static_cast<size_t>(i) % run.batch_sizes.size();
    add(prefill.size() + batch * lengths + length, {});
  }
  for (int32_t from = 0; run.top >= 0 && from < kScoredRows; from += kChunk) {
    add(prefill.size() + lengths, score_inputs(from, std::min<int32_t>(from + kChunk, kScoredRows), vocabulary));
  }
  return script;
}

OracleCase family_case(const FamilyRun& run) {
  checkpoint::ModelSpec spec = spec_of(golden_of(run));
  if (run.int8_group > 0)
    spec.formats = checkpoint::served_formats(*checkpoint::served_format(fmt::format("int8:{}", run.int8_group)));
  OracleCase c{.name = fmt::format("{}{}_tp{}", run.golden, run.variant, run.ranks), .tolerance = run.tolerance};
  if (!run.draws) c.options.sampling = LoweringOptions::Sampling::kGreedy;
  for (shards::ShardGraphs& graphs : graphs_of(run, spec)) {
    std::vector<graph::Graph> steps = std::move(graphs.prefill);
    for (graph::Graph& graph : graphs.decode) steps.push_back(std::move(graph));
    std::ranges::move(graphs.verify, std::back_inserter(steps));
    std::ranges::move(graphs.score, std::back_inserter(steps));
    c.graphs.resize(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) c.graphs[i].push_back(std::move(steps[i]));
  }
  c.script = script_of(run, spec.vocabulary);
  c.contents = [run] { return contents_of(run); };
  return c;
}

/// Where key/value heads are computed and kept, in the modes that are not the default; over batch with a slot a rank.
void add_gqa_cases(std::vector<OracleCase>& cases) {
  using partition::GqaMode;
  const auto add = [&](const std::string& golden, int ranks, GqaMode gqa, int64_t drafts = 0) {
    const bool is_over_batch = gqa == GqaMode::kBatch;
    const std::string variant =
        fmt::format("{}{}", is_over_batch ? "_batch" : "_all_gather", drafts > 0 ? "_verify" : "");
    cases.push_back(family_case({.golden = golden, .ranks = ranks, .variant = variant, .drafts = drafts, .gqa = gqa}));
  };
  for (const char* const golden : {"llama_grouped", "llama_one_kv_head_biases_linear", "qwen3_mixed_windows_biases",
                                   "mistral_window", "gpt_oss_plain"}) {
    add(golden, 3, GqaMode::kAllGather);
    add(golden, 3, GqaMode::kBatch);
  }
  add("llama_one_kv_head_biases_linear", 4, GqaMode::kAllGather);
  add("bloom_eight_heads", 3, GqaMode::kBatch);
  add("llama_grouped", 3, GqaMode::kBatch, 2);
}

}  // namespace

std::vector<OracleCase> family_cases() {
  std::vector<OracleCase> cases;
  for (const std::string& name : model::golden_names(LOCKSTEP_GOLDENS_DIR)) {
    const checkpoint::ModelSpec spec = spec_of(golden_of({.golden = name}));
    if (!spec.delta_layers.empty() || spec.latent) continue;  // Capabilities::recurrences, latent_attention
    for (const int ranks : {1, 2, 4}) cases.push_back(family_case({.golden = name, .ranks = ranks}));
  }
  for (const int ranks : {1, 2}) {
    const std::string llama = "llama_nine_heads_llama3_tied";
    cases.push_back(family_case({.golden = llama, .ranks = ranks, .variant = "_draws", .draws = true}));
    cases.push_back(family_case({.golden = llama, .ranks = ranks, .variant = "_batches", .batch_sizes = {1, 2, 3}}));
    // An activation between two integers may go either way after another rounding, which moves single logits.
    cases.push_back(
        family_case({.golden = llama, .ranks = ranks, .variant = "_int8", .tolerance = 3e-2, .int8_group = 16}));
    cases.push_back(
        family_case({.golden = llama, .ranks = ranks, .variant = "_buckets", .token_buckets = {16, 24, 40}}));
    cases.push_back(family_case(
        {.golden = llama, .ranks = ranks, .variant = "_verify_buckets", .drafts = 2, .token_buckets = {16, 24, 40}}));
  }
  cases.push_back(family_case(
      {.golden = "mixtral_hub", .ranks = 2, .variant = "_whole_experts", .experts = partition::ExpertSplit::kWhole}));
  for (const char* const golden :
       {"gemma2_alternating_windows", "gpt2_scaled_by_layer", "qwen3_mixed_windows_biases"}) {
    cases.push_back(family_case({.golden = golden, .ranks = 2, .variant = "_score", .top = 3}));
  }
  add_gqa_cases(cases);
  return cases;
}

}  // namespace lockstep::neuron
