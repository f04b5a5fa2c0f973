// Ranks that are processes of one host, connected by inherited memory instead of MPI.
//
//   starter    MeetingFile::create(ranks)                   a nameless file in memory
//      │       fork and exec of every rank, which keeps the file's descriptor
//   rank r     World::join(descriptor, r, ranks)            its k-th bootstrap meets the k-th of every other rank
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "runtime/core/descriptor.h"
#include "transport/bootstrap.h"

namespace lockstep::transport::region {
class Memory;
}

namespace lockstep::transport::local {

/// Bootstraps that one group can make.
inline constexpr int kMostBootstraps = 1024;

/// The file in memory that the ranks share. Closed on destruction; ranks that have joined keep the memory.
class MeetingFile {
 public:
  /// Fails with `kResourceExhausted` when the system has no descriptor or memory for it.
  static Result<MeetingFile> create(int ranks);

  /// Closed by exec, unless a child is told to keep it.
  int descriptor() const { return file_.get(); }

 private:
  explicit MeetingFile(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;
};

/// One rank's connection to the others. Bootstraps made from it may outlive it.
class World {
 public:
  /// Fails with `kFailedPrecondition` when `descriptor` is not the file of a starter of `size` ranks, or `rank` has
  /// joined before. Borrows the descriptor during the call, and marks it as closed by exec.
  static Result<std::unique_ptr<World>> join(int descriptor, int rank, int size);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// On any thread; every rank makes the same bootstraps in the same order. Fails with `kResourceExhausted` after
  /// `kMostBootstraps`.
  Result<std::unique_ptr<Bootstrap>> make_bootstrap(const WaitOptions& wait);

 private:
  World(std::shared_ptr<region::Memory> memory, int rank, int size)
      : memory_(std::move(memory)), rank_(rank), size_(size) {}

  const std::shared_ptr<region::Memory> memory_;  // shared with the bootstraps
  const int rank_, size_;
  std::atomic<int> made_ = 0;
};

}  // namespace lockstep::transport::local
