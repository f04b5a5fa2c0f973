// A compiled graph over a store, run by the backend's team.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <optional>

#include "runtime/backends/cpu/program.h"
#include "runtime/backends/cpu/store.h"
#include "runtime/device/backend.h"

namespace lockstep::cpu {

class Executable final : public device::Executable {
 public:
  static Result<std::unique_ptr<Executable>> compile(const graph::Graph& graph, Store& store, const Kernels& kernels,
                                                     ThreadTeam& team, device::Communicator* communicator);
  ~Executable() override;

  const graph::Graph& graph() const override { return graph_; }
  Result<void> run(std::span<const device::HostTensor> inputs) override;
  std::span<const std::byte> output(std::string_view name) const override;

 private:
  Executable(const graph::Graph& graph, Store& store, ThreadTeam& team) : graph_(graph), store_(store), team_(team) {}
  Result<void> take_inputs(std::span<const device::HostTensor> inputs);
  void run_stages(Part part);
  void fail(size_t stage, Error error);

  graph::Graph graph_;
  Store& store_;
  ThreadTeam& team_;
  Program program_;
  static constexpr size_t kNoStage = std::numeric_limits<size_t>::max();
  std::atomic<size_t> failed_stage_ = kNoStage;
  std::optional<Error> failure_;  // of that stage; read after the job
};

}  // namespace lockstep::cpu
