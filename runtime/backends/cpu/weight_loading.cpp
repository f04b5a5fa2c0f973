#include "runtime/backends/cpu/weight_loading.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

namespace lockstep::cpu {
namespace {

constexpr int64_t kBlockBytes = int64_t{256} << 10;    // minimum size of a read: fits the second-level cache
constexpr int64_t kSmallBytes = int64_t{256} << 10;    // a weight without panels up to this size is read by one worker
constexpr int64_t kExpectedBytes = int64_t{16} << 20;  // announced ahead of the block being packed
constexpr int64_t kBufferAlignment = 4096;

/// The smallest part of a weight that can be packed separately: a panel, if all its forms have the same panels. Weights
/// without panels are divided by row; a weight with different rows in its forms is not divided.
struct Units {
  explicit Units(const WeightPlace& place) : place_(place) {
    for (const PanelForm& form : place.panels) is_whole_ |= form.rows_of_part != place.panels.front().rows_of_part;
  }
  int64_t count() const {
    if (is_whole_) return 1;
    return place_.panels.empty() ? device::rows_of(*place_.value).size() : place_.panels.front().panels();
  }
  Range rows_of(int64_t begin, int64_t end) const {
    if (is_whole_) return device::rows_of(*place_.value);
    if (place_.panels.empty()) return {begin, end};
    const PanelForm& form = place_.panels.front();
    return {form.rows_of(begin).begin, form.rows_of(end - 1).end};
  }
  int64_t rows_of_one() const {
    if (is_whole_) return std::max<int64_t>(1, device::rows_of(*place_.value).size());
    return place_.panels.empty() ? 1 : std::clamp<int64_t>(place_.panels.front().rows_of_part, 1, kPanel);
  }

 private:
  const WeightPlace& place_;
  bool is_whole_ = false;
};

/// A buffer for the rows of a block, grown to the largest.
class Buffer {
 public:
  std::byte* of(int64_t bytes) {
    if (bytes > bytes_) {
      bytes_ = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, static_cast<size_t>(bytes_))));
      if (data_ == nullptr) throw std::bad_alloc();
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_ = 0;
};

/// Packs the rows at `src` into every form of a weight.
void pack_rows(const WeightPlace& place, Range rows, const std::byte* src) {
  const int64_t row_bytes = place.row_bytes();
  for (const PanelForm& form : place.panels) {
    int64_t panel = rows.begin / form.rows_of_part * form.panels_of_part() + rows.begin % form.rows_of_part / kPanel;
    for (; panel < form.panels() && form.rows_of(panel).begin < rows.end; ++panel) {
      form.pack(panel, src + (form.rows_of(panel).begin - rows.begin) * row_bytes);
    }
  }
  if (place.rows != nullptr && !place.panels.empty()) {
    std::memcpy(place.rows + rows.begin * row_bytes, src, static_cast<size_t>(rows.size() * row_bytes));
  }
}

/// The state shared by the workers.
class Loading {
 public:
  Loading(std::span<const WeightPlace> places, const device::WeightReader& reader) : places_(places), reader_(reader) {}

  /// One worker's share. Never throws, because the others wait for it.
  void work(Part part) {
    try {
      if (const Result<void> done = read_share(part); !done.has_value()) fail(done.error());
    } catch (const std::bad_alloc&) {
      fail({ErrorKind::kResourceExhausted,
            "[runtime/backends/cpu] cannot load weights: found no memory for a buffer; use more ranks"});
    } catch (const std::exception& bug) {
      fail({ErrorKind::kInternal, fmt::format("[runtime/backends/cpu] {}", bug.what())});
    }
  }

  Result<void> result() const {
    if (error_) return *error_;
    return ok();
  }

 private:
  Result<void> read_share(Part part);
  Result<void> read_block(const WeightBlock& block, Buffer& buffer) const;
  int64_t bytes_of(const WeightBlock& block) const { return block.rows.size() * places_[block.weight].row_bytes(); }
  void fail(Error error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    has_failed_.store(true, std::memory_order_relaxed);
  }

  const std::span<const WeightPlace> places_;
  const device::WeightReader& reader_;
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;
  std::optional<Error> error_;
};

Result<void> Loading::read_share(Part part) {
  WeightBlocks blocks(places_, reader_, part), later(places_, reader_, part);
  Buffer buffer;
  WeightBlock block, coming;
  int64_t ahead = 0;  // bytes announced but not read
  bool has_more = true;
  while (blocks.next(block) && !has_failed_.load(std::memory_order_relaxed)) {
    for (; ahead < kExpectedBytes && (has_more = has_more && later.next(coming)); ahead += bytes_of(coming)) {
      reader_.expect(*places_[coming.weight].value, coming.rows);
    }
    LOCKSTEP_TRY_VOID(read_block(block, buffer));
    ahead -= bytes_of(block);
  }
  return ok();
}

Result<void> Loading::read_block(const WeightBlock& block, Buffer& buffer) const {
  const WeightPlace& place = places_[block.weight];
  const int64_t bytes = bytes_of(block);
  if (bytes == 0) return ok();
  const bool straight = place.panels.empty();
  std::byte* dst = straight ? place.rows + block.rows.begin * place.row_bytes() : buffer.of(bytes);
  LOCKSTEP_TRY_VOID(reader_.read(*place.value, block.rows, {dst, static_cast<size_t>(bytes)}));
  if (!straight) pack_rows(place, block.rows, dst);
  return ok();
}

}  // namespace

Range PanelForm::rows_of(int64_t panel) const {
  const int64_t part = panel / panels_of_part() * rows_of_part;
  const int64_t first = panel % panels_of_part() * kPanel;
  return {part + first, part + std::min(first + kPanel, rows_of_part)};
}

PanelForm panel_form(const Packing& packing, std::byte* dst) {
  return {.rows_of_part = packing.n,
          .parts = packing.parts,
          .pack = [packing, dst](int64_t panel, const std::byte* src) { pack_panel(packing, panel, src, dst); }};
}

PanelForm int8_panel_form(const Kernels& kernels, const Int8Packing& packing, std::byte* dst) {
  return {.rows_of_part = packing.n, .parts = 1, .pack = [&kernels, packing, dst](int64_t panel, const std::byte* src) {
            pack_int8_panel(kernels, packing, panel, src, dst);
          }};
}

int64_t WeightPlace::row_bytes() const {
  const int64_t count = device::rows_of(*value).size();
  return count == 0 ? 0 : value->type.bytes() / count;
}

WeightBlocks::WeightBlocks(std::span<const WeightPlace> places, const device::WeightReader& reader, Part part)
    : places_(places), reader_(reader), part_(part) {
  open_weight();
}

void WeightBlocks::open_weight() {
  for (; weight_ < places_.size(); ++weight_) {
    const WeightPlace& place = places_[weight_];
    const Units units(place);
    Share share = share_of(units.count(), part_);
    if (place.panels.empty() && place.value->type.bytes() <= kSmallBytes) {
      const bool is_mine = weight_ % static_cast<size_t>(part_.workers) == static_cast<size_t>(part_.worker);
      share = {0, is_mine ? units.count() : 0};
    }
    if (share.begin == share.end) continue;
    unit_ = share.begin;
    end_unit_ = share.end;
    const int64_t unit_bytes = std::max<int64_t>(1, units.rows_of_one() * place.row_bytes());
    units_at_once_ =
        std::max({int64_t{1}, kBlockBytes / unit_bytes, reader_.rows_at_once(*place.value) / units.rows_of_one()});
    return;
  }
}

bool WeightBlocks::next(WeightBlock& block) {
  if (weight_ >= places_.size()) return false;
  const int64_t end = std::min(unit_ + units_at_once_, end_unit_);
  block = {weight_, Units(places_[weight_]).rows_of(unit_, end)};
  unit_ = end;
  if (unit_ == end_unit_) {
    ++weight_;
    open_weight();
  }
  return true;
}

Result<void> load_weights(std::span<const WeightPlace> places, const device::WeightReader& reader, ThreadTeam& team) {
  Loading loading(places, reader);
  team.run([](void* self, Part part) { static_cast<Loading*>(self)->work(part); }, &loading);
  return loading.result();
}

}  // namespace lockstep::cpu
