#include "transport/region/region_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/core/check.h"
#include "runtime/core/futex.h"

namespace lockstep::transport::region {
namespace {

constexpr int64_t kLineElements = 16;  // f32 of a cache line

int most_roots_of_a_rank(const TreeFinish& plan) {
  int most = 1;
  for (size_t rank = 0; rank + 1 < plan.first_root.size(); ++rank) {
    most = std::max(most, plan.first_root[rank + 1] - plan.first_root[rank]);
  }
  return most;
}

int roots_of(const TreeFinish& plan, int rank) { return plan.first_root[rank + 1] - plan.first_root[rank]; }

/// From one root to the next in a buffer: whole cache lines.
size_t row_stride(Range piece) {
  return static_cast<size_t>((piece.size() + kLineElements - 1) / kLineElements * kLineElements);
}

/// The number of elements for which every rank's roots fit one buffer.
int64_t piece_elements(const TreeFinish& plan, size_t message_bytes) {
  const size_t row = message_bytes / sizeof(float) / static_cast<size_t>(most_roots_of_a_rank(plan));
  const auto elements = static_cast<int64_t>(row) / kLineElements * kLineElements;
  LOCKSTEP_CHECK(elements > 0, message_bytes, most_roots_of_a_rank(plan));
  return elements;
}

constexpr const char* kNames[] = {"none", "all_reduce", "all_gather", "broadcast", "barrier", "reduce_slices"};

void copy_bytes(void* dst, const void* src, size_t bytes) {
  if (bytes != 0 && dst != src) std::memcpy(dst, src, bytes);
}

}  // namespace

/// Packed into a word beside the flag, to detect ranks that call different collectives.
struct RegionCommunicator::Operation {
  enum Kind : uint8_t { kNone, kAllReduce, kAllGather, kBroadcast, kBarrier, kReduceSlices };
  Kind kind = kNone;
  int root = 0;        // of a broadcast
  uint64_t bytes = 0;  // of the result

  uint64_t pack() const {
    return static_cast<uint64_t>(kind) << 60 | static_cast<uint64_t>(root & 0xfff) << 48 | (bytes & 0xffffffffffff);
  }
  static Operation unpack(uint64_t word) {
    return {static_cast<Kind>(word >> 60), static_cast<int>(word >> 48 & 0xfff), word & 0xffffffffffff};
  }
  static uint32_t digest(uint64_t word) { return static_cast<uint32_t>(word * 0x9e3779b97f4a7c15ull >> 32); }
  const char* name() const { return kind < std::size(kNames) ? kNames[kind] : "an unknown operation"; }
  std::string describe() const {
    return kind == kBroadcast ? fmt::format("{} of {} bytes from rank {}", name(), bytes, root)
                              : fmt::format("{} of {} bytes", name(), bytes);
  }
};

RegionCommunicator::RegionCommunicator(View view, Member member, const WaitOptions& wait)
    : view_(view),
      member_(std::move(member)),
      copy_out_(member_.past_cache ? copy_past_cache() : copy_through_cache),
      patience_(wait, wait_stages(member_.crowded)),
      // Measured: passing a flag between two cores costs as much as reading some 8 KiB, a context switch far more.
      round_bytes_(member_.crowded ? 256.0 * 1024 : 8.0 * 1024) {
  missing_.reserve(static_cast<size_t>(size()));
}

Result<void> RegionCommunicator::all_reduce(const device::TreeSum& sum, std::span<const float> roots,
                                            std::span<float> dst, device::Stream) {
  LOCKSTEP_CHECK(sum.split.ranks() == size(), sum.split.ranks(), size());
  return finish_sum(sum.finish, roots, dst);
}

std::span<float> RegionCommunicator::place_for_roots(const device::TreeSum& sum, size_t elements) {
  const auto count = static_cast<int64_t>(elements);
  const int roots = roots_of(sum.finish, rank());
  const bool is_dense = roots == 1 || row_stride({0, count}) == elements;  // in the layout for the peers
  if (roots == 0 || !is_dense || count > piece_elements(sum.finish, view_.layout().message_bytes)) return {};
  return {reinterpret_cast<float*>(own_buffer()), elements * static_cast<size_t>(roots)};
}

Result<void> RegionCommunicator::finish_sum(const TreeFinish& plan, std::span<const float> roots,
                                            std::span<float> dst) {
  LOCKSTEP_CHECK(roots.size() == dst.size() * static_cast<size_t>(roots_of(plan, rank())), roots.size(), dst.size());
  if (!enter({.kind = Operation::kAllReduce, .bytes = dst.size_bytes()}, roots.size_bytes())) return *failure_;
  const auto elements = static_cast<int64_t>(dst.size());
  const int64_t step = piece_elements(plan, view_.layout().message_bytes);
  Range piece{0, std::min(step, elements)};
  do {
    if (!reduce_piece(plan, roots, dst, piece)) return *failure_;
    piece = {piece.end, std::min(piece.end + step, elements)};
  } while (piece.size() > 0);
  return ok();
}

bool RegionCommunicator::reduce_piece(const TreeFinish& plan, std::span<const float> roots, std::span<float> dst,
                                      Range piece) {
  if (!show_roots(roots_of(plan, rank()), roots, dst.size(), piece)) return false;
  const bool sliced = prefers_slices(plan, size(), piece.size(), round_bytes_);
  const Range part = sliced ? slice_of(piece.size(), size(), rank()) : Range{0, piece.size()};
  set_sources(plan, roots, dst.size(), piece, part.begin);
  const auto count = static_cast<size_t>(part.size());
  if (!sliced) {
    finisher_.finish(plan, dst.subspan(piece.begin, count));
    return true;
  }
  finisher_.finish(plan, {reinterpret_cast<float*>(own_buffer()), count});
  return gather_slices(dst, piece);
}

bool RegionCommunicator::show_roots(int rows, std::span<const float> roots, size_t width, Range piece) {
  const size_t row_bytes = row_stride(piece) * sizeof(float);
  const bool is_there = reinterpret_cast<const std::byte*>(roots.data()) == own_buffer();  // `place_for_roots`
  for (int root = 0; root < rows && !is_there; ++root) {
    copy_out_(own_buffer() + root * row_bytes, roots.data() + root * width + piece.begin,
              static_cast<size_t>(piece.size()) * sizeof(float));
  }
  return meet();
}

void RegionCommunicator::set_sources(const TreeFinish& plan, std::span<const float> roots, size_t width, Range piece,
                                     int64_t begin) {
  const size_t stride = row_stride(piece);
  const std::span<const float*> sources = finisher_.sources(plan.roots());
  for (int peer = 0; peer < size(); ++peer) {
    // Own roots are read at their source, which is in this core's cache.
    const bool own = peer == rank();
    const float* row = own ? roots.data() + piece.begin : reinterpret_cast<const float*>(met_buffer(peer));
    for (int root = plan.first_root[peer]; root < plan.first_root[peer + 1]; ++root) {
      sources[root] = row + begin;
      row += own ? width : stride;
    }
  }
}

Result<void> RegionCommunicator::reduce_slices(const SliceSums& wanted, std::span<const float> roots, size_t width,
                                               std::span<float> dst) {
  const Range own = wanted.slices[static_cast<size_t>(rank())];
  const auto own_width = static_cast<size_t>(own.size());
  LOCKSTEP_CHECK(static_cast<int>(wanted.slices.size()) == size(), wanted.slices.size(), size());
  LOCKSTEP_CHECK(dst.size() == wanted.sums.size() * own_width, dst.size(), wanted.sums.size(), own_width);
  const auto bytes = static_cast<uint64_t>(wanted.columns.size()) * sizeof(float);
  if (!enter({.kind = Operation::kReduceSlices, .bytes = bytes}, roots.size_bytes())) return *failure_;
  // A host without own roots takes part in the round, too.
  const int64_t step = wanted.sums.empty() ? std::max<int64_t>(wanted.columns.size(), 1)
                                           : piece_elements(wanted.sums.front(), view_.layout().message_bytes);
  const int rows = wanted.sums.empty() ? 0 : roots_of(wanted.sums.front(), rank());
  int64_t begin = 0;
  do {
    const Range piece{wanted.columns.begin + begin,
                      wanted.columns.begin + std::min(begin + step, wanted.columns.size())};
    if (!show_roots(rows, roots, width, piece)) return *failure_;
    const Range part{std::max(own.begin, begin), std::min(own.end, begin + step)};
    if (!wanted.sums.empty()) set_sources(wanted.sums.front(), roots, width, piece, part.begin - begin);
    for (size_t sum = 0; sum < wanted.sums.size() && part.size() > 0; ++sum) {
      finisher_.finish(wanted.sums[sum], dst.subspan(sum * own_width + static_cast<size_t>(part.begin - own.begin),
                                                     static_cast<size_t>(part.size())));
    }
    begin += step;
  } while (begin < wanted.columns.size());
  return ok();
}

bool RegionCommunicator::gather_slices(std::span<float> dst, Range piece) {
  if (!meet()) return false;
  for (int peer = 0; peer < size(); ++peer) {
    const Range part = slice_of(piece.size(), size(), peer);
    copy_bytes(dst.data() + piece.begin + part.begin, met_buffer(peer),
               static_cast<size_t>(part.size()) * sizeof(float));
  }
  return true;
}

Result<void> RegionCommunicator::all_gather(std::span<const std::byte> src, std::span<const int64_t> counts,
                                            std::span<std::byte> dst, device::Stream) {
  LOCKSTEP_CHECK(static_cast<int>(counts.size()) == size(), counts.size(), size());
  LOCKSTEP_CHECK(static_cast<int64_t>(src.size()) == counts[rank()], src.size(), counts[rank()]);
  const auto total = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  LOCKSTEP_CHECK(dst.size() == total, dst.size(), total);
  if (!enter({.kind = Operation::kAllGather, .bytes = total}, src.size())) return *failure_;
  const auto step = static_cast<int64_t>(view_.layout().message_bytes);
  const int64_t longest = *std::max_element(counts.begin(), counts.end());
  int64_t begin = 0;
  do {
    const auto piece = [&](int peer) {
      return static_cast<size_t>(std::clamp<int64_t>(counts[peer] - begin, 0, step));
    };
    if (piece(rank()) != 0) copy_out_(own_buffer(), src.data() + begin, piece(rank()));
    if (!meet()) return *failure_;
    int64_t at = 0;
    for (int peer = 0; peer < size(); at += counts[peer++]) {
      if (piece(peer) == 0) continue;
      copy_bytes(dst.data() + at + begin, peer == rank() ? src.data() + begin : met_buffer(peer), piece(peer));
    }
    begin += step;
  } while (begin < longest);
  return ok();
}

Result<void> RegionCommunicator::broadcast(std::span<std::byte> bytes, int root, device::Stream) {
  LOCKSTEP_CHECK(0 <= root && root < size(), root, size());
  if (!enter({.kind = Operation::kBroadcast, .root = root, .bytes = bytes.size()}, root == rank() ? bytes.size() : 0))
    return *failure_;
  const size_t step = view_.layout().message_bytes;
  size_t begin = 0;
  do {
    const std::span<std::byte> piece = bytes.subspan(begin, std::min(step, bytes.size() - begin));
    if (root == rank()) copy_out_(own_buffer(), piece.data(), piece.size());
    if (!meet()) return *failure_;
    if (root != rank()) copy_bytes(piece.data(), met_buffer(root), piece.size());
    begin += step;
  } while (begin < bytes.size());
  return ok();
}

Result<void> RegionCommunicator::barrier(device::Stream) {
  if (!enter({.kind = Operation::kBarrier}, 0) || !meet()) return *failure_;
  return ok();
}

bool RegionCommunicator::enter(const Operation& operation, uint64_t own_bytes) {
  if (failure_) return false;
  log_.enter(operation.name(), own_bytes);
  operation_ = operation.pack();
  digest_ = Operation::digest(operation_);
  view_.line(rank()).operation.store(operation_, std::memory_order_relaxed);
  patience_.begin_operation();
  return patience_.is_aborted() ? fail(patience_.abort_reason()) : true;
}

/// Publishes the contents of `own_buffer()` and waits for those of the others.
bool RegionCommunicator::meet() {
  RankLine& own = view_.line(rank());
  const Arrival arrival{.round = ++round_, .operation = digest_};
  // Sequentially consistent with the sleeper's operations (increment, then check), so one of the two sees the other.
  own.arrival.store(arrival.pack(), std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) != 0) wake_all(lower_half(own.arrival), WordScope::kShared);
  for (int peer = 0; peer < size(); ++peer) {
    Arrival theirs = arrival_of(peer);
    if (!theirs.has_entered(round_)) {
      if (!wait_for(peer)) return false;
      theirs = arrival_of(peer);
    }
    // A peer that is a round ahead has found this rank's word equal to its own; otherwise it would have failed.
    if (theirs.round == round_ && theirs.operation != digest_) return fail(disagreement(peer));
  }
  return true;
}

bool RegionCommunicator::wait_for(int peer) {
  RankLine& line = view_.line(peer);
  patience_.begin_wait();
  while (!arrival_of(peer).has_entered(round_)) {
    switch (patience_.after_failed_look()) {
      case Patience::Verdict::kLookAgain: break;
      case Patience::Verdict::kAborted: return fail(patience_.abort_reason());
      case Patience::Verdict::kExpired:
        note_missing();
        if (missing_.empty()) break;  // the last one has just entered the round
        return fail(expired());
      case Patience::Verdict::kSleep:
        line.sleepers.fetch_add(1, std::memory_order_seq_cst);
        const Arrival seen = Arrival::unpack(line.arrival.load(std::memory_order_seq_cst));
        if (!seen.has_entered(round_)) {  // the round is the lower half of its word
          sleep_on(lower_half(line.arrival), seen.round, patience_.sleep(), WordScope::kShared);
        }
        line.sleepers.fetch_sub(1, std::memory_order_relaxed);
        break;
    }
  }
  patience_.end_wait();
  return true;
}

Error RegionCommunicator::disagreement(int peer) const {
  const uint64_t theirs = view_.line(peer).operation.load(std::memory_order_relaxed);
  return {ErrorKind::kFailedPrecondition,
          fmt::format(
              "[transport/{}] rank {}: the ranks disagree on collective {}: found {} on rank {}, expected {}; every "
              "rank must run the same steps",
              name(), name_of(rank()), log_.last().sequence, Operation::unpack(theirs).describe(), name_of(peer),
              Operation::unpack(operation_).describe()),
          name_of(peer)};
}

void RegionCommunicator::note_missing() {
  missing_.clear();
  for (int peer = 0; peer < size(); ++peer) {
    if (!arrival_of(peer).has_entered(round_)) missing_.push_back(peer);
  }
}

Error RegionCommunicator::expired() {
  expired_ = true;
  std::vector<int> names;
  for (const int peer : missing_) names.push_back(name_of(peer));
  const std::string component = "transport/" + name();
  return expired_error({.component = component,
                        .rank = name_of(rank()),
                        .operation = log_.last(),
                        .missing = names,
                        .deadline = patience_.deadline()});
}

std::optional<std::span<const int>> RegionCommunicator::missing() const {
  if (!expired_) return std::nullopt;
  return std::span<const int>(missing_);
}

bool RegionCommunicator::fail(Error error) {
  failure_ = std::move(error);
  return false;
}

}  // namespace lockstep::transport::region
