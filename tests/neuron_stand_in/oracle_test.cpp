// Runs every case of the lowering in the interpreter and compares with the reference backend. This is the check of
// tools/check_hlo.py, without XLA, in the default tests and with checked indices.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "runtime/backends/neuron/hlo/wire.h"
#include "tests/neuron_stand_in/interpreter/box.h"
#include "tests/neuron_stand_in/interpreter/program.h"
#include "tests/neuron_stand_in/thread_exchange.h"
#include "tests/runtime/backends/neuron/reference_run.h"

namespace lockstep::stand_in {
namespace {

using conformance::Contents;
using conformance::TensorData;
using neuron::LoweredStep;
using neuron::OracleCase;
using neuron::Parameter;
using neuron::Role;

constexpr std::chrono::seconds kDeadline{60};

/// Tensors as the device holds them, by parameter.
using DeviceTensors = std::map<std::string, std::vector<std::byte>>;

/// One rank of a case on the interpreter.
class RankRun {
 public:
  RankRun(const OracleCase& c, const std::vector<LoweredStep>& lowered, int rank, ThreadMeeting& meeting)
      : case_(c), lowered_(lowered), rank_(rank), exchange_(meeting, rank) {
    for (const LoweredStep& step : lowered) {
      programs_.push_back(
          Program::compile(neuron::hlo::from_bytes(neuron::hlo::to_bytes(step.module)).value(), rank).value());
    }
  }

  void run(const Contents& contents, const neuron::RankRecord& expected) {
    for (const LoweredStep& step : lowered_) place_initial(step.signature, contents);
    for (size_t i = 0; i < case_.script.size(); ++i) {
      if (!run_step(case_.script[i], expected.outputs[i])) return;
    }
    for (const LoweredStep& step : lowered_) expect_states(step.signature, expected.states);
  }

 private:
  std::vector<std::byte> on_device(const Parameter& parameter, const Contents& contents) const {
    if (parameter.role == Role::kRank) return parameter.contents[static_cast<size_t>(rank_)];
    const auto found = contents.find(parameter.host_name());
    if (found != contents.end()) return to_device(parameter, rank_, found->second.bytes).value();
    return std::vector<std::byte>(static_cast<size_t>(parameter.type.shape.elements()) * size_of(parameter.type.dtype));
  }

  /// Whether all modules have the same tensor of this name.
  static bool is_shared(const Parameter& parameter) {
    return parameter.role == Role::kState || parameter.role == Role::kWeight;
  }

  void place_initial(const neuron::ModuleSignature& signature, const Contents& contents) {
    for (const Parameter& parameter : signature.parameters) {
      if (!is_shared(parameter)) continue;
      held_.try_emplace(parameter.name, on_device(parameter, contents));
    }
  }

  bool run_step(const neuron::ScriptedStep& step, const Contents& expected) {
    const neuron::ModuleSignature& signature = lowered_[step.graph].signature;
    Program& program = *programs_[step.graph];
    DeviceTensors given;
    std::vector<std::byte*> inputs, outputs;
    for (const Parameter& parameter : signature.parameters) {
      if (!is_shared(parameter)) {
        given[parameter.name] = on_device(parameter, step.inputs[static_cast<size_t>(rank_)]);
        inputs.push_back(given[parameter.name].data());
      } else {
        inputs.push_back(held_.at(parameter.name).data());
      }
    }
    std::vector<std::vector<std::byte>> made;
    for (const neuron::ModuleOutput& output : signature.outputs) {
      made.emplace_back(static_cast<size_t>(output.type.shape.elements()) * size_of(output.type.dtype));
      outputs.push_back(output.parameter ? inputs[static_cast<size_t>(*output.parameter)] : made.back().data());
    }
    const Outcome fault = program.run(inputs, outputs, &exchange_, NanCheck::kOutputs);
    EXPECT_FALSE(fault.has_value()) << case_.name << " rank " << rank_ << ": " << fault->message;
    for (size_t i = 0; !fault && i < outputs.size(); ++i) {
      if (!signature.outputs[i].parameter) expect_output(signature.outputs[i], made[i], expected);
    }
    return !fault;
  }

  void expect_output(const neuron::ModuleOutput& output, const std::vector<std::byte>& made, const Contents& expected) {
    if (output.name == "agreement") {
      EXPECT_EQ(made, std::vector<std::byte>(made.size())) << case_.name << ": ranks do not agree";
      return;
    }
    // A rank may hold less than the widest.
    const TensorData& wanted = expected.find(output.name)->second;
    TensorData cut{wanted.type, std::vector<std::byte>(wanted.bytes.size())};
    const std::vector<int64_t> dims = wanted.type.shape.dims();
    copy_box({dims, row_major(output.type.shape.dims()), row_major(dims)}, size_of(output.type.dtype), made.data(),
             cut.bytes.data());
    EXPECT_TRUE(is_near(cut, wanted, case_.tolerance)) << case_.name << " " << output.name << " rank " << rank_;
  }

  void expect_states(const neuron::ModuleSignature& signature, const Contents& expected) {
    for (const Parameter& parameter : signature.parameters) {
      const auto wanted = expected.find(parameter.name);
      if (!parameter.output || wanted == expected.end()) continue;
      const TensorData found{wanted->second.type, to_host(parameter, rank_, held_.at(parameter.name))};
      EXPECT_TRUE(is_near(found, wanted->second, case_.tolerance))
          << case_.name << " state " << parameter.name << " rank " << rank_;
    }
  }

  const OracleCase& case_;
  const std::vector<LoweredStep>& lowered_;
  const int rank_;
  ThreadExchange exchange_;
  std::vector<std::unique_ptr<Program>> programs_;
  DeviceTensors held_;
};

void expect_agreement(const OracleCase& c) {
  const std::vector<LoweredStep> lowered = lower_all(c);
  const std::vector<Contents> contents = c.contents();
  const std::vector<neuron::RankRecord> expected = run_reference(c, contents);
  ThreadMeeting meeting(kDeadline);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < c.ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    ranks.emplace_back([&, rank, r] { RankRun(c, lowered, rank, meeting).run(contents[r], expected[r]); });
  }
}

void expect_agreement(const std::vector<OracleCase>& cases) {
  for (const OracleCase& c : cases) {
    SCOPED_TRACE(c.name);
    expect_agreement(c);
  }
}

TEST(Interpreter, GivesTheReferenceBackendsNumbersForDenseOperations) { expect_agreement(neuron::dense_cases()); }
TEST(Interpreter, GivesTheReferenceBackendsNumbersForAttention) { expect_agreement(neuron::attention_cases()); }
TEST(Interpreter, GivesTheReferenceBackendsNumbersForSlotsAndSampling) { expect_agreement(neuron::slot_cases()); }
TEST(Interpreter, GivesTheReferenceBackendsNumbersForStepsOfEveryFamily) { expect_agreement(neuron::family_cases()); }

}  // namespace
}  // namespace lockstep::stand_in
