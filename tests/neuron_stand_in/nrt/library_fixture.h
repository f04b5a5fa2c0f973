// Loads libnrt.so.1 with dlopen, in separate processes, because a process starts the runtime only once. Modules,
// tensors and groups of ranks for its tests.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/backends/neuron/hlo/builder.h"
#include "runtime/backends/neuron/hlo/wire.h"
#include "runtime/backends/neuron/nrt/abi.h"
#include "tests/neuron_stand_in/neff.h"

namespace lockstep::stand_in {

namespace hlo = neuron::hlo;
using hlo::Builder;
using hlo::Element;
using hlo::Value;
using nrt::Functions;

inline constexpr unsigned kDeadlineSeconds = 60;  // of a process

// ---------------------------------------------------------------- the library

inline void* library() {
  static void* const handle = ::dlopen(LOCKSTEP_STAND_IN_NRT, RTLD_NOW | RTLD_LOCAL);
  return handle;
}

/// All functions; a missing one is null.
inline Functions functions() {
  Functions found;
#define LOCKSTEP_NRT_FIND(name) found.name = reinterpret_cast<decltype(found.name)>(::dlsym(library(), "nrt_" #name));
  LOCKSTEP_NRT_REQUIRED_FUNCTIONS(LOCKSTEP_NRT_FIND)
  LOCKSTEP_NRT_OPTIONAL_FUNCTIONS(LOCKSTEP_NRT_FIND)
#undef LOCKSTEP_NRT_FIND
  return found;
}

// ---------------------------------------------------------------- processes

/// Variables of one process.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// A child that runs `body`; its exit code is 0 when no expectation failed.
inline pid_t start(const Variables& variables, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(kDeadlineSeconds);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  body();
  std::fflush(stdout);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

inline void expect_to_end_well(pid_t child) {
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a process ended with status " << status;
}

inline void in_a_process(const Variables& variables, const std::function<void()>& body) {
  expect_to_end_well(start(variables, body));
}

/// Started, with the whole interface at hand.
inline Functions started() {
  const Functions f = functions();
  EXPECT_EQ(f.init(nrt::NRT_FRAMEWORK_TYPE_NO_FW, "", ""), nrt::NRT_SUCCESS);
  return f;
}

/// A port of loopback that was free a moment ago.
inline std::string free_address() {
  const int file = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(file, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(file);
  return fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
}

inline void on_ranks(int ranks, const Variables& variables, const std::function<void(uint32_t rank)>& body) {
  Variables with_address = variables;
  with_address.emplace_back("NEURON_RT_ROOT_COMM_ID", free_address());
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    Variables own = with_address;
    own.emplace_back("NEURON_RT_VISIBLE_CORES", std::to_string(rank));
    children.push_back(start(own, [&] { body(static_cast<uint32_t>(rank)); }));
  }
  for (const pid_t child : children) expect_to_end_well(child);
}

// ---------------------------------------------------------------- modules

inline std::vector<std::byte> neff_of(const hlo::Module& module) {
  return write_neff({.name = module.name, .target = "trn1", .module = hlo::to_bytes(module)});
}

/// y = x + table[row]; the table's row 0 becomes x. input0 table f32[4,2], input1 row s32[1], input2 x f32[1,2].
inline std::vector<std::byte> step_neff() {
  Builder b("step");
  const Value table = b.parameter("table", {Element::kF32, {4, 2}, {}});
  const Value row = b.parameter("row", {Element::kS32, {1}, {}});
  const Value x = b.parameter("x", {Element::kF32, {1, 2}, {}});
  const Value first = b.broadcast(b.constant(int32_t{0}), {1}, {});
  auto finished = std::move(b).finish({b.add(x, b.take_rows(table, row)), b.put_rows(table, first, x)});
  finished.module.aliases = {{1, 0}};
  return neff_of(finished.module);
}

/// y = the sum of the ranks' x, times `factor`. input0 x f32[2].
inline std::vector<std::byte> sum_neff(int ranks, double factor = 1.0) {
  Builder b("sum");
  const Value x = b.parameter("x", {Element::kF32, {2}, {}});
  return neff_of(std::move(b).finish({b.multiply(b.all_reduce(x, ranks), factor)}).module);
}

// ---------------------------------------------------------------- shorthand

inline nrt::nrt_tensor_t* tensor(const Functions& f, size_t bytes) {
  nrt::nrt_tensor_t* made = nullptr;
  EXPECT_EQ(f.tensor_allocate(nrt::NRT_TENSOR_PLACEMENT_DEVICE, 0, bytes, "t", &made), nrt::NRT_SUCCESS);
  return made;
}

template <typename T>
nrt::nrt_tensor_t* tensor(const Functions& f, const std::vector<T>& values) {
  nrt::nrt_tensor_t* made = tensor(f, values.size() * sizeof(T));
  EXPECT_EQ(f.tensor_write(made, values.data(), 0, values.size() * sizeof(T)), nrt::NRT_SUCCESS);
  return made;
}

inline std::vector<float> floats(const Functions& f, nrt::nrt_tensor_t* from, size_t count) {
  std::vector<float> values(count);
  EXPECT_EQ(f.tensor_read(from, values.data(), 0, count * sizeof(float)), nrt::NRT_SUCCESS);
  return values;
}

inline nrt::nrt_tensor_set_t* set_of(const Functions& f, const char* prefix,
                                     const std::vector<nrt::nrt_tensor_t*>& tensors) {
  nrt::nrt_tensor_set_t* set = nullptr;
  EXPECT_EQ(f.allocate_tensor_set(&set), nrt::NRT_SUCCESS);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(f.add_tensor_to_tensor_set(set, fmt::format("{}{}", prefix, i).c_str(), tensors[i]), nrt::NRT_SUCCESS);
  }
  return set;
}

inline nrt::nrt_model_t* load(const Functions& f, const std::vector<std::byte>& neff) {
  nrt::nrt_model_t* model = nullptr;
  EXPECT_EQ(f.load(neff.data(), neff.size(), 0, 1, &model), nrt::NRT_SUCCESS);
  return model;
}

inline nrt::NRT_STATUS status_of_load(const Functions& f, const std::vector<std::byte>& neff) {
  nrt::nrt_model_t* model = nullptr;
  return f.load(neff.data(), neff.size(), 0, 1, &model);
}

/// Loads on `rank` of `ranks` and sums the ranks' contributions, r + 1 of rank r.
struct SumRun {
  nrt::NRT_STATUS loaded = nrt::NRT_SUCCESS, executed = nrt::NRT_SUCCESS;
  std::vector<float> result;
};
inline SumRun run_sum(const Functions& f, uint32_t rank, uint32_t ranks, const std::vector<std::byte>& neff,
                      int times = 1) {
  SumRun ran;
  nrt::nrt_model_t* model = nullptr;
  ran.loaded = f.load_collectives(neff.data(), neff.size(), 0, 1, rank, ranks, &model);
  if (ran.loaded != nrt::NRT_SUCCESS) return ran;
  nrt::nrt_tensor_t* x = tensor<float>(f, {static_cast<float>(rank + 1), 0.5f});
  nrt::nrt_tensor_t* y = tensor(f, 8);
  nrt::nrt_tensor_set_t *in = set_of(f, "input", {x}), *out = set_of(f, "output", {y});
  for (int i = 0; i < times && ran.executed == nrt::NRT_SUCCESS; ++i) ran.executed = f.execute(model, in, out);
  ran.result = floats(f, y, 2);
  return ran;
}

}  // namespace lockstep::stand_in
