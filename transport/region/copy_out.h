// The copy into a rank's own buffer, which other cores read next.
#pragma once

#include <cstddef>

namespace lockstep::transport::region {

/// Copies `bytes` to `dst`, which begins a cache line and overlaps nothing. Complete before the next flag.
using CopyOut = void (*)(void* dst, const void* src, size_t bytes);

/// Through the cache. The lines of `dst` are still in the peers' caches from two rounds ago: each store fetches its
/// line first, and the peers then fetch it from this core. This is the fastest way for
/// some KiB between near cores.
void copy_through_cache(void* dst, const void* src, size_t bytes);

/// From 2 KiB on, by stores of whole cache lines that go past the cache: nothing is fetched before it is written, and
/// the peers read from memory, which is quick in order. Between distant cores (two ranks on one socket of a virtual
/// machine), 8 KiB are exchanged in 1.9 instead of 5.1 µs and 64 KiB in 8.3 instead of 34; between
/// neighbours 8 KiB in 1.8 instead of 1.4 µs and 64 KiB in 8 instead of 12. A choosing communicator measures both.
/// The widest stores that the machine has.
CopyOut copy_past_cache();

}  // namespace lockstep::transport::region
