// The demo model's own tokenizer and chat template: ids and texts of the `tokenizers` package. Fails, and does not
// skip, when the model is absent: scripts/demo fetches it.
#include <gtest/gtest.h>

#include "runtime/text/chat_template.h"
#include "tests/runtime/text/tokenizer_golden.h"

namespace lockstep::text {
namespace {

const std::filesystem::path kModel = LOCKSTEP_DEMO_MODEL_DIR;

TEST(SmolLm2Tokenizer, EncodesAndDecodesLikeTheTokenizersPackage) {
  const auto tokenizer = load_tokenizer(kModel);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer.value()->vocabulary(), 49152);
  expect_golden(*tokenizer.value(), std::filesystem::path(LOCKSTEP_GOLDENS_DIR) / "smollm2_tokenizer.json");
}

TEST(SmolLm2Chat, PutsTheSystemMessageInFrontAndAsksForAnAnswer) {
  const auto chat = load_chat(kModel);
  ASSERT_TRUE(chat.has_value()) << chat.error().message;
  EXPECT_EQ(chat.value().usual.parsed->render({{"user", "Hi"}}, {.eos_token = chat.value().eos_token}).value(),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace lockstep::text
