// libnrt.so.1 as a program sees it: through dlopen, in processes of their own (a runtime is started once a process).
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>

#include "runtime/backends/neuron/hlo/builder.h"
#include "runtime/backends/neuron/hlo/wire.h"
#include "runtime/backends/neuron/nrt/abi.h"
#include "tests/neuron_stand_in/neff.h"

namespace lockstep::stand_in {
namespace {

namespace hlo = neuron::hlo;
using hlo::Builder;
using hlo::Element;
using hlo::Value;
using nrt::Functions;

constexpr unsigned kDeadlineSeconds = 60;  // of a process

// ---------------------------------------------------------------- the library

void* library() {
  static void* const handle = ::dlopen(LOCKSTEP_STAND_IN_NRT, RTLD_NOW | RTLD_LOCAL);
  return handle;
}

/// All functions; a missing one is null.
Functions functions() {
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
pid_t start(const Variables& variables, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(kDeadlineSeconds);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  body();
  std::fflush(stdout);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

void expect_to_end_well(pid_t child) {
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a process ended with status " << status;
}

void in_a_process(const Variables& variables, const std::function<void()>& body) {
  expect_to_end_well(start(variables, body));
}

/// Started, with the whole interface at hand.
Functions started() {
  const Functions f = functions();
  EXPECT_EQ(f.init(nrt::NRT_FRAMEWORK_TYPE_NO_FW, "", ""), nrt::NRT_SUCCESS);
  return f;
}

/// A port of loopback that was free a moment ago.
std::string free_address() {
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

void on_ranks(int ranks, const Variables& variables, const std::function<void(uint32_t rank)>& body) {
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

std::vector<std::byte> neff_of(const hlo::Module& module) {
  return write_neff({.name = module.name, .target = "trn1", .module = hlo::to_bytes(module)});
}

/// y = x + table[row]; the table's row 0 becomes x. input0 table f32[4,2], input1 row s32[1], input2 x f32[1,2].
std::vector<std::byte> step_neff() {
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
std::vector<std::byte> sum_neff(int ranks, double factor = 1.0) {
  Builder b("sum");
  const Value x = b.parameter("x", {Element::kF32, {2}, {}});
  return neff_of(std::move(b).finish({b.multiply(b.all_reduce(x, ranks), factor)}).module);
}

// ---------------------------------------------------------------- shorthand

nrt::nrt_tensor_t* tensor(const Functions& f, size_t bytes) {
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

std::vector<float> floats(const Functions& f, nrt::nrt_tensor_t* from, size_t count) {
  std::vector<float> values(count);
  EXPECT_EQ(f.tensor_read(from, values.data(), 0, count * sizeof(float)), nrt::NRT_SUCCESS);
  return values;
}

nrt::nrt_tensor_set_t* set_of(const Functions& f, const char* prefix, const std::vector<nrt::nrt_tensor_t*>& tensors) {
  nrt::nrt_tensor_set_t* set = nullptr;
  EXPECT_EQ(f.allocate_tensor_set(&set), nrt::NRT_SUCCESS);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(f.add_tensor_to_tensor_set(set, fmt::format("{}{}", prefix, i).c_str(), tensors[i]), nrt::NRT_SUCCESS);
  }
  return set;
}

nrt::nrt_model_t* load(const Functions& f, const std::vector<std::byte>& neff) {
  nrt::nrt_model_t* model = nullptr;
  EXPECT_EQ(f.load(neff.data(), neff.size(), 0, 1, &model), nrt::NRT_SUCCESS);
  return model;
}

nrt::NRT_STATUS status_of_load(const Functions& f, const std::vector<std::byte>& neff) {
  nrt::nrt_model_t* model = nullptr;
  return f.load(neff.data(), neff.size(), 0, 1, &model);
}

/// Loads on `rank` of `ranks` and sums what rank r gives, r + 1.
struct SumRun {
  nrt::NRT_STATUS loaded = nrt::NRT_SUCCESS, executed = nrt::NRT_SUCCESS;
  std::vector<float> result;
};
SumRun run_sum(const Functions& f, uint32_t rank, uint32_t ranks, const std::vector<std::byte>& neff, int times = 1) {
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

// ---------------------------------------------------------------- tests

TEST(Library, ExportsTheInterfaceAndNothingElse) {
  FILE* pipe = ::popen("nm -D --defined-only --format=posix " LOCKSTEP_STAND_IN_NRT, "r");
  ASSERT_NE(pipe, nullptr);
  std::set<std::string> exported;
  char name[256], type = 0;
  while (std::fscanf(pipe, "%255s %c %*[^\n]", name, &type) == 2) exported.insert(name);
  ::pclose(pipe);
#define LOCKSTEP_NRT_NAME(function) "nrt_" #function,
  const std::set<std::string> expected = {LOCKSTEP_NRT_REQUIRED_FUNCTIONS(LOCKSTEP_NRT_NAME)
                                              LOCKSTEP_NRT_OPTIONAL_FUNCTIONS(LOCKSTEP_NRT_NAME)};
#undef LOCKSTEP_NRT_NAME
  EXPECT_EQ(exported, expected);
}

TEST(Library, AnswersCallsOutsideItsLifeWithTheirStatus) {
  in_a_process({{"NEURON_RT_VISIBLE_CORES", "4-7"}}, [] {
    const Functions f = functions();
    nrt::nrt_tensor_t* made = nullptr;
    const auto allocate = [&] { return f.tensor_allocate(nrt::NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "t", &made); };
    uint32_t cores = 0;
    EXPECT_EQ(f.get_visible_vnc_count(&cores), nrt::NRT_SUCCESS);  // before the start, too
    EXPECT_EQ(cores, 4u);
    EXPECT_EQ(allocate(), nrt::NRT_UNINITIALIZED);
    started();
    EXPECT_EQ(allocate(), nrt::NRT_SUCCESS);
    f.close();
    EXPECT_EQ(allocate(), nrt::NRT_CLOSED);
    EXPECT_EQ(f.init(nrt::NRT_FRAMEWORK_TYPE_NO_FW, "", ""), nrt::NRT_CLOSED);
  });
}

TEST(Library, SaysThatItIsNoDevice) {
  in_a_process({{"STAND_IN_NRT_VERSION", "3.1"}}, [] {
    nrt::nrt_version_t version;
    nrt::nrt_instance_info_t info;
    EXPECT_EQ(functions().get_version(&version, sizeof version), nrt::NRT_SUCCESS);
    EXPECT_EQ(version.rt_major, 3u);
    EXPECT_THAT(version.rt_detail, testing::HasSubstr("stand-in"));
    EXPECT_EQ(functions().get_instance_info(&info, sizeof info), nrt::NRT_SUCCESS);
    EXPECT_STREQ(info.arch_name, "stand-in");
  });
}

TEST(Tensors, KeepToTheirBoundsAndToTheCoresMemory) {
  in_a_process({{"STAND_IN_NRT_CORE_MEMORY", "100"}}, [] {
    const Functions f = started();
    nrt::nrt_tensor_t* t = tensor(f, 60);
    char bytes[61] = {};
    EXPECT_EQ(f.tensor_write(t, bytes, 0, 60), nrt::NRT_SUCCESS);
    EXPECT_EQ(f.tensor_write(t, bytes, 0, 61), nrt::NRT_INVALID);
    EXPECT_EQ(f.tensor_read(t, bytes, 60, 1), nrt::NRT_INVALID);
    EXPECT_EQ(f.tensor_memset(t, static_cast<uint64_t>(-1), 0, 2), nrt::NRT_INVALID);
    nrt::nrt_tensor_t* more = nullptr;
    EXPECT_EQ(f.tensor_allocate(nrt::NRT_TENSOR_PLACEMENT_DEVICE, 0, 41, "m", &more), nrt::NRT_RESOURCE);
    EXPECT_EQ(f.tensor_allocate(nrt::NRT_TENSOR_PLACEMENT_DEVICE, 32, 1, "m", &more), nrt::NRT_INVALID);
    nrt::nrt_vnc_memory_stats_t stats;
    size_t written = 0;
    EXPECT_EQ(f.get_vnc_memory_stats(0, &stats, sizeof stats, &written), nrt::NRT_SUCCESS);
    EXPECT_EQ(stats.bytes_used, 60u);
    EXPECT_EQ(stats.bytes_limit, 100u);
    nrt::nrt_tensor_t* freed = t;
    f.tensor_free(&t);
    EXPECT_EQ(t, nullptr);
    EXPECT_EQ(f.tensor_read(freed, bytes, 0, 1), nrt::NRT_INVALID_HANDLE);
    EXPECT_NE(tensor(f, 100), nullptr);
  });
}

TEST(Tensors, HoldNoNumbersUntilTheyAreWritten) {
  in_a_process({}, [] {
    const Functions f = started();
    EXPECT_TRUE(std::isnan(floats(f, tensor(f, 4), 1)[0]));
  });
}

TEST(Models, RunOnTheTensorsOfTheirSets) {
  in_a_process({}, [] {
    const Functions f = started();
    nrt::nrt_model_t* model = load(f, step_neff());
    std::vector<float> rows(8);
    std::iota(rows.begin(), rows.end(), 0.0f);
    nrt::nrt_tensor_t *table = tensor(f, rows), *row = tensor<int32_t>(f, {3}), *x = tensor<float>(f, {10, 20});
    nrt::nrt_tensor_t* y = tensor(f, 8);
    nrt::nrt_tensor_set_t *in = set_of(f, "input", {table, row, x}), *out = set_of(f, "output", {y, table});
    EXPECT_EQ(f.execute(model, in, out), nrt::NRT_SUCCESS);
    EXPECT_THAT(floats(f, y, 2), testing::ElementsAre(16, 27));
    EXPECT_THAT(floats(f, table, 4), testing::ElementsAre(10, 20, 2, 3));
    EXPECT_EQ(f.unload(model), nrt::NRT_SUCCESS);
    EXPECT_EQ(f.execute(model, in, out), nrt::NRT_INVALID_HANDLE);
  });
}

TEST(Models, ListTheirTensors) {
  in_a_process({}, [] {
    const Functions f = started();
    nrt::nrt_tensor_info_array_t* listed = nullptr;
    ASSERT_EQ(f.get_model_tensor_info(load(f, step_neff()), &listed), nrt::NRT_SUCCESS);
    ASSERT_EQ(listed->tensor_count, 5u);
    EXPECT_STREQ(listed->tensors()[1].name, "input1");
    EXPECT_EQ(listed->tensors()[1].dtype, nrt::NRT_DTYPE_INT32);
    EXPECT_STREQ(listed->tensors()[4].name, "output1");
    EXPECT_EQ(listed->tensors()[4].usage, nrt::NRT_TENSOR_USAGE_OUTPUT);
    EXPECT_EQ(listed->tensors()[4].size, 32u);
    EXPECT_EQ(listed->tensors()[4].shape[0], 4u);
    EXPECT_EQ(f.free_model_tensor_info(listed), nrt::NRT_SUCCESS);
  });
}

TEST(Models, WhoseFileIsWrongAreRefused) {
  in_a_process({}, [] {
    const Functions f = started();
    std::vector<std::byte> cut = step_neff();
    cut.resize(cut.size() - 100);
    EXPECT_EQ(status_of_load(f, cut), nrt::NRT_INVALID);
    EXPECT_EQ(status_of_load(f, std::vector<std::byte>(5000, std::byte{1})), nrt::NRT_UNSUPPORTED_NEFF_VERSION);
    EXPECT_EQ(status_of_load(f, sum_neff(2)), nrt::NRT_INVALID);  // collectives: another function loads it
  });
  in_a_process({{"NEURON_LOGICAL_NC_CONFIG", "2"}},
               [] { EXPECT_EQ(status_of_load(started(), step_neff()), nrt::NRT_INVALID); });
}

TEST(Models, RefuseTensorsThatDoNotFit) {
  in_a_process({}, [] {
    const Functions f = started();
    nrt::nrt_model_t* model = load(f, step_neff());
    nrt::nrt_tensor_t *table = tensor(f, 32), *other = tensor(f, 32), *row = tensor(f, 4), *x = tensor(f, 8);
    const auto execute = [&](const std::vector<nrt::nrt_tensor_t*>& in, const std::vector<nrt::nrt_tensor_t*>& out) {
      return f.execute(model, set_of(f, "input", in), set_of(f, "output", out));
    };
    EXPECT_EQ(execute({table, row}, {x, table}), nrt::NRT_INVALID);        // one is missing
    EXPECT_EQ(execute({table, row, x, x}, {x, table}), nrt::NRT_INVALID);  // one too many
    EXPECT_EQ(execute({table, x, x}, {x, table}), nrt::NRT_INVALID);       // of another size
    EXPECT_EQ(execute({table, row, x}, {x, other}), nrt::NRT_INVALID);     // the alias is another tensor
    EXPECT_EQ(f.execute(model, nullptr, nullptr), nrt::NRT_INVALID_HANDLE);
  });
}

TEST(Models, EndWithTheDevicesStatusForBadIndicesAndForNans) {
  in_a_process({}, [] {
    const Functions f = started();
    nrt::nrt_model_t* model = load(f, step_neff());
    const auto execute = [&](int32_t row, float x) {
      nrt::nrt_tensor_t* table = tensor<float>(f, std::vector<float>(8));
      return f.execute(model, set_of(f, "input", {table, tensor<int32_t>(f, {row}), tensor<float>(f, {x, x})}),
                       set_of(f, "output", {tensor(f, 8), table}));
    };
    EXPECT_EQ(execute(3, 1.0f), nrt::NRT_SUCCESS);
    EXPECT_EQ(execute(4, 1.0f), nrt::NRT_EXEC_OOB);
    EXPECT_EQ(execute(3, NAN), nrt::NRT_EXEC_COMPLETED_WITH_NUM_ERR);
  });
}

/// Whether the lock of `core` can be had; held until the process ends.
bool can_claim(const std::filesystem::path& machine, int core) {
  const int file = ::open((machine / fmt::format("core-{}.lock", core)).c_str(), O_RDWR | O_CREAT, 0600);
  return ::flock(file, LOCK_EX | LOCK_NB) == 0;
}

TEST(Cores, BelongToOneProcessAtATime) {
  const std::filesystem::path machine = testing::TempDir() + fmt::format("stand-in-cores-{}", ::getpid());
  std::filesystem::create_directories(machine);
  const auto start_on = [&](const std::string& cores, nrt::NRT_STATUS expected) {
    in_a_process({{"STAND_IN_NRT_MACHINE", machine.string()}, {"NEURON_RT_VISIBLE_CORES", cores}}, [&] {
      EXPECT_EQ(functions().init(nrt::NRT_FRAMEWORK_TYPE_NO_FW, "", ""), expected);
      EXPECT_EQ(can_claim(machine, 2), expected != nrt::NRT_SUCCESS);
    });
  };
  start_on("2-3", nrt::NRT_SUCCESS);
  start_on("2-3", nrt::NRT_SUCCESS);  // what the first had is free again
  ASSERT_TRUE(can_claim(machine, 3));
  start_on("2-3", nrt::NRT_LOAD_NOT_ENOUGH_NC);
  start_on("2", nrt::NRT_SUCCESS);
  std::filesystem::remove_all(machine);
}

TEST(Collectives, AddWhatTheRanksGive) {
  for (const uint32_t ranks : {1u, 2u, 4u}) {
    const auto neff = sum_neff(static_cast<int>(ranks));
    on_ranks(static_cast<int>(ranks), {}, [&](uint32_t rank) {
      const SumRun ran = run_sum(started(), rank, ranks, neff, /*times=*/20);
      EXPECT_EQ(ran.loaded, nrt::NRT_SUCCESS);
      EXPECT_EQ(ran.executed, nrt::NRT_SUCCESS);
      EXPECT_THAT(ran.result, testing::ElementsAre(ranks * (ranks + 1) / 2.0f, ranks * 0.5f));
    });
  }
}

TEST(Collectives, OfDifferentModulesAreRefusedAtLoad) {
  on_ranks(2, {}, [](uint32_t rank) {
    const SumRun ran = run_sum(started(), rank, 2, sum_neff(2, rank == 0 ? 1.0 : 2.0));
    EXPECT_EQ(ran.loaded, nrt::NRT_FAILURE);
  });
}

TEST(Collectives, WithoutAPeerEndInTime) {
  on_ranks(2, {{"STAND_IN_NRT_LOAD_LIMIT_S", "1"}}, [](uint32_t rank) {
    if (rank == 1) return;
    EXPECT_EQ(run_sum(started(), 0, 2, sum_neff(2)).loaded, nrt::NRT_TIMEOUT);
  });
  int is_over[2];
  ASSERT_EQ(::pipe(is_over), 0);
  on_ranks(2, {{"NEURON_RT_EXEC_TIMEOUT", "1"}}, [&](uint32_t rank) {
    const SumRun ran = run_sum(started(), rank, 2, sum_neff(2), /*times=*/rank == 0 ? 2 : 1);
    EXPECT_EQ(ran.executed, rank == 0 ? nrt::NRT_TIMEOUT : nrt::NRT_SUCCESS);
    char word = 0;  // rank 1 is there, but does not come, until rank 0 has given up
    EXPECT_EQ(rank == 0 ? ::write(is_over[1], &word, 1) : ::read(is_over[0], &word, 1), 1);
  });
  ::close(is_over[0]);
  ::close(is_over[1]);
}

TEST(Collectives, WhosePeerDiesSaySo) {
  for (const uint32_t victim : {0u, 2u}) {
    const Variables variables = {{"STAND_IN_NRT_FAULTS", fmt::format("execute@{}#3=1200", victim)}};
    on_ranks(3, variables, [&](uint32_t rank) {
      const SumRun ran = run_sum(started(), rank, 3, sum_neff(3), /*times=*/5);
      EXPECT_EQ(ran.executed, nrt::NRT_EXEC_HW_ERR_COLLECTIVES);  // planted in the victim, which then ends
    });
  }
}

TEST(PlantedFaults, ComeAtTheirCallOfTheirProcess) {
  in_a_process({{"NEURON_RT_VISIBLE_CORES", "3"},
                {"STAND_IN_NRT_FAULTS", "tensor_allocate@3#2=4; tensor_allocate@4=2; load=10"}},
               [] {
                 const Functions f = started();
                 nrt::nrt_tensor_t* t = nullptr;
                 const auto allocate = [&] {
                   return f.tensor_allocate(nrt::NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "t", &t);
                 };
                 EXPECT_EQ(allocate(), nrt::NRT_SUCCESS);
                 EXPECT_EQ(allocate(), nrt::NRT_RESOURCE);
                 EXPECT_EQ(allocate(), nrt::NRT_SUCCESS);
                 EXPECT_EQ(status_of_load(f, step_neff()), nrt::NRT_UNSUPPORTED_NEFF_VERSION);
               });
  in_a_process({{"STAND_IN_NRT_FAULTS", "load=sometimes"}},
               [] { EXPECT_EQ(functions().init(nrt::NRT_FRAMEWORK_TYPE_NO_FW, "", ""), nrt::NRT_INVALID); });
}

}  // namespace
}  // namespace lockstep::stand_in
