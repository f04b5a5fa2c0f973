#include "launcher/generate/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/launcher/tiny_models.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Options = std::map<std::string, std::string>;

/// Jobs of the tiny llama, 64 positions, for rows of ids.
class JobTest : public ::testing::Test {
 protected:
  GenerateCommand command(Options options = {}, std::string_view ids = "[[1, 3, 4], [5, 6]]") const {
    GenerateCommand command;
    command.model.model = model_.path();
    command.prompts.ids_file = model_.write("ids.json", ids);
    command.max_new_tokens = 5;
    command.generation = std::move(options);
    return command;
  }

  Result<Job> prepare(const GenerateCommand& command) const {
    return prepare_job(command, checkpoint::parse_spec(kTinyLlama, "tiny").value(), clock_);
  }

  Job job(const GenerateCommand& command) const {
    auto prepared = prepare(command);
    EXPECT_TRUE(prepared.has_value()) << prepared.error().message;
    return std::move(prepared).value();
  }

  void expect_refused(const GenerateCommand& command, const std::string& words,
                      ErrorKind kind = ErrorKind::kInvalidArgument) const {
    const auto prepared = prepare(command);
    ASSERT_FALSE(prepared.has_value()) << words;
    EXPECT_EQ(prepared.error().kind, kind);
    EXPECT_THAT(prepared.error().message, HasSubstr(words));
  }

  void add_tokenizer() const { model_.write("tokenizer.json", generation::kTinyTokenizer); }

  ManualClock clock_;
  TinyModel model_{kTinyLlama};
};

TEST_F(JobTest, MakesARequestOfEachPrompt) {
  const Job made = job(command());
  ASSERT_EQ(made.requests.size(), 2u);
  EXPECT_EQ(made.answers, 2u);
  EXPECT_TRUE(made.answers_as_made);
  EXPECT_EQ(made.tokenizer, nullptr);
  EXPECT_THAT(made.requests[1].request.ids, ElementsAre(5, 6));
  EXPECT_EQ(made.requests[1].request.id, RequestId(1));
  EXPECT_EQ(made.requests[1].request.chooser, nullptr);
  EXPECT_EQ(made.requests[1].request.parameters.max_new_tokens, 5);
  EXPECT_THAT(made.requests[1].request.parameters.eos_ids, ElementsAre(2));  // of config.json
  EXPECT_EQ(made.sizes, (JobSizes{.slots = 2, .capacity = 3 + 5 - 1}));
}

TEST_F(JobTest, ReturnsSeveralSequencesPromptByPromptEachWithItsOwnSeed) {
  const Job made = job(command({{"do_sample", "true"}, {"num_return_sequences", "3"}}));
  ASSERT_EQ(made.requests.size(), 6u);
  EXPECT_EQ(made.answers, 6u);
  EXPECT_EQ(made.sizes.slots, 6);
  std::set<uint64_t> seeds;
  for (size_t i = 0; i < 6; ++i) {
    const actors::Request& request = made.requests[i].request;
    EXPECT_EQ(request.id, RequestId(static_cast<int64_t>(i)));
    EXPECT_EQ(request.ids.size(), i < 3 ? 3u : 2u);
    seeds.insert(request.parameters.sampling.seed);
  }
  EXPECT_EQ(seeds.size(), 6u);
}

TEST_F(JobTest, MakesOneRequestWithSeveralAnswersOfBeams) {
  const Job made = job(command({{"num_beams", "4"}, {"num_return_sequences", "3"}}));
  ASSERT_EQ(made.requests.size(), 2u);
  EXPECT_EQ(made.requests[0].answers, 3u);
  EXPECT_EQ(made.requests[1].request.id, RequestId(3));  // its first answer
  EXPECT_EQ(made.answers, 6u);
  EXPECT_FALSE(made.answers_as_made);
  EXPECT_EQ(made.requests[0].request.chooser->rows(), 4);
  EXPECT_EQ(made.sizes.slots, 8);
  EXPECT_TRUE(made.sizes.wants_logits);
}

TEST_F(JobTest, HasSlotsForAllRowsOfAChooser) {
  EXPECT_EQ(job(command({{"num_beams", "12"}}, "[[1]]")).sizes.slots, 12);
  EXPECT_EQ(job(command({{"num_beams", "3"}}, "[[1], [3], [4], [5]]")).sizes.slots, 8);
  EXPECT_EQ(job(command({}, "[[1],[1],[1],[1],[1],[1],[1],[1],[1],[1]]")).sizes.slots, 8);
  GenerateCommand few = command({{"num_beams", "4"}});
  few.model.batch_size = 3;
  expect_refused(few, "--batch-size: found 3, expected at least 4");
  few.model.batch_size = 4;
  EXPECT_EQ(job(few).sizes.slots, 4);
}

TEST_F(JobTest, LetsTheHostChooseWhatTheGraphsCannot) {
  const std::vector<Options> by_host = {{{"bad_words_ids", "[[5]]"}}, {{"no_repeat_ngram_size", "2"}},
                                        {{"suppress_tokens", "[4]"}}, {{"guidance_scale", "1.5"}},
                                        {{"top_logprobs", "2"}},      {{"renormalize_logits", "true"}}};
  for (const Options& options : by_host) {
    const Job made = job(command(options));
    EXPECT_NE(made.requests[0].request.chooser, nullptr) << options.begin()->first;
    EXPECT_TRUE(made.sizes.wants_logits) << options.begin()->first;
    EXPECT_TRUE(made.answers_as_made) << options.begin()->first;
  }
  GenerateCommand scores = command();
  scores.output_scores = "scores.safetensors";
  EXPECT_NE(job(scores).requests[0].request.chooser, nullptr);
}

TEST_F(JobTest, LetsTheGraphsChooseWhatTheyCan) {
  const Job made = job(command({{"do_sample", "true"},
                                {"temperature", "0.7"},
                                {"top_k", "5"},
                                {"top_p", "0.9"},
                                {"min_p", "0.1"},
                                {"typical_p", "0.9"},
                                {"repetition_penalty", "1.1"},
                                {"min_new_tokens", "2"}}));
  EXPECT_EQ(made.requests[0].request.chooser, nullptr);
  EXPECT_FALSE(made.sizes.wants_logits);
  EXPECT_EQ(made.requests[0].request.logits, actors::Logits::kOmit);
  EXPECT_EQ(made.requests[0].request.parameters.min_new_tokens, 2);
}

TEST_F(JobTest, AsksForRawLogitsWithoutAChooser) {
  GenerateCommand logits = command();
  logits.output_logits = "logits.safetensors";
  const Job made = job(logits);
  EXPECT_EQ(made.requests[0].request.chooser, nullptr);
  EXPECT_EQ(made.requests[0].request.logits, actors::Logits::kWanted);
  EXPECT_TRUE(made.sizes.wants_logits);
}

TEST_F(JobTest, TakesRawLogitsFromTheChooserWhereThereIsOne) {
  GenerateCommand logits = command({{"num_beams", "2"}});
  logits.output_logits = "logits.safetensors";
  EXPECT_EQ(job(logits).requests[0].request.logits, actors::Logits::kOmit);
}

TEST_F(JobTest, PutsOptionsOnTopOfTheModelsFile) {
  model_.write("generation_config.json", R"({"eos_token_id": [7, 8], "do_sample": true, "max_length": 6, "top_k": 3,
                                             "stop_strings": [], "transformers_version": "5", "colour": "red"})");
  const Job made = job(command({{"top_k", "4"}}));
  const shards::SlotParameters& parameters = made.requests[0].request.parameters;
  EXPECT_THAT(parameters.eos_ids, ElementsAre(7, 8));
  EXPECT_TRUE(parameters.sampling.do_sample);
  EXPECT_EQ(parameters.sampling.top_k, 4);
  EXPECT_THAT(made.warnings, ElementsAre(HasSubstr("colour")));
  GenerateCommand endless = command();
  endless.ignore_eos = true;
  EXPECT_THAT(job(endless).requests[0].request.parameters.eos_ids, IsEmpty());
}

TEST_F(JobTest, FillsTheModelWhereNoLengthIsAsked) {
  GenerateCommand open = command();
  open.max_new_tokens.reset();
  const Job made = job(open);
  EXPECT_EQ(made.sizes.capacity, 64);
  EXPECT_EQ(made.requests[0].request.parameters.max_new_tokens, 64 - 3 + 1);
  EXPECT_EQ(made.requests[1].request.parameters.max_new_tokens, 64 - 2 + 1);
}

TEST_F(JobTest, CountsThePromptToTheGreatestLength) {
  GenerateCommand longest = command({{"max_length", "10"}});
  longest.max_new_tokens.reset();
  const Job made = job(longest);
  EXPECT_EQ(made.sizes.capacity, 9);
  EXPECT_EQ(made.requests[0].request.parameters.max_new_tokens, 7);
  EXPECT_EQ(made.requests[1].request.parameters.max_new_tokens, 8);
  longest.generation["max_length"] = "3";
  expect_refused(longest, "prompt 0 does not fit: found 3 tokens and --max-length 3");
  longest.max_new_tokens = 2;  // goes before it
  EXPECT_EQ(job(longest).requests[0].request.parameters.max_new_tokens, 2);
}

TEST_F(JobTest, TakesTheLengthOfTheModelsFileWhereNoOptionGivesOne) {
  model_.write("generation_config.json", R"({"max_length": 10})");
  const auto budget_of = [this](const GenerateCommand& command) {
    return job(command).requests[0].request.parameters.max_new_tokens;
  };
  EXPECT_EQ(budget_of(command()), 5);  // --max-new-tokens goes before it
  GenerateCommand open = command();
  open.max_new_tokens.reset();
  EXPECT_EQ(budget_of(open), 10 - 3);
  GenerateCommand longest = open;
  longest.generation["max_length"] = "12";
  EXPECT_EQ(budget_of(longest), 12 - 3);
  model_.write("generation_config.json", R"({"max_length": 10, "max_new_tokens": 4})");
  EXPECT_EQ(budget_of(open), 4);
  EXPECT_EQ(budget_of(longest), 12 - 3);
  model_.write("generation_config.json", R"({"max_length": 3})");
  expect_refused(open, "found 3 tokens and the max_length of generation_config.json 3, expected a length beyond");
}

TEST_F(JobTest, LeavesOutWhatIsMaskedUnlessAWindowWouldCountIt) {
  const GenerateCommand holes = command({}, R"([{"ids": [1, 9, 9, 3, 4], "mask": [1, 0, 0, 1, 1]}])");
  const auto prepare_with = [&](checkpoint::ModelSpec spec) { return prepare_job(holes, spec, clock_); };
  checkpoint::ModelSpec spec = checkpoint::parse_spec(kTinyLlama, "tiny").value();
  EXPECT_THAT(prepare_with(spec).value().requests[0].request.ids, ElementsAre(1, 3, 4));
  spec.windows = {0, 9};  // 5 ids and 4 of the 5 new ones
  EXPECT_TRUE(prepare_with(spec).has_value());
  checkpoint::ModelSpec narrow = spec, stretched = spec;
  narrow.windows = {0, 8};
  stretched.windows.clear();
  stretched.rope.kind = checkpoint::RopeSpec::Kind::kLongrope;
  stretched.rope.original_max_positions = 8;
  for (const checkpoint::ModelSpec& other : {narrow, stretched}) {
    const auto refused = prepare_with(other);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(refused.error().message,
                HasSubstr("found 2 masked tokens inside and up to 9 tokens in all, expected at "
                          "most 8"));
  }
}

TEST_F(JobTest, RefusesWhatDoesNotFitTheSlots) {
  GenerateCommand small = command();
  small.model.max_seq_len = 6;
  expect_refused(small, "found 3 tokens and --max-new-tokens 5, expected at most 7 together");
  small.model.max_seq_len = 2;
  expect_refused(small, "found 3 tokens, expected at most 2");
  small.model.max_seq_len = 65;
  expect_refused(small, "--max-seq-len: found 65, expected at most 64");
  expect_refused(command({}, "[]"), "no prompts");
}

TEST_F(JobTest, GoesBeyondTheModelsPositionsWhereTheyHaveNoEnd) {
  checkpoint::ModelSpec streaming = checkpoint::parse_spec(kTinyLlama, "tiny").value();
  streaming.windows = {8, 8};
  streaming.pinned_sinks = 2;
  GenerateCommand longer = command();
  longer.max_new_tokens = 100;
  EXPECT_EQ(prepare_job(longer, streaming, clock_).value().sizes.capacity, 102);
  expect_refused(longer, "found 3 tokens and --max-new-tokens 100");
}

TEST_F(JobTest, RunsANegativePromptBesideEachPrompt) {
  const Job made = job(command({{"guidance_scale", "2"}}, R"([{"ids": [1, 3], "negative": [4, 5, 6, 7, 8]}, [9]])"));
  ASSERT_EQ(made.requests.size(), 2u);
  EXPECT_EQ(made.requests[0].request.chooser->rows(), 2);
  EXPECT_THAT(made.requests[0].request.chooser->prompts()[1], ElementsAre(4, 5, 6, 7, 8));
  EXPECT_THAT(made.requests[1].request.chooser->prompts()[1], ElementsAre(9));
  EXPECT_EQ(made.sizes.capacity, 5 + 5 - 1);
  EXPECT_EQ(made.sizes.slots, 4);
}

TEST_F(JobTest, RefusesANegativePromptThatDoesNotFit) {
  GenerateCommand small = command({{"guidance_scale", "2"}}, R"([{"ids": [1], "negative": [4, 5, 6]}])");
  small.model.max_seq_len = 2;
  expect_refused(small, "found 3 tokens, expected at most 2");
  small.model.max_seq_len = 6;
  expect_refused(small, "found 3 tokens and --max-new-tokens 5");
}

TEST_F(JobTest, GivesOneNegativeTextToAllPromptsOrOneToEach) {
  add_tokenizer();
  GenerateCommand texts = command({{"guidance_scale", "2"}});
  texts.prompts = {.texts = {"a", "b", "c"}};
  texts.negative_prompts = {"bc"};
  for (const JobRequest& made : job(texts).requests) {
    EXPECT_THAT(made.request.chooser->prompts()[1], ElementsAre(generation::kBc));
  }
  texts.negative_prompts = {"a", "b", "ab"};
  EXPECT_THAT(job(texts).requests[2].request.chooser->prompts()[1], ElementsAre(generation::kAb));
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
  model_.write("generation_config.json", R"({"stop_strings": ["b"]})");
  expect_refused(command(), "tokenizer.json", ErrorKind::kNotFound);
  add_tokenizer();
  EXPECT_THAT(job(command()).stop_strings, ElementsAre("b"));
  stops.stop_strings = {"c"};
  EXPECT_THAT(job(stops).stop_strings, ElementsAre("c"));
  EXPECT_THAT(job(texts).requests[0].request.ids, ElementsAre(generation::kAb));
}

TEST_F(JobTest, StopsInTimeWhenAskedTo) {
  EXPECT_EQ(job(command()).max_time, std::nullopt);
  EXPECT_EQ(job(command({{"max_time", "1.5"}})).max_time, std::chrono::milliseconds(1500));
}

TEST_F(JobTest, DraftsByLookupOrByAModel) {
  const JobSizes lookup = job(command({{"prompt_lookup_num_tokens", "3"}, {"max_matching_ngram_size", "4"}})).sizes;
  EXPECT_EQ(lookup.drafts, 3);
  EXPECT_EQ(lookup.ngram, 4);
  GenerateCommand drafted = command({{"num_assistant_tokens", "6"}});
  drafted.draft_model = "small";
  EXPECT_EQ(job(drafted).sizes.drafts, 6);
  EXPECT_EQ(job(drafted).sizes.ngram, 0);
  EXPECT_EQ(job(command()).sizes.drafts, 0);
}

TEST_F(JobTest, RefusesDraftsBesideWhatTheyCannotServe) {
  GenerateCommand drafted = command();
  drafted.draft_model = "small";
  GenerateCommand two = drafted;
  two.generation["prompt_lookup_num_tokens"] = "3";
  expect_refused(two, "found --draft-model and prompt_lookup_num_tokens");
  GenerateCommand beams = drafted;
  beams.generation["num_beams"] = "4";
  expect_refused(beams, "found drafts and num_beams");
  GenerateCommand words = drafted;
  words.generation = {{"bad_words_ids", "[[5]]"}, {"top_logprobs", "1"}};
  expect_refused(words, "found drafts and bad_words_ids, top_logprobs");
  GenerateCommand logits = drafted;
  logits.output_logits = "logits.safetensors";
  expect_refused(logits, "found drafts and --output-logits");
}

TEST_F(JobTest, NamesAnOptionOfTheWrongForm) {
  expect_refused(command({{"top_k", "5.5"}}), "top_k: found 5.5");
  expect_refused(command({{"bad_words_ids", "[5, 6"}}), "bad_words_ids: found");
  expect_refused(command({{"early_stopping", "\"perhaps\""}}), "early_stopping");
}

TEST(JobSizes, ReadBackFromTheirText) {
  const JobSizes sizes{.slots = 3, .capacity = 700, .drafts = 5, .ngram = 2, .wants_logits = true};
  EXPECT_EQ(parse_sizes(to_text(sizes)).value(), sizes);
  EXPECT_EQ(parse_sizes(to_text(JobSizes{})).value(), JobSizes{});
  EXPECT_EQ(parse_sizes("0 5 0 0 0").value().slots, 0);  // nothing to do
  for (const char* wrong : {"", "3", "-1 5 0 0 0", "3 0 0 0 0", "1 2 3 4 yes"}) {
    EXPECT_EQ(parse_sizes(wrong).error().kind, ErrorKind::kInternal) << wrong;
  }
}

}  // namespace
}  // namespace lockstep::launcher
