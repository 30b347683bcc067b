#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace quarry::testing {

/// A request of a client.
struct HttpAsked {
  std::string method;
  std::string target;                          ///< path and query
  std::map<std::string, std::string> headers;  ///< names in small letters
  std::string body;
  int number = 0;  ///< number of the request, in order of arrival, from 0 on

  /// Begin and end of "Range: bytes=BEGIN-LAST"; 0 and 0 without one.
  std::pair<std::size_t, std::size_t> Range() const;
};

/// An answer as bytes, right or wrong.
struct HttpAnswer {
  std::string bytes;          ///< with the status line
  bool close = false;         ///< after them
  bool reset = false;         ///< instead: the connection breaks
  int slow_milliseconds = 0;  ///< waits after each byte

  /// A well-formed one. @param status  "200 OK"
  static HttpAnswer Of(const std::string& status, const std::string& body, const std::string& headers = "");
  /// The range that was asked for, of an object with this ETag.
  static HttpAnswer RangeOf(const HttpAsked& asked, const std::string& object,
                            const std::string& tag = "\"1\"");
};

/// A server of plain HTTP on this machine that answers as a test wants it to. The script is called on
/// several threads.
class ScriptedHttp {
 public:
  using Script = std::function<HttpAnswer(const HttpAsked&)>;

  explicit ScriptedHttp(Script script);
  ~ScriptedHttp();
  ScriptedHttp(const ScriptedHttp&) = delete;
  ScriptedHttp& operator=(const ScriptedHttp&) = delete;

  /// "http://127.0.0.1:PORT"
  std::string url() const;
  int port() const { return port_; }
  int requests() const { return requests_; }
  int most_connections() const { return most_connections_; }

 private:
  void Accept();
  void Serve(int connection);
  bool Answer(int connection, const HttpAnswer& answer) const;

  const Script script_;
  int listening_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> requests_ = 0, connections_ = 0, most_connections_ = 0;
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace quarry::testing
