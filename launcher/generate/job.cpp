#include "launcher/generate/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "launcher/ranks/rank_setup.h"
#include "launcher/ranks/serving_spec.h"
#include "runtime/text/chat_template.h"

namespace lockstep::launcher {
namespace {

/// What templates print as the current date.
std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

/// The tokenizer; rows of ids can do without.
Result<std::unique_ptr<text::Tokenizer>> tokenizer_of(const GenerateCommand& command,
                                                      const generation::GenerationConfig& config) {
  const bool is_needed = !command.prompts.ids_file || !config.stop_strings.empty() || !command.negative_prompts.empty();
  auto tokenizer = text::load_tokenizer(command.model.model);
  if (!tokenizer.has_value() && tokenizer.error().kind == ErrorKind::kNotFound && !is_needed) {
    return std::unique_ptr<text::Tokenizer>();
  }
  return tokenizer;
}

Result<std::vector<Prompt>> prompts_of(const GenerateCommand& command, const text::Tokenizer* tokenizer) {
  if (!command.chat) return read_prompts(command.prompts, tokenizer, text::SpecialTokens::kAdd, {});
  if (command.prompts.ids_file) {
    return Error{ErrorKind::kInvalidArgument,
                 "[launcher] --chat: found --ids-file, expected --prompt or --prompt-file; "
                 "leave --chat out"};
  }
  LOCKSTEP_TRY(const text::ModelChat chat, text::load_chat(command.model.model));
  const auto wrap = [&](const std::string& prompt) {
    return chat.chat_template->render(
        {{"user", prompt}},
        {.add_generation_prompt = true, .bos_token = chat.bos_token, .eos_token = chat.eos_token, .now = local_time()});
  };
  // A template writes the special tokens itself.
  return read_prompts(command.prompts, tokenizer, text::SpecialTokens::kOmit, wrap);
}

/// Fills in what guidance leads away from, where the ids file has not.
Result<void> add_negative_prompts(const GenerateCommand& command, const generation::GenerationConfig& config,
                                  Job& job) {
  const std::vector<std::string>& texts = command.negative_prompts;
  const auto has_negative = [](const Prompt& prompt) { return !prompt.negative.empty(); };
  if (config.guidance_scale == 1.0 && (!texts.empty() || std::ranges::any_of(job.prompts, has_negative))) {
    return contradiction("a negative prompt without guidance",
                         "--guidance-scale other than 1; add it or leave both out");
  }
  if (texts.empty()) return ok();
  if (texts.size() != 1 && texts.size() != job.prompts.size()) {
    return contradiction(fmt::format("{} negative prompts for {} prompts", texts.size(), job.prompts.size()),
                         "one for all, or one for each");
  }
  for (size_t row = 0; row < job.prompts.size(); ++row) {
    if (has_negative(job.prompts[row])) continue;
    LOCKSTEP_TRY(job.prompts[row].negative,
                 job.tokenizer->encode(texts[texts.size() == 1 ? 0 : row], text::SpecialTokens::kAdd));
  }
  return ok();
}

/// Tokens that a slot must hold.
Result<int64_t> capacity_of(const GenerateCommand& command, const checkpoint::ModelSpec& spec, const TokenWish& wish,
                            const std::vector<Prompt>& prompts) {
  LOCKSTEP_TRY(const std::optional<int64_t> asked, asked_capacity(command, spec));
  if (asked) return *asked;
  int64_t wanted = 1;
  for (const Prompt& prompt : prompts) wanted = std::max(wanted, wanted_capacity(wish, prompt, spec.max_positions));
  return std::min(wanted, longest_sequence(spec).value_or(wanted));
}

/// Adds the requests of a prompt.
Result<void> add_requests(const RequestSource& source, const Prompt& prompt, int32_t budget, Job& job) {
  LOCKSTEP_TRY(auto requests, make_requests(source, prompt, budget, {.id = job.answers, .random_row = job.answers}));
  for (JobRequest& made : requests) {
    job.answers += made.answers;
    job.requests.push_back(std::move(made));
  }
  return ok();
}

/// Slots for all requests, up to a default; at least those of one chooser.
Result<int64_t> slots_of(const GenerateCommand& command, const Job& job) {
  int64_t rows = 0, widest = 1;
  for (const JobRequest& made : job.requests) {
    const int64_t own = made.request.chooser ? made.request.chooser->rows() : 1;
    rows += own;
    widest = std::max(widest, own);
  }
  return slots_of(command, rows, widest);
}

}  // namespace

Result<Job> prepare_job(const GenerateCommand& command, const checkpoint::ModelSpec& spec, const Clock& clock) {
  Job job;
  LOCKSTEP_TRY(const generation::GenerationConfig config, generation_of(command, spec, job.warnings));
  job.stop_strings = config.stop_strings;
  if (config.max_time) job.max_time = duration_of(*config.max_time);
  LOCKSTEP_TRY(job.tokenizer, tokenizer_of(command, config));
  LOCKSTEP_TRY(job.prompts, prompts_of(command, job.tokenizer.get()));
  if (job.prompts.empty()) {
    return Error{ErrorKind::kInvalidArgument, "[launcher] no prompts: found an empty list, expected at least one row"};
  }
  LOCKSTEP_TRY_VOID(add_negative_prompts(command, config, job));

  const std::vector<std::string_view> host_options = host_options_of(config);
  const bool by_host = !host_options.empty();
  LOCKSTEP_TRY_VOID(plan_drafts(command, config, host_options, job.sizes));
  job.sizes.wants_logits = by_host || command.output_logits;
  const TokenWish wish = token_wish(command, config);
  LOCKSTEP_TRY(job.sizes.capacity, capacity_of(command, spec, wish, job.prompts));
  LOCKSTEP_TRY_VOID(check_prompts(job.prompts, spec.vocabulary, job.sizes.capacity));

  const RequestSource source{.config = config,
                             .spec = spec,
                             .clock = clock,
                             .tokenizer = job.tokenizer.get(),
                             .by_host = by_host,
                             .wants_logits = command.output_logits.has_value()};
  for (size_t row = 0; row < job.prompts.size(); ++row) {
    const Prompt& prompt = job.prompts[row];
    LOCKSTEP_TRY(const int32_t budget, budget_of(wish, prompt, row, job.sizes.capacity));
    LOCKSTEP_TRY_VOID(check_masked(prompt, row, budget, spec));
    LOCKSTEP_TRY_VOID(add_requests(source, prompt, budget, job));
  }
  job.answers_as_made = config.num_beams == 1;
  LOCKSTEP_TRY(job.sizes.slots, slots_of(command, job));
  return job;
}

std::string to_text(const JobSizes& sizes) {
  return fmt::format("{} {} {} {} {}", sizes.slots, sizes.capacity, sizes.drafts, sizes.ngram,
                     static_cast<int>(sizes.wants_logits));
}

Result<JobSizes> parse_sizes(const std::string& text) {
  JobSizes sizes;
  std::istringstream stream(text);
  stream >> sizes.slots >> sizes.capacity >> sizes.drafts >> sizes.ngram >> sizes.wants_logits;
  if (stream && sizes.slots >= 0 && sizes.capacity >= 1) return sizes;
  return Error{ErrorKind::kInternal, fmt::format("[launcher] cannot read the sizes of the job: found \"{}\"", text)};
}

}  // namespace lockstep::launcher
