#include <gtest/gtest.h>

#include "launcher/serve/output/output_reader.h"

namespace lockstep::serve {
namespace {

TEST(DetectFormat, KnowsTheFormatsByWhatTheirTemplatesContain) {
  const auto tools = [](const char* source) { return detect_format(source, "").tools; };
  EXPECT_EQ(tools("<|im_start|> … <tool_call>"), "hermes");
  EXPECT_EQ(tools("'<|im_start|>' + message['role']"), "hermes");
  EXPECT_EQ(tools("<|start_header_id|> … <|python_tag|>"), "llama3");
  EXPECT_EQ(tools("[INST] [TOOL_CALLS] ["), "mistral");
  EXPECT_EQ(tools("[TOOL_CALLS] name [ARGS]"), "mistral_args");
  EXPECT_EQ(tools("<|tool|> tools <|/tool|>"), "phi");
  EXPECT_EQ(tools("<｜tool▁calls▁begin｜>"), "deepseek");
  EXPECT_EQ(tools("<start_function_call>call:"), "gemma");
  EXPECT_EQ(tools("<|start|>assistant<|channel|>final<|message|>"), "harmony");
  EXPECT_EQ(tools("<tool_call><function=f><parameter=x>"), "qwen_xml");
  EXPECT_EQ(tools("<function=f>{}</function>"), "");
  EXPECT_EQ(tools("{{ messages }}"), "");
}

TEST(DetectFormat, TellsFromThePromptWhetherTheAnswerBeginsInReasoning) {
  const auto begins = [](const char* rendered) { return detect_format("<think>", rendered).begins_in_reasoning; };
  EXPECT_TRUE(begins("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(begins("<|im_start|>assistant\n"));
  EXPECT_FALSE(begins("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_EQ(detect_format("{{ messages }}", "<think>").reasoning, "");
}

}  // namespace
}  // namespace lockstep::serve
