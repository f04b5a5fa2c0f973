// One process with the library: its interface, tensors and models.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <set>

#include "tests/neuron_stand_in/nrt/library_fixture.h"

namespace lockstep::stand_in {
namespace {

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

}  // namespace
}  // namespace lockstep::stand_in
