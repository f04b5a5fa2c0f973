// Weights and states of one rank, each in separate pages, committed on first touch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backends/reference/tensor.h"
#include "runtime/device/backend.h"
#include "runtime/device/slot_transfer.h"

namespace lockstep::reference {

/// Zeroed pages, reserved immediately and committed on first touch. Released by the destructor.
class Pages {
 public:
  /// Fails with `kResourceExhausted`, naming `purpose`.
  static Result<Pages> reserve(int64_t bytes, std::string_view purpose);

  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&&) = delete;
  ~Pages();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// Bytes physically allocated now.
  int64_t resident() const;

 private:
  Pages(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  int64_t bytes_;
};

class Store final : public device::Store, public device::SlotTransfer {
 public:
  static Result<std::unique_ptr<Store>> make(std::span<const device::StepGraph> steps);

  Result<void> set_weight(std::string_view name, std::span<const std::byte> bytes) override;
  Result<void> load(const graph::Graph& graph, const device::WeightReader& reader) override;
  std::optional<device::StateId> find_state(std::string_view name) const override;
  Result<void> write_state(device::StateId state, int64_t offset, std::span<const std::byte> bytes) override;
  Result<void> read_state(device::StateId state, int64_t offset, std::span<std::byte> bytes) const override;
  Result<void> copy_slot(int64_t src, int64_t dst, int64_t tokens) override;
  Result<std::vector<std::byte>> read_cache(device::StateId state) const override;
  const void* state_address(device::StateId state) const override;
  device::MemoryReport memory() const override;
  std::vector<device::ResidentWeight> resident_weights() const override;
  int64_t slot_bytes(int64_t tokens) const override;
  Result<void> take_slot(int64_t slot, int64_t tokens, std::span<std::byte> dst) const override;
  Result<void> put_slot(int64_t slot, int64_t tokens, std::span<const std::byte> src) override;

  /// The tensor of a weight or state; empty when no graph of the store has it.
  std::optional<Tensor> weight(std::string_view name) const;
  std::optional<Tensor> state(std::string_view name) const;

  /// Counts the buffers of an executable over this store in its memory report.
  void add_workspace(Bytes bytes) { workspace_ += bytes; }

  /// Fails with `kFailedPrecondition`, naming a weight without contents.
  Result<void> require_weights() const;

 private:
  /// Calls `visit(memory, bytes)` for every contiguous range of `slot` used by `tokens` written positions.
  template <typename Visit>
  void for_each_stretch(int64_t slot, int64_t tokens, Visit visit) const;
  struct Entry {
    std::string name;
    Tensor tensor;
    Pages pages;
    bool is_cache = false;               // states only: a KV cache
    bool is_carried = false;             // states only: what a recurrent layer carries on
    bool has_contents = false;           // weights only
    std::optional<WeightFormat> format;  // of a weight in codes; its tensor has the decoded values
    ColumnGroups groups;                 // of its columns

    bool belongs_to_slots() const { return is_cache || is_carried; }
  };
  using Index = std::map<std::string, size_t, std::less<>>;

  Store() = default;
  Result<void> add_graph(const graph::Graph& graph);
  Result<void> add_entry(const graph::Value& value, std::vector<Entry>& entries, Index& index);
  const Entry& entry(device::StateId state) const;
  Result<void> read_coded(const graph::Value& value, Entry& weight, const device::WeightReader& reader) const;

  std::vector<Entry> weights_;
  std::vector<Entry> states_;
  Index weight_index_;
  Index state_index_;
  Bytes workspace_;
};

}  // namespace lockstep::reference
