#include "runtime/generation/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <type_traits>

#include "runtime/generation/option_checks.h"
#include "runtime/generation/option_forms.h"
#include "runtime/generation/option_values.h"

namespace lockstep::generation {
namespace {

using Config = GenerationConfig;
using enum Bounds::End;

template <auto Config::*Member>
using TypeOf = std::remove_cvref_t<decltype(Config().*Member)>;

template <auto Config::*Member>
std::string default_value() {
  const TypeOf<Member> value = Config().*Member;
  if constexpr (std::is_arithmetic_v<TypeOf<Member>>) return fmt::format("{}", value);
  if constexpr (std::is_same_v<TypeOf<Member>, EarlyStopping>) return "false";
  return "none";
}

/// Checked as shards compute with it, too: in float32 a tiny temperature is 0, and a great penalty infinite.
Result<void> check_number(const Option& option, double value) {
  if (option.bounds.hold(value) && option.bounds.hold(static_cast<float>(value))) return ok();
  return invalid_option(option.row.name, fmt::format("{:g}", value), option.bounds.expected);
}

Result<void> check_numbers(const Option& option, const std::vector<int32_t>& values) {
  for (const int32_t value : values) LOCKSTEP_TRY_VOID(check_number(option, value));
  return ok();
}

template <typename T>
Result<void> check_numbers(const Option& option, const std::optional<T>& value) {
  return value ? check_number(option, *value) : Result<void>(ok());
}

template <auto Config::*Member>
Result<void> check_bounds(const Option& option, const Config& config) {
  if constexpr (requires { check_numbers(option, config.*Member); }) {
    return check_numbers(option, config.*Member);
  } else {
    return check_number(option, config.*Member);
  }
}

Result<void> check_nothing(const Option& /*option*/, const Config& /*config*/) { return ok(); }

/// A row with the type of its field; its methods return modified copies.
template <auto Config::*Member>
struct Row : Option {
  constexpr Row with(auto change) const {
    Row copy = *this;
    change(copy);
    return copy;
  }
  constexpr Row within(const Bounds& allowed) const {
    return with([&](Row& copy) {
      copy.bounds = allowed;
      copy.row.allowed = allowed.expected;
      copy.check = check_bounds<Member>;
    });
  }
  constexpr Row checked(decltype(Option::check) checker, std::string_view allowed) const {
    return with([&](Row& copy) { copy.check = checker, copy.row.allowed = allowed; });
  }
  constexpr Row by(AppliedBy who) const {
    return with([&](Row& copy) { copy.row.applied_by = who; });
  }
  constexpr Row counting(Counts when) const {
    return with([&](Row& copy) { copy.counts = when; });
  }
  constexpr Row changing(OptionEffect what) const {
    return with([&](Row& copy) { copy.row.effect = what; });
  }
  constexpr Row of_draws() const { return by(AppliedBy::kGraph).counting(Option::Counts::kWhenSampling).in_rows(); }
  constexpr Row in_rows() const { return in_rows_as(this->row.name); }
  constexpr Row in_rows_as(std::string_view field) const {
    return with([&](Row& copy) { copy.row.batch_field = field; });
  }
  constexpr Row asked_up_to(int32_t most) const {
    return with([&](Row& copy) { copy.row.most_asked = most; });
  }
  constexpr Row flagged(FlagSource source, std::string_view name = {}) const {
    return with([&](Row& copy) { copy.row.flag_source = source, copy.row.own_flag = name; });
  }
};

template <auto Config::*Member>
constexpr Row<Member> row(std::string_view name, std::string_view help) {
  Row<Member> made;
  made.row = {.name = name, .help = help, .form = kFormOf<TypeOf<Member>>.form};
  made.row.default_value = default_value<Member>;
  made.expected = kFormOf<TypeOf<Member>>.expected;
  made.read = [](const nlohmann::json& value, Config& config) { return read_option(value, config.*Member); };
  made.differs = [](const Config& config) { return config.*Member != Config().*Member; };
  made.check = check_nothing;
  return made;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Bounds kShare{0, 1, kExcluded, kIncluded, "above 0 and at most 1"};
constexpr Bounds kCutoff{0, 1, kIncluded, kExcluded, "0 (off) or more and below 1"};
constexpr Bounds kFactor{0, kInfinity, kExcluded, kExcluded, "a number above 0 (1: none)"};
constexpr Bounds kFinite{-kInfinity, kInfinity, kExcluded, kExcluded, "a finite number"};
constexpr Bounds kCount{0, kInfinity, kIncluded, kIncluded, "at least 0"};
constexpr Bounds kPositiveCount{1, kInfinity, kIncluded, kIncluded, "at least 1"};
constexpr Bounds kIds{0, kInfinity, kIncluded, kIncluded, "0 or more"};

constexpr auto kGraph = AppliedBy::kGraph;
constexpr auto kHost = AppliedBy::kHost;
constexpr auto kSpeed = OptionEffect::kSpeed;
constexpr auto kSeparate = FlagSource::kSeparate;

static_assert(sampling::kMaxEosIds == 16);  // according to the row of eos_token_id

// In the order of GenerationConfig's fields.
constexpr std::tuple kTable{
    row<&Config::do_sample>("do_sample", "Draw tokens at random instead of taking the likeliest").by(kGraph).in_rows(),
    row<&Config::temperature>("temperature", "Divides the scores; above 0")
        .within({0, kInfinity, kExcluded, kExcluded, "a number above 0; for the likeliest token use do_sample=false"})
        .of_draws(),
    row<&Config::top_k>("top_k", "Only the k best tokens; 0 for all (Hugging Face's default is 50)")
        .within({0, kInfinity, kIncluded, kIncluded, "0 (all tokens) or more"})
        .of_draws(),
    row<&Config::top_p>("top_p", "Only the best tokens that hold this much probability").within(kShare).of_draws(),
    row<&Config::min_p>("min_p", "Only tokens with this share of the best one's probability")
        .within({0, 1, kIncluded, kIncluded, "0 to 1"})
        .of_draws(),
    row<&Config::top_h>("top_h", "Only the best tokens that hold this share of the entropy")
        .within(kShare)
        .by(kHost)
        .counting(Option::Counts::kWhenSampling),
    row<&Config::typical_p>("typical_p", "Only tokens of typical surprise that hold this much probability")
        .within(kShare)
        .of_draws(),
    row<&Config::epsilon_cutoff>("epsilon_cutoff", "Only tokens at least this probable").within(kCutoff).of_draws(),
    row<&Config::eta_cutoff>("eta_cutoff", "The same, lower where the entropy is high").within(kCutoff).of_draws(),
    row<&Config::seed>("seed", "Of the random numbers: the same seed gives the same tokens").by(kGraph).in_rows(),

    row<&Config::guidance_scale>("guidance_scale",
                                 "Classifier-free guidance: above 1 follows the prompt more (see --negative-prompt); "
                                 "1: none")
        .within({-kInfinity, kInfinity, kExcluded, kExcluded, "a finite number (1: none)"})
        .by(kHost),
    row<&Config::sequence_bias>("sequence_bias", "Added to the score of a list's last id: [[[5, 6], -1.5]]")
        .checked(check_sequence_bias, "sequences of at least one id")
        .by(kHost),
    row<&Config::encoder_repetition_penalty>(
        "encoder_repetition_penalty",
        "The inverse of --repetition-penalty, for tokens of the prompt: above 1 favours them")
        .within(kFactor)
        .by(kHost),
    row<&Config::repetition_penalty>("repetition_penalty",
                                     "Divides positive and multiplies negative scores of tokens that the row has; "
                                     "1: none")
        .within(kFactor)
        .by(kGraph)
        .in_rows(),
    row<&Config::presence_penalty>("presence_penalty",
                                   "Subtracted from the scores of tokens that the answer has; OpenAI's")
        .within(kFinite)
        .by(kHost),
    row<&Config::frequency_penalty>("frequency_penalty", "The same, times how often the answer has the token; OpenAI's")
        .within(kFinite)
        .by(kHost),
    row<&Config::no_repeat_ngram_size>("no_repeat_ngram_size", "No n-gram of this size twice; 0: off")
        .within(kCount)
        .by(kHost),
    row<&Config::encoder_no_repeat_ngram_size>("encoder_no_repeat_ngram_size",
                                               "No n-gram of this size of the prompt again")
        .within(kCount)
        .by(kHost),
    row<&Config::bad_words_ids>("bad_words_ids", "Lists of ids that must not come up: [[5, 6], [7]]")
        .checked(check_bad_words, "sequences of at least one id")
        .by(kHost),
    row<&Config::forced_bos_token_id>("forced_bos_token_id", "The first token after a prompt of one token")
        .within(kCount)
        .by(kHost),
    row<&Config::forced_eos_token_ids>("forced_eos_token_id", "The last token where the greatest length is reached")
        .within(kIds)
        .by(kHost),
    row<&Config::remove_invalid_values>("remove_invalid_values", "Replace NaN and infinity among the logits").by(kHost),
    row<&Config::exponential_decay_length_penalty>("exponential_decay_length_penalty",
                                                   "[start, factor]: end tokens become likelier with the length")
        .checked(check_length_decay, "a finite factor")
        .by(kHost),
    row<&Config::suppress_tokens>("suppress_tokens", "Ids that are never chosen, separated by commas")
        .within(kIds)
        .by(kHost),
    row<&Config::begin_suppress_tokens>("begin_suppress_tokens", "Ids that are not chosen first")
        .within(kIds)
        .by(kHost),
    row<&Config::watermarking_config>("watermarking_config", "{\"greenlist_ratio\": 0.25, \"bias\": 2.0 …}")
        .checked(check_watermark, {})
        .by(kHost),
    row<&Config::renormalize_logits>("renormalize_logits", "Log-softmax after all other processors").by(kHost),

    row<&Config::max_new_tokens>("max_new_tokens",
                                 "Most new tokens; default: the length of generation_config.json, if it has one, else "
                                 "until an end token or the slot's capacity")
        .within(kPositiveCount)
        .by(kGraph)
        .in_rows()
        .asked_up_to(1 << 24),
    row<&Config::max_length>("max_length", "Most tokens of a row, prompt included; --max-new-tokens goes before it")
        .within(kPositiveCount)
        .by(kGraph),
    row<&Config::min_new_tokens>("min_new_tokens", "No end before this many new tokens")
        .within(kCount)
        .by(kGraph)
        .in_rows(),
    row<&Config::min_length>("min_length",
                             "No end before this many tokens, prompt included; --min-new-tokens replaces it")
        .within(kCount)
        .by(kGraph)
        .in_rows(),
    row<&Config::eos_token_ids>("eos_token_id", "Ids that end a row, separated by commas")
        .checked(check_eos_ids, "at most 16 of 0 or more")
        .by(kGraph),
    row<&Config::pad_token_id>("pad_token_id", "What a finished row emits").within(kCount).by(kGraph),
    row<&Config::bos_token_id>("bos_token_id", "Kept from files; prompts have their first token already")
        .flagged(FlagSource::kNone),
    row<&Config::stop_strings>("stop_strings", "Text that ends a row (may be repeated)")
        .checked(check_stop_strings, "strings of 1 to 4096 bytes")
        .flagged(kSeparate, "stop")
        .in_rows_as("stop"),
    row<&Config::max_time>("max_time", "Seconds after which a row ends with its next token")
        .within({0, kInfinity, kExcluded, kIncluded, "seconds above 0"}),

    row<&Config::num_beams>("num_beams", "Beams of beam search; 1: none").within(kPositiveCount).by(kHost),
    row<&Config::num_return_sequences>("num_return_sequences", "Answers to each prompt: of sampling, or the best beams")
        .within(kPositiveCount),
    row<&Config::length_penalty>("length_penalty", "Beams: a score is divided by its length to this power")
        .within(kFinite)
        .by(kHost)
        .counting(Option::Counts::kWithBeams),
    row<&Config::early_stopping>("early_stopping",
                                 "Beams: true (as soon as there are enough), false or never (until none can become "
                                 "better)")
        .by(kHost)
        .counting(Option::Counts::kWithBeams),

    row<&Config::num_assistant_tokens>("num_assistant_tokens", "Tokens that --draft-model drafts a step")
        .within(kPositiveCount)
        .changing(kSpeed),
    row<&Config::prompt_lookup_num_tokens>("prompt_lookup_num_tokens",
                                           "Without a draft model: tokens that are drafted a step from the row's own "
                                           "past")
        .within(kPositiveCount)
        .changing(kSpeed),
    row<&Config::max_matching_ngram_size>("max_matching_ngram_size",
                                          "Longest run of last tokens that is looked up in that past")
        .within(kPositiveCount)
        .changing(kSpeed),

    row<&Config::output_scores>("output_scores",
                                "Write the processed scores that every new token was chosen from (safetensors)")
        .by(kHost)
        .flagged(kSeparate),
    row<&Config::output_logits>("output_logits", "Write the raw logits of every new token (safetensors)")
        .flagged(kSeparate),
    row<&Config::top_logprobs>("top_logprobs",
                               "With --json: log-probabilities of the chosen token and of this many likeliest")
        .within(kCount)
        .by(kHost),
};

/// Checks that the rows match the fields of `Struct` in order and number.
template <typename Struct, auto... Members>
constexpr bool are_all_fields(const std::tuple<Row<Members>...>& /*rows*/) {
  return requires { Struct{std::declval<TypeOf<Members>>()...}; }
  &&!requires { Struct{std::declval<TypeOf<Members>>()..., {}}; };
}
static_assert(are_all_fields<Config>(kTable), "every field of GenerationConfig needs a row, in the fields' order");

constexpr auto kOptions = std::apply([](const auto&... rows) { return std::array{Option(rows)...}; }, kTable);
constexpr auto kRows = std::apply([](const auto&... rows) { return std::array{rows.row...}; }, kTable);

}  // namespace

std::span<const Option> options() { return kOptions; }

bool has_effect(const Option& option, const GenerationConfig& config) {
  switch (option.counts) {
    case Option::Counts::kAlways: return true;
    case Option::Counts::kWhenSampling: return config.do_sample;
    case Option::Counts::kWithBeams: return config.num_beams > 1;
  }
  return true;
}

std::span<const GenerationOption> generation_options() { return kRows; }

const GenerationOption* find_generation_option(std::string_view name) {
  const auto found = std::ranges::find(kRows, name, &GenerationOption::name);
  return found == kRows.end() ? nullptr : &*found;
}

std::string flag_of(const GenerationOption& row) {
  std::string flag(row.own_flag.empty() ? row.name : row.own_flag);
  std::ranges::replace(flag, '_', '-');
  return "--" + flag;
}

std::vector<std::string_view> host_choices(const Config& config) {
  std::vector<std::string_view> names;
  for (const Option& option : kOptions) {
    if (option.row.applied_by != kHost || !has_effect(option, config)) continue;
    if (option.differs(config)) names.push_back(option.row.name);
  }
  return names;
}

Error invalid_option(std::string_view option, std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/generation] {}: found {}, expected {}", option, found, expected)};
}

}  // namespace lockstep::generation
