// Templates in the styles of published models, and a line for each part of the language, give the text of jinja2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/text/jinja/template.h"

namespace lockstep::jinja {
namespace {

using Json = nlohmann::ordered_json;

const std::string kFolder = std::string(LOCKSTEP_TEXT_GOLDENS) + "/chat/";

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

Json golden() {
  auto json = Json::parse(read(kFolder + "chat.json"), nullptr, false);
  EXPECT_TRUE(json.is_object()) << "chat.json is missing: run tools/make_chat_goldens.py";
  return json;
}

Result<std::string> render(const std::string& source, const Json& context) {
  LOCKSTEP_TRY(const Template parsed, Template::parse(source));
  LOCKSTEP_TRY(const Value variables, parse_json(context.dump(), "the test's context"));
  return parsed.render(*variables.dict(), std::nullopt);
}

void expect_like_jinja2(const std::string& source, const Json& context, const Json& text) {
  const auto rendered = render(source, context);
  if (text.is_null()) {
    ASSERT_FALSE(rendered.has_value()) << rendered.value();
    EXPECT_THAT(rendered.error().message, ::testing::HasSubstr("line "));
  } else {
    ASSERT_TRUE(rendered.has_value()) << rendered.error().message;
    EXPECT_EQ(rendered.value(), text.get<std::string>());
  }
}

TEST(ChatTemplates, RenderConversationsInTheStylesOfPublishedModelsLikeJinja2) {
  const Json all = golden();
  ASSERT_GT(all["cases"].size(), 100u);
  for (const auto& entry : all["cases"]) {
    const auto name = entry["template"].get<std::string>();
    SCOPED_TRACE(name + " " + entry["context"].dump());
    expect_like_jinja2(read(kFolder + name), entry["context"], entry["text"]);
  }
}

TEST(ChatTemplates, DoWhatJinja2DoesWithEverySnippetOrFailWhereItFails) {
  const Json all = golden();
  ASSERT_GT(all["snippets"].size(), 50u);
  for (const auto& entry : all["snippets"]) {
    SCOPED_TRACE(entry["source"].dump());
    expect_like_jinja2(entry["source"].get<std::string>(), all["snippet_context"], entry["text"]);
  }
}

}  // namespace
}  // namespace lockstep::jinja
