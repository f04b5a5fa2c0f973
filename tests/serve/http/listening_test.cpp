// Where a server listens: TCP, Unix sockets, TLS; and pages of other origins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include "tests/serve/http/http_fixture.h"
#include "tests/temporary_directory.h"

namespace lockstep::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// The error of opening a server.
Error refused(HttpOptions options) {
  const auto loop = make_loop();
  return HttpServer::open(*loop, std::move(options), [](auto) {}).error();
}

TEST(HttpListening, TakesAFreePortAndNamesIt) {
  TestServer server;
  EXPECT_GT(server.port(), 0);
  EXPECT_EQ(server.server().address(), "http://127.0.0.1:" + std::to_string(server.port()));
}

TEST(HttpListening, ServesAddressesOfBothKinds) {
  HttpOptions options = test_options();
  options.host = "::1";
  const auto loop = make_loop();
  const auto server = HttpServer::open(*loop, options, [](auto) {});
  if (!server.has_value()) GTEST_SKIP() << "this machine has no IPv6: " << server.error().message;
  EXPECT_EQ(server.value()->address(), "http://[::1]:" + std::to_string(server.value()->port()));
}

TEST(HttpListening, RefusesAPortInUse) {
  TestServer server;
  HttpOptions options = test_options();
  options.port = server.port();
  const Error error = refused(options);
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr(std::to_string(server.port())));
  EXPECT_THAT(error.message, HasSubstr("--port"));
}

TEST(HttpListening, RefusesAnAddressOfAnotherHost) {
  HttpOptions options = test_options();
  options.host = "not an address";
  EXPECT_EQ(refused(options).kind, ErrorKind::kInvalidArgument);
}

TEST(HttpListening, ServesAUnixSocketOfItsUserOnly) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "socket";
  {
    HttpOptions options = test_options();
    options.unix_socket = path;
    TestServer server(options);
    EXPECT_EQ(server.server().address(), "unix:" + path);
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    RawClient client(path);
    client.send(get("/echo"));
    EXPECT_EQ(status_of(client.receive_response()), 200);

    const Error error = refused(options);
    EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
    EXPECT_THAT(error.message, HasSubstr("a server that answers there"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(HttpListening, NoticesAClientOfAUnixSocketThatLeaves) {
  const TemporaryDirectory directory;
  HttpOptions options = test_options();
  options.unix_socket = directory.path() / "socket";
  TestServer server(options);
  RawClient client(options.unix_socket);
  client.send(get("/hold"));
  auto held = server.next_held();
  client.close();
  server.wait_until([&] { return server.server().counters().disconnects == 1; });
}

TEST(HttpListening, ReplacesAStaleSocketAndNoOtherFile) {
  const TemporaryDirectory directory;
  HttpOptions options = test_options();
  options.unix_socket = directory.path() / "socket";
  {
    TestServer ended(options);
    std::filesystem::create_hard_link(options.unix_socket, directory.path() / "stale");
  }
  options.unix_socket = directory.path() / "stale";
  { TestServer server(options); }

  directory.write("file", "precious");
  options.unix_socket = directory.path() / "file";
  EXPECT_EQ(refused(options).kind, ErrorKind::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_regular_file(options.unix_socket));
  options.unix_socket = directory.path() / std::string(200, 'a');
  EXPECT_THAT(refused(options).message, HasSubstr("at most 107"));
}

/// A key and a certificate that it signs itself, written as key.pem and cert.pem.
void write_certificate(const TemporaryDirectory& directory) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  const std::unique_ptr<BIO, decltype(&BIO_free)> key_file(BIO_new_file((directory.path() / "key.pem").c_str(), "w"),
                                                           BIO_free);
  PEM_write_bio_PrivateKey(key_file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  const std::unique_ptr<BIO, decltype(&BIO_free)> certificate_file(
      BIO_new_file((directory.path() / "cert.pem").c_str(), "w"), BIO_free);
  PEM_write_bio_X509(certificate_file.get(), certificate.get());
}

HttpOptions tls_options(const TemporaryDirectory& directory) {
  HttpOptions options = test_options();
  options.tls_certificate = directory.path() / "cert.pem";
  options.tls_key = directory.path() / "key.pem";
  return options;
}

/// TLS over a client's socket.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int newest_version = TLS1_3_VERSION) : client_(port) {
    SSL_CTX_set_security_level(context_.get(), 0);  // allows old versions on this side
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), newest_version);
    connection_.reset(SSL_new(context_.get()));
    SSL_set_fd(connection_.get(), client_.descriptor());
  }

  bool connect() { return SSL_connect(connection_.get()) == 1; }
  void send(std::string_view bytes) { SSL_write(connection_.get(), bytes.data(), static_cast<int>(bytes.size())); }
  void close() { client_.close(); }

  std::string receive_all() {
    std::string all;
    char buffer[4096];
    for (int count; (count = SSL_read(connection_.get(), buffer, sizeof buffer)) > 0;) all.append(buffer, count);
    ended_cleanly_ = SSL_get_error(connection_.get(), 0) == SSL_ERROR_ZERO_RETURN;
    return all;
  }
  bool ended_cleanly() const { return ended_cleanly_; }

 private:
  RawClient client_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> connection_{nullptr, SSL_free};
  bool ended_cleanly_ = false;
};

TEST(HttpTls, ServesAClient) {
  const TemporaryDirectory directory;
  write_certificate(directory);
  TestServer server(tls_options(directory));
  EXPECT_THAT(server.server().address(), StartsWith("https://127.0.0.1:"));
  TlsClient client(server.port());
  ASSERT_TRUE(client.connect());
  client.send(get("/first") + get("/echo", "Connection: close\r\n"));
  EXPECT_THAT(client.receive_all(), HasSubstr("GET /echo? "));
  EXPECT_TRUE(client.ended_cleanly());
}

TEST(HttpTls, NoticesAClientThatLeaves) {
  const TemporaryDirectory directory;
  write_certificate(directory);
  TestServer server(tls_options(directory));
  TlsClient client(server.port());
  ASSERT_TRUE(client.connect());
  client.send(get("/hold"));
  auto held = server.next_held();
  client.close();
  server.wait_until([&] { return server.server().counters().disconnects == 1; });
}

TEST(HttpTls, RefusesOldVersionsAndPlainText) {
  const TemporaryDirectory directory;
  write_certificate(directory);
  TestServer server(tls_options(directory));
  EXPECT_FALSE(TlsClient(server.port(), TLS1_1_VERSION).connect());
  EXPECT_THAT(exchange_bytes(server.port(), get("/echo")), Not(HasSubstr("HTTP/1.1")));
  EXPECT_TRUE(TlsClient(server.port(), TLS1_2_VERSION).connect());
}

TEST(HttpTls, NamesTheFileThatIsWrong) {
  const TemporaryDirectory directory;
  const TemporaryDirectory other;
  write_certificate(directory);
  write_certificate(other);
  HttpOptions missing = tls_options(directory);
  missing.tls_certificate += ".missing";
  EXPECT_THAT(refused(missing).message, HasSubstr("cert.pem.missing"));
  HttpOptions mismatched = tls_options(directory);
  mismatched.tls_key = other.path() / "key.pem";
  EXPECT_THAT(refused(mismatched).message, HasSubstr("expected the certificate's private key"));
  HttpOptions half = tls_options(directory);
  half.tls_key.clear();
  EXPECT_THAT(refused(half).message, HasSubstr("--tls-key"));
}

TEST(HttpCors, AnswersPreflightsAndMarksResponsesOnlyWhenAsked) {
  HttpOptions options = test_options();
  options.cors_origin = "https://page.example";
  TestServer server(options);
  RawClient client(server.port());
  client.send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://page.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-own\r\n\r\n");
  const std::string preflight = client.receive_until("\r\n\r\n");
  EXPECT_EQ(status_of(preflight), 204);
  EXPECT_EQ(header_of(preflight, "Access-Control-Allow-Origin"), "https://page.example");
  EXPECT_EQ(header_of(preflight, "Access-Control-Allow-Headers"), "authorization,x-own");
  EXPECT_THAT(header_of(preflight, "Access-Control-Allow-Methods"), HasSubstr("POST"));
  client.send(get("/echo"));
  EXPECT_EQ(header_of(client.receive_response(), "Access-Control-Allow-Origin"), "https://page.example");
  EXPECT_EQ(server.counters().requests, 1u);
}

TEST(HttpCors, GivesTheHandlerOptionsOtherwise) {
  TestServer server;
  RawClient client(server.port());
  client.send("OPTIONS * HTTP/1.1\r\nHost: x\r\nOrigin: https://a\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(body_of(client.receive_response()), "OPTIONS *? ");
}

}  // namespace
}  // namespace lockstep::serve
