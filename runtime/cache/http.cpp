#include "runtime/cache/http.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include "runtime/core/digest.h"

namespace lockstep::cache {
namespace {

constexpr unsigned int kSigns = 0x074b00;  // 7.75.0, the first version with CURLOPT_AWS_SIGV4
constexpr size_t kMostSaid = 2048;

/// The libcurl functions in use, by name.
struct Curl {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_version_info) version_info;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
};

Error no_curl(std::string_view why) {
  return {
      ErrorKind::kUnavailable,
      fmt::format("[runtime/cache] cannot use HTTP: found {}, expected libcurl 7.75 or newer; install libcurl4", why)};
}

/// Loads libcurl for the lifetime of the process.
Result<Curl> load_curl() {
  void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = ::dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return no_curl("no libcurl.so.4");
  Curl curl{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(curl.global_init, "curl_global_init");
  find(curl.version_info, "curl_version_info");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_perform, "curl_easy_perform");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  if (!missing.empty()) return no_curl("one without " + missing);
  const curl_version_info_data* version = curl.version_info(CURLVERSION_NOW);
  if (version->version_num < kSigns) return no_curl(version->version);
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return no_curl("one that does not start");
  return curl;
}

/// Destination of a response body: the file if the status is 200, otherwise the text.
struct Sink {
  std::ofstream* file = nullptr;  // null: only the text is wanted
  uint64_t most = 0, got = 0;
  std::string said;
  const std::function<long()>* status = nullptr;
};

size_t take_bytes(char* bytes, size_t one, size_t count, void* user) {
  Sink& sink = *static_cast<Sink*>(user);
  const size_t size = one * count;
  if (sink.file == nullptr || (*sink.status)() != 200) {
    sink.said.append(bytes, std::min(size, kMostSaid - std::min(kMostSaid, sink.said.size())));
    return size;
  }
  sink.got += size;
  if (sink.got > sink.most) return 0;
  sink.file->write(bytes, static_cast<std::streamsize>(size));
  return sink.file->good() ? size : 0;
}

size_t give_bytes(char* to, size_t one, size_t count, void* user) {
  auto& file = *static_cast<std::ifstream*>(user);
  file.read(to, static_cast<std::streamsize>(one * count));
  return file.bad() ? CURL_READFUNC_ABORT : static_cast<size_t>(file.gcount());
}

int stop_if_aborted(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* abort = static_cast<const AbortFlag*>(user);
  return abort != nullptr && abort->is_raised() ? 1 : 0;
}

ErrorKind kind_of(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT: return ErrorKind::kDeadlineExceeded;
    case CURLE_ABORTED_BY_CALLBACK: return ErrorKind::kCancelled;
    case CURLE_PARTIAL_FILE:
    case CURLE_WRITE_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING: return ErrorKind::kFailedPrecondition;
    default: return ErrorKind::kUnavailable;
  }
}

/// One request: its handle and its headers.
class Request {
 public:
  Request(const Curl& curl, const std::string& url, RemoteDeadlines deadlines, const AbortFlag* abort)
      : curl_(curl), handle_(curl.easy_init()) {
    LOCKSTEP_CHECK(handle_ != nullptr);
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_NOSIGNAL, 1L);  // required with threads
    set(CURLOPT_CONNECTTIMEOUT_MS, std::lround(deadlines.connect_s * 1000));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, std::max(1L, std::lround(deadlines.silence_s)));
    set(CURLOPT_TIMEOUT_MS, std::lround(deadlines.whole_s * 1000));
    set(CURLOPT_ERRORBUFFER, why_);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &stop_if_aborted);
    set(CURLOPT_XFERINFODATA, abort);
    set(CURLOPT_WRITEFUNCTION, &take_bytes);
    // Limits the delay of a PUT by a server without support for "Expect: 100-continue". (The header cannot be omitted:
    // libcurl 7.88 signs it even when empty.)
    set(CURLOPT_EXPECT_100_TIMEOUT_MS, 200L);
  }
  ~Request() {
    curl_.easy_cleanup(handle_);
    curl_.slist_free_all(headers_);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  template <typename T>
  void set(CURLoption option, T value) {
    curl_.easy_setopt(handle_, option, value);
  }

  void add_header(const std::string& header) { headers_ = curl_.slist_append(headers_, header.c_str()); }

  /// `digest` is that of the request body.
  void sign(const S3Account& account, const std::string& digest) {
    set(CURLOPT_AWS_SIGV4, fmt::format("aws:amz:{}:s3", account.region).c_str());  // libcurl copies strings
    set(CURLOPT_USERNAME, account.access_key.c_str());
    set(CURLOPT_PASSWORD, account.secret_key.c_str());
    add_header("x-amz-content-sha256: " + digest);
    if (!account.session_token.empty()) add_header("x-amz-security-token: " + account.session_token);
  }

  Result<HttpAnswer> perform(Sink sink) {
    const std::function<long()> status = [this] { return this->status(); };
    sink.status = &status;
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_WRITEDATA, &sink);
    const CURLcode code = curl_.easy_perform(handle_);
    if (code != CURLE_OK) {
      const std::string why = sink.got > sink.most ? fmt::format("more than {} bytes came", sink.most)
                              : why_[0] != '\0'    ? std::string(why_)
                                                   : std::string(curl_.easy_strerror(code));
      return Error{kind_of(code), "[runtime/cache] " + why};
    }
    return HttpAnswer{static_cast<int>(this->status()), std::move(sink.said)};
  }

 private:
  long status() const {
    long status = 0;
    curl_.easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  const Curl& curl_;
  CURL* handle_;
  curl_slist* headers_ = nullptr;
  char why_[CURL_ERROR_SIZE] = {};
};

class CurlHttp final : public Http {
 public:
  CurlHttp(const Curl& curl, const S3Account* account, RemoteDeadlines deadlines, const AbortFlag* abort)
      : curl_(curl), account_(account), deadlines_(deadlines), abort_(abort) {}

  Result<HttpAnswer> get(const std::string& url, const std::filesystem::path& to, uint64_t most) override {
    std::ofstream file(to, std::ios::binary | std::ios::trunc);
    Request request(curl_, url, deadlines_, abort_);
    if (account_ != nullptr) request.sign(*account_, sha256_hex(""));
    LOCKSTEP_TRY(HttpAnswer answer, request.perform({.file = &file, .most = most}));
    file.close();
    if (!file) return Error{ErrorKind::kUnavailable, fmt::format("[runtime/cache] cannot write {}", to.string())};
    return answer;
  }

  Result<HttpAnswer> put(const std::string& url, const std::filesystem::path& from) override {
    LOCKSTEP_TRY(const FileDigest digest, digest_of_file(from));
    std::ifstream file(from, std::ios::binary);
    Request request(curl_, url, deadlines_, abort_);
    if (account_ != nullptr) request.sign(*account_, digest.sha256);
    request.set(CURLOPT_UPLOAD, 1L);
    request.set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(digest.size));
    request.set(CURLOPT_READFUNCTION, &give_bytes);
    request.set(CURLOPT_READDATA, &file);
    return request.perform({});
  }

 private:
  const Curl curl_;
  const S3Account* account_;
  const RemoteDeadlines deadlines_;
  const AbortFlag* abort_;
};

}  // namespace

Result<std::unique_ptr<Http>> make_http(const S3Account* account, RemoteDeadlines deadlines, const AbortFlag* abort) {
  LOCKSTEP_TRY(const Curl curl, load_curl());
  return std::unique_ptr<Http>(std::make_unique<CurlHttp>(curl, account, deadlines, abort));
}

}  // namespace lockstep::cache
