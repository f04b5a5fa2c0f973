#include "launcher/cli/generation_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

namespace lockstep::launcher {
namespace {

/// How an option's text becomes JSON.
enum class Kind { kNumber, kIds, kFlag, kJson, kWord };

struct Row {
  const char* field;  // Hugging Face's name
  Kind kind;
  const char* help;
};

constexpr Row kRows[] = {
    {"do_sample", Kind::kFlag, "Draw tokens at random instead of taking the likeliest"},
    {"temperature", Kind::kNumber, "Divides the scores; above 0"},
    {"top_k", Kind::kNumber, "Only the k best tokens; 0 for all (Hugging Face's default is 50)"},
    {"top_p", Kind::kNumber, "Only the best tokens that hold this much probability"},
    {"min_p", Kind::kNumber, "Only tokens with this share of the best one's probability"},
    {"top_h", Kind::kNumber, "Only the best tokens that hold this share of the entropy"},
    {"typical_p", Kind::kNumber, "Only tokens of typical surprise that hold this much probability"},
    {"epsilon_cutoff", Kind::kNumber, "Only tokens at least this probable"},
    {"eta_cutoff", Kind::kNumber, "The same, lower where the entropy is high"},
    {"seed", Kind::kNumber, "Of the random numbers: the same seed gives the same tokens"},
    {"repetition_penalty", Kind::kNumber,
     "Divides positive and multiplies negative scores of tokens that the row has; 1: none"},
    {"encoder_repetition_penalty", Kind::kNumber, "The inverse, for tokens of the prompt: above 1 favours them"},
    {"no_repeat_ngram_size", Kind::kNumber, "No n-gram of this size twice; 0: off"},
    {"encoder_no_repeat_ngram_size", Kind::kNumber, "No n-gram of this size of the prompt again"},
    {"bad_words_ids", Kind::kJson, "Lists of ids that must not come up: [[5, 6], [7]]"},
    {"sequence_bias", Kind::kJson, "Added to the score of a list's last id: [[[5, 6], -1.5]]"},
    {"suppress_tokens", Kind::kIds, "Ids that are never chosen, separated by commas"},
    {"begin_suppress_tokens", Kind::kIds, "Ids that are not chosen first"},
    {"forced_bos_token_id", Kind::kNumber, "The first token after a prompt of one token"},
    {"forced_eos_token_id", Kind::kIds, "The last token where the greatest length is reached"},
    {"exponential_decay_length_penalty", Kind::kJson, "[start, factor]: end tokens become likelier with the length"},
    {"remove_invalid_values", Kind::kFlag, "Replace NaN and infinity among the logits"},
    {"renormalize_logits", Kind::kFlag, "Log-softmax after all other processors"},
    {"watermarking_config", Kind::kJson, "{\"greenlist_ratio\": 0.25, \"bias\": 2.0 …}"},
    {"guidance_scale", Kind::kNumber,
     "Classifier-free guidance: above 1 follows the prompt more (see --negative-prompt); 1: none"},
    {"max_length", Kind::kNumber, "Most tokens of a row, prompt included; --max-new-tokens goes before it"},
    {"min_length", Kind::kNumber, "No end before this many tokens, prompt included"},
    {"min_new_tokens", Kind::kNumber, "No end before this many new tokens"},
    {"max_time", Kind::kNumber, "Seconds after which a row ends with its next token"},
    {"num_beams", Kind::kNumber, "Beams of beam search; 1: none"},
    {"num_return_sequences", Kind::kNumber, "Answers to each prompt: of sampling, or the best beams"},
    {"length_penalty", Kind::kNumber, "Beams: a score is divided by its length to this power"},
    {"early_stopping", Kind::kWord,
     "Beams: true (as soon as there are enough), false or never (until none can become better)"},
    {"num_assistant_tokens", Kind::kNumber, "Tokens that --draft-model drafts a step"},
    {"prompt_lookup_num_tokens", Kind::kNumber,
     "Without a draft model: tokens that are drafted a step from the row's own past"},
    {"max_matching_ngram_size", Kind::kNumber, "Longest run of last tokens that is looked up in that past"},
    {"top_logprobs", Kind::kNumber, "With --json: log-probabilities of the chosen token and of this many likeliest"},
    {"eos_token_id", Kind::kIds, "Ids that end a row, separated by commas"},
    {"pad_token_id", Kind::kNumber, "What a finished row emits"},
};

std::string option_name(std::string_view field) {
  std::string name(field);
  std::ranges::replace(name, '_', '-');
  return name;
}

/// A bare word becomes a JSON string, unless it is true or false.
std::string quoted(const std::string& word) {
  return word == "true" || word == "false" ? word : fmt::format("\"{}\"", word);
}

void add_row(CLI::App& app, const Row& row, std::map<std::string, std::string>& values) {
  const std::string name = "--" + option_name(row.field);
  const auto put = [&values, field = row.field](const std::string& text) { values[field] = text; };
  switch (row.kind) {
    case Kind::kNumber:
      app.add_option_function<std::string>(name, put, row.help)
          ->check(CLI::Validator(CLI::Number).description(""))  // "X" says it
          ->type_name("X");
      return;
    case Kind::kIds:
      app.add_option_function<std::string>(
             name, [put](const std::string& ids) { put(ids.starts_with('[') ? ids : fmt::format("[{}]", ids)); },
             row.help)
          ->type_name("I[,I]");
      return;
    case Kind::kFlag:
      app.add_flag_callback(
          name, [put] { put("true"); }, row.help);
      app.add_flag_callback(
          "--no-" + option_name(row.field), [put] { put("false"); }, "Not " + name);
      return;
    case Kind::kJson: app.add_option_function<std::string>(name, put, row.help)->type_name("JSON"); return;
    case Kind::kWord:
      app.add_option_function<std::string>(
             name, [put](const std::string& word) { put(quoted(word)); }, row.help)
          ->type_name("WORD");
      return;
  }
}

}  // namespace

void add_generation_options(CLI::App& app, GenerateCommand& command) {
  for (const Row& row : kRows) add_row(app, row, command.generation);
  app.add_flag("--ignore-eos", command.ignore_eos, "Do not end at an end-of-sequence token");
  app.add_option("--stop,--stop-strings", command.stop_strings, "Text that ends a row (may be given again)")
      ->type_name("TEXT");
}

}  // namespace lockstep::launcher
