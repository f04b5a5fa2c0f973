#include "launcher/generate/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "launcher/ranks/rank_setup.h"
#include "launcher/ranks/serving_spec.h"
#include "runtime/generation/choosers.h"
#include "runtime/text/chat_template.h"

namespace lockstep::launcher {
namespace {

constexpr int64_t kMostDefaultSlots = 8;

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

/// Warns of what generation_config.json says and we do not know, but for notes that change no answer.
void warn_of(const std::vector<std::string>& ignored, std::vector<std::string>& warnings) {
  static constexpr std::string_view kNotes[] = {"_from_model_config", "transformers_version", "cache_implementation",
                                                "use_cache"};
  for (const std::string& name : ignored) {
    if (std::ranges::find(kNotes, name) != std::end(kNotes)) continue;
    warnings.push_back(fmt::format("generation_config.json: {} is not known and was ignored", name));
  }
}

/// generation_config.json, the ids of config.json where it has none, and the options on top.
Result<generation::GenerationConfig> generation_of(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                                                   std::vector<std::string>& warnings) {
  LOCKSTEP_TRY(generation::LoadedConfig loaded, generation::read_generation_config(command.model.model));
  generation::GenerationConfig& config = loaded.config;
  if (config.eos_token_ids.empty()) config.eos_token_ids = spec.eos_ids;
  if (!config.pad_token_id) config.pad_token_id = spec.pad_id;
  for (const auto& [name, value] : command.generation) LOCKSTEP_TRY_VOID(config.set(name, value));
  if (command.ignore_eos) config.eos_token_ids.clear();
  if (!command.stop_strings.empty()) config.stop_strings = command.stop_strings;
  config.output_scores = command.output_scores.has_value();
  config.output_logits = command.output_logits.has_value();
  LOCKSTEP_TRY_VOID(config.validate());
  warn_of(loaded.ignored, warnings);
  return std::move(loaded.config);
}

/// The options for which the host has to choose the tokens.
std::vector<std::string_view> host_options_of(const generation::GenerationConfig& config) {
  std::vector<std::string_view> options = generation::host_choices(config);
  if (config.output_scores) options.push_back("--output-scores");
  if (config.top_logprobs > 0) options.push_back("top_logprobs");
  return options;
}

/// Of a prompt and its negative one, which runs beside it.
int64_t longer_length(const Prompt& prompt) { return std::max(std::ssize(prompt.ids), std::ssize(prompt.negative)); }

Error contradiction(const std::string& found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] options contradict each other: found {}, expected {}", found, expected)};
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

/// New tokens of a prompt of `length` tokens that the options ask for; empty: as many as fit. A greatest length in
/// generation_config.json does not count: many files carry Hugging Face's old default of 20.
std::optional<int64_t> asked_tokens(const GenerateCommand& command, const generation::GenerationConfig& config,
                                    int64_t length) {
  if (command.max_new_tokens) return *command.max_new_tokens;
  if (command.generation.contains("max_length")) return *config.max_length - length;
  return config.max_new_tokens;
}

/// Tokens that a slot must hold: the last new token is never cached.
Result<int64_t> capacity_of(const GenerateCommand& command, const checkpoint::ModelSpec& spec,
                            const generation::GenerationConfig& config, const std::vector<Prompt>& prompts) {
  const std::optional<int64_t> most = longest_sequence(spec);
  if (command.model.max_seq_len) {
    if (!most || *command.model.max_seq_len <= *most) return *command.model.max_seq_len;
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --max-seq-len: found {}, expected at most {} (max_position_embeddings of the "
                             "model); lower it",
                             *command.model.max_seq_len, *most)};
  }
  int64_t wanted = 1;
  for (const Prompt& prompt : prompts) {
    const std::optional<int64_t> asked = asked_tokens(command, config, std::ssize(prompt.ids));
    const int64_t longer = longer_length(prompt);
    wanted = std::max({wanted, longer, asked ? longer + *asked - 1 : spec.max_positions});
  }
  return most ? std::min(wanted, *most) : wanted;
}

Error does_not_fit(size_t row, int64_t length, std::string_view option, int64_t value, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] prompt {} does not fit: found {} tokens and {} {}, expected {}", row, length, option,
                      value, expected)};
}

/// The new tokens of one prompt, which fits `capacity`.
Result<int32_t> budget_of(const GenerateCommand& command, const generation::GenerationConfig& config,
                          const Prompt& prompt, size_t row, int64_t capacity) {
  const int64_t room = capacity - longer_length(prompt) + 1;
  if (command.max_new_tokens && *command.max_new_tokens > room) {
    return does_not_fit(row, longer_length(prompt), "--max-new-tokens", *command.max_new_tokens,
                        fmt::format("at most {} together (the capacity of a slot, and the last token); shorten the "
                                    "prompt, lower --max-new-tokens or raise --max-seq-len",
                                    capacity + 1));
  }
  const int64_t asked = asked_tokens(command, config, std::ssize(prompt.ids)).value_or(room);
  if (asked >= 1) return static_cast<int32_t>(std::min(asked, room));
  return does_not_fit(row, std::ssize(prompt.ids), "--max-length", *config.max_length,
                      "a length beyond the prompt's; raise it, or say --max-new-tokens");
}

/// Who drafts, if anybody: sets the drafts of a step.
Result<void> plan_drafts(const GenerateCommand& command, const generation::GenerationConfig& config,
                         const std::vector<std::string_view>& host_options, JobSizes& sizes) {
  const bool looks_up = config.prompt_lookup_num_tokens.has_value();
  if (!looks_up && !command.draft_model) return ok();
  if (looks_up && command.draft_model) {
    return contradiction("--draft-model and prompt_lookup_num_tokens", "one of them; leave the other out");
  }
  if (!host_options.empty()) {
    return contradiction(fmt::format("drafts and {}", fmt::join(host_options, ", ")),
                         "greedy or sampled rows whose tokens the graphs choose; leave one or the other out");
  }
  if (command.output_logits) {
    return contradiction("drafts and --output-logits", "one of them: a step that verifies drafts gives no logits away");
  }
  sizes.drafts = looks_up ? *config.prompt_lookup_num_tokens : config.num_assistant_tokens;
  sizes.ngram = looks_up ? config.max_matching_ngram_size : 0;
  return ok();
}

/// Makes the requests of one prompt.
class RequestMaker {
 public:
  RequestMaker(const GenerateCommand& command, const generation::GenerationConfig& config,
               const checkpoint::ModelSpec& spec, const Clock& clock, bool by_host, Job& job)
      : command_(command), config_(config), spec_(spec), clock_(clock), by_host_(by_host), job_(job) {}

  Result<void> add(const Prompt& prompt, int32_t budget) {
    const bool beams = config_.num_beams > 1;
    for (int32_t copy = 0; copy < (beams ? 1 : config_.num_return_sequences); ++copy) {
      JobRequest made{.request = {.id = RequestId(static_cast<int64_t>(job_.answers)),
                                  .ids = prompt.ids,
                                  .parameters = parameters(prompt, budget)},
                      .answers = beams ? static_cast<size_t>(config_.num_return_sequences) : 1};
      made.request.logits = command_.output_logits && !by_host_ ? actors::Logits::kWanted : actors::Logits::kOmit;
      if (by_host_) {
        LOCKSTEP_TRY(made.request.chooser, chooser(prompt, budget));
      }
      job_.answers += made.answers;
      job_.requests.push_back(std::move(made));
    }
    return ok();
  }

 private:
  shards::SlotParameters parameters(const Prompt& prompt, int32_t budget) const {
    const std::vector<int32_t>& eos = config_.eos_token_ids;
    return {.sampling = config_.sampling(job_.answers),
            .max_new_tokens = budget,
            .eos_ids = eos,
            .pad_id = config_.pad_token_id.value_or(eos.empty() ? 0 : eos.front()),
            .min_new_tokens = config_.least_new_tokens(static_cast<int64_t>(prompt.ids.size()))};
  }

  Result<std::shared_ptr<generation::TokenChooser>> chooser(const Prompt& prompt, int32_t budget) const {
    generation::ChooserRequest request{.config = config_,
                                       .prompt = prompt.ids,
                                       .negative_prompt = prompt.negative,
                                       .vocabulary = spec_.vocabulary,
                                       .max_length = static_cast<int64_t>(prompt.ids.size()) + budget,
                                       .row = job_.answers,
                                       .clock = &clock_,
                                       .tokenizer = config_.num_beams > 1 ? job_.tokenizer.get() : nullptr};
    LOCKSTEP_TRY(std::unique_ptr<generation::TokenChooser> made, generation::make_chooser(std::move(request)));
    return std::shared_ptr<generation::TokenChooser>(std::move(made));  // the session keeps it as well
  }

  const GenerateCommand& command_;
  const generation::GenerationConfig& config_;
  const checkpoint::ModelSpec& spec_;
  const Clock& clock_;
  bool by_host_;
  Job& job_;
};

/// Slots: what is asked for, or enough for the requests up to a default; at least those of one chooser.
Result<int64_t> slots_of(const GenerateCommand& command, const Job& job) {
  int64_t rows = 0, widest = 1;
  for (const JobRequest& made : job.requests) {
    const int64_t own = made.request.chooser ? made.request.chooser->rows() : 1;
    rows += own;
    widest = std::max(widest, own);
  }
  const int64_t slots = command.model.batch_size.value_or(std::max(widest, std::min(rows, kMostDefaultSlots)));
  if (slots >= widest) return slots;
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[launcher] --batch-size: found {}, expected at least {} (the rows of one prompt: beams, or a "
                  "negative prompt beside it); raise it or leave it out",
                  slots, widest)};
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
  LOCKSTEP_TRY(job.sizes.capacity, capacity_of(command, spec, config, job.prompts));
  LOCKSTEP_TRY_VOID(check_prompts(job.prompts, spec.vocabulary, job.sizes.capacity));

  RequestMaker maker(command, config, spec, clock, by_host, job);
  for (size_t row = 0; row < job.prompts.size(); ++row) {
    const Prompt& prompt = job.prompts[row];
    LOCKSTEP_TRY(const int32_t budget, budget_of(command, config, prompt, row, job.sizes.capacity));
    LOCKSTEP_TRY_VOID(maker.add(prompt, budget));
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
  if (stream && sizes.slots >= 1 && sizes.capacity >= 1) return sizes;
  return Error{ErrorKind::kInternal, fmt::format("[launcher] cannot read the sizes of the job: found \"{}\"", text)};
}

}  // namespace lockstep::launcher
