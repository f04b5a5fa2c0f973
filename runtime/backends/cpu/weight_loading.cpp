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

/// Calls `pack(panel, first row of the panel, counted from the first of `rows`)` for every panel in `rows`.
template <typename Pack>
void for_panels_in(const device::PanelRows& form, Range rows, Pack pack) {
  for (int64_t panel = form.panel_of(rows.begin); panel < form.panels() && form.rows_of(panel).begin < rows.end;
       ++panel) {
    pack(panel, form.rows_of(panel).begin - rows.begin);
  }
}

/// Packs the rows at `src` into every form of a weight.
void pack_rows(const WeightPlace& place, int64_t row_bytes, Range rows, const std::byte* src) {
  for (const PanelForm& form : place.panels) {
    for_panels_in(form.rows, rows, [&](int64_t panel, int64_t row) { form.pack(panel, src + row * row_bytes); });
  }
  if (place.rows != nullptr && !place.panels.empty()) {
    std::memcpy(place.rows + rows.begin * row_bytes, src, static_cast<size_t>(rows.size() * row_bytes));
  }
}

/// Memory for codes and what their groups have, of some rows.
class CodedBuffer {
 public:
  CodedRows of(int64_t rows, const ColumnGroups& groups, GroupOffset offset) {
    codes_.resize(static_cast<size_t>(rows * groups.columns));
    scales_.resize(static_cast<size_t>(rows * groups.count()));
    offsets_.resize(offset == GroupOffset::kNone ? 0 : scales_.size());
    return {codes_, scales_, offsets_};
  }

 private:
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, offsets_;
};

/// The rows of `all` from `row` on.
CodedRows rows_from(const CodedRows& all, const ColumnGroups& groups, int64_t row) {
  const auto scales = static_cast<size_t>(row * groups.count());
  return {all.codes.subspan(static_cast<size_t>(row * groups.columns)), all.scales.subspan(scales),
          all.offsets.empty() ? all.offsets : all.offsets.subspan(scales)};
}

device::WeightRows rows_of(const WeightPlace& place) {
  device::WeightRows rows{.value = place.value};
  for (const PanelForm& form : place.panels) rows.panels.push_back(form.rows);
  for (const CodedForm& form : place.coded) rows.panels.push_back(form.rows);
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

  Result<void> read_codes(const WeightPlace& place, Range rows_read, CodedBuffer& buffer) const {
    const ColumnGroups& groups = place.coded.front().groups;
    const CodedRows read = buffer.of(rows_read.size(), groups, place.value->format->offset);
    LOCKSTEP_TRY_VOID(reader.read_codes(*place.value, groups, rows_read, read));
    for (const CodedForm& form : place.coded) {
      for_panels_in(form.rows, rows_read,
                    [&](int64_t panel, int64_t row) { form.pack(panel, rows_from(read, groups, row)); });
    }
    return ok();
  }

  Result<void> read_block(const device::WeightBlock& block, Buffer& buffer, CodedBuffer& codes) const {
    const WeightPlace& place = places[block.weight];
    if (!place.coded.empty()) return read_codes(place, block.rows, codes);
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

CodedForm coded_form(const CodedPacking& packing, std::byte* dst) {
  return {.rows = {packing.n, packing.parts, kPanel},
          .groups = packing.groups,
          .pack = [packing, dst](int64_t panel, const CodedRows& src) { pack_coded_panel(packing, panel, src, dst); }};
}

void pack_quantised(const graph::Value& weight, const CodedForm& form, std::span<const std::byte> src) {
  const ColumnGroups& groups = form.groups;
  CodedBuffer buffer;
  std::vector<float> floats(static_cast<size_t>(groups.columns));
  const auto row_bytes = static_cast<size_t>(groups.columns) * size_of(weight.type.dtype);
  for (int64_t panel = 0; panel < form.rows.panels(); ++panel) {
    const Range rows = form.rows.rows_of(panel);
    const CodedRows made = buffer.of(rows.size(), groups, weight.format->offset);
    for (int64_t row = 0; row < rows.size(); ++row) {
      convert_elements(src.data() + static_cast<size_t>(rows.begin + row) * row_bytes, weight.type.dtype,
                       reinterpret_cast<std::byte*>(floats.data()), DType::kFloat32, floats.size());
      const CodedRows to = rows_from(made, groups, row);
      for (int64_t group = 0; group < groups.count(); ++group) {
        const Range columns = groups.of(group);
        const GroupScale beside = quantise_group(*weight.format, floats.data() + columns.begin, columns.size(),
                                                 to.codes.data() + columns.begin);
        to.scales[static_cast<size_t>(group)] = beside.scale;
        if (!to.offsets.empty()) to.offsets[static_cast<size_t>(group)] = beside.offset;
      }
    }
    form.pack(panel, made);
  }
}

Result<void> load_weights(std::span<const WeightPlace> places, const device::WeightReader& reader, ThreadTeam& team) {
  Job job(places, reader);
  team.run(
      [](void* self, Part part) {
        Job& own = *static_cast<Job*>(self);
        Buffer buffer;
        CodedBuffer codes;
        own.loading.work(part, [&](const device::WeightBlock& block) { return own.read_block(block, buffer, codes); });
      },
      &job);
  return job.loading.result();
}

}  // namespace lockstep::cpu
