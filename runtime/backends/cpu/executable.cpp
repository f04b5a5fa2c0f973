#include "runtime/backends/cpu/executable.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <utility>

#include "runtime/backends/cpu/compiler.h"

namespace lockstep::cpu {

Result<std::unique_ptr<Executable>> Executable::compile(const graph::Graph& graph, Store& store, const Kernels& kernels,
                                                        ThreadTeam& team, device::Communicator* communicator) {
  std::unique_ptr<Executable> executable(new Executable(graph, store, team));
  Compiler compiler(executable->graph_, store, kernels, team.size(), communicator, executable->program_);
  LOCKSTEP_TRY_VOID(compiler.compile());
  store.add_workspace(executable->program_.workspace_bytes());
  return executable;
}

Executable::~Executable() { store_.remove_workspace(program_.workspace_bytes()); }

Result<void> Executable::take_inputs(std::span<const device::HostTensor> inputs) {
  const auto refuse = [this](std::string what) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/backends/cpu] cannot run {}: {}", graph_.name, what)};
  };
  if (inputs.size() != program_.inputs.size()) {
    return refuse(fmt::format("found {} inputs, expected {}", inputs.size(), program_.inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Program::Input& expected = program_.inputs[i];
    if (inputs[i].type != expected.type) {
      return refuse(fmt::format("found {} for input {}, expected {}", to_string(inputs[i].type), expected.name,
                                to_string(expected.type)));
    }
    if (static_cast<int64_t>(inputs[i].bytes.size()) != expected.type.bytes()) {
      return refuse(fmt::format("found {} bytes for input {}, expected {}", inputs[i].bytes.size(), expected.name,
                                expected.type.bytes()));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].bytes.empty()) {
      std::memcpy(program_.inputs[i].data, inputs[i].bytes.data(), inputs[i].bytes.size());
    }
  }
  return ok();
}

Result<void> Executable::run(std::span<const device::HostTensor> inputs) {
  LOCKSTEP_TRY_VOID(store_.require_weights());
  LOCKSTEP_TRY_VOID(take_inputs(inputs));
  program_.scratch.rows_in_use = graph_.rows;
  failed_stage_.store(kNoStage, std::memory_order_relaxed);
  team_.run([](void* self, Part part) { static_cast<Executable*>(self)->run_stages(part); }, this);
  if (failed_stage_.load(std::memory_order_relaxed) == kNoStage) return ok();
  return *std::exchange(failure_, std::nullopt);
}

void Executable::run_stages(Part part) {
  for (size_t i = 0; i < program_.stages.size(); ++i) {
    const Stage& stage = program_.stages[i];
    // A failed check of one worker must not leave the others waiting at the barrier.
    try {
      if (stage.shared) {
        stage.shared(part);
      } else if (part.worker == 0) {
        if (auto done = stage.alone(); !done.has_value()) fail(i, std::move(done).assume_error());
      }
    } catch (const std::exception& bug) {
      fail(i, {ErrorKind::kInternal, fmt::format("[runtime/backends/cpu] {}", bug.what())});
    }
    team_.meet(stage.next_reads ? stage.next_reads(part) : std::span<const std::byte>());
    // Worker 0 may be ahead and fail in the next stage; the barrier of that stage is still required.
    if (failed_stage_.load(std::memory_order_relaxed) <= i) return;
  }
}

void Executable::fail(size_t stage, Error error) {
  size_t none = kNoStage;
  if (failed_stage_.compare_exchange_strong(none, stage, std::memory_order_relaxed)) failure_ = std::move(error);
}

std::span<const std::byte> Executable::output(std::string_view name) const {
  const auto found = program_.outputs.find(name);
  if (found == program_.outputs.end()) return {};
  const Tensor& tensor = found->second;
  return {tensor.data, static_cast<size_t>(tensor.planes * tensor.rows * tensor.stride)};
}

}  // namespace lockstep::cpu
