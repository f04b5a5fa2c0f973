// Operations with communication between ranks. A group of one computes them locally.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/backends/reference/kernels.h"
#include "runtime/device/agreement.h"
#include "runtime/graph/agree.h"

namespace lockstep::reference {
namespace {

using graph::AgreeOperand;

/// The tree sum over the roots of a single rank.
void finish_locally(const TreeFinish& finish, std::vector<float> roots, size_t elements, float* dst) {
  for (const TreeFinish::Step& step : finish.steps) {
    float* left = roots.data() + static_cast<size_t>(step.dst) * elements;
    const float* right = roots.data() + static_cast<size_t>(step.src) * elements;
    for (size_t i = 0; i < elements; ++i) left[i] += right[i];
  }
  std::copy_n(roots.data() + static_cast<size_t>(finish.result) * elements, elements, dst);
}

std::span<const int32_t> ints(const Tensor& t) { return {t.ints(), static_cast<size_t>(t.elements())}; }

/// The first bytes of each row of `hidden` in its graph type, as sampled by every backend.
struct HiddenSample {
  explicit HiddenSample(const Tensor& hidden) {
    const auto element = static_cast<int64_t>(size_of(hidden.type.dtype));
    const int64_t width = std::min(hidden.columns(), graph::kAgreedBytes / element);
    row_bytes = width * element;
    bytes.resize(static_cast<size_t>(hidden.rows() * row_bytes));
    for (int64_t r = 0; r < hidden.rows(); ++r) {
      convert_elements(hidden.memory + static_cast<size_t>(r * hidden.columns()) * sizeof(float), DType::kFloat32,
                       bytes.data() + r * row_bytes, hidden.type.dtype, static_cast<size_t>(width));
    }
  }

  int64_t row_bytes = 0;
  std::vector<std::byte> bytes;
};

uint64_t checksum_of(const std::vector<Tensor>& in) {
  const HiddenSample hidden(in[AgreeOperand::kHidden]);
  return device::agreement_checksum({.step = ints(in[AgreeOperand::kStep]),
                                     .last_id = ints(in[AgreeOperand::kLastId]),
                                     .length = ints(in[AgreeOperand::kLength]),
                                     .output_index = ints(in[AgreeOperand::kOutputIndex]),
                                     .parameter_hash = ints(in[AgreeOperand::kParameterHash]),
                                     .hidden = hidden.bytes.data(),
                                     .hidden_rows = in[AgreeOperand::kHidden].rows(),
                                     .hidden_stride = hidden.row_bytes,
                                     .hidden_row_bytes = hidden.row_bytes});
}

}  // namespace

Result<void> all_reduce(const Call& call, const Environment& environment) {
  const float* roots = call.operands[0].floats();
  const auto held = static_cast<size_t>(call.operands[0].elements());
  const auto elements = static_cast<size_t>(call.result->elements());
  float* dst = call.result->floats();
  if (environment.ranks > 1) {
    return environment.communicator->all_reduce(*call.sum, {roots, held}, {dst, elements}, device::Stream::host());
  }
  finish_locally(call.sum->finish, {roots, roots + held}, elements, dst);
  return ok();
}

Result<void> all_gather(const Call& call, const Environment& environment) {
  const Tensor& x = call.operands[0];
  const Tensor& result = *call.result;
  const std::vector<int64_t>& parts = call.node.integers("parts");
  if (environment.ranks == 1) {
    std::memcpy(result.memory, x.memory, static_cast<size_t>(held_bytes(x.type)));
    return ok();
  }
  const auto element = static_cast<int64_t>(size_of(x.held));
  std::vector<int64_t> counts;
  for (const int64_t part : parts) counts.push_back(x.rows() * part * element);
  std::vector<std::byte> gathered(static_cast<size_t>(result.elements() * element));
  const std::span<const std::byte> own(x.memory, static_cast<size_t>(x.elements() * element));
  LOCKSTEP_TRY_VOID(environment.communicator->all_gather(own, counts, gathered, device::Stream::host()));
  const std::byte* src = gathered.data();
  int64_t column = 0;
  for (const int64_t part : parts) {  // [rank][row][column of the rank] becomes [row][column]
    for (int64_t r = 0; r < result.rows(); ++r, src += part * element) {
      std::copy_n(src, part * element, result.memory + (r * result.columns() + column) * element);
    }
    column += part;
  }
  return ok();
}

Result<void> rows_of_owners(const Call& call, const Environment& environment) {
  const Tensor& x = call.operands[0];
  const Tensor& result = *call.result;
  const int32_t* slot = call.operands[1].ints();
  const int64_t each = call.node.integer("slots");
  const std::vector<int64_t>& parts = call.node.integers("parts");
  const auto element = static_cast<int64_t>(size_of(x.held));
  const int64_t row_bytes = x.columns() * element;
  std::vector<std::byte> own;
  std::vector<int64_t> counts(parts.size(), 0);
  for (int64_t t = 0; t < x.rows(); ++t) {
    if (slot[t] < 0) continue;
    const int64_t owner = slot[t] / each;
    counts.at(static_cast<size_t>(owner)) += row_bytes;
    const std::byte* row = x.memory + t * row_bytes;
    if (owner == environment.rank) own.insert(own.end(), row, row + row_bytes);
  }
  std::vector<std::byte> all = own;
  if (environment.ranks > 1) {
    all.resize(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
    LOCKSTEP_TRY_VOID(environment.communicator->all_gather(own, counts, all, device::Stream::host()));
  }
  std::vector<int64_t> next(parts.size(), 0);  // next row of each owner
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), int64_t{0});
  const int64_t column = std::accumulate(parts.begin(), parts.begin() + environment.rank, int64_t{0});
  const int64_t kept_bytes = result.columns() * element;
  std::fill_n(result.memory, held_bytes(result.type), std::byte{0});
  for (int64_t t = 0; t < x.rows(); ++t) {
    if (slot[t] < 0) continue;
    int64_t& from = next[static_cast<size_t>(slot[t] / each)];
    std::copy_n(all.data() + from + column * element, kept_bytes, result.memory + t * kept_bytes);
    from += row_bytes;
  }
  return ok();
}

Result<void> agree(const Call& call, const Environment& environment) {
  const std::vector<Tensor>& in = call.operands;
  const int64_t slots = in[AgreeOperand::kFinished].elements();
  const int64_t bytes = device::agreement_payload_bytes(slots);
  std::vector<std::byte> own(static_cast<size_t>(bytes));
  device::write_agreement_payload(checksum_of(in), ints(in[AgreeOperand::kStopRequest]), own);
  std::vector<std::byte> all = own;
  if (environment.ranks > 1) {
    all.resize(static_cast<size_t>(bytes * environment.ranks));
    const std::vector<int64_t> counts(static_cast<size_t>(environment.ranks), bytes);
    LOCKSTEP_TRY_VOID(environment.communicator->all_gather(own, counts, all, device::Stream::host()));
  }
  if (!device::payloads_agree(all, environment.ranks, slots)) {
    return device::disagreement_error("runtime/backends/reference", ints(in[AgreeOperand::kStep]), all,
                                      environment.ranks, slots);
  }
  for (int64_t s = 0; s < slots; ++s) {
    if (device::payload_requests_stop(all.data(), s))
      in[AgreeOperand::kFinished].ints()[s] = 1;  // rank 0's payload comes first
  }
  return ok();
}

}  // namespace lockstep::reference
