// A compiled step: a captured graph between two parts that the host computes.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/cuda/host_operations.h"
#include "runtime/backends/cuda/peers.h"
#include "runtime/backends/cuda/step_plan.h"
#include "runtime/backends/cuda/step_timer.h"
#include "runtime/backends/cuda/store.h"
#include "runtime/device/row_limits.h"

namespace lockstep::cuda {

class Executable final : public device::Executable {
 public:
  /// In a group of several ranks: @collective @blocking
  static Result<std::unique_ptr<Executable>> compile(const graph::Graph& graph, Store& store, const RankDevice& device,
                                                     device::Communicator* communicator);
  ~Executable() override;

  const graph::Graph& graph() const override { return graph_; }
  Result<void> run(std::span<const device::HostTensor> inputs) override;
  std::span<const std::byte> output(std::string_view name) const override;
  int64_t launches() const override { return captured_->nodes(); }
  void time_device() override { timer_->start(); }
  device::DeviceTime device_time() const override { return timer_->time(); }

 private:
  /// Rows that a node writes in a state of the slots.
  struct WrittenRows {
    const StateLayout* state;
    graph::ValueId slot;
    graph::ValueId position;
    int64_t rows;
  };
  /// Rows that a node reads or writes there.
  struct Check {
    graph::ValueId slot;
    graph::ValueId position;
    int64_t rows;
    device::RowCheck check;
  };

  Executable(const graph::Graph& graph, Store& store, const RankDevice& device, device::Communicator* communicator)
      : graph_(graph), store_(store), device_(device), communicator_(communicator) {}

  Result<void> check_communicator() const;
  Result<void> make_memory();
  Result<void> make_host_operations();
  Result<void> prepare_matmuls();
  void add_slot_rows();
  Result<void> connect_hosts();
  Result<void> capture();
  Result<void> enqueue();
  Result<void> gather_between_hosts(const HostGather& gather);
  Result<void> take_inputs(std::span<const device::HostTensor> inputs);
  Result<void> prepare_rows();
  Result<void> run_device();
  Result<void> wait_for_ranks();
  void end_waits();
  std::atomic_ref<uint32_t> control_word(size_t offset) const;
  Result<void> check_ranks() const;
  Result<void> check_hosts() const;
  Error missing_rank(int rank) const;
  Error missing_hosts() const;
  std::byte* host_address(graph::ValueId value) const;
  std::span<const int32_t> ints(graph::ValueId value, int64_t count) const;

  const graph::Graph graph_;
  Store& store_;
  const RankDevice device_;
  device::Communicator* const communicator_;
  StepPlan plan_;
  Bases bases_;
  cu::DeviceMemory workspace_, tables_, head_device_;
  cu::PinnedMemory head_, tail_, control_;
  PeerMemory peers_;
  std::vector<std::byte> host_memory_;
  std::vector<graph::ValueId> inputs_;
  std::vector<HostOperation> prologue_, epilogue_;
  std::vector<WrittenRows> written_;
  std::vector<Check> checks_;
  std::vector<std::unique_ptr<cu::Matmul>> matmuls_;  // in the order of the launches
  cu::DeviceMemory blas_workspace_;
  std::unique_ptr<cu::CapturedGraph> captured_;
  std::unique_ptr<StepTimer> timer_;
  uint32_t step_ = 0;
  int64_t reported_bytes_ = 0;
};

}  // namespace lockstep::cuda
