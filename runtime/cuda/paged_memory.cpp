#include "runtime/cuda/paged_memory.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/cuda/status.h"

namespace lockstep::cu {
namespace {

CUmemAllocationProp properties_of(const Context& context) {
  return {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
          .requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
          .location = {CU_MEM_LOCATION_TYPE_DEVICE, context.device().ordinal},
          .win32HandleMetaData = nullptr,
          .allocFlags = {}};
}

}  // namespace

Result<PagePool> PagePool::create(const Context& context, int64_t pages) {
  PagePool pool(context);
  size_t granularity = 0;
  const CUmemAllocationProp properties = properties_of(context);
  LOCKSTEP_TRY_VOID(check(
      context.functions().MemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      "ask for the size of a page"));
  pool.page_ = Bytes(static_cast<int64_t>(granularity));
  pool.spare_.reserve(static_cast<size_t>(pages));
  for (int64_t i = 0; i < pages; ++i) {
    LOCKSTEP_TRY(const CUmemGenericAllocationHandle handle, pool.make());
    pool.give(handle);
  }
  return pool;
}

PagePool::~PagePool() {
  for (const CUmemGenericAllocationHandle handle : spare_) context_->functions().MemRelease(handle);
}

PagePool& PagePool::operator=(PagePool&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(page_, other.page_);
  std::swap(spare_, other.spare_);
  return *this;
}

Result<CUmemGenericAllocationHandle> PagePool::make() {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = properties_of(*context_);
  const CUresult status = context_->functions().MemCreate(&handle, static_cast<size_t>(page_.value), &properties, 0);
  if (status != CUDA_SUCCESS) {
    return error_of(status, fmt::format("make a page of {} on GPU {} for keys and values", to_string(page_),
                                        context_->device().ordinal));
  }
  return handle;
}

Result<CUmemGenericAllocationHandle> PagePool::take() {
  if (spare_.empty()) return make();
  const CUmemGenericAllocationHandle handle = spare_.back();
  spare_.pop_back();
  return handle;
}

Result<PagedMemory> PagedMemory::reserve(PagePool& pool, Bytes bytes) {
  PagedMemory memory;
  const int64_t page = pool.page().value;
  const int64_t pages = (bytes.value + page - 1) / page;
  memory.pages_.resize(static_cast<size_t>(pages));
  if (pages > 0) {
    LOCKSTEP_TRY_VOID(check(pool.context_->functions().MemAddressReserve(&memory.address_.value,
                                                                         static_cast<size_t>(pages * page), 0, 0, 0),
                            fmt::format("reserve addresses for {} of keys and values", to_string(bytes))));
  }
  memory.pool_ = &pool;
  memory.reserved_ = Bytes(pages * page);
  return memory;
}

PagedMemory::~PagedMemory() {
  if (pool_ == nullptr || !address_) return;
  (void)release();  // nobody is left to hear of an error
  pool_->context_->functions().MemAddressFree(address_.value, static_cast<size_t>(reserved_.value));
}

PagedMemory& PagedMemory::operator=(PagedMemory&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(address_, other.address_);
  std::swap(reserved_, other.reserved_);
  std::swap(committed_, other.committed_);
  std::swap(pages_, other.pages_);
  return *this;
}

Result<int64_t> PagedMemory::commit(int64_t begin, int64_t bytes, Stream& stream) {
  if (bytes <= 0) return 0;
  const Functions& call = pool_->context_->functions();
  const int64_t page = pool_->page().value;
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, pool_->context_->device().ordinal},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  int64_t fresh = 0;
  for (int64_t i = begin / page; i * page < begin + bytes; ++i) {
    CUmemGenericAllocationHandle& place = pages_[static_cast<size_t>(i)];
    if (place != 0) continue;
    LOCKSTEP_TRY(const CUmemGenericAllocationHandle handle, pool_->take());
    const CUdeviceptr address = (address_ + i * page).value;
    const auto size = static_cast<size_t>(page);
    if (const CUresult status = call.MemMap(address, size, 0, handle, 0); status != CUDA_SUCCESS) {
      pool_->give(handle);
      return error_of(status, "map a page of keys and values");
    }
    place = handle;
    committed_ += pool_->page();
    LOCKSTEP_TRY_VOID(check(call.MemSetAccess(address, size, &access, 1), "open a page of keys and values"));
    LOCKSTEP_TRY_VOID(stream.fill_zero(address_ + i * page, page));
    ++fresh;
  }
  return fresh;
}

bool PagedMemory::is_committed(int64_t begin, int64_t bytes) const {
  const int64_t page = pool_->page().value;
  for (int64_t i = begin / page; i * page < begin + bytes; ++i) {
    if (pages_[static_cast<size_t>(i)] == 0) return false;
  }
  return true;
}

Result<void> PagedMemory::release() {
  const int64_t page = pool_->page().value;
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (pages_[i] == 0) continue;
    LOCKSTEP_TRY_VOID(check(pool_->context_->functions().MemUnmap((address_ + static_cast<int64_t>(i) * page).value,
                                                                  static_cast<size_t>(page)),
                            "unmap a page of keys and values"));
    pool_->give(std::exchange(pages_[i], 0));
    committed_ = Bytes(committed_.value - page);
  }
  return ok();
}

}  // namespace lockstep::cu
