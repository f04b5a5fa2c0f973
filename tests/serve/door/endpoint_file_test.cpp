#include "launcher/serve/door/endpoint_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/core/atomic_file.h"

namespace lockstep::serve {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Endpoint endpoint(std::string url, int port = 8000) {
  return {.url = std::move(url),
          .host = "node7",
          .user = "ada",
          .port = port,
          .model = "tiny",
          .api_key_file = "keys.txt",
          .job = "4711"};
}

nlohmann::json json_of(const Endpoint& endpoint) { return nlohmann::json::parse(to_json(endpoint)); }

std::string job_with(std::map<std::string, std::string> variables) {
  return job_id([&](const char* name) { return variables[name]; });
}

TEST(Endpoint, HasWhatAClientOfAnotherMachineNeeds) {
  auto json = json_of(endpoint("http://127.0.0.1:41873", 41873));
  EXPECT_TRUE(fs::equivalent("/proc/self", "/proc/" + std::to_string(json.at("pid").get<int>())));
  json.erase("pid");
  EXPECT_EQ(json, nlohmann::json::parse(R"({"url": "http://127.0.0.1:41873", "base_url": "http://127.0.0.1:41873/v1",
    "model": "tiny", "api_key_file": "keys.txt", "job": "4711", "host": "node7", "port": 41873,
    "ssh": "ssh -N -L 41873:127.0.0.1:41873 ada@node7"})"));
}

TEST(Endpoint, LeavesOutWhatThereIsNot) {
  Endpoint open = endpoint("http://127.0.0.1:8000");
  open.api_key_file = open.job = open.user = "";
  EXPECT_FALSE(json_of(open).contains("api_key_file"));
  EXPECT_FALSE(json_of(open).contains("job"));
  EXPECT_EQ(json_of(open).at("ssh"), "ssh -N -L 8000:127.0.0.1:8000 node7");
}

TEST(Endpoint, NamesTheHostOfAServerThatListensOnEveryNetwork) {
  EXPECT_EQ(json_of(endpoint("https://0.0.0.0:8443", 8443)).at("url"), "https://node7:8443");
  EXPECT_EQ(json_of(endpoint("http://[::]:8000")).at("base_url"), "http://node7:8000/v1");
  EXPECT_EQ(json_of(endpoint("http://[::]:8000")).at("ssh"), "ssh -N -L 8000:127.0.0.1:8000 ada@node7");
}

TEST(Endpoint, KeepsTheAddressOfAServerThatListensOnOneNetwork) {
  EXPECT_EQ(json_of(endpoint("http://[::1]:8000")).at("url"), "http://[::1]:8000");
  EXPECT_EQ(json_of(endpoint("http://[::1]:8000")).at("ssh"), "ssh -N -L 8000:[::1]:8000 ada@node7");
  EXPECT_EQ(json_of(endpoint("http://10.1.2.3:8000")).at("ssh"), "ssh -N -L 8000:10.1.2.3:8000 ada@node7");
}

TEST(Endpoint, TunnelsToAUnixSocket) {
  const auto json = json_of(endpoint("unix:/run/serve.sock", 0));
  EXPECT_EQ(json.at("url"), "unix:/run/serve.sock");
  EXPECT_EQ(json.at("ssh"), "ssh -N -L 8000:/run/serve.sock ada@node7");
  EXPECT_FALSE(json.contains("base_url"));
}

TEST(JobId, IsTheBatchSystems) {
  EXPECT_EQ(job_with({{"SLURM_JOB_ID", "17"}}), "17");
  EXPECT_EQ(job_with({{"PBS_JOBID", "18.head"}}), "18.head");
  EXPECT_THAT(job_with({}), IsEmpty());
}

class EndpointFileTest : public testing::Test {
 protected:
  EndpointFileTest() { fs::remove_all(folder_), fs::create_directories(folder_); }

  const fs::path folder_ = fs::path(testing::TempDir()) / "endpoint";
  const fs::path file_ = folder_ / "endpoint.json";
};

TEST_F(EndpointFileTest, IsReadableByItsOwnerAloneAndGoneAtTheEnd) {
  {
    const auto written = EndpointFile::write(file_, endpoint("http://127.0.0.1:8000")).value();
    EXPECT_EQ(fs::status(file_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_THAT(read_text_file(file_, "").value(), StartsWith("{\n  \"url\": \"http://127.0.0.1:8000\""));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(EndpointFileTest, ReplacesOneThatOthersMayRead) {
  ASSERT_TRUE(write_text_file(file_, "old").has_value());
  fs::permissions(file_, fs::perms::others_read, fs::perm_options::add);
  const auto written = EndpointFile::write(file_, endpoint("http://127.0.0.1:8000")).value();
  EXPECT_EQ(fs::status(file_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(EndpointFileTest, LeavesTheFileOfAServerThatCameLater) {
  {
    const auto first = EndpointFile::write(file_, endpoint("http://127.0.0.1:8000")).value();
    ASSERT_TRUE(write_text_file(file_, "another's").has_value());
  }
  EXPECT_EQ(read_text_file(file_, "").value(), "another's");
}

TEST_F(EndpointFileTest, FailsInAFolderThatIsMissing) {
  const auto written = EndpointFile::write(folder_ / "missing" / "endpoint.json", endpoint("http://127.0.0.1:8000"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::serve
