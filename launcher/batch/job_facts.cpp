#include "launcher/batch/job_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/engine.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/hash.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {
namespace {

using journal::Fact;

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

/// A hash of the file's contents; "none" if there is no such file. Those inside a GGUF file are in its header, of which
/// the samples of weights take a hash.
Result<std::string> hash_of(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return std::string("none");
  LOCKSTEP_TRY(const std::string text, read_text_file(path, "--model"));
  return hash_text(Fingerprint().add(text).value());
}

/// Drafts change the speed and never the answer.
bool changes_answers(std::string_view option) {
  const GenerationOption* const row = find_generation_option(option);
  return row == nullptr || row->effect == OptionEffect::kAnswer;
}

std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

std::string or_default(const auto& value) { return value ? fmt::format("{}", *value) : "default"; }

std::string quoted(const std::vector<std::string>& texts) { return fmt::format("{}", texts); }

/// The model by its files' contents, not by its name: configuration and tokenizer whole; the sizes, headers and samples
/// of weights.
Result<std::vector<Fact>> describe_model(const std::filesystem::path& directory, const Model& model) {
  std::vector<Fact> facts;
  std::vector<std::string_view> names = {"config.json", "generation_config.json", "quantize_config.json",
                                         "quant_config.json", "hf_quant_config.json"};
  names.insert(names.end(), text::text_files().begin(), text::text_files().end());
  for (const std::string_view name : names) {
    LOCKSTEP_TRY(std::string hash, hash_of(directory / name));
    facts.push_back({fmt::format("model's {}", name), std::move(hash)});
  }
  LOCKSTEP_TRY(std::string weights, model.hash_of_weights());
  facts.push_back({"model's weights", std::move(weights)});
  return facts;
}

}  // namespace

Result<journal::JobDescription> describe_job(const GenerateCommand& command, const Model& model, const JobsFile& jobs) {
  const EngineOptions& engine = command.engine;
  const ModelOptions& changes = model.options();
  journal::JobDescription job{.rows = jobs.size(), .facts = {}, .notes = {}};
  job.facts = {{"hash of the jobs file's rows", hash_text(jobs.fingerprint())}};
  LOCKSTEP_TRY(const std::vector<Fact> of_model, describe_model(command.model.directory, model));
  job.facts.insert(job.facts.end(), of_model.begin(), of_model.end());
  LOCKSTEP_TRY(const std::string settings, backend_settings_of(engine));
  const auto max_new_tokens = command.generation.find("max_new_tokens");
  const std::vector<Fact> options = {
      {"version of lockstep", LOCKSTEP_VERSION},
      {"--backend", engine.backend},
      {"settings of the backend", settings},
      {"--dtype", std::string(to_string(model.dtype()))},
      {"--weights", changes.weights ? checkpoint::option_text(*changes.weights) : "dtype"},
      {"--activations", changes.activations ? std::string(to_string(*changes.activations)) : "default"},
      {"--kv-dtype", std::string(to_string(changes.kv_dtype))},
      {"--max-seq-len", or_default(engine.capacity)},
      {"--window", or_default(changes.window)},
      {"--pinned-sinks", fmt::format("{}", changes.pinned_sinks)},
      {"--expert-parallel", yes_or_no(engine.partition.experts == partition::ExpertSplit::kWhole)},
      {"--numerics", std::string(name_of(engine.partition.numerics))},
      {"--chat", yes_or_no(command.chat)},
      {"--negative-prompt", quoted(command.negative_prompts)},
      {"--max-new-tokens", max_new_tokens == command.generation.end() ? "default" : max_new_tokens->second},
      {"--ignore-eos", yes_or_no(command.ignore_eos)},
      {"--stop", quoted(command.stop_strings)}};
  job.facts.insert(job.facts.end(), options.begin(), options.end());
  for (const auto& [name, value] : command.generation) {
    if (changes_answers(name) && name != "max_new_tokens") job.facts.push_back({name, value});
  }
  return job;
}

uint64_t fingerprint_of(const journal::JobDescription& job) {
  Fingerprint hash;
  for (const Fact& fact : job.facts) hash.add(fact.name).add(fact.value);
  return hash.value();
}

}  // namespace lockstep::launcher
