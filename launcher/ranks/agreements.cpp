#include "launcher/ranks/agreements.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "engine/drivers.h"
#include "launcher/ranks/build_id.h"
#include "launcher/ranks/serving_spec.h"
#include "launcher/ranks/wiring.h"
#include "runtime/checkpoint/config_difference.h"
#include "runtime/core/atomic_file.h"
#include "runtime/device/rank_exchange.h"

namespace lockstep::launcher {
namespace {

/// The model that runs, or the one that drafts for it: `name` begins every line.
std::string statement_of_model(std::string_view name, const ModelPlan& model) {
  return fields_to_text(model.spec, fmt::format("{}: ", name)) +
         fields_to_text(model.shard, fmt::format("{}: ", name)) + partition::to_text(model.spec, model.partition);
}

/// "; config.json has rope_theta 1e4 on rank 1, 1e6 on rank 0".
std::string differences_in_words(const std::vector<checkpoint::DifferingKey>& keys, int rank) {
  constexpr size_t kShown = 6;
  std::string text;
  for (size_t i = 0; i < std::min(keys.size(), kShown); ++i) {
    text += fmt::format("; config.json has {} {} on rank {}, {} on rank 0", keys[i].key, keys[i].found, rank,
                        keys[i].expected);
  }
  if (keys.size() > kShown) text += fmt::format("; {} more keys differ", keys.size() - kShown);
  return text;
}

std::string optional_text(const auto& value) { return value ? fmt::format("{}", *value) : "default"; }

}  // namespace

Result<void> all_succeeded(transport::Bootstrap& bootstrap, const Result<void>& mine) {
  return device::all_succeeded([&](std::string_view text) { return bootstrap.exchange(text); }, mine);
}

std::string statement_of_program() {
  return fmt::format("version {}\ncompiler {}\nbuild {}\n", LOCKSTEP_VERSION, __VERSION__, build_id());
}

std::string statement_of_plan(const RunOptions& run, const Plan& plan) {
  const ModelPlan& model = plan.model;
  std::string text =
      fmt::format("--backend {}\n--communicator {}\n--dtype {}\n--weights {}\n--numerics {}\n--gqa {}\n", run.backend,
                  run.communicator, to_string(model.shard.dtype), weights_in_words(model.spec),
                  partition::name_of(model.partition.numerics), partition::name_of(model.partition.gqa));
  text += engine::find_driver(run.backend).value()->statement(run.backend_options);
  text += statement_of_model("model", model);
  if (plan.draft) text += statement_of_model("draft model", *plan.draft);
  return text;
}

std::string statement_before_weights(const GenerateCommand& command, const Plan& plan) {
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
  return text + statement_of_plan(command.run, plan);
}

Result<void> agree_on_plan(transport::Bootstrap& bootstrap, const std::string& statement,
                           const std::filesystem::path& config) {
  const Result<void> agreed = transport::agree(bootstrap, "options and model", statement);
  if (agreed.has_value() || agreed.error().kind != ErrorKind::kFailedPrecondition) return agreed;
  Error error = agreed.error();
  const Result<std::string> own = read_text_file(config, "--model");
  LOCKSTEP_TRY(const auto configs, bootstrap.exchange(own.has_value() ? own.value() : std::string()));
  const int rank = error.origin_rank.value_or(0);
  error.message +=
      differences_in_words(checkpoint::differing_keys(configs.at(static_cast<size_t>(rank)), configs[0]), rank);
  return error;
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
