// Tests of the engine options for prompts, and of prompts refused before the engine opens.
#include "launcher/generate/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_models.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::launcher {
namespace {

using ::testing::HasSubstr;

using Options = std::map<std::string, std::string>;

/// Turns by other factors beyond 8 of its 64 positions.
constexpr const char* kTinyLongrope = R"({
  "model_type": "phi3", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
  "num_key_value_heads": 1, "intermediate_size": 16, "hidden_act": "silu", "vocab_size": 32,
  "max_position_embeddings": 64, "original_max_position_embeddings": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
  "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [2.0, 4.0]},
  "tie_word_embeddings": false, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})";

/// Jobs of the tiny llama, 64 positions, for rows of ids.
class JobTest : public ::testing::Test {
 protected:
  GenerateCommand command(Options options = {}, std::string_view ids = "[[1, 3, 4], [5, 6]]") const {
    GenerateCommand command;
    command.model.directory = model_.path();
    command.prompts.ids_file = model_.write("ids.json", ids);
    command.generation = std::move(options);
    command.generation.emplace("max_new_tokens", "5");
    return command;
  }

  /// Of rows whose length no option gives.
  GenerateCommand open_command(const Options& options = {}) const {
    GenerateCommand open = command(options);
    open.generation.erase("max_new_tokens");
    return open;
  }

  Result<EngineOptions> prepare(const GenerateCommand& command) const {
    LOCKSTEP_TRY(const Model model, Model::open(command.model.directory, command.model.options));
    const Log log;
    const ManualClock clock;
    ProgressLine progress({}, clock);
    LOCKSTEP_TRY(auto options, make_prompt_job(command, log, progress)->prepare(model));
    EXPECT_TRUE(options.has_value());
    return std::move(options).value_or(EngineOptions());
  }

  EngineOptions options_of(const GenerateCommand& command) const {
    auto prepared = prepare(command);
    EXPECT_TRUE(prepared.has_value()) << prepared.error().message;
    return prepared.has_value() ? std::move(prepared).value() : EngineOptions();
  }

  void expect_refused(const GenerateCommand& command, const std::string& words,
                      ErrorKind kind = ErrorKind::kInvalidArgument) const {
    const auto prepared = prepare(command);
    ASSERT_FALSE(prepared.has_value()) << words;
    EXPECT_EQ(prepared.error().kind, kind);
    EXPECT_THAT(prepared.error().message, HasSubstr(words));
  }

  void add_tokenizer() const { model_.write("tokenizer.json", generation::kTinyTokenizer); }

  model::TinyModel model_{model::kTinyLlama};
};

TEST_F(JobTest, HasASlotForEachPromptAndRoomForTheLongest) {
  const EngineOptions options = options_of(command());
  EXPECT_EQ(options.slots, 2);
  EXPECT_EQ(options.capacity, 3 + 5 - 1);
  EXPECT_EQ(options.drafting, Drafting());
  EXPECT_EQ(options.choosers, Choosers::kNone);
}

TEST_F(JobTest, KeepsTheOptionsOfTheCommandThatItDoesNotDecide) {
  GenerateCommand given = command();
  given.engine.slots = 5;
  given.engine.capacity = 40;
  given.engine.prefill_chunk = 7;
  given.engine.threads = 3;
  given.engine.partition.numerics = partition::Numerics::kFast;
  given.engine.observe.profile = true;
  EngineOptions expected = given.engine;
  expected.choosers = Choosers::kNone;
  EXPECT_EQ(options_of(given), expected);
}

TEST_F(JobTest, HasASlotForEachSequenceOfAPrompt) {
  EXPECT_EQ(options_of(command({{"do_sample", "true"}, {"num_return_sequences", "3"}})).slots, 6);
}

TEST_F(JobTest, HasASlotForEachBeamWhateverItReturns) {
  const EngineOptions options = options_of(command({{"num_beams", "4"}, {"num_return_sequences", "3"}}));
  EXPECT_EQ(options.slots, 8);
  EXPECT_EQ(options.choosers, Choosers::kAllowed);
}

TEST_F(JobTest, HasSlotsForAllRowsOfAChooser) {
  EXPECT_EQ(options_of(command({{"num_beams", "12"}}, "[[1]]")).slots, 12);
  EXPECT_EQ(options_of(command({{"num_beams", "3"}}, "[[1], [3], [4], [5]]")).slots, 8);
  EXPECT_EQ(options_of(command({}, "[[1],[1],[1],[1],[1],[1],[1],[1],[1],[1]]")).slots, 8);
  GenerateCommand few = command({{"num_beams", "4"}});
  few.engine.slots = 3;
  expect_refused(few, "--batch-size: found 3, expected at least 4");
  few.engine.slots = 4;
  EXPECT_EQ(options_of(few).slots, 4);
}

TEST_F(JobTest, LetsTheHostChooseWhatTheGraphsCannot) {
  const std::vector<Options> by_host = {{{"bad_words_ids", "[[5]]"}}, {{"no_repeat_ngram_size", "2"}},
                                        {{"suppress_tokens", "[4]"}}, {{"guidance_scale", "1.5"}},
                                        {{"top_logprobs", "2"}},      {{"renormalize_logits", "true"}}};
  for (const Options& options : by_host) {
    EXPECT_EQ(options_of(command(options)).choosers, Choosers::kAllowed) << options.begin()->first;
  }
  GenerateCommand scores = command();
  scores.output_scores = "scores.safetensors";
  EXPECT_EQ(options_of(scores).choosers, Choosers::kAllowed);
}

TEST_F(JobTest, LetsTheGraphsChooseWhatTheyCan) {
  EXPECT_EQ(options_of(command({{"do_sample", "true"},
                                {"temperature", "0.7"},
                                {"top_k", "5"},
                                {"top_p", "0.9"},
                                {"min_p", "0.1"},
                                {"typical_p", "0.9"},
                                {"repetition_penalty", "1.1"},
                                {"min_new_tokens", "2"}}))
                .choosers,
            Choosers::kNone);
}

TEST_F(JobTest, WantsLogitsOnTheHostWhereTheyAreWritten) {
  GenerateCommand logits = command();
  logits.output_logits = "logits.safetensors";
  EXPECT_EQ(options_of(logits).choosers, Choosers::kAllowed);
}

TEST_F(JobTest, FillsTheModelWhereNoLengthIsAsked) { EXPECT_EQ(options_of(open_command()).capacity, 64); }

TEST_F(JobTest, CountsThePromptToTheGreatestLength) {
  GenerateCommand longest = open_command({{"max_length", "10"}});
  EXPECT_EQ(options_of(longest).capacity, 9);
  longest.generation["max_length"] = "3";
  expect_refused(longest, "prompt 0: ");
  expect_refused(longest, "does not fit: found 3 tokens and --max-length 3, expected a length beyond the prompt's");
  longest.generation["max_new_tokens"] = "2";  // goes before it
  EXPECT_EQ(options_of(longest).capacity, 3 + 2 - 1);
}

TEST_F(JobTest, TakesTheLengthOfTheModelsFileWhereNoOptionGivesOne) {
  model_.write("generation_config.json", R"({"max_length": 10})");
  const auto capacity_of = [this](const GenerateCommand& command) { return options_of(command).capacity; };
  EXPECT_EQ(capacity_of(command()), 3 + 5 - 1);  // --max-new-tokens goes before it
  EXPECT_EQ(capacity_of(open_command()), 10 - 1);
  EXPECT_EQ(capacity_of(open_command({{"max_length", "12"}})), 12 - 1);
  model_.write("generation_config.json", R"({"max_length": 10, "max_new_tokens": 4})");
  EXPECT_EQ(capacity_of(open_command()), 3 + 4 - 1);
  EXPECT_EQ(capacity_of(open_command({{"max_length", "12"}})), 12 - 1);
  model_.write("generation_config.json", R"({"max_length": 3})");
  expect_refused(open_command(), "found 3 tokens and the model's max_length 3, expected a length beyond");
}

TEST_F(JobTest, LeavesOutWhatIsMaskedUnlessAWindowWouldCountIt) {
  const std::string holes = R"([{"ids": [1, 9, 9, 3, 4], "mask": [1, 0, 0, 1, 1]}])";
  GenerateCommand masked = command({}, holes);
  EXPECT_EQ(options_of(masked).capacity, 3 + 5 - 1);
  masked.model.options.window = 9;  // 5 ids and 4 of the 5 new ones
  EXPECT_EQ(options_of(masked).capacity, 3 + 5 - 1);
  GenerateCommand narrow = masked, stretched = masked;
  narrow.model.options.window = 8;
  const model::TinyModel longrope(kTinyLongrope, "longrope");
  stretched.model = {.directory = longrope.path()};
  for (const GenerateCommand& other : {narrow, stretched}) {
    expect_refused(other, "found 2 masked tokens inside and up to 9 tokens in all, expected at most 8",
                   ErrorKind::kUnsupported);
  }
}

TEST_F(JobTest, RefusesWhatDoesNotFitTheSlots) {
  GenerateCommand small = command();
  small.engine.capacity = 6;
  expect_refused(small, "found 3 tokens and --max-new-tokens 5, expected at most 7 together");
  small.engine.capacity = 2;
  expect_refused(small, "found 3 tokens, expected at most 2");
  expect_refused(command({}, "[]"), "no prompts");
}

TEST_F(JobTest, NamesThePromptThatIsRefused) {
  expect_refused(command({}, "[[1, 2], [3, 32, 5]]"), "[launcher] prompt 1: ");
  expect_refused(command({}, "[[1, 2], [3, 32, 5]]"), "found token id 32, expected ids of 0 to 31");
  GenerateCommand small = command({}, "[[1], [3, 4, 5]]");
  small.engine.capacity = 6;
  expect_refused(small, "[launcher] prompt 1: ");
}

TEST_F(JobTest, GoesBeyondTheModelsPositionsWhereTheyHaveNoEnd) {
  GenerateCommand longer = command({{"max_new_tokens", "100"}});
  expect_refused(longer, "found 3 tokens and --max-new-tokens 100");
  longer.model.options = {.window = 8, .pinned_sinks = 2};
  EXPECT_EQ(options_of(longer).capacity, 102);
}

TEST_F(JobTest, RunsANegativePromptBesideEachPrompt) {
  const EngineOptions options =
      options_of(command({{"guidance_scale", "2"}}, R"([{"ids": [1, 3], "negative": [4, 5, 6, 7, 8]}, [9]])"));
  EXPECT_EQ(options.capacity, 5 + 5 - 1);
  EXPECT_EQ(options.slots, 4);
}

TEST_F(JobTest, RefusesANegativePromptThatDoesNotFit) {
  GenerateCommand small = command({{"guidance_scale", "2"}}, R"([{"ids": [1], "negative": [4, 5, 6]}])");
  small.engine.capacity = 2;
  expect_refused(small, "found 3 tokens, expected at most 2");
  small.engine.capacity = 6;
  expect_refused(small, "found 3 tokens and --max-new-tokens 5");
}

TEST_F(JobTest, GivesOneNegativeTextToAllPromptsOrOneToEach) {
  add_tokenizer();
  GenerateCommand texts = command({{"guidance_scale", "2"}});
  texts.prompts = {.texts = {"a", "b", "c"}};
  texts.negative_prompts = {"c b a"};
  EXPECT_EQ(options_of(texts).capacity, 5 + 5 - 1);
  texts.negative_prompts = {"a", "b", "ab"};
  EXPECT_EQ(options_of(texts).capacity, 1 + 5 - 1);
  texts.negative_prompts = {"a", "b"};
  expect_refused(texts, "found 2 negative prompts for 3 prompts, expected one for all, or one for each");
}

TEST_F(JobTest, RefusesANegativePromptWithoutGuidance) {
  add_tokenizer();
  GenerateCommand texts = command();
  texts.negative_prompts = {"a"};
  expect_refused(texts, "a negative prompt without guidance");
  expect_refused(command({}, R"([{"ids": [1], "negative": [3]}])"), "a negative prompt without guidance");
}

TEST_F(JobTest, NeedsATokenizerForWhateverIsText) {
  GenerateCommand texts = command();
  texts.prompts = {.texts = {"ab"}};
  expect_refused(texts, "tokenizer.json", ErrorKind::kNotFound);
  GenerateCommand stops = command();
  stops.stop_strings = {"b"};
  expect_refused(stops, "tokenizer.json", ErrorKind::kNotFound);
  GenerateCommand negative = command({{"guidance_scale", "2"}});
  negative.negative_prompts = {"a"};
  expect_refused(negative, "tokenizer.json", ErrorKind::kNotFound);
  model_.write("generation_config.json", R"({"stop_strings": ["b"]})");
  expect_refused(command(), "tokenizer.json", ErrorKind::kNotFound);
  add_tokenizer();
  EXPECT_TRUE(prepare(command()).has_value());
  EXPECT_TRUE(prepare(stops).has_value());
  EXPECT_EQ(options_of(texts).capacity, 1 + 5 - 1);  // one token
}

TEST_F(JobTest, FailsWhereTheTokenizerIsDamagedEvenIfNothingIsText) {
  model_.write("tokenizer.json", "{");
  expect_refused(command(), "tokenizer.json");
}

TEST_F(JobTest, DraftsByLookupOrByAModel) {
  const EngineOptions lookup =
      options_of(command({{"prompt_lookup_num_tokens", "3"}, {"max_matching_ngram_size", "4"}}));
  EXPECT_EQ(lookup.drafting, (Drafting{.tokens = 3, .lookup_ngram = 4}));
  GenerateCommand drafted = command({{"num_assistant_tokens", "6"}});
  drafted.engine.drafting.model = "small";
  EXPECT_EQ(options_of(drafted).drafting, (Drafting{.tokens = 6, .model = "small"}));
  EXPECT_EQ(options_of(command()).drafting, Drafting());
}

TEST_F(JobTest, RefusesDraftsBesideWhatTheyCannotServe) {
  GenerateCommand drafted = command();
  drafted.engine.drafting.model = "small";
  GenerateCommand two = drafted;
  two.generation["prompt_lookup_num_tokens"] = "3";
  expect_refused(two, "found --draft-model and prompt_lookup_num_tokens");
  GenerateCommand beams = drafted;
  beams.generation["num_beams"] = "4";
  expect_refused(beams, "found drafts and num_beams");
  GenerateCommand words = drafted;
  words.generation = {{"bad_words_ids", "[[5]]"}, {"top_logprobs", "1"}};
  expect_refused(words, "found drafts and bad_words_ids, top_logprobs");
  GenerateCommand scores = drafted;
  scores.output_scores = "scores.safetensors";
  expect_refused(scores, "found drafts and output_scores");
  GenerateCommand logits = drafted;
  logits.output_logits = "logits.safetensors";
  expect_refused(logits, "found drafts and --output-logits");
}

TEST_F(JobTest, NamesAnOptionOfTheWrongForm) {
  expect_refused(command({{"top_k", "5.5"}}), "top_k: found 5.5");
  expect_refused(command({{"bad_words_ids", "[5, 6"}}), "bad_words_ids: found");
  expect_refused(command({{"early_stopping", "\"perhaps\""}}), "early_stopping");
}

}  // namespace
}  // namespace lockstep::launcher
