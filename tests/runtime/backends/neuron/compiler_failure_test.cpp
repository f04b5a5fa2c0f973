#include "runtime/backends/neuron/compiler/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace lockstep::neuron {
namespace {

using process::ChildOutcome;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

Error explained(ChildOutcome outcome, std::string log = "") {
  outcome.took = 1500ms;
  return explain({.step = "decode_2048",
                  .target = "trn1",
                  .program = "neuronx-cc",
                  .deadline = 90s,
                  .outcome = std::move(outcome),
                  .log = std::move(log)});
}

struct LogCase {
  std::string log;
  ErrorKind kind;
  std::string what;
  std::string advice;
};

class KnownFailure : public ::testing::TestWithParam<LogCase> {};

TEST_P(KnownFailure, IsExplained) {
  const Error error = explained({.code = 70}, "some line\n" + GetParam().log + "\nanother line\n");
  EXPECT_EQ(error.kind, GetParam().kind);
  EXPECT_THAT(error.message,
              AllOf(StartsWith("[runtime/backends/neuron] neuronx-cc did not compile decode_2048 for trn1: found exit "
                               "code 70 after 1.5 s: "),
                    HasSubstr(GetParam().what), HasSubstr(GetParam().advice), HasSubstr("\n    " + GetParam().log)));
}

INSTANTIATE_TEST_SUITE_P(
    , KnownFailure,
    ::testing::Values(
        LogCase{"[F137] neuronx-cc was forcibly killed", ErrorKind::kResourceExhausted, "this machine's memory ran out",
                "fewer graphs at once (--jobs)"},
        LogCase{"MemoryError", ErrorKind::kResourceExhausted, "this machine's memory ran out", "-O1"},
        LogCase{"Too many instructions after unroll for function sg0000", ErrorKind::kUnsupported,
                "too many instructions", "add -O1 to the flags of this phase (--neuron-cc-flags-prefill"},
        LogCase{"[NCC_EBVF030] limit", ErrorKind::kUnsupported, "too many instructions", "--tp"},
        LogCase{"Estimated peak HBM usage exceeds 16GB", ErrorKind::kResourceExhausted,
                "does not fit the memory of a core", "--max-seq-len"},
        LogCase{"[NCC_EVRF001] xor", ErrorKind::kUnsupported, "does not know an operation", "list-operators"},
        LogCase{"[NCC_EVRF064] shapes", ErrorKind::kInternal, "refused the module as malformed", "--modules"},
        LogCase{"error: unrecognized arguments: --x", ErrorKind::kInvalidArgument, "does not know a flag",
                "neuronx-cc compile --help"},
        LogCase{"[NCC_EARG001] lnc", ErrorKind::kInvalidArgument, "no logical cores of that size", "--lnc"},
        LogCase{"OSError: [Errno 28] No space left on device", ErrorKind::kUnavailable, "no space is left", "TMPDIR"},
        LogCase{"[F139] neuronx-cc terminated abnormally", ErrorKind::kFailedPrecondition, "it crashed",
                "another version"}));

TEST(FailedCompilation, ThatNobodyKnowsShowsTheEndOfTheLog) {
  std::string log;
  for (int line = 1; line <= 40; ++line) log += "line " + std::to_string(line) + "\n\n";
  const Error error = explained({.code = 1}, log);
  EXPECT_EQ(error.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("found exit code 1 after 1.5 s; the end of its log may say why. The end of "
                              "its log:\n    line 29\n    line 30\n"),
                    Not(HasSubstr("line 28")), EndsWith("\n    line 40")));
}

TEST(FailedCompilation, ThatASignalEndedSaysWhichAndWhatItMeans) {
  const Error killed = explained({.code = {}, .signal = SIGKILL}, "compiling\n");
  EXPECT_EQ(killed.kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(killed.message, AllOf(HasSubstr("found signal 9 (Killed)"), HasSubstr("because memory ran out"),
                                    HasSubstr("more memory")));
  EXPECT_EQ(explained({.code = 137}).kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(explained({.code = {}, .signal = SIGTERM}).kind, ErrorKind::kCancelled);
  const Error crashed = explained({.code = {}, .signal = SIGSEGV});
  EXPECT_EQ(crashed.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(crashed.message, AllOf(HasSubstr("signal 11"), HasSubstr("it crashed"), Not(HasSubstr("its log"))));
}

TEST(FailedCompilation, AtItsDeadlineSaysThatEverythingWasEnded) {
  const Error late = explained({.end = ChildOutcome::End::kDeadline, .code = {}, .signal = SIGKILL}, "still busy");
  EXPECT_EQ(late.kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(late.message, AllOf(HasSubstr("it did not end within 90 s: it and what it had started were ended; raise"),
                                  EndsWith("\n    still busy")));
}

TEST(FailedCompilation, ThatEndedWellButMadeNothingSaysSo) {
  const Error empty = explained({.code = 0}, "fine\n");
  EXPECT_EQ(empty.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(empty.message, HasSubstr("found no artifact after 1.5 s, though it ended well; "));
}

}  // namespace
}  // namespace lockstep::neuron
