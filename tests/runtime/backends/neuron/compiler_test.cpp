// The driver with the stand-in compiler as a child process.
#include "runtime/backends/neuron/compiler/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "runtime/backends/neuron/compiler/neuronx_cc.h"
#include "runtime/backends/neuron/hlo/wire.h"
#include "tests/neuron_stand_in/neff.h"
#include "tests/temporary_directory.h"

namespace lockstep::neuron {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

hlo::Instruction instruction(std::string name, hlo::Opcode opcode, hlo::Type type, std::vector<int> operands) {
  return {.name = std::move(name), .opcode = opcode, .type = std::move(type), .operands = std::move(operands)};
}

/// A step that copies its only parameter.
LoweredStep copying_step(const std::string& name) {
  const hlo::Type vector{hlo::Element::kF32, {2}, {}};
  const hlo::Type tuple{.parts = {vector}};
  return {.module = {.name = name,
                     .computations = {{.name = "main",
                                       .instructions = {instruction("p", hlo::Opcode::kParameter, vector, {}),
                                                        instruction("c", hlo::Opcode::kCopy, vector, {0}),
                                                        instruction("t", hlo::Opcode::kTuple, tuple, {1})},
                                       .root = 2}}},
          .signature = {.ranks = 2, .outputs = {{.name = "c", .type = {DType::kFloat32, {2}}}}}};
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CompilerDriver : public ::testing::Test {
 protected:
  /// The stand-in with the misbehaviour `how`.
  CompilerOptions stand_in(const std::string& how = "") const {
    return {.program = LOCKSTEP_STAND_IN_CC,
            .environment = {{"STAND_IN_CC", how}, {"STAND_IN_CC_LOG", (directory_.path() / "runs").string()}},
            .deadline = 120s};
  }
  device::ArtifactWorkspace workspace() const {
    return {
        .folder = directory_.path(), .artifact = directory_.path() / "artifact.neff", .log = directory_.path() / "log"};
  }
  /// The error of compiling `step`.
  Error failure(const CompilerOptions& options, const LoweredStep& step) const {
    fs::remove(workspace().log);
    const auto made = run_compiler(options, step.module.name, hlo::to_bytes(step.module), workspace());
    return made.has_value() ? Error{ErrorKind::kInternal, "it did compile"} : made.error();
  }

  TemporaryDirectory directory_;
};

/// Makes everything, and remembers the keys.
class ForgetfulCache final : public device::ArtifactCache {
 public:
  explicit ForgetfulCache(device::ArtifactWorkspace workspace) : workspace_(std::move(workspace)) {}
  Result<device::Artifact> get(const device::ArtifactKey& key, const device::MakeArtifact& make) override {
    keys_.push_back(key);
    LOCKSTEP_TRY_VOID(make(workspace_));
    return device::Artifact{.path = workspace_.artifact, .was_made = true};
  }
  const std::vector<device::ArtifactKey>& keys() const { return keys_; }

 private:
  device::ArtifactWorkspace workspace_;
  std::vector<device::ArtifactKey> keys_;
};

TEST_F(CompilerDriver, GivesTheModuleAndTheFlagsAndTakesTheArtifact) {
  CompilerOptions options = stand_in();
  options.target = Target::kTrn2;
  const Compiler compiler = Compiler::open(options).value();
  EXPECT_EQ(compiler.version(), "0.0.0+stand-in");
  ForgetfulCache cache(workspace());
  const LoweredStep step = copying_step("prefill_64");
  const device::Artifact artifact = compiler.compile(step, cache).value();

  const std::string bytes = text_of(artifact.path);
  const stand_in::Neff neff = stand_in::read_neff(std::as_bytes(std::span(bytes))).value();
  EXPECT_EQ(neff.name, "prefill_64");
  EXPECT_EQ(neff.target, "trn2");
  EXPECT_EQ(neff.logical_cores, 2u);
  EXPECT_THAT(neff.flags, AllOf(Contains("-O1"), Contains("--auto-cast=none")));
  EXPECT_EQ(neff.module, hlo::to_bytes(step.module));
  EXPECT_THAT(text_of(directory_.path() / "log"), HasSubstr("neuronx-cc-stand-in: checked prefill_64"));
}

TEST_F(CompilerDriver, KeysAnArtifactByAllThatItDependsOn) {
  CompilerOptions options = stand_in();
  options.decode_flags = {"--tensorizer-options=--a --b"};
  const Compiler compiler = Compiler::open(options).value();
  const device::ArtifactKey key = compiler.key(copying_step("decode_128"));
  EXPECT_EQ(key.backend, "neuron");
  EXPECT_EQ(key.step, "decode_128");
  EXPECT_THAT(key.fields,
              ElementsAre(Pair("module", SizeIs(64)), Pair("signature", SizeIs(64)), Pair("compiler", "0.0.0+stand-in"),
                          Pair("flags",
                               "--model-type=transformer --auto-cast=none --enable-saturate-infinity -O2 "
                               "'--tensorizer-options=--a --b'"),
                          Pair("target", "trn1"), Pair("ranks", "2")));

  LoweredStep renamed = copying_step("decode_128");
  renamed.signature.outputs.front().name = "d";
  EXPECT_EQ(compiler.key(renamed).fields[0], key.fields[0]);
  EXPECT_NE(compiler.key(renamed).fields[1], key.fields[1]);
  EXPECT_NE(compiler.key(copying_step("decode_256")).fields[0], key.fields[0]);
  EXPECT_THAT(compiler.key(copying_step("prefill")).fields, Contains(Pair("flags", HasSubstr("-O1"))));
}

TEST_F(CompilerDriver, WithoutACompilerKnowsNoVersionAndCannotCompile) {
  CompilerOptions options{.program = "neuronx-cc", .environment = {{"PATH", "/nowhere"}}};
  const Compiler compiler = Compiler::open(options).value();
  EXPECT_EQ(compiler.version(), "");
  ForgetfulCache cache(workspace());
  const auto compiled = compiler.compile(copying_step("decode"), cache);
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(compiled.error().message,
              HasSubstr("cannot compile: found no program neuronx-cc, expected AWS's compiler neuronx-cc; install it"));
}

TEST_F(CompilerDriver, RefusesAProgramThatDoesNotSayItsVersion) {
  const auto opened = Compiler::open({.program = "/bin/false"});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(opened.error().message, HasSubstr("cannot tell the version of /bin/false: found exit code 1"));
}

TEST_F(CompilerDriver, KeepsTheLogOfAFailureAndSaysItsEnd) {
  const Error error = failure(stand_in("fail"), copying_step("decode"));
  EXPECT_EQ(error.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr("did not compile decode for trn1: found exit code 70"),
                                   HasSubstr("\n    neuronx-cc-stand-in: failed on request")));
  EXPECT_THAT(text_of(directory_.path() / "log"), HasSubstr("a line about nothing"));
}

TEST_F(CompilerDriver, TellsFailuresApart) {
  const LoweredStep step = copying_step("decode");
  EXPECT_EQ(failure(stand_in("memory"), step).kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(failure(stand_in("unroll"), step).kind, ErrorKind::kUnsupported);
  EXPECT_EQ(failure(stand_in("hbm"), step).kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(failure(stand_in("disk"), step).kind, ErrorKind::kUnavailable);
  EXPECT_EQ(failure(stand_in("crash"), step).kind, ErrorKind::kFailedPrecondition);
  const Error killed = failure(stand_in("kill"), step);
  EXPECT_EQ(killed.kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(killed.message, HasSubstr("found signal 9 (Killed)"));
  EXPECT_THAT(failure(stand_in("missing"), step).message, HasSubstr("found no artifact"));
  EXPECT_THAT(failure(stand_in("empty"), step).message, HasSubstr("found no artifact"));
}

TEST_F(CompilerDriver, ExplainsAFlagThatTheCompilerDoesNotKnow) {
  CompilerOptions options = stand_in();
  options.decode_flags = {"--no-such-flag"};
  const Error error = failure(options, copying_step("decode"));
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message, AllOf(HasSubstr("it does not know a flag"), HasSubstr("--no-such-flag")));
}

TEST_F(CompilerDriver, ExplainsAModuleThatTheCompilerDoesNotTake) {
  LoweredStep malformed = copying_step("decode");
  malformed.module.computations.front().instructions[1].operands = {2};  // a later instruction
  EXPECT_EQ(failure(stand_in(), malformed).kind, ErrorKind::kInternal);

  std::vector<std::byte> bytes = hlo::to_bytes(copying_step("decode").module);
  const std::string_view known = "copy", other = "cosh";
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.replace(text.find(known), known.size(), other);
  const auto made = run_compiler(stand_in(), "decode", std::as_bytes(std::span(text)), workspace());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(made.error().message, AllOf(HasSubstr("it does not know an operation"), HasSubstr(other)));
}

/// Whether a process of `session` still runs.
bool has_processes(int session) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (!fs::exists(entry.path() / "stat") || !std::isdigit(entry.path().filename().string().front())) continue;
    const std::string stat = text_of(entry.path() / "stat");
    std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
    char state = 'Z';
    int parent = 0, group = 0, its_session = 0;
    fields >> state >> parent >> group >> its_session;
    if (its_session == session && state != 'Z') return true;
  }
  return false;
}

TEST_F(CompilerDriver, EndsACompilerThatHangsWithAllThatItStarted) {
  CompilerOptions options = stand_in("hang");
  options.deadline = 1s;
  const Error error = failure(options, copying_step("decode"));
  EXPECT_EQ(error.kind, ErrorKind::kDeadlineExceeded);
  EXPECT_THAT(error.message, HasSubstr("did not end within 1 s: it and what it had started were ended"));
  std::istringstream runs(text_of(directory_.path() / "runs"));
  std::string name, target;
  int process = 0;
  runs >> name >> target >> process;
  ASSERT_EQ(name, "decode");
  EXPECT_FALSE(has_processes(process));
}

}  // namespace
}  // namespace lockstep::neuron
