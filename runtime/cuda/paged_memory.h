// Device memory whose addresses are reserved at once and whose pages are committed as they are needed:
//
//   PagePool        │ page │ page │ page │ page │ …      physical pages, made at start
//                       │             │
//   PagedMemory  ──┬────┴───┬─────────┴──┬────────────┬ …      addresses, constant from the start
//                  │ page 0 │  page 1    │  no memory │
//
// Captured graphs hold addresses, so growing a cache never changes a graph.
#pragma once

#include <vector>

#include "runtime/cuda/stream.h"

namespace lockstep::cu {

/// Physical pages of one GPU. Pages are made at start, because making one while a step waits costs 200 µs; the pool
/// grows when it is empty.
class PagePool {
 public:
  /// Makes `pages` pages. Fails with `kResourceExhausted`. The context outlives the pool. @blocking
  static Result<PagePool> create(const Context& context, int64_t pages);
  ~PagePool();
  PagePool(PagePool&& other) noexcept { *this = std::move(other); }
  PagePool& operator=(PagePool&& other) noexcept;

  /// Bytes of a page (2 MiB on today's GPUs).
  Bytes page() const { return page_; }
  /// Pages made and in nobody's use.
  int64_t spare() const { return static_cast<int64_t>(spare_.size()); }

 private:
  friend class PagedMemory;
  explicit PagePool(const Context& context) : context_(&context) {}
  Result<CUmemGenericAllocationHandle> make();
  Result<CUmemGenericAllocationHandle> take();
  void give(CUmemGenericAllocationHandle handle) { spare_.push_back(handle); }

  const Context* context_ = nullptr;
  Bytes page_;
  std::vector<CUmemGenericAllocationHandle> spare_;
};

/// A range of addresses, committed page by page.
class PagedMemory {
 public:
  /// Reserves addresses for at least `bytes`, and commits nothing. The pool outlives it.
  static Result<PagedMemory> reserve(PagePool& pool, Bytes bytes);
  ~PagedMemory();
  PagedMemory(PagedMemory&& other) noexcept { *this = std::move(other); }
  PagedMemory& operator=(PagedMemory&& other) noexcept;

  DeviceAddress address() const { return address_; }
  Bytes reserved() const { return reserved_; }
  Bytes committed() const { return committed_; }

  /// Commits every page that overlaps [begin, begin + bytes); work that clears new pages is enqueued on `stream`.
  /// Between steps only. Returns the number of new pages. @blocking
  Result<int64_t> commit(int64_t begin, int64_t bytes, Stream& stream);
  /// Whether all of [begin, begin + bytes) is committed.
  bool is_committed(int64_t begin, int64_t bytes) const;
  /// Returns all pages to the pool and loses their contents. No work that uses them may be under way.
  Result<void> release();

 private:
  PagedMemory() = default;

  PagePool* pool_ = nullptr;
  DeviceAddress address_;
  Bytes reserved_;
  Bytes committed_;
  std::vector<CUmemGenericAllocationHandle> pages_;  // by position; 0: not committed
};

}  // namespace lockstep::cu
