#include "transport/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/core/check.h"

namespace lockstep::transport::mpi {
namespace {

constexpr int64_t kPieceElements = 1 << 20;  // of a sum: bounds the scratch memory
// A round of messages costs about as much as this many bytes of one.
constexpr double kRoundBytes = 64 * 1024;

int roots_of(const TreeFinish& plan, int rank) { return plan.first_root[rank + 1] - plan.first_root[rank]; }

void grow(auto& scratch, size_t elements) {
  if (scratch.size() < elements) scratch.resize(elements);
}

/// The other ranks, each starting with its neighbour, so that ranks do not all send to the same rank.
template <typename Visit>
void for_each_peer(int rank, int size, Visit visit) {
  for (int step = 1; step < size; ++step) visit((rank + step) % size);
}

}  // namespace

Result<void> MpiCommunicator::all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                                         device::Stream) {
  LOCKSTEP_CHECK(sum.split.ranks() == size(), sum.split.ranks(), size());
  return finish_sum(sum.finish, roots, dst);
}

Result<void> MpiCommunicator::finish_sum(const TreeFinish& plan, std::span<const float> roots, std::span<float> dst) {
  LOCKSTEP_CHECK(roots.size() == dst.size() * static_cast<size_t>(roots_of(plan, rank())), roots.size(), dst.size());
  LOCKSTEP_TRY_VOID(enter("all_reduce", roots.size_bytes()));
  const auto elements = static_cast<int64_t>(dst.size());
  for (int64_t begin = 0; begin < elements; begin += kPieceElements) {
    const Range piece{begin, std::min(begin + kPieceElements, elements)};
    if (prefers_slices(plan, size(), piece.size(), kRoundBytes)) {
      LOCKSTEP_TRY_VOID(exchange_slices(plan, roots, dst.size(), piece));
      const Range own = slice_of(piece.size(), size(), rank());
      finisher_.finish(plan, dst.subspan(static_cast<size_t>(begin + own.begin), static_cast<size_t>(own.size())));
      LOCKSTEP_TRY_VOID(gather_slices(dst, piece));
    } else {
      LOCKSTEP_TRY_VOID(exchange_roots(plan, roots, dst.size(), piece));
      finisher_.finish(plan, dst.subspan(static_cast<size_t>(begin), static_cast<size_t>(piece.size())));
    }
  }
  return ok();
}

Result<void> MpiCommunicator::exchange_roots(const TreeFinish& plan, std::span<const float> roots, size_t columns,
                                             Range piece) {
  const auto width = static_cast<size_t>(piece.size());
  grow(received_, static_cast<size_t>(plan.roots()) * width);
  const std::span<const float> own = pack(plan, roots, columns, piece, 0);
  const std::span<const float*> sources = finisher_.sources(plan.roots());
  for (int peer = 0; peer < size(); ++peer) {
    const float* row = peer == rank() ? own.data() : received_.data() + plan.first_root[peer] * width;
    for (int root = plan.first_root[peer]; root < plan.first_root[peer + 1]; ++root, row += width) sources[root] = row;
  }
  for_each_peer(rank(), size(), [&](int peer) {
    const auto rows = static_cast<size_t>(roots_of(plan, peer));
    messages_->receive(
        peer, std::as_writable_bytes(std::span(received_).subspan(plan.first_root[peer] * width, rows * width)));
  });
  for_each_peer(rank(), size(), [&](int peer) { messages_->send(peer, std::as_bytes(own)); });
  return finish();
}

Result<void> MpiCommunicator::exchange_slices(const TreeFinish& plan, std::span<const float> roots, size_t columns,
                                              Range piece) {
  const Range mine = slice_of(piece.size(), size(), rank());
  const auto width = static_cast<size_t>(mine.size());
  const auto own_rows = static_cast<size_t>(roots_of(plan, rank()));
  grow(received_, static_cast<size_t>(plan.roots()) * width);
  grow(packed_, own_rows * static_cast<size_t>(piece.size()));
  const std::span<const float*> sources = finisher_.sources(plan.roots());
  for (int peer = 0; peer < size(); ++peer) {
    const bool own = peer == rank();
    const float* row = own ? roots.data() + piece.begin + mine.begin : received_.data() + plan.first_root[peer] * width;
    for (int root = plan.first_root[peer]; root < plan.first_root[peer + 1]; ++root) {
      sources[root] = row;
      row += own ? columns : width;
    }
  }
  for_each_peer(rank(), size(), [&](int peer) {
    const auto rows = static_cast<size_t>(roots_of(plan, peer));
    messages_->receive(
        peer, std::as_writable_bytes(std::span(received_).subspan(plan.first_root[peer] * width, rows * width)));
  });
  for_each_peer(rank(), size(), [&](int peer) {
    const Range theirs = slice_of(piece.size(), size(), peer);
    const Range part{piece.begin + theirs.begin, piece.begin + theirs.end};
    const size_t at = own_rows * static_cast<size_t>(theirs.begin);
    messages_->send(peer, std::as_bytes(pack(plan, roots, columns, part, at)));
  });
  return finish();
}

std::span<const float> MpiCommunicator::pack(const TreeFinish& plan, std::span<const float> roots, size_t columns,
                                             Range part, size_t at) {
  const auto rows = static_cast<size_t>(roots_of(plan, rank()));
  const auto width = static_cast<size_t>(part.size());
  if (rows == 0 || width == 0) return {};
  if (rows == 1 || width == columns) return roots.subspan(static_cast<size_t>(part.begin), rows * width);
  grow(packed_, at + rows * width);  // slices: grown to the whole piece before the first slice is sent
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(packed_.data() + at + row * width, roots.data() + row * columns + part.begin, width * sizeof(float));
  }
  return std::span(packed_).subspan(at, rows * width);
}

Result<void> MpiCommunicator::gather_slices(std::span<float> dst, Range piece) {
  const auto slice = [&](int peer) {
    const Range part = slice_of(piece.size(), size(), peer);
    return dst.subspan(static_cast<size_t>(piece.begin + part.begin), static_cast<size_t>(part.size()));
  };
  for_each_peer(rank(), size(), [&](int peer) { messages_->receive(peer, std::as_writable_bytes(slice(peer))); });
  for_each_peer(rank(), size(), [&](int peer) { messages_->send(peer, std::as_bytes(slice(rank()))); });
  return finish();
}

Result<void> MpiCommunicator::all_gather(std::span<const std::byte> src, std::span<const int64_t> counts,
                                         std::span<std::byte> dst, device::Stream) {
  LOCKSTEP_CHECK(static_cast<int>(counts.size()) == size(), counts.size(), size());
  LOCKSTEP_CHECK(static_cast<int64_t>(src.size()) == counts[rank()], src.size(), counts[rank()]);
  const auto total = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  LOCKSTEP_CHECK(dst.size() == total, dst.size(), total);
  LOCKSTEP_TRY_VOID(enter("all_gather", src.size()));
  size_t at = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const std::span<std::byte> place = dst.subspan(at, static_cast<size_t>(counts[peer]));
    at += place.size();
    if (peer != rank()) messages_->receive(peer, place);
    if (peer == rank() && !src.empty() && place.data() != src.data()) {
      std::memcpy(place.data(), src.data(), src.size());
    }
  }
  for_each_peer(rank(), size(), [&](int peer) { messages_->send(peer, src); });
  return finish();
}

Result<void> MpiCommunicator::broadcast(std::span<std::byte> bytes, int root, device::Stream) {
  LOCKSTEP_CHECK(0 <= root && root < size(), root, size());
  LOCKSTEP_TRY_VOID(enter("broadcast", root == rank() ? bytes.size() : 0));
  if (root == rank()) {
    for_each_peer(rank(), size(), [&](int peer) { messages_->send(peer, bytes); });
  } else {
    messages_->receive(root, bytes);
  }
  return finish();
}

Result<void> MpiCommunicator::barrier(device::Stream) {
  LOCKSTEP_TRY_VOID(enter("barrier", 0));
  grow(tokens_, static_cast<size_t>(size()));
  for_each_peer(rank(), size(), [&](int peer) { messages_->receive(peer, {&tokens_[peer], 1}); });
  for_each_peer(rank(), size(), [&](int peer) { messages_->send(peer, {&tokens_[rank()], 1}); });
  return finish();
}

Result<void> MpiCommunicator::enter(const char* operation, uint64_t own_bytes) {
  if (failure_) return *failure_;
  log_.enter(operation, own_bytes);
  messages_->patience().begin_operation();
  if (messages_->patience().is_aborted()) return fail(messages_->patience().abort_reason());
  return ok();
}

Result<void> MpiCommunicator::finish() {
  Result<void> done = messages_->finish_all(log_.last());
  if (!done.has_value()) return fail(std::move(done).error());
  return done;
}

Error MpiCommunicator::fail(Error error) {
  failure_ = error;
  return error;
}

}  // namespace lockstep::transport::mpi
