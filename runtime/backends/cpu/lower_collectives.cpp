// Lowering of collective operations. Only worker 0 uses the communicator.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "runtime/backends/cpu/compiler.h"
#include "runtime/backends/cpu/fused_linear.h"
#include "runtime/device/agreement.h"
#include "runtime/graph/agree.h"

namespace lockstep::cpu {
namespace {

/// Elements rounded together by a worker.
constexpr int64_t kChunk = 4096;

/// Converts [rows, columns] dense floats to `dst`.
void round_rows(const Kernels& kernels, const float* src, const Tensor& dst, Part part) {
  const int64_t count = dst.used_rows() * dst.columns;
  const Share share = share_of((count + kChunk - 1) / kChunk, part);
  const int64_t begin = std::min(count, share.begin * kChunk);
  const int64_t end = std::min(count, share.end * kChunk);
  kernels.convert({reinterpret_cast<const std::byte*>(src + begin), DType::kFloat32},
                  {dst.data + begin * dst.element_size(), dst.dtype}, end - begin);
}

/// The rows of a rows_of_owners node: the owner of a row's slot sends it to all ranks, and each takes its columns.
struct RowExchange {
  Tensor x, dst;
  const int32_t* slot;  // [rows]
  int64_t slots;        // of each rank
  int rank;
  int64_t column;               // bytes into a row: this rank's first column
  int64_t gathered;             // offset of the received rows in the scratch, after our own in dense form
  std::vector<int64_t> counts;  // [ranks]: bytes of their rows in this step
  std::vector<int64_t> places;  // [rows]: index among the received rows

  int64_t row_bytes() const { return x.columns * x.element_size(); }
  size_t owner_of(int64_t row) const { return static_cast<size_t>(slot[row] / slots); }

  Result<void> gather(std::byte* memory, device::Communicator* communicator) {
    const int64_t rows = dst.used_rows();
    std::ranges::fill(counts, 0);
    for (int64_t row = 0; row < rows; ++row) {
      if (slot[row] < 0) continue;
      if (owner_of(row) >= counts.size()) return row_of_nobody(row);
      int64_t& count = counts[owner_of(row)];
      places[static_cast<size_t>(row)] = count;  // index among the owner's rows, until the others' are known
      if (static_cast<int>(owner_of(row)) == rank) std::memcpy(memory + count, x.at(row), row_bytes());
      count += row_bytes();
    }
    for (int64_t row = 0; row < rows; ++row) {
      if (slot[row] < 0) continue;
      const auto before = counts.begin() + static_cast<std::ptrdiff_t>(owner_of(row));
      places[static_cast<size_t>(row)] += std::accumulate(counts.begin(), before, int64_t{0});
    }
    const std::span<std::byte> own(memory, static_cast<size_t>(counts[static_cast<size_t>(rank)]));
    const auto all = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    if (communicator != nullptr) {
      return communicator->all_gather(own, counts, {memory + gathered, all}, device::Stream::host());
    }
    std::ranges::copy(own, memory + gathered);
    return ok();
  }

  Error row_of_nobody(int64_t row) const {
    return {ErrorKind::kInvalidArgument,
            fmt::format("[runtime/backends/cpu] cannot run row {}: found slot {}, expected a slot below {}", row,
                        slot[row], slots * std::ssize(counts))};
  }

  void take(const std::byte* memory, Part part) const {
    const int64_t bytes = dst.columns * dst.element_size();
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) {
      if (slot[row] < 0) {
        std::memset(dst.at(row), 0, static_cast<size_t>(bytes));
      } else {
        const int64_t place = places[static_cast<size_t>(row)];
        std::memcpy(dst.at(row), memory + gathered + place + column, static_cast<size_t>(bytes));
      }
    }
  }
};

/// Rows of the roots to send: without packed planes, planes are `rows` apart, so all rows are sent.
int64_t rows_to_send(const Tensor& partial) {
  return partial.packs_planes || partial.planes <= 1 ? partial.used_rows() : partial.rows;
}

}  // namespace

FusedLinear* Compiler::lend_place_for_roots(const Node& node, const device::TreeSum& sum) {
  if (fused(node).as != Fused::As::kRootsInPlaceOf) return nullptr;
  const auto product_index = static_cast<size_t>(fused(node).of);
  FusedLinear* product = products_.at(product_index);
  // Requested after the previous collective and before the product begins, with a barrier in between.
  const auto next = collectives_.lower_bound(product_index);
  LOCKSTEP_CHECK(next != collectives_.begin(), product_index);
  std::function<Result<void>()>& before = program_.stages[std::prev(next)->second].alone;
  before = [collective = std::move(before), product, partial = operand(node, 0), sum,
            communicator = communicator_]() -> Result<void> {
    LOCKSTEP_TRY_VOID(collective());
    const auto elements = static_cast<size_t>(rows_to_send(partial) * partial.columns);
    const std::span<float> place = communicator->place_for_roots(sum, elements);
    product->result().data = place.empty() ? partial.data : reinterpret_cast<std::byte*>(place.data());
    return ok();
  };
  return product;
}

void Compiler::lower_all_reduce(const Node& node) {
  if (graph_.ranks == 1) return lower_columnwise(node);
  const Tensor partial = operand(node, 0);
  const Tensor dst = result(node);
  const bool is_float = dst.dtype == DType::kFloat32;
  Scratch* scratch = &program_.scratch;
  if (!is_float) scratch->need_shared(dst.rows * dst.columns * static_cast<int64_t>(sizeof(float)));
  device::TreeSum sum{BlockSplit{node.integers("blocks")}};
  FusedLinear* product = lend_place_for_roots(node, sum);
  add_collective(node, [=, sum = std::move(sum), communicator = communicator_]() -> Result<void> {
    const auto elements = static_cast<size_t>(rows_to_send(partial) * partial.columns);
    const float* roots = product == nullptr ? partial.as<float>() : product->result().as<float>();
    float* to = is_float ? dst.as<float>() : reinterpret_cast<float*>(scratch->shared_memory);
    return communicator->all_reduce(sum, {roots, elements * static_cast<size_t>(partial.planes)}, {to, elements},
                                    device::Stream::host());
  });
  if (is_float) return;
  add_shared([dst, scratch, kernels = &kernels_](Part part) {
    round_rows(*kernels, reinterpret_cast<const float*>(scratch->shared_memory), dst, part);
  });
}

void Compiler::lower_all_gather(const Node& node) {
  if (graph_.ranks == 1) return lower_columnwise(node);
  const Tensor x = operand(node, 0), dst = result(node);
  if (dst.rows != 1) return gather_rows(node);
  std::vector<int64_t> counts = node.integers("parts");  // the ranks' parts of a row are adjacent
  for (int64_t& count : counts) count *= x.element_size();
  const auto row_of = [](const Tensor& t) {
    return std::span(t.data, static_cast<size_t>(t.columns * t.element_size()));
  };
  add_collective(node,
                 [own = row_of(x), all = row_of(dst), counts = std::move(counts), communicator = communicator_]() {
                   return communicator->all_gather(own, counts, all, device::Stream::host());
                 });
}

void Compiler::gather_rows(const Node& node) {
  const Tensor x = operand(node, 0), dst = result(node);
  const std::vector<int64_t> parts = node.integers("parts");
  Scratch* scratch = &program_.scratch;
  const int64_t own_bytes = x.rows * x.columns * x.element_size();
  const int64_t gathered = (own_bytes + 63) / 64 * 64;  // offset of the received parts, after our own in dense form
  scratch->need_shared(gathered + dst.rows * dst.stride);
  add_collective(
      node, [=, counts = std::vector<int64_t>(parts.size()), communicator = communicator_]() mutable -> Result<void> {
        const int64_t rows = dst.used_rows();
        const int64_t row_bytes = x.columns * x.element_size();
        for (int64_t row = 0; row < rows; ++row)
          std::memcpy(scratch->shared_memory + row * row_bytes, x.at(row), row_bytes);
        for (size_t rank = 0; rank < parts.size(); ++rank) counts[rank] = rows * parts[rank] * x.element_size();
        return communicator->all_gather({scratch->shared_memory, static_cast<size_t>(rows * row_bytes)}, counts,
                                        {scratch->shared_memory + gathered, static_cast<size_t>(rows * dst.stride)},
                                        device::Stream::host());
      });
  add_shared([=](Part part) {
    const int64_t rows = dst.used_rows();
    const Share share = share_of(rows, part);
    int64_t column = 0;
    for (int64_t columns : parts) {
      const int64_t bytes = columns * dst.element_size();
      // Rank r's part starts after rows × the columns of the ranks before it.
      const std::byte* from = scratch->shared_memory + gathered + rows * column * dst.element_size();
      for (int64_t row = share.begin; row < share.end; ++row) {
        std::memcpy(dst.at(row, column), from + row * bytes, bytes);
      }
      column += columns;
    }
  });
}

void Compiler::lower_rows_of_owners(const Node& node) {
  const std::vector<int64_t>& parts = node.integers("parts");
  const Tensor x = operand(node, 0);
  const auto exchange = std::make_shared<RowExchange>(
      RowExchange{.x = x,
                  .dst = result(node),
                  .slot = operand(node, 1).as<int32_t>(),
                  .slots = node.integer("slots"),
                  .rank = graph_.rank,
                  .column = std::accumulate(parts.begin(), parts.begin() + graph_.rank, int64_t{0}) * x.element_size(),
                  .gathered = (graph_.rows * x.stride + 63) / 64 * 64,
                  .counts = std::vector<int64_t>(parts.size()),
                  .places = std::vector<int64_t>(static_cast<size_t>(graph_.rows))});
  Scratch* scratch = &program_.scratch;
  scratch->need_shared(exchange->gathered + graph_.rows * x.stride);
  add_collective(node, [exchange, scratch, communicator = graph_.ranks == 1 ? nullptr : communicator_]() {
    return exchange->gather(scratch->shared_memory, communicator);
  });
  add_shared([exchange, scratch](Part part) { exchange->take(scratch->shared_memory, part); });
}

device::AgreedFacts Compiler::agreed_facts(const Node& node) const {
  using Of = graph::AgreeOperand;
  const Tensor hidden = operand(node, Of::kHidden);
  const auto per_slot = [&](size_t i) { return integers(node, i, graph_.slots); };
  return {.step = integers(node, Of::kStep, 2),
          .last_id = per_slot(Of::kLastId),
          .length = per_slot(Of::kLength),
          .output_index = per_slot(Of::kOutputIndex),
          .parameter_hash = per_slot(Of::kParameterHash),
          .hidden = hidden.data,
          .hidden_rows = 0,
          .hidden_stride = hidden.stride,
          .hidden_row_bytes = hidden.columns * hidden.element_size()};
}

void Compiler::lower_agree(const Node& node) {
  const int64_t slots = graph_.slots;
  const int ranks = graph_.ranks;
  const std::span<const int32_t> stop = integers(node, graph::AgreeOperand::kStopRequest, slots);
  int32_t* finished = operand(node, graph::AgreeOperand::kFinished).as<int32_t>();
  if (ranks == 1) {
    add_alone([=]() -> Result<void> {
      for (int64_t slot = 0; slot < slots; ++slot) {
        if (stop[slot] != 0) finished[slot] = 1;
      }
      return ok();
    });
    return;
  }
  const auto bytes = static_cast<size_t>(device::agreement_payload_bytes(slots));
  Scratch* scratch = &program_.scratch;
  scratch->need_shared(static_cast<int64_t>(bytes) * (ranks + 1));
  add_collective(node,
                 [=, facts = agreed_facts(node), hidden = operand(node, graph::AgreeOperand::kHidden),
                  counts = std::vector<int64_t>(ranks, static_cast<int64_t>(bytes)),
                  communicator = communicator_]() -> Result<void> {
                   device::AgreedFacts now = facts;
                   now.hidden_rows = hidden.used_rows();
                   const std::span<std::byte> own(scratch->shared_memory, bytes);
                   const std::span<std::byte> all(scratch->shared_memory + bytes, bytes * static_cast<size_t>(ranks));
                   device::write_agreement_payload(device::agreement_checksum(now), stop, own);
                   LOCKSTEP_TRY_VOID(communicator->all_gather(own, counts, all, device::Stream::host()));
                   if (!device::payloads_agree(all, ranks, slots)) {
                     return device::disagreement_error("runtime/backends/cpu", now.step, all, ranks, slots);
                   }
                   for (int64_t slot = 0; slot < slots; ++slot) {
                     if (device::payload_requests_stop(all.data(), slot)) finished[slot] = 1;
                   }
                   return ok();
                 });
}

}  // namespace lockstep::cpu
