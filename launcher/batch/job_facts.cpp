#include "launcher/batch/job_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

#include "launcher/ranks/serving_spec.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/hash.h"

namespace lockstep::launcher {
namespace {

using journal::Fact;

constexpr int64_t kSamples = 32;           // of a file of weights
constexpr int64_t kSampleBytes = 4096;     // of each
constexpr int64_t kHeaderBytes = 1 << 16;  // at its beginning

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

/// A file's contents in a word; "none" where there is no such file.
Result<std::string> hash_of(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return std::string("none");
  LOCKSTEP_TRY(const std::string text, read_text_file(path, "--model"));
  return hash_text(Fingerprint().add(text).value());
}

bool is_weights(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".safetensors") || (name.starts_with("pytorch_model") && name.ends_with(".bin"));
}

Result<void> add_samples(const std::filesystem::path& path, Fingerprint& hash) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const int64_t size = file.tellg();
  std::string block;
  const auto take = [&](int64_t offset, int64_t bytes) {
    block.assign(static_cast<size_t>(std::min(bytes, size - offset)), ' ');
    file.seekg(offset);
    file.read(block.data(), std::ssize(block));
    hash.add(block);
  };
  hash.add(size);
  take(0, kHeaderBytes);
  for (int64_t i = 0; i < kSamples && size > kHeaderBytes; ++i) take(size / kSamples * i, kSampleBytes);
  if (file) return ok();
  return Error{ErrorKind::kNotFound, fmt::format("[launcher] --model: cannot read {}", path.string())};
}

Result<std::string> hash_of_weights(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    if (is_weights(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  Fingerprint hash;
  for (const std::filesystem::path& file : files) LOCKSTEP_TRY_VOID(add_samples(file, hash));
  return fmt::format("{} of {} files", hash_text(hash.value()), files.size());
}

/// Drafts change the speed and never the answer.
bool changes_tokens(std::string_view field) {
  static constexpr std::string_view kSpeed[] = {"num_assistant_tokens", "prompt_lookup_num_tokens",
                                                "max_matching_ngram_size"};
  return std::ranges::find(kSpeed, field) == std::end(kSpeed);
}

std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

std::string or_default(const auto& value) { return value ? fmt::format("{}", *value) : "default"; }

std::string quoted(const std::vector<std::string>& texts) { return fmt::format("{}", texts); }

}  // namespace

Result<std::vector<Fact>> describe_model(const std::filesystem::path& directory) {
  std::vector<Fact> facts;
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    LOCKSTEP_TRY(std::string hash, hash_of(directory / name));
    facts.push_back({fmt::format("model's {}", name), std::move(hash)});
  }
  LOCKSTEP_TRY(std::string weights, hash_of_weights(directory));
  facts.push_back({"model's weights", std::move(weights)});
  return facts;
}

Result<journal::JobDescription> describe_job(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                             const JobsFile& jobs) {
  const ModelOptions& model = command.model;
  journal::JobDescription job{.rows = jobs.size(), .facts = {}, .notes = {}};
  job.facts = {{"hash of the jobs file's rows", hash_text(jobs.fingerprint())}};
  LOCKSTEP_TRY(const std::vector<Fact> of_model, describe_model(model.model));
  job.facts.insert(job.facts.end(), of_model.begin(), of_model.end());
  const std::vector<Fact> options = {{"version of lockstep", LOCKSTEP_VERSION},
                                     {"--backend", command.run.backend},
                                     {"--dtype", model.dtype.value_or(std::string(to_string(spec.dtype)))},
                                     {"--weights", weights_in_words(spec)},
                                     {"--max-seq-len", or_default(model.max_seq_len)},
                                     {"--window", or_default(model.window)},
                                     {"--pinned-sinks", fmt::format("{}", model.pinned_sinks)},
                                     {"--expert-parallel", yes_or_no(model.experts == partition::ExpertSplit::kWhole)},
                                     {"--numerics", std::string(name_of(model.numerics))},
                                     {"--chat", yes_or_no(command.chat)},
                                     {"--negative-prompt", quoted(command.negative_prompts)},
                                     {"--max-new-tokens", or_default(command.max_new_tokens)},
                                     {"--ignore-eos", yes_or_no(command.ignore_eos)},
                                     {"--stop", quoted(command.stop_strings)}};
  job.facts.insert(job.facts.end(), options.begin(), options.end());
  for (const auto& [name, value] : command.generation) {
    if (changes_tokens(name)) job.facts.push_back({name, value});
  }
  return job;
}

}  // namespace lockstep::launcher
