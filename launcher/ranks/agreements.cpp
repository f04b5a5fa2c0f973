#include "launcher/ranks/agreements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "launcher/ranks/build_id.h"
#include "launcher/ranks/serving_spec.h"
#include "launcher/ranks/wiring.h"

namespace lockstep::launcher {
namespace {

constexpr char kWell = '+';  // begins the word of a rank that did not fail

std::string to_text(const Error& error) { return fmt::format("{} {}", static_cast<int>(error.kind), error.message); }

Error error_from(const std::string& text, int rank) {
  const size_t space = text.find(' ');
  Error error{static_cast<ErrorKind>(std::stoi(text.substr(0, space))),
              fmt::format("{} (on rank {})", text.substr(space + 1), rank), rank};
  return error;
}

std::string optional_text(const auto& value) { return value ? fmt::format("{}", *value) : "default"; }

}  // namespace

Result<void> all_succeeded(transport::Bootstrap& bootstrap, const Result<void>& mine) {
  const std::string word = mine.has_value() ? std::string(1, kWell) : to_text(mine.error());
  LOCKSTEP_TRY(const std::vector<std::string> words, bootstrap.exchange(word));
  if (!mine.has_value()) return mine.error();
  for (int rank = 0; rank < bootstrap.size(); ++rank) {
    const std::string& said = words[static_cast<size_t>(rank)];
    if (said.front() != kWell) return error_from(said, rank);
  }
  return ok();
}

std::string statement_of_program() {
  return fmt::format("version {}\ncompiler {}\nbuild {}\n", LOCKSTEP_VERSION, __VERSION__, build_id());
}

std::string statement_of_plan(const RunOptions& run, const checkpoint::ModelSpec& spec,
                              const partition::Partition& partition, const shards::ShardOptions& options) {
  std::string text = fmt::format("--backend {}\n--communicator {}\n--dtype {}\n--weights {}\n--numerics {}\n--gqa {}\n",
                                 run.backend, run.communicator, to_string(options.dtype), weights_in_words(spec),
                                 partition::name_of(partition.numerics), partition::name_of(partition.gqa));
  if (run.backend == "cpu") text += fmt::format("--instruction-set {}\n", instruction_set_of(run));
  text += fmt::format("model_type {}\nhidden_size {}\nlayers {}\nheads {}/{} of {}\n", spec.model_type,
                      spec.hidden_size, spec.layers, spec.query_heads, spec.key_value_heads, spec.head_dim);
  text += fmt::format("intermediate_size {}\nvocabulary {}\nnorm_epsilon {}\ntied_embeddings {}\n",
                      spec.intermediate_size, spec.vocabulary, spec.norm_epsilon, spec.tied_embeddings);
  text += fmt::format("rope theta {} factor {} kind {}\n", spec.rope.theta, spec.rope.factor,
                      static_cast<int>(spec.rope.kind));
  text += fmt::format("windows {} pinned {}\nexperts {} of {}\n", fmt::join(spec.windows, ","), spec.pinned_sinks,
                      spec.experts_per_token, spec.experts);
  text += fmt::format("slots {} chunk {} capacity {} drafts {}\n", options.slots, options.chunk, options.capacity,
                      options.drafts);
  text += fmt::format("batch sizes {}\nbuckets {} / {}\n", fmt::join(options.batch_sizes, ","),
                      fmt::join(options.context_buckets, ","), fmt::join(options.token_buckets, ","));
  return text + partition::to_text(spec, partition);
}

std::string statement_before_weights(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                     const partition::Partition& partition, const shards::ShardOptions& options) {
  std::string text = fmt::format("--prefill-chunk {}\n--batch-size {}\n--max-seq-len {}\n--max-new-tokens {}\n",
                                 command.model.prefill_chunk, optional_text(command.model.batch_size),
                                 optional_text(command.model.max_seq_len), optional_text(command.max_new_tokens));
  text += fmt::format("--output-logits {}\n--output-scores {}\n--ignore-eos {}\n--chat {}\n",
                      command.output_logits ? "yes" : "no", command.output_scores ? "yes" : "no", command.ignore_eos,
                      command.chat);
  text += fmt::format("--draft-model {}\n", command.draft_model ? "given" : "none");
  text += fmt::format("--trace, --metrics or --profile {}\n--trace-events {}\n",
                      command.observe.is_on() ? "given" : "none", command.observe.trace_events);
  for (const auto& [name, value] : command.generation) text += fmt::format("{} {}\n", name, value);
  return text + statement_of_plan(command.run, spec, partition, options);
}

std::string statement_after_weights(const checkpoint::Checkpoint* checkpoint, const shards::Shard& shard) {
  std::string text = shards::collective_list(shard.graphs());
  if (checkpoint != nullptr) {
    text += fmt::format("checkpoint headers and sizes {:016x}\n", checkpoint->fingerprint());
  }
  return text;
}

std::string whole_contents(std::string_view model, const shards::Shard& shard) {
  auto tensors = shard.replicated_tensors();
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  std::string text;
  for (const shards::TensorFingerprint& tensor : tensors) {
    text += fmt::format("contents of {} of {} {:016x}\n", tensor.tensor, model, tensor.fingerprint);
  }
  return text;
}

Result<std::string> common_contents(transport::Bootstrap& bootstrap, const std::string& contents) {
  LOCKSTEP_TRY(const std::vector<std::string> told, bootstrap.exchange(contents));
  const auto name_of = [](const std::string& line) { return line.substr(0, line.rfind(' ')); };
  std::map<std::string, int> holders;
  for (const std::string& lines : told) {
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) ++holders[name_of(line)];
  }
  std::string common;
  std::istringstream own(contents);
  for (std::string line; std::getline(own, line);) {
    if (holders[name_of(line)] == bootstrap.size()) common += line + "\n";
  }
  return common;
}

}  // namespace lockstep::launcher
