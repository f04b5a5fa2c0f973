#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/backends/neuron/compiler/neuronx_cc.h"

namespace lockstep::neuron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string command_line(const CompilerOptions& options, Phase phase) {
  return fmt::format("{}", fmt::join(compile_words(options, phase, "w/step.hlo.pb", "w/step.neff"), " "));
}

CompilerOptions with_flags(Target target, std::vector<std::string> prefill, std::vector<std::string> decode) {
  return {.target = target, .prefill_flags = std::move(prefill), .decode_flags = std::move(decode)};
}

TEST(CompilerFlags, AreThoseOfTheTargetAndThePhase) {
  EXPECT_EQ(command_line({.target = Target::kTrn1}, Phase::kPrefill),
            "neuronx-cc compile --framework XLA --target trn1 w/step.hlo.pb --output w/step.neff "
            "--model-type=transformer --auto-cast=none --enable-saturate-infinity -O1");
  EXPECT_EQ(command_line({.target = Target::kTrn1}, Phase::kDecode),
            "neuronx-cc compile --framework XLA --target trn1 w/step.hlo.pb --output w/step.neff "
            "--model-type=transformer --auto-cast=none --enable-saturate-infinity -O2");
  EXPECT_EQ(command_line({.target = Target::kTrn2}, Phase::kPrefill),
            "neuronx-cc compile --framework XLA --target trn2 w/step.hlo.pb --output w/step.neff "
            "--model-type=transformer --auto-cast=none --enable-saturate-infinity -O1 --lnc=2");
  EXPECT_EQ(command_line({.target = Target::kTrn2}, Phase::kDecode),
            "neuronx-cc compile --framework XLA --target trn2 w/step.hlo.pb --output w/step.neff "
            "--model-type=transformer --auto-cast=none --enable-saturate-infinity -O2 --lnc=2");
  EXPECT_EQ(command_line({.target = Target::kInf2}, Phase::kDecode),
            "neuronx-cc compile --framework XLA --target inf2 w/step.hlo.pb --output w/step.neff "
            "--model-type=transformer --auto-cast=none --enable-saturate-infinity -O2");
}

TEST(CompilerFlags, OfTheUserReplaceTheDefaultOfTheSameNameAndAreAddedOtherwise) {
  const CompilerOptions options =
      with_flags(Target::kTrn2, {}, {"--optlevel", "1", "-lnc=1", "--auto-cast", "matmult", "--enable-x"});
  EXPECT_THAT(compiler_flags(options, Phase::kDecode),
              ElementsAre("--model-type=transformer", "--enable-saturate-infinity", "--optlevel", "1", "-lnc=1",
                          "--auto-cast", "matmult", "--enable-x"));
  EXPECT_THAT(compiler_flags(options, Phase::kPrefill), ElementsAre("--model-type=transformer", "--auto-cast=none",
                                                                    "--enable-saturate-infinity", "-O1", "--lnc=2"));
}

TEST(CompilerFlags, OfVerificationAreThoseOfDecode) {
  EXPECT_EQ(phase_of("prefill"), Phase::kPrefill);
  EXPECT_EQ(phase_of("prefill_512"), Phase::kPrefill);
  EXPECT_EQ(phase_of("decode_2048"), Phase::kDecode);
  EXPECT_EQ(phase_of("verify"), Phase::kDecode);
}

TEST(CompilerFlags, AreCutAtBlanksOutsideQuotes) {
  EXPECT_THAT(split_flags("").value(), ElementsAre());
  EXPECT_THAT(split_flags("  -O1\t--lnc=1 ").value(), ElementsAre("-O1", "--lnc=1"));
  EXPECT_THAT(split_flags("--tensorizer-options='--a=1 --b' -O2 \"\" x\\ y").value(),
              ElementsAre("--tensorizer-options=--a=1 --b", "-O2", "", "x y"));
  const auto open = split_flags("--x='1 2");
  ASSERT_FALSE(open.has_value());
  EXPECT_EQ(open.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(open.error().message, HasSubstr("a ' that is not closed"));
}

TEST(CompilerFlags, SayHowManyCoresMakeOne) {
  EXPECT_EQ(CompilerOptions{.target = Target::kTrn1}.cores_per_logical_core(), 1);
  EXPECT_EQ(CompilerOptions{.target = Target::kTrn2}.cores_per_logical_core(), 2);
  const CompilerOptions single = with_flags(Target::kTrn2, {"--logical-nc-config", "1"}, {"--lnc=1"});
  EXPECT_TRUE(single.validate().has_value());
  EXPECT_EQ(single.cores_per_logical_core(), 1);
}

/// The message of options that are refused.
std::string refusal(const CompilerOptions& options) {
  const auto checked = options.validate();
  if (checked.has_value()) return "accepted";
  EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
  return checked.error().message;
}

TEST(CompilerFlags, MustNotSayWhatThisProgramSays) {
  EXPECT_THAT(refusal(with_flags(Target::kTrn1, {"--target=trn2"}, {})),
              HasSubstr("--neuron-cc-flags-prefill: found --target, expected other flags; choose the target with"));
  EXPECT_THAT(refusal(with_flags(Target::kTrn1, {}, {"-o", "x"})),
              HasSubstr("--neuron-cc-flags-decode: found --output"));
}

TEST(CompilerFlags, MustAgreeAboutLogicalCores) {
  EXPECT_THAT(refusal(with_flags(Target::kTrn2, {"--lnc=1"}, {})),
              HasSubstr("--lnc: found 1 for prefill and 2 for decode, expected 1 or 2 for both"));
  EXPECT_THAT(refusal(with_flags(Target::kTrn1, {"--lnc=2"}, {"--lnc=2"})), HasSubstr("expected none or 1"));
  EXPECT_THAT(refusal(with_flags(Target::kTrn2, {"--lnc=x"}, {"--lnc=x"})), HasSubstr("found x for prefill"));
}

TEST(CompilerFlags, ComeWithADeadlineAndAProgram) {
  EXPECT_THAT(refusal({.deadline = Duration::zero()}), HasSubstr("within 0 s, expected a positive deadline"));
  EXPECT_THAT(refusal({.program = ""}), HasSubstr("found no program"));
}

TEST(Target, HasANameThatReadsBack) {
  for (const Target target : {Target::kTrn1, Target::kTrn2, Target::kInf2}) {
    EXPECT_EQ(target_from_name(to_string(target)), target);
  }
  EXPECT_EQ(target_from_name("trn9"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::neuron
