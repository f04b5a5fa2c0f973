// A backend that computes nothing, and a shard over it, for tests of the shard's calls.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "tests/shards/small_llama.h"

namespace lockstep::shards {

inline checkpoint::ModelSpec tiny_spec() {
  return spec_of({.hidden = 16,
                  .query_heads = 4,
                  .key_value_heads = 2,
                  .intermediate = 24,
                  .vocabulary = 40,
                  .positions = 64,
                  .head_dim = 8});
}

inline const ShardOptions kOptions{.slots = 2, .chunk = 4, .capacity = 16};

/// Dense states in a map; a run returns fixed tokens and records its inputs.
class FakeStore final : public device::Store {
 public:
  explicit FakeStore(std::span<const device::StepGraph> steps) {
    for (const device::StepGraph& step : steps) {
      for (const graph::ValueId id : step.own.values_of(graph::ValueKind::kState)) {
        const graph::Value& state = step.own.value(id);
        if (find_state(state.name)) continue;
        names_.push_back(state.name);
        contents_.emplace_back(static_cast<size_t>(state.type.bytes()));
      }
    }
  }
  Result<void> set_weight(std::string_view name, std::span<const std::byte> bytes) override {
    weights[std::string(name)] = {bytes.begin(), bytes.end()};
    return ok();
  }
  std::optional<device::StateId> find_state(std::string_view name) const override {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return device::StateId(static_cast<int32_t>(i));
    }
    return std::nullopt;
  }
  Result<void> write_state(device::StateId state, int64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(contents_.at(static_cast<size_t>(state.value)).data() + offset, bytes.data(), bytes.size());
    return ok();
  }
  Result<void> read_state(device::StateId state, int64_t offset, std::span<std::byte> bytes) const override {
    std::memcpy(bytes.data(), contents_.at(static_cast<size_t>(state.value)).data() + offset, bytes.size());
    return ok();
  }
  Result<void> copy_slot(int64_t src, int64_t dst, int64_t tokens) override {
    copies.push_back({src, dst, tokens});
    return ok();
  }
  Result<std::vector<std::byte>> read_cache(device::StateId) const override { return std::vector<std::byte>(); }
  const void* state_address(device::StateId state) const override {
    return contents_.at(static_cast<size_t>(state.value)).data();
  }
  device::MemoryReport memory() const override { return {}; }

  int32_t value(const char* name, size_t index) const {
    int32_t found = 0;
    std::memcpy(&found, contents_.at(static_cast<size_t>(find_state(name).value().value)).data() + 4 * index, 4);
    return found;
  }

  void set(const char* name, size_t index, int32_t value) {
    std::memcpy(contents_.at(static_cast<size_t>(find_state(name).value().value)).data() + 4 * index, &value, 4);
  }

  std::map<std::string, std::vector<std::byte>> weights;
  std::vector<std::vector<int64_t>> copies;  // src, dst, tokens

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> contents_;
};

class FakeExecutable final : public device::Executable {
 public:
  explicit FakeExecutable(const graph::Graph& graph) : graph_(graph) {}
  const graph::Graph& graph() const override { return graph_; }
  Result<void> run(std::span<const device::HostTensor> inputs) override {
    seen.clear();
    if (is_timed_) time_ += kTimeOfRun;
    for (const device::HostTensor& input : inputs) {
      const auto* first = reinterpret_cast<const int32_t*>(input.bytes.data());
      seen.emplace_back(first, first + input.type.shape.elements());
    }
    return ok();
  }
  std::span<const std::byte> output(std::string_view name) const override {
    return name == "tokens" ? std::as_bytes(std::span(tokens)) : std::span<const std::byte>();
  }

  void time_device() override { is_timed_ = true; }
  device::DeviceTime device_time() const override { return time_; }

  /// Of a run, after `time_device`.
  static constexpr device::DeviceTime kTimeOfRun{std::chrono::microseconds(5), std::chrono::microseconds(1)};

  std::vector<std::vector<int32_t>> seen;
  int32_t tokens[2] = {11, -1};

 private:
  graph::Graph graph_;
  bool is_timed_ = false;
  device::DeviceTime time_;
};

class FakeBackend final : public device::Backend {
 public:
  std::string_view name() const override { return "fake"; }
  device::Capabilities capabilities() const override { return {}; }
  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    auto made = std::make_unique<FakeStore>(steps);
    store = made.get();
    return std::unique_ptr<device::Store>(std::move(made));
  }
  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store&,
                                                      const device::CompileOptions&) override {
    auto made = std::make_unique<FakeExecutable>(step.own);
    executables[step.own.name] = made.get();
    return std::unique_ptr<device::Executable>(std::move(made));
  }

  FakeStore* store = nullptr;
  std::map<std::string, FakeExecutable*> executables;
};

/// A shard of rank `rank` of `ranks` and the fakes below it.
struct Fixture {
  explicit Fixture(int ranks = 1, int rank = 0, const ShardOptions& options = kOptions) {
    const auto spec = tiny_spec();
    const auto partition = partition::make_partition(spec, ranks).value();
    shard = Shard::create(build_graphs(spec, partition, rank, options, graph::default_passes()).value(), options,
                          backend, nullptr, RandomWeights())
                .value();
  }
  FakeBackend backend;
  std::unique_ptr<Shard> shard;
};

}  // namespace lockstep::shards
