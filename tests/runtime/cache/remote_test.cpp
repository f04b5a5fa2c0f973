#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/cache/cache.h"
#include "runtime/cache/key.h"
#include "runtime/cache/remote_address.h"
#include "runtime/core/digest.h"
#include "tests/runtime/cache/cases.h"
#include "tests/runtime/cache/object_server.h"
#include "tests/temporary_directory.h"

namespace lockstep::cache {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class RemoteTest : public ::testing::Test {
 protected:
  RemoteTest() {
    for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}) ::unsetenv(name);
  }

  Options options(const std::string& folder, std::vector<std::string> further) {
    return {.folder = directory_.path() / folder,
            .further = std::move(further),
            .remote = {.connect_s = 20.0, .silence_s = 20.0, .whole_s = 60.0},
            .build = "build-1",
            .say = lines_.taker()};
  }
  std::unique_ptr<device::ArtifactCache> open(const std::string& folder) {
    return make_cache(options(folder, {server_.address() + "/bucket/prefix"})).value();
  }
  /// The remote holds the artifact of `key_of()`.
  void fill() { open("filling").get()->get(key_of(), maker_.function()).value(); }

  static std::string path_of(const char* kind) { return "/bucket/prefix/" + address_of(key_of()) + "." + kind; }

  ObjectServer server_;
  TemporaryDirectory directory_;
  Lines lines_;
  Maker maker_;
};

TEST_F(RemoteTest, IsFilledAfterSomethingWasMade) {
  fill();
  EXPECT_THAT(server_.objects(), UnorderedElementsAre(Key(path_of("manifest")), Key(path_of("artifact"))));
  EXPECT_EQ(server_.objects().at(path_of("artifact")), "compiled");
  EXPECT_EQ(server_.requests().back().path, path_of("manifest"));  // so it never refers to a missing artifact
  EXPECT_THAT(lines_.warnings(), IsEmpty());
}

TEST_F(RemoteTest, IsAskedBeforeAnythingIsMade) {
  fill();
  const auto found = open("another")->get(key_of(), never()).value();
  EXPECT_EQ(read_text(found.path), "compiled");
  EXPECT_EQ(found.origin, "from " + server_.address() + "/bucket/prefix");
  server_.forget_requests();
  open("another")->get(key_of(), never()).value();
  EXPECT_THAT(server_.requests(), IsEmpty());  // it is kept in the folder
}

TEST_F(RemoteTest, CarriesLargeArtifactsWhole) {
  maker_.text = std::string(5'000'001, 'x');
  maker_.text[4'000'000] = 'y';
  fill();
  EXPECT_EQ(read_text(open("another")->get(key_of(), never()).value().path), maker_.text);
}

struct DamageCase {
  const char* name;
  const char* suffix;
  Misbehaviour how;
  const char* said;
};

class DamagingRemoteTest : public RemoteTest, public ::testing::WithParamInterface<DamageCase> {};

TEST_P(DamagingRemoteTest, IsNotBelievedAndFilledAnew) {
  fill();
  server_.misbehave(GetParam().suffix, GetParam().how);
  maker_.text = "compiled again";
  const auto made = open("another")->get(key_of(), maker_.function()).value();
  EXPECT_TRUE(made.was_made);
  EXPECT_EQ(read_text(made.path), "compiled again");
  EXPECT_THAT(lines_.warnings(), ElementsAre(AllOf(HasSubstr("goes on without"), HasSubstr(GetParam().said))));
  server_.behave();
  EXPECT_EQ(read_text(open("third")->get(key_of(), never()).value().path), "compiled again");
}

INSTANTIATE_TEST_SUITE_P(
    AnyObject, DamagingRemoteTest,
    ::testing::Values(DamageCase{"TruncatedArtifact", ".artifact", Misbehaviour::kTruncate, "remaining"},
                      DamageCase{"ChangedArtifact", ".artifact", Misbehaviour::kChange, "found SHA-256"},
                      DamageCase{"LongArtifact", ".artifact", Misbehaviour::kLengthen, "more than 8 bytes"},
                      DamageCase{"TruncatedManifest", ".manifest", Misbehaviour::kTruncate, "remaining"},
                      DamageCase{"LongManifest", ".manifest", Misbehaviour::kLengthen, "cannot read a manifest"}),
    [](const auto& test) { return test.param.name; });

TEST_F(RemoteTest, ThatForbidsIsSaidOnceAndGoneAround) {
  server_.misbehave("", Misbehaviour::kForbid);
  const auto cache = open("folder");
  EXPECT_TRUE(cache->get(key_of("-O1"), maker_.function()).has_value());
  EXPECT_TRUE(cache->get(key_of("-O2"), maker_.function()).has_value());
  EXPECT_THAT(lines_.warnings(), ElementsAre(AllOf(HasSubstr("cannot be read"), HasSubstr("403 (AccessDenied)")),
                                             HasSubstr("cannot be filled")));
}

TEST_F(RemoteTest, ThatHangsIsGivenUpAndNotAskedAgain) {
  server_.misbehave("", Misbehaviour::kHang);
  Options hasty = options("folder", {server_.address() + "/bucket"});
  hasty.remote.silence_s = 1.0;
  const auto cache = make_cache(hasty).value();
  EXPECT_TRUE(cache->get(key_of("-O1"), maker_.function()).has_value());
  EXPECT_TRUE(cache->get(key_of("-O2"), maker_.function()).has_value());
  EXPECT_THAT(lines_.warnings(), ElementsAre(AllOf(HasSubstr("goes on without"), HasSubstr("from now on"))));
  EXPECT_THAT(server_.requests(), SizeIs(1));
}

TEST_F(RemoteTest, ThatIsNotThereIsSaidOnceAndGoneAround) {
  std::string nowhere;
  {
    ObjectServer gone;
    nowhere = gone.address();
  }
  const auto cache = make_cache(options("folder", {nowhere, server_.address() + "/bucket/prefix"})).value();
  EXPECT_TRUE(cache->get(key_of("-O1"), maker_.function()).has_value());
  EXPECT_TRUE(cache->get(key_of("-O2"), maker_.function()).has_value());
  EXPECT_THAT(lines_.warnings(), ElementsAre(AllOf(HasSubstr(nowhere), HasSubstr("from now on"))));
  EXPECT_THAT(server_.objects(), SizeIs(4));  // the next tier is used all the same
}

TEST_F(RemoteTest, AnAbortEndsItsRequests) {
  server_.misbehave("", Misbehaviour::kHang);
  AbortFlag abort;
  abort.raise({ErrorKind::kPeerLost, "rank 3 is lost"});
  Options watched = options("folder", {server_.address() + "/bucket"});
  watched.abort = &abort;
  EXPECT_EQ(make_cache(watched).value()->get(key_of(), never()).error().kind, ErrorKind::kCancelled);
}

// --- signatures ----------------------------------------------------------------------------------------------------

/// HMAC-SHA256 (RFC 2104) of `text`, as bytes.
std::string hmac(std::string key, const std::string& text) {
  const auto raw = [](const std::string& hex) {
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
  };
  key.resize(64);  // ours are shorter than a block
  std::string inner = key, outer = key;
  for (char& c : inner) c ^= 0x36;
  for (char& c : outer) c ^= 0x5c;
  return raw(sha256_hex(outer + raw(sha256_hex(inner + text))));
}

std::string hex_of(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

/// The part of an Authorization header that follows `name`.
std::string part(const std::string& authorization, const std::string& name) {
  const size_t begin = authorization.find(name) + name.size();
  return authorization.substr(begin, authorization.find_first_of(", ", begin) - begin);
}

/// The signature of `request` by AWS's guide ("Signature Version 4 signing process"), computed independently
/// from libcurl.
std::string expected_signature(const SeenRequest& request, const std::string& secret, const std::string& region) {
  const std::string authorization = request.headers.at("authorization");
  const std::string names = part(authorization, "SignedHeaders=");
  std::string headers;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(';', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    headers += name + ":" + request.headers.at(name) + "\n";
    begin = end + 1;
  }
  const std::string canonical = request.method + "\n" + request.path + "\n\n" + headers + "\n" + names + "\n" +
                                request.headers.at("x-amz-content-sha256");
  const std::string time = request.headers.at("x-amz-date"), day = time.substr(0, 8);
  const std::string scope = day + "/" + region + "/s3/aws4_request";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + sha256_hex(canonical);
  const std::string key = hmac(hmac(hmac(hmac("AWS4" + secret, day), region), "s3"), "aws4_request");
  return hex_of(hmac(key, to_sign));
}

TEST_F(RemoteTest, SignsRequestsToABucketAsItsKeeperExpects) {
  Options signing = options("folder", {"s3://bucket/prefix"});
  signing.account = {.access_key = "AKIDEXAMPLE",
                     .secret_key = "a/secret+key",
                     .session_token = "a-token",
                     .region = "eu-north-1",
                     .endpoint = server_.address()};
  make_cache(signing).value()->get(key_of(), maker_.function()).value();
  EXPECT_THAT(lines_.warnings(), IsEmpty());
  ASSERT_THAT(server_.requests(), SizeIs(3));  // GET the manifest, PUT the artifact, PUT the manifest
  for (const SeenRequest& request : server_.requests()) {
    const std::string authorization = request.headers.at("authorization");
    EXPECT_THAT(authorization, AllOf(HasSubstr("AWS4-HMAC-SHA256"), HasSubstr("Credential=AKIDEXAMPLE/"),
                                     HasSubstr("/eu-north-1/s3/aws4_request")));
    EXPECT_THAT(part(authorization, "SignedHeaders="),
                AllOf(HasSubstr("host"), HasSubstr("x-amz-content-sha256"), HasSubstr("x-amz-date"),
                      HasSubstr("x-amz-security-token")));
    EXPECT_EQ(request.headers.at("x-amz-content-sha256"), sha256_hex(request.body));
    EXPECT_EQ(part(authorization, "Signature="), expected_signature(request, "a/secret+key", "eu-north-1"));
    EXPECT_EQ(request.headers.at("host"), server_.host());
  }
  signing.folder = directory_.path() / "another";
  EXPECT_TRUE(make_cache(signing).value()->get(key_of(), never()).has_value());
}

TEST_F(RemoteTest, NeverSaysAPassword) {
  server_.misbehave("", Misbehaviour::kForbid);
  const auto cache = make_cache(options("folder", {"http://user:secret@" + server_.host() + "/bucket"})).value();
  cache->get(key_of(), maker_.function()).value();
  EXPECT_THAT(server_.requests().front().headers, ::testing::Contains(Key("authorization")));
  EXPECT_THAT(lines_.warnings(), Each(AllOf(HasSubstr(server_.host()), ::testing::Not(HasSubstr("secret")))));
}

// --- addresses -----------------------------------------------------------------------------------------------------

TEST(RemoteAddress, OfABucketIsAmazonsOrThatOfTheEndpoint) {
  S3Account account{.access_key = "key", .secret_key = "secret", .region = "us-west-2"};
  EXPECT_EQ(remote_address("s3://bucket/a/b/", account).value(),
            (RemoteAddress{"s3://bucket/a/b/", "https://bucket.s3.us-west-2.amazonaws.com/a/b", true}));
  account.endpoint = "http://minio:9000/";
  EXPECT_EQ(remote_address("s3://bucket", account).value(),
            (RemoteAddress{"s3://bucket", "http://minio:9000/bucket", true}));
  EXPECT_FALSE(remote_address("s3://bucket", {}).value().is_signed);
}

TEST(RemoteAddress, IsRefusedWhereItCannotBeMeant) {
  const S3Account half{.access_key = "key"};
  EXPECT_THAT(remote_address("s3://bucket", half).error().message, HasSubstr("AWS_SECRET_ACCESS_KEY"));
  for (const char* url : {"s3://", "s3:///prefix", "s3://bucket/a b", "ftp://host/path", "http://", "http://h/p?q=1"}) {
    const auto address = remote_address(url, {});
    ASSERT_FALSE(address.has_value()) << url;
    EXPECT_EQ(address.error().kind, ErrorKind::kInvalidArgument);
  }
  EXPECT_EQ(make_cache({.folder = "cache", .further = {"ftp://host/path"}}).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::cache
