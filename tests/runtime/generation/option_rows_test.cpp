#include "runtime/generation/option_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lockstep::generation {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A value of the option's form, as JSON text, that is not the default of any option.
std::string other_value(const GenerationOption& option) {
  switch (option.form) {
    case OptionForm::kFlag: return "true";
    case OptionForm::kNumber: return "0.375";
    case OptionForm::kWhole: return "7";
    case OptionForm::kIds: return "[11]";
    case OptionForm::kWord: return "\"never\"";
    case OptionForm::kTexts: return "[\"x\"]";
    case OptionForm::kJson: break;
  }
  const std::map<std::string_view, std::string> forms = {{"sequence_bias", "[[[5], 1.5]]"},
                                                         {"bad_words_ids", "[[5]]"},
                                                         {"exponential_decay_length_penalty", "[3, 1.5]"},
                                                         {"watermarking_config", "{\"bias\": 1.5}"}};
  return forms.at(option.name);
}

/// The default except for one option.
GenerationConfig changed(const GenerationOption& option) {
  GenerationConfig config;
  EXPECT_TRUE(config.set(option.name, other_value(option)).has_value()) << option.name;
  return config;
}

/// That every field has a row is a static_assert; that no field has two is shown here.
TEST(OptionRows, ChangeAFieldOfTheirOwn) {
  for (const GenerationOption& one : generation_options()) {
    EXPECT_NE(changed(one), GenerationConfig()) << one.name;
    for (const GenerationOption& other : generation_options()) {
      if (&one == &other || one.form != other.form) continue;
      EXPECT_NE(changed(one), changed(other)) << one.name << " and " << other.name;
    }
  }
}

TEST(OptionRows, AreFoundByTheirNames) {
  for (const GenerationOption& option : generation_options()) {
    EXPECT_EQ(find_generation_option(option.name), &option) << option.name;
  }
  EXPECT_EQ(find_generation_option("num_beam_groups"), nullptr);
}

TEST(OptionRows, SayWhatIsAllowedWhereAValueIsRefused) {
  size_t refused = 0;
  for (const GenerationOption& option : generation_options()) {
    if (option.form != OptionForm::kNumber && option.form != OptionForm::kWhole) continue;
    GenerationConfig config;
    // Options of draws are checked where something is drawn.
    config.do_sample = true;
    if (!config.set(option.name, "-1").has_value()) continue;  // of the seed
    const auto valid = config.validate();
    EXPECT_EQ(valid.has_value(), option.allowed.empty() || option.allowed.starts_with("a finite number"))
        << option.name;
    if (valid.has_value()) continue;
    EXPECT_THAT(valid.error().message, HasSubstr(std::string(option.name) + ": found -1, expected "));
    EXPECT_THAT(valid.error().message, HasSubstr(std::string(option.allowed)));
    ++refused;
  }
  EXPECT_GT(refused, 20U);
}

TEST(OptionRows, NameTheirFlagsWithDashes) {
  EXPECT_EQ(flag_of(*find_generation_option("top_k")), "--top-k");
  EXPECT_EQ(flag_of(*find_generation_option("stop_strings")), "--stop");
}

TEST(OptionRows, HaveTheDefaultsOfTheFields) {
  const auto default_of = [](std::string_view name) { return find_generation_option(name)->default_value(); };
  EXPECT_EQ(default_of("top_k"), "50");
  EXPECT_EQ(default_of("temperature"), "1");
  EXPECT_EQ(default_of("do_sample"), "false");
  EXPECT_EQ(default_of("early_stopping"), "false");
  EXPECT_EQ(default_of("max_time"), "none");
  EXPECT_EQ(default_of("bad_words_ids"), "none");
}

TEST(OptionRows, LeaveTheGraphsWhenTheHostAppliesThem) {
  for (const GenerationOption& option : generation_options()) {
    GenerationConfig config = changed(option);
    config.do_sample = true;
    if (option.name == "length_penalty" || option.name == "early_stopping") {
      EXPECT_THAT(host_choices(config), IsEmpty()) << "beams' own, without beams";
      config.num_beams = 2;
    }
    if (option.applied_by == AppliedBy::kHost) {
      EXPECT_THAT(host_choices(config), ::testing::Contains(option.name));
    } else {
      EXPECT_THAT(host_choices(config), IsEmpty()) << option.name;
    }
  }
  EXPECT_THAT(host_choices(changed(*find_generation_option("top_h"))), IsEmpty()) << "without sampling";
}

}  // namespace
}  // namespace lockstep::generation
