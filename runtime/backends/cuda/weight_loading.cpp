#include "runtime/backends/cuda/weight_loading.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace lockstep::cuda {
namespace {

constexpr int64_t kLeastBuffer = int64_t{1} << 20;

/// Bytes of a form's packed tile that lie together.
int64_t tile_bytes(const Packing& packing) {
  if (const auto* stack = std::get_if<StackedPacking>(&packing)) return stack->matrix.tile_bytes();
  if (const auto* codes = std::get_if<CodedPacking>(&packing)) return codes->tile_bytes();
  return 0;
}

int64_t buffer_bytes(std::span<const WeightPlace> places) {
  int64_t bytes = kLeastBuffer;
  for (const WeightPlace& place : places) {
    for (const WeightForm& form : place.layout->forms) bytes = std::max(bytes, tile_bytes(form.packing));
  }
  return bytes;
}

device::WeightRows rows_of(const WeightPlace& place) {
  device::WeightRows rows{.value = place.value};
  for (const WeightForm& form : place.layout->forms) {
    if (const auto* stack = std::get_if<StackedPacking>(&form.packing)) {
      rows.panels.push_back({stack->matrix.outputs, stack->parts, kTileOutputs});
    } else if (const auto* codes = std::get_if<CodedPacking>(&form.packing)) {
      rows.panels.push_back({codes->outputs, codes->parts, kTileOutputs});
    }
  }
  return rows;
}

/// Pinned memory with a stream that empties it.
struct Buffer {
  std::unique_ptr<cu::Stream> stream;
  cu::PinnedMemory memory;
  int64_t used = 0;
};

/// A thread's buffers, used in turn.
class Uploads {
 public:
  Uploads(const RankDevice& device, cu::DeviceAddress weights) : device_(device), weights_(weights) {}

  Result<void> create(int64_t bytes) {
    LOCKSTEP_TRY_VOID(device_.context->make_current());
    for (Buffer& buffer : buffers_) {
      LOCKSTEP_TRY(buffer.stream, cu::Stream::create(*device_.context));
      LOCKSTEP_TRY(buffer.memory, cu::PinnedMemory::create(*device_.context, Bytes(bytes), "loading weights"));
    }
    return ok();
  }

  /// Memory of `bytes`, at most a buffer's, whose contents go to `offset` of the weights with the next `send`.
  Result<std::span<std::byte>> take(int64_t bytes) {
    if (current().used + bytes > std::ssize(current().memory.host())) {
      now_ = (now_ + 1) % buffers_.size();
      LOCKSTEP_TRY_VOID(current().stream->wait(device_.limit));
      current().used = 0;
    }
    const auto begin = static_cast<size_t>(current().used);
    current().used += bytes;
    return current().memory.host().subspan(begin, static_cast<size_t>(bytes));
  }
  Result<void> send(std::span<const std::byte> taken, int64_t offset) {
    return current().stream->copy_to_device(weights_ + offset, taken);
  }

  /// Waits for the copies under way, also after an error: they read the buffers.
  Result<void> finish() {
    Result<void> first = ok();
    for (Buffer& buffer : buffers_) {
      if (buffer.stream == nullptr) continue;
      Result<void> done = buffer.stream->wait(device_.limit);
      if (first.has_value()) first = std::move(done);
    }
    return first;
  }

 private:
  Buffer& current() { return buffers_[now_]; }

  const RankDevice& device_;
  const cu::DeviceAddress weights_;
  std::array<Buffer, 2> buffers_;
  size_t now_ = 0;
};

/// Sends rows as they are, a buffer at a time.
Result<void> send_rows(std::span<const std::byte> rows, int64_t offset, Uploads& uploads) {
  while (!rows.empty()) {
    const size_t bytes = std::min(rows.size(), size_t{kLeastBuffer});
    LOCKSTEP_TRY(const std::span<std::byte> taken, uploads.take(static_cast<int64_t>(bytes)));
    std::memcpy(taken.data(), rows.data(), bytes);
    LOCKSTEP_TRY_VOID(uploads.send(taken, offset));
    offset += static_cast<int64_t>(bytes);
    rows = rows.subspan(bytes);
  }
  return ok();
}

/// Packs one tile, counted through all parts, and sends it.
Result<void> send_tile(const WeightForm& form, int64_t panel, std::span<const std::byte> rows, Uploads& uploads) {
  const FragmentPacking& matrix = std::get<StackedPacking>(form.packing).matrix;
  LOCKSTEP_TRY(const std::span<std::byte> taken, uploads.take(matrix.tile_bytes()));
  matrix.pack_tile(panel % matrix.tiles(), rows, taken);
  return uploads.send(taken, form.offset + panel * matrix.tile_bytes());
}

/// Reads rows in codes, packs their tiles and sends them.
Result<void> send_codes(const WeightPlace& place, const device::WeightRows& shape, Range rows,
                        const device::WeightReader& reader, CodedBuffer& buffer, Uploads& uploads) {
  const WeightForm& form = place.layout->forms.front();  // the only one
  const auto& packing = std::get<CodedPacking>(form.packing);
  const CodedRows read = buffer.rows(packing, rows.size());
  LOCKSTEP_TRY_VOID(reader.read_codes(*place.value, packing.groups, rows, read));
  const device::PanelRows& panels = shape.panels.front();
  for (int64_t panel = panels.panel_of(rows.begin); panel < panels.panels(); ++panel) {
    const Range own = panels.rows_of(panel);
    if (own.begin >= rows.end) break;
    LOCKSTEP_TRY(const std::span<std::byte> taken, uploads.take(packing.tile_bytes()));
    packing.pack_tile(own.size(), rows_from(packing, read, own.begin - rows.begin), taken);
    LOCKSTEP_TRY_VOID(uploads.send(taken, form.offset + panel * packing.tile_bytes()));
  }
  return ok();
}

/// Sends a block of rows into every form of its weight.
Result<void> send_block(const WeightPlace& place, const device::WeightRows& shape, Range rows,
                        std::span<const std::byte> bytes, Uploads& uploads) {
  const int64_t row_bytes = shape.row_bytes();
  size_t packed = 0;
  for (const WeightForm& form : place.layout->forms) {
    if (std::holds_alternative<std::monostate>(form.packing)) {
      LOCKSTEP_TRY_VOID(send_rows(bytes, form.offset + rows.begin * row_bytes, uploads));
      continue;
    }
    const device::PanelRows& panels = shape.panels[packed++];
    for (int64_t panel = panels.panel_of(rows.begin); panel < panels.panels(); ++panel) {
      const Range own = panels.rows_of(panel);
      if (own.begin >= rows.end) break;
      const std::span<const std::byte> of_panel = bytes.subspan(
          static_cast<size_t>((own.begin - rows.begin) * row_bytes), static_cast<size_t>(own.size() * row_bytes));
      LOCKSTEP_TRY_VOID(send_tile(form, panel, of_panel, uploads));
    }
  }
  return ok();
}

}  // namespace

int64_t pinned_bytes_of_thread(std::span<const WeightPlace> places) { return 2 * buffer_bytes(places); }

Result<void> load_weights(std::span<const WeightPlace> places, const device::WeightReader& reader,
                          const RankDevice& device, cu::DeviceAddress weights, int threads) {
  std::vector<device::WeightRows> rows;
  for (const WeightPlace& place : places) rows.push_back(rows_of(place));
  const int64_t bytes_of_buffer = buffer_bytes(places);
  device::WeightLoading loading(rows, reader, "runtime/backends/cuda");
  const auto work = [&](int worker) {
    Uploads uploads(device, weights);
    if (Result<void> made = uploads.create(bytes_of_buffer); !made.has_value()) {
      return loading.fail(std::move(made).assume_error());
    }
    std::vector<std::byte> contents;
    CodedBuffer codes;
    loading.work({worker, threads}, [&](const device::WeightBlock& block) -> Result<void> {
      const WeightPlace& place = places[block.weight];
      if (place.layout->format) {
        return send_codes(place, rows[block.weight], block.rows, reader, codes, uploads);
      }
      contents.resize(static_cast<size_t>(block.rows.size() * rows[block.weight].row_bytes()));
      LOCKSTEP_TRY_VOID(reader.read(*place.value, block.rows, contents));
      return send_block(place, rows[block.weight], block.rows, contents, uploads);
    });
    if (Result<void> done = uploads.finish(); !done.has_value()) loading.fail(std::move(done).assume_error());
  };
  {
    std::vector<std::jthread> helpers;
    for (int worker = 1; worker < threads; ++worker) helpers.emplace_back(work, worker);
    work(0);
  }
  return loading.result();
}

}  // namespace lockstep::cuda
