// The vocabulary of kernels. A .cu file includes this header and nothing of CUDA, so the same source is device code
// under nvcc and, as fibers, C++ for tests (LOCKSTEP_CUDA_STAND_IN names the header that stands in).
//
//   LOCKSTEP_KERNEL(name, Parameters, threads) { … p.x … }    one thread of a kernel with at most that many in a block
//   LOCKSTEP_KERNEL_HELD(name, Parameters, threads, blocks)   the same with registers for so many blocks, not for two
//
// Blocks and grids are one-dimensional. plus, times and madd are never contracted or reordered: each is one IEEE
// operation with rounding to nearest, so bits are the same here and there.
#pragma once

#ifndef __CUDACC__
#include LOCKSTEP_CUDA_STAND_IN
#else

#include <cstdint>

#define LOCKSTEP_DEVICE __device__ __forceinline__
#define LOCKSTEP_UNROLL _Pragma("unroll")
#define LOCKSTEP_NO_UNROLL _Pragma("unroll 1")
#define LOCKSTEP_PRAGMA(text) _Pragma(#text)
#define LOCKSTEP_UNROLL_BY(count) LOCKSTEP_PRAGMA(unroll count)
#define LOCKSTEP_KERNEL_HELD(name, Parameters, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Parameters p)
#define LOCKSTEP_KERNEL(name, Parameters, threads) LOCKSTEP_KERNEL_HELD(name, Parameters, threads, 2)

namespace lockstep::cuda {

LOCKSTEP_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
LOCKSTEP_DEVICE int thread_count() { return static_cast<int>(blockDim.x); }
LOCKSTEP_DEVICE int block_index() { return static_cast<int>(blockIdx.x); }
LOCKSTEP_DEVICE int block_count() { return static_cast<int>(gridDim.x); }

/// The block's dynamic shared memory as a struct; the launch gives at least its size.
template <typename T>
LOCKSTEP_DEVICE T& shared_memory() {
  extern __shared__ __align__(1024) unsigned char lockstep_shared[];
  return *reinterpret_cast<T*>(lockstep_shared);
}

/// The same where the launch gives only the first `bytes` of it.
template <typename T>
LOCKSTEP_DEVICE T& shared_memory_of(int /*bytes*/) {
  return shared_memory<T>();
}

LOCKSTEP_DEVICE void sync_block() { __syncthreads(); }
LOCKSTEP_DEVICE void sync_warp() { __syncwarp(); }
/// The value of lane (own ^ mask). All 32 lanes take part.
template <typename T>
LOCKSTEP_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(~0u, value, mask);
}

/// Whether `value` is true on some lane. All 32 lanes take part.
LOCKSTEP_DEVICE bool any_of_warp(bool value) { return __any_sync(~0u, value) != 0; }

LOCKSTEP_DEVICE float plus(float a, float b) { return __fadd_rn(a, b); }
LOCKSTEP_DEVICE float times(float a, float b) { return __fmul_rn(a, b); }
/// a · b + c, rounded once.
LOCKSTEP_DEVICE float madd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
/// The larger one; a NaN where one is a NaN.
LOCKSTEP_DEVICE float larger_or_nan(float a, float b) {
  float value;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
  return value;
}
LOCKSTEP_DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
LOCKSTEP_DEVICE float square_root(float a) { return __fsqrt_rn(a); }
/// The nearest whole number, ties to even.
LOCKSTEP_DEVICE float round_to_whole(float a) { return rintf(a); }
LOCKSTEP_DEVICE float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }
LOCKSTEP_DEVICE uint32_t bits_of(float value) { return __float_as_uint(value); }

/// Nearest whole number of a float whose magnitude is below 2³¹, ties to even.
LOCKSTEP_DEVICE int32_t whole_of(float a) { return __float2int_rn(a); }
LOCKSTEP_DEVICE float float_of_whole(int32_t a) { return __int2float_rn(a); }

// The same in double precision.
LOCKSTEP_DEVICE double times(double a, double b) { return __dmul_rn(a, b); }
LOCKSTEP_DEVICE double madd(double a, double b, double c) { return __fma_rn(a, b, c); }
LOCKSTEP_DEVICE double round_to_whole(double a) { return rint(a); }
LOCKSTEP_DEVICE float float_of_double(double a) { return __double2float_rn(a); }

/// The bits of an IEEE binary16, and back, rounded to nearest even.
LOCKSTEP_DEVICE float float_of_half(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
LOCKSTEP_DEVICE uint16_t half_of(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/// Two values as 16-bit elements, the first in the lower half, each rounded to nearest even; a NaN stays one.
LOCKSTEP_DEVICE uint32_t bf16_pair_of(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
LOCKSTEP_DEVICE uint32_t half_pair_of(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

/// 16 bytes that are loaded together.
struct alignas(16) Words {
  uint32_t word[4];
};
/// Loads what this launch reads once and nobody writes meanwhile: weights.
LOCKSTEP_DEVICE Words load_once(const Words* address) {
  Words words;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
               : "l"(address));
  return words;
}

/// Brings 128 bytes into the cache of all multiprocessors. Reads nothing, so what is not written yet may be brought
/// too.
LOCKSTEP_DEVICE void bring_closer(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }
constexpr int kBroughtBytes = 128;

/// Starts a copy of 16 bytes to shared memory; both addresses are multiples of 16.
LOCKSTEP_DEVICE void copy_async_16(void* shared, const void* global) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(global)
      : "memory");
}
/// The same of the first `bytes`; the others become zeros.
LOCKSTEP_DEVICE void copy_async_16(void* shared, const void* global, int bytes) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(global), "r"(bytes)
      : "memory");
}
/// Makes a group of this thread's copies since the last one.
LOCKSTEP_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all of this thread's groups but the newest `kPending`. Others see the bytes after a barrier.
template <int kPending>
LOCKSTEP_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four matrices of 8 rows of 16 bytes in shared memory: lane 8·m + r gives the address of row r of matrix m. Word m of
/// lane 4·g + t is bytes 4t to 4t + 3 of row g of matrix m (PTX ISA, ldmatrix).
LOCKSTEP_DEVICE void load_matrices(uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// The same of turned matrices of 16-bit elements: word m of lane 4·g + t is column g of rows 2t and 2t + 1 of matrix
/// m.
LOCKSTEP_DEVICE void load_matrices_turned(uint32_t (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// d += a · b, of tiles of 16 × 16 and 16 × 8 bf16 elements that are spread over the warp, in f32. Lane 4·g + t holds
/// of a: rows g and g + 8, columns 2t, 2t + 1 and 2t + 8, 2t + 9; of b: the same rows of k, column g; of d: rows g and
/// g + 8, columns 2t and 2t + 1 (PTX ISA, mma.m16n8k16).
LOCKSTEP_DEVICE void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The same of f16 elements.
LOCKSTEP_DEVICE void mma_16x8x16_half(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// sum + Σ of the products of four signed bytes each; exact.
LOCKSTEP_DEVICE int32_t dot_bytes(uint32_t a, uint32_t b, int32_t sum) {
  return __dp4a(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
}

LOCKSTEP_DEVICE void store_release(uint32_t* address, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
LOCKSTEP_DEVICE uint32_t load_acquire(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
/// Adds 1 and returns the sum. What the block has written before is seen by the block that gets a later sum, if both
/// pass a barrier of theirs around this.
LOCKSTEP_DEVICE uint32_t count_arrival(uint32_t* address) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(address) : "memory");
  return before + 1;
}
/// Between two looks of a loop that waits for another block or rank.
LOCKSTEP_DEVICE void look_later() { __nanosleep(20); }
/// Nanoseconds of a clock that all threads share.
LOCKSTEP_DEVICE uint64_t device_time() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

/// In a launch that may start early: waits until the one ahead of it has ended, then lets the next one start. Every
/// thread of such a kernel calls it, before it touches what earlier launches write; weights and tables it may read
/// before. The next launch starts only after this wait, so what a launch reads early is older than both ahead of it.
LOCKSTEP_DEVICE void follow_previous() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace lockstep::cuda

#endif

namespace lockstep::cuda {

/// 16 bits of a bfloat16.
using Bf16 = uint16_t;

LOCKSTEP_DEVICE float float_of(Bf16 value) { return float_of_bits(static_cast<uint32_t>(value) << 16); }
/// Rounds to nearest, ties to even; a NaN stays one.
LOCKSTEP_DEVICE Bf16 bf16_of(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<Bf16>(bits >> 16 | 0x40u);
  return static_cast<Bf16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace lockstep::cuda
