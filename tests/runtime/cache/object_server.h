// A small HTTP server on loopback that stores objects and can misbehave.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::cache {

/// A received request.
struct SeenRequest {
  std::string method, path;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

/// The server's behaviour for requests of paths that end with `suffix`.
enum class Misbehaviour { kTruncate, kChange, kForbid, kHang, kLengthen };

class ObjectServer {
 public:
  ObjectServer();
  ~ObjectServer();
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;

  /// "http://127.0.0.1:PORT".
  std::string address() const;
  std::string host() const;

  void misbehave(std::string suffix, Misbehaviour how);
  void behave();

  std::map<std::string, std::string> objects() const;
  std::vector<SeenRequest> requests() const;
  void forget_requests();

 private:
  void serve();
  void answer(int connection);
  void answer_with(int connection, const SeenRequest& request);

  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> leaving_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;  // by path
  std::map<std::string, Misbehaviour> misbehaviours_;
  std::vector<SeenRequest> requests_;
  std::vector<int> hanging_;  // connections that are never answered
  std::thread thread_;
};

}  // namespace lockstep::cache
