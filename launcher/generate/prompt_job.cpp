#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <vector>

#include "launcher/generate/generate_report.h"
#include "launcher/generate/generation.h"
#include "launcher/generate/job.h"
#include "launcher/generate/logits_file.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

/// Adds the negative prompts of guidance where the ids file has none.
Result<void> add_negative_prompts(const GenerateCommand& command, const Model& model, std::vector<Prompt>& prompts) {
  const std::vector<std::string>& texts = command.negative_prompts;
  if (texts.empty()) return ok();
  if (texts.size() != 1 && texts.size() != prompts.size()) {
    return contradiction(fmt::format("{} negative prompts for {} prompts", texts.size(), prompts.size()),
                         "one for all, or one for each");
  }
  for (size_t row = 0; row < prompts.size(); ++row) {
    if (!prompts[row].negative.empty()) continue;
    LOCKSTEP_TRY(prompts[row].negative, model.encode(texts[texts.size() == 1 ? 0 : row]));
  }
  return ok();
}

class PromptJob final : public Job {
 public:
  PromptJob(const GenerateCommand& command, const Log& log, ProgressLine& progress)
      : command_(command), log_(log), progress_(progress) {}

  Result<std::optional<EngineOptions>> prepare(const Model& model) override;
  Result<void> run(Group& group, Engine& engine) override;
  Result<void> report(const Engine* engine) override;

 private:
  Result<void> read(const Model& model);
  Result<void> submit_all(Engine& engine, std::vector<RequestHandle>& handles);
  Result<void> wait_for_all(std::vector<RequestHandle>& handles);
  OnToken stream() const;
  void print_texts() const;
  Result<void> write_files(const Engine& engine) const;

  const GenerateCommand& command_;
  const Log& log_;
  ProgressLine& progress_;
  bool has_texts_ = false;
  int64_t vocabulary_ = 0;
  std::vector<Request> requests_;  // one for each prompt
  std::vector<Answer> answers_;    // prompt by prompt
};

Result<void> PromptJob::read(const Model& model) {
  LOCKSTEP_TRY(const GenerationConfig config, generation_of(command_, model));
  LOCKSTEP_TRY(const text::Tokenizer* tokenizer, model.tokenizer());
  has_texts_ = tokenizer != nullptr;
  vocabulary_ = model.spec().vocabulary;
  const bool needs_tokenizer = !config.stop_strings.empty();
  if (needs_tokenizer && !has_texts_) LOCKSTEP_TRY_VOID(model.encode(""));  // its error names what is missing
  LOCKSTEP_TRY(std::vector<Prompt> prompts,
               read_prompts(command_.prompts, model, command_.chat ? Chat::kYes : Chat::kNo));
  if (prompts.empty()) {
    return Error{ErrorKind::kInvalidArgument, "[launcher] no prompts: found an empty list, expected at least one row"};
  }
  LOCKSTEP_TRY_VOID(add_negative_prompts(command_, model, prompts));
  for (Prompt& prompt : prompts) {
    const auto answers_before = requests_.size() * static_cast<size_t>(config.num_return_sequences);
    requests_.push_back({.prompt = std::move(prompt), .config = config, .random_row = answers_before});
  }
  return ok();
}

Result<std::optional<EngineOptions>> PromptJob::prepare(const Model& model) {
  LOCKSTEP_TRY_VOID(read(model));
  const GenerationConfig& config = requests_.front().config;
  Sizing sizing(model, engine_options(command_, config));
  for (const Request& request : requests_) LOCKSTEP_TRY_VOID(sizing.add(request.prompt, config));
  LOCKSTEP_TRY(EngineOptions options, sizing.options());
  for (size_t row = 0; row < requests_.size(); ++row) {
    const Result<void> fits = check_request(model, options, requests_[row]);
    if (!fits.has_value()) return in_prompt(fits.error(), row);
  }
  return std::optional(std::move(options));
}

/// Streams the answer of a single prompt to stdout.
OnToken PromptJob::stream() const {
  if (requests_.size() != 1 || requests_.front().config.num_return_sequences != 1 || command_.json) return {};
  return [this](const Token& token) {
    progress_.close();
    std::fwrite(token.text.data(), 1, token.text.size(), stdout);
    std::fflush(stdout);
    return Verdict::kContinue;
  };
}

Result<void> PromptJob::submit_all(Engine& engine, std::vector<RequestHandle>& handles) {
  requests_.front().on_token = stream();
  LOCKSTEP_TRY(handles, engine.submit(requests_));
  return ok();
}

/// Returns the first error of a request that failed on its own, if there is one.
Result<void> PromptJob::wait_for_all(std::vector<RequestHandle>& handles) {
  Result<void> first = ok();
  for (RequestHandle& handle : handles) {
    auto answers = handle.wait();
    if (!answers.has_value()) {
      if (first.has_value()) first = answers.error();
      continue;
    }
    for (Answer& answer : answers.value()) answers_.push_back(std::move(answer));
  }
  return first;
}

Result<void> PromptJob::run(Group&, Engine& engine) {
  std::vector<RequestHandle> handles;
  LOCKSTEP_TRY_VOID(submit_all(engine, handles));
  const Result<void> answered = wait_for_all(handles);
  LOCKSTEP_TRY_VOID(engine.close());  // returns the error of a failed group
  return answered;
}

/// Prints every answer under a header line; a streamed answer needs only its newline.
void PromptJob::print_texts() const {
  const size_t answers_each = answers_.size() / requests_.size();
  for (size_t row = 0; row < answers_.size(); ++row) {
    const Answer& answer = answers_[row];
    const std::string ids = fmt::format("{}", fmt::join(answer.ids, " "));
    if (answers_.size() == 1) {
      fmt::print("{}\n", has_texts_ ? "" : ids);
      return;
    }
    const std::string which = answers_each == 1 ? "" : fmt::format(", answer {}", row % answers_each);
    const std::string score = answer.score ? fmt::format(", score {:.4f}", *answer.score) : "";
    fmt::print("=== prompt {}{} ({} tokens, {}{})\n{}\n", row / answers_each, which, answer.ids.size(),
               generation::to_string(answer.reason), score, has_texts_ ? answer.text : ids);
  }
}

Result<void> PromptJob::write_files(const Engine& engine) const {
  if (command_.json) {
    LOCKSTEP_TRY_VOID(write_text_file(*command_.json, to_json(answers_, engine.facts(), engine.counters())));
  }
  if (command_.output_logits) {
    std::vector<std::vector<float>> rows;  // [answers][ids · vocabulary]
    for (const Answer& answer : answers_) rows.push_back(answer.logits);
    LOCKSTEP_TRY_VOID(write_logits(*command_.output_logits, "logits", rows, vocabulary_));
  }
  if (!command_.output_scores) return ok();
  std::vector<std::vector<float>> rows;
  for (const Answer& answer : answers_) {
    std::vector<float>& row = rows.emplace_back();
    for (const auto& record : answer.records) row.insert(row.end(), record->scores.begin(), record->scores.end());
  }
  return write_logits(*command_.output_scores, "scores", rows, vocabulary_);
}

Result<void> PromptJob::report(const Engine* engine) {
  progress_.close();
  if (!command_.json) print_texts();
  LOCKSTEP_TRY_VOID(write_files(*engine));
  std::fflush(stdout);  // the answer comes before its summary
  log_.info("{}", summary(answers_, engine->facts(), engine->counters()));
  return ok();
}

}  // namespace

std::unique_ptr<Job> make_prompt_job(const GenerateCommand& command, const Log& log, ProgressLine& progress) {
  return std::make_unique<PromptJob>(command, log, progress);
}

Result<std::string> Job::share(Group&) {
  return Error{ErrorKind::kUnsupported,
               "[launcher] the prompts of a command line: found several groups of ranks, expected one; give them as a "
               "batch job with --prompts-file"};
}

}  // namespace lockstep::launcher
