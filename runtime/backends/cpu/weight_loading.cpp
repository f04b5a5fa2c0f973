#include "runtime/backends/cpu/weight_loading.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace lockstep::cpu {
namespace {

constexpr int64_t kBufferAlignment = 4096;

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
void pack_rows(const WeightPlace& place, int64_t row_bytes, Range rows, const std::byte* src) {
  for (const PanelForm& form : place.panels) {
    for (int64_t panel = form.rows.panel_of(rows.begin);
         panel < form.rows.panels() && form.rows.rows_of(panel).begin < rows.end; ++panel) {
      form.pack(panel, src + (form.rows.rows_of(panel).begin - rows.begin) * row_bytes);
    }
  }
  if (place.rows != nullptr && !place.panels.empty()) {
    std::memcpy(place.rows + rows.begin * row_bytes, src, static_cast<size_t>(rows.size() * row_bytes));
  }
}

device::WeightRows rows_of(const WeightPlace& place) {
  device::WeightRows rows{.value = place.value};
  for (const PanelForm& form : place.panels) rows.panels.push_back(form.rows);
  return rows;
}

/// What the workers share.
struct Job {
  std::span<const WeightPlace> places;
  std::vector<device::WeightRows> rows;
  const device::WeightReader& reader;
  device::WeightLoading loading;

  Job(std::span<const WeightPlace> all, const device::WeightReader& source)
      : places(all), rows(rows_of_all(all)), reader(source), loading(rows, source, "runtime/backends/cpu") {}

  static std::vector<device::WeightRows> rows_of_all(std::span<const WeightPlace> places) {
    std::vector<device::WeightRows> all;
    for (const WeightPlace& place : places) all.push_back(rows_of(place));
    return all;
  }

  Result<void> read_block(const device::WeightBlock& block, Buffer& buffer) const {
    const WeightPlace& place = places[block.weight];
    const int64_t row_bytes = rows[block.weight].row_bytes();
    const int64_t bytes = block.rows.size() * row_bytes;
    const bool straight = place.panels.empty();
    std::byte* dst = straight ? place.rows + block.rows.begin * row_bytes : buffer.of(bytes);
    LOCKSTEP_TRY_VOID(reader.read(*place.value, block.rows, {dst, static_cast<size_t>(bytes)}));
    if (!straight) pack_rows(place, row_bytes, block.rows, dst);
    return ok();
  }
};

}  // namespace

PanelForm panel_form(const Packing& packing, std::byte* dst) {
  return {.rows = {packing.n, packing.parts, kPanel},
          .pack = [packing, dst](int64_t panel, const std::byte* src) { pack_panel(packing, panel, src, dst); }};
}

PanelForm int8_panel_form(const Kernels& kernels, const Int8Packing& packing, std::byte* dst) {
  return {.rows = {packing.n, 1, kPanel}, .pack = [&kernels, packing, dst](int64_t panel, const std::byte* src) {
            pack_int8_panel(kernels, packing, panel, src, dst);
          }};
}

Result<void> load_weights(std::span<const WeightPlace> places, const device::WeightReader& reader, ThreadTeam& team) {
  Job job(places, reader);
  team.run(
      [](void* self, Part part) {
        Job& own = *static_cast<Job*>(self);
        Buffer buffer;
        own.loading.work(part, [&](const device::WeightBlock& block) { return own.read_block(block, buffer); });
      },
      &job);
  return job.loading.result();
}

}  // namespace lockstep::cpu
