#include "tests/serve/api/api_fixture.h"

namespace lockstep::serve {
namespace {

using Endpoints = ApiTest;

TEST_F(Endpoints, ListTheModel) {
  const Document model = Document::parse(R"({"id": "tiny", "object": "model", "created": 7, "owned_by": "lockstep",
                                             "root": "tiny", "max_model_len": 64})");
  EXPECT_EQ(send("GET", "/v1/models")->json(), Document({{"object", "list"}, {"data", {model}}, {"models", {model}}}));
  EXPECT_EQ(send("GET", "/v1/models/tiny")->json(), model);
  const auto unknown = send("GET", "/v1/models/org/other");
  EXPECT_EQ(unknown->status(), 404);
  EXPECT_EQ(unknown->json()["error"]["code"], "model_not_found");
}

TEST_F(Endpoints, TokenizeTexts) {
  EXPECT_EQ(post("/tokenize", {{"prompt", "ab"}})->json(),
            Document({{"tokens", {256, 97, 98}}, {"count", 3}, {"max_model_len", 64}}));
  EXPECT_EQ(post("/tokenize", {{"prompt", "ab"}, {"add_special_tokens", false}})->json()["tokens"], Document({97, 98}));
  EXPECT_EQ(post("/tokenize", {{"prompt", "→"}, {"add_special_tokens", false}, {"return_token_strs", true}})
                ->json()["token_strs"][0],
            "bytes:\\xe2");
}

TEST_F(Endpoints, TokenizeConversations) {
  const auto with = post("/tokenize", {{"messages", user_says("a")}});
  const auto without = post("/tokenize", {{"messages", user_says("a")}, {"add_generation_prompt", false}});
  EXPECT_EQ(without->json()["tokens"], Document({258, 'u', 's', 'e', 'r', ':', 'a'}));
  EXPECT_EQ(with->json()["count"], 18);
}

TEST_F(Endpoints, DetokenizeIds) {
  EXPECT_EQ(post("/detokenize", {{"tokens", {258, 104, 105}}})->json(), Document({{"prompt", "<|turn|>hi"}}));
  EXPECT_EQ(post("/detokenize", {{"tokens", {259}}})->status(), 400);  // an id of the model without a token
}

TEST_F(Endpoints, DescribeTheTokenizer) {
  const Document info = send("GET", "/tokenizer_info")->json();
  EXPECT_EQ(info["eos_token"], "</s>");
  EXPECT_EQ(info["bos_token"], "<s>");
  EXPECT_EQ(info["vocab_size"], 260);
  EXPECT_TRUE(info["chat_template"].get<std::string>().starts_with("{% for m in messages %}"));
}

TEST_F(Endpoints, ReportAnswersThatNeedNoEngine) {
  send("GET", "/v1/models");
  post("/tokenize", {{"prompt", 1}});
  EXPECT_THAT(observer_.lines, ::testing::ElementsAre("answered /v1/models r1 127.0.0.1:5000 200",
                                                      "answered /tokenize r1 127.0.0.1:5000 400"));
}

TEST_F(Endpoints, ServeAModelWithoutAChatTemplate) {
  std::filesystem::remove(directory_ / "tokenizer_config.json");
  restart();
  EXPECT_EQ(send("GET", "/tokenizer_info")->json()["eos_token"], "</s>");
  const auto refused = chat({{"messages", user_says("a")}});
  EXPECT_EQ(refused->status(), 400);
  EXPECT_THAT(refused->json()["error"]["message"].get<std::string>(), ::testing::HasSubstr("use /v1/completions"));
}

}  // namespace
}  // namespace lockstep::serve
