// Texts of requests that another engine began: stop strings span the tokens before and after the interruption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/requests/history.h"
#include "tests/engine/engine_fixture.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep {
namespace {

class RestoredTextTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    folder_.write("tokenizer.json", generation::kTinyTokenizer);
  }

  /// Only ids that the tiny tokenizer has.
  Request text_request(const std::string& stop_strings) const {
    return request(prompt_, {{"max_new_tokens", "12"},
                             {"suppress_tokens", "[11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31]"},
                             {"stop_strings", stop_strings}});
  }

  Answer answer_alone(const std::string& stop_strings) const {
    const auto group = Group::alone().value();
    const auto engine = open(*group);
    Answer answer = engine->submit(text_request(stop_strings)).value().wait().value().at(0);
    EXPECT_TRUE(engine->close().has_value());
    return answer;
  }

  struct Streamed {
    Answer answer;
    std::vector<std::string> pieces;  // of each token, and maybe a last one without
  };
  /// What a client hears that had the tokens of `delivered` before.
  Streamed streamed(const std::string& stop_strings, std::vector<int32_t> delivered) const {
    Streamed heard;
    Request request = text_request(stop_strings);
    if (!delivered.empty()) request.delivered = {std::move(delivered)};
    request.on_token = [&](const Token& token) {
      heard.pieces.emplace_back(token.text);
      return Verdict::kContinue;
    };
    const auto group = Group::alone().value();
    const auto engine = open(*group);
    heard.answer = engine->submit(std::move(request)).value().wait().value().at(0);
    EXPECT_TRUE(engine->close().has_value());
    return heard;
  }

  /// The answer of two ranks to a request whose first `tokens` tokens another engine has made.
  Answer restored(const std::string& stop_strings, const Answer& expected, size_t tokens) const {
    const requests::SuspendedRequest suspended{
        .ids = prompt_,
        .config = text_request(stop_strings).config,
        .answers = {{.ids = {expected.ids.begin(), expected.ids.begin() + static_cast<ptrdiff_t>(tokens)}}}};
    const auto group = Group::threads(2).value();
    const auto engine = open(*group);
    auto handles = engine->restore(requests::to_text({suspended}, engine->facts().identity)).value();
    Answer answer = handles.at(0).wait().value().at(0);
    EXPECT_TRUE(engine->close().has_value());
    return answer;
  }
};

TEST_F(RestoredTextTest, StopStringsSpanTheInterruption) {
  const std::string text = answer_alone("[]").text;
  ASSERT_GE(text.size(), 6u);
  const std::string stop = text.substr(text.size() - 4, 3);  // of several tokens, not the last ones
  const std::string stop_strings = "[\"" + stop + "\"]";
  const Answer expected = answer_alone(stop_strings);
  EXPECT_EQ(expected.reason, FinishReason::kStop);
  ASSERT_GE(expected.ids.size(), 3u);
  for (size_t tokens = 1; tokens < expected.ids.size(); ++tokens) {
    const Answer answer = restored(stop_strings, expected, tokens);
    EXPECT_EQ(answer.ids, expected.ids) << "after " << tokens << " tokens";
    EXPECT_EQ(answer.text, expected.text) << "after " << tokens << " tokens";
    EXPECT_EQ(answer.reason, FinishReason::kStop) << "after " << tokens << " tokens";
  }
}

TEST_F(RestoredTextTest, AStreamGoesOnWithTheNextCharacterAfterEachNumberOfTokens) {
  const std::string text = answer_alone("[]").text;
  // A string that ends the text, one that never comes but withholds text, and none.
  for (const std::string& stop :
       {text.substr(text.size() - 4, 3), text.substr(text.size() - 1) + "zz", std::string()}) {
    const std::string stop_strings = stop.empty() ? "[]" : "[\"" + stop + "\"]";
    const Streamed whole = streamed(stop_strings, {});
    for (size_t tokens = 0; tokens <= whole.answer.ids.size(); ++tokens) {
      SCOPED_TRACE(::testing::Message() << "stop string '" << stop << "', after " << tokens << " tokens");
      const Streamed rest =
          streamed(stop_strings, {whole.answer.ids.begin(), whole.answer.ids.begin() + static_cast<ptrdiff_t>(tokens)});
      EXPECT_EQ(rest.answer.ids, whole.answer.ids);
      EXPECT_EQ(rest.answer.text, whole.answer.text);
      EXPECT_EQ(rest.answer.reason, whole.answer.reason);
      EXPECT_EQ(rest.answer.stop_string, whole.answer.stop_string);
      EXPECT_THAT(rest.pieces, ::testing::ElementsAreArray(whole.pieces.begin() + static_cast<ptrdiff_t>(tokens),
                                                           whole.pieces.end()));
    }
  }
}

TEST_F(RestoredTextTest, AnEngineWhoseBitsDifferRefusesTheRequests) {
  const auto identity = [](int ranks, const Model& model, const EngineOptions& options) {
    const auto group = Group::threads(ranks).value();
    const auto engine = Engine::open(*group, model, options).value();
    EXPECT_TRUE(engine->close().has_value());
    return engine->facts().identity;
  };
  const std::string own = identity(1, model(), small());
  EngineOptions larger = small(), portable = small(), fast = small();
  larger.slots = 5;
  larger.prefill_chunk = 3;
  EXPECT_EQ(identity(2, model(), larger), own);
  portable.backend_options = {{"instruction-set", "portable"}};
  EXPECT_NE(identity(1, model(), portable), own);
  fast.partition.numerics = partition::Numerics::kFast;
  EXPECT_NE(identity(1, model(), fast), own);
  EXPECT_NE(identity(1, Model::open(folder_.path(), {.dtype = DType::kBFloat16}).value(), small()), own);

  model::write_hashed_weights(folder_.path(), model::llama_tensors(), /*seed=*/4, {});
  const auto group = Group::threads(1).value();
  const auto engine = open(*group);
  EXPECT_NE(engine->facts().identity, own);
  const auto restored = engine->restore(requests::to_text({{.ids = prompt_}}, own));
  ASSERT_FALSE(restored.has_value());
  EXPECT_EQ(restored.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_TRUE(engine->close().has_value());
}

}  // namespace
}  // namespace lockstep
