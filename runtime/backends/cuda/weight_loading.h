// Loading a rank's weights with several threads: each reads rows, packs them into pinned buffers, and goes on while the
// device copies.
//
//   file ──read──► rows ──pack──► pinned buffer 0 ──copy──► the weight's forms in device memory
//                                 pinned buffer 1 (while buffer 0 is under way)
//
// A thread keeps two buffers and the rows of one block, so the host's memory of a load is a few MiB a thread.
#pragma once

#include <span>

#include "runtime/backends/cuda/rank_device.h"
#include "runtime/backends/cuda/store_layout.h"
#include "runtime/device/weight_blocks.h"

namespace lockstep::cuda {

/// A weight and where its forms lie. Borrows both.
struct WeightPlace {
  const graph::Value* value = nullptr;
  const WeightLayout* layout = nullptr;
};

/// The pinned memory of one thread: two buffers that hold a tile of every form, and at least 1 MiB.
int64_t pinned_bytes_of_thread(std::span<const WeightPlace> places);

/// Reads, packs and copies every place with `threads` threads, of which the calling one is one; `weights` is where the
/// memory of all weights begins. Ends after the last copy. Fails with the first error of `reader` or of the device;
/// device memory is then invalid. @blocking
Result<void> load_weights(std::span<const WeightPlace> places, const device::WeightReader& reader,
                          const RankDevice& device, cu::DeviceAddress weights, int threads);

}  // namespace lockstep::cuda
