#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "quarry/base/status.h"
#include "server/guard/rate_limit.h"

namespace quarry::server {

/// Record of a request at its end: one log line, one sample of each metric.
struct RequestRecord {
  std::string id;       ///< the quarry-request-id that the client sees
  std::string peer;     ///< address of the client, as gRPC writes it
  std::string client;   ///< name of its token, or of its certificate; empty: unknown
  std::string method;   ///< "Read"
  std::string dataset;  ///< as asked for; empty if none was named
  StatusCode code = StatusCode::kOk;
  std::string message;        ///< message of an error
  double seconds = 0;         ///< until the last message was handed to gRPC
  std::uint64_t bytes = 0;    ///< bytes of the reply's messages
  std::uint64_t patches = 0;  ///< read and decoded for it
  std::uint64_t tiles = 0;    ///< coded for it; those of the store do not count
};

/// "NOT_FOUND": the names that gRPC's documents use.
const char* CodeName(StatusCode code);

/// 16 hexadecimal digits, unique in a process, and almost always between processes.
std::string NewRequestId();

/// Whether an identifier from outside may appear in our log: 1 to 64 letters, digits, dots, hyphens and
/// underscores.
bool IsGoodRequestId(std::string_view id);

enum class LogFormat { kText, kJson };

/// A log with one line per message, as text or as a JSON object. Thread-safe.
class ServerLog {
 public:
  ServerLog(const spdlog::sink_ptr& sink, LogFormat format, spdlog::level::level_enum level);

  /// For everything except requests: main makes it spdlog's default.
  const std::shared_ptr<spdlog::logger>& logger() const { return general_; }

  /// Done and cancelled: info. Failed: warning; our own failures: error.
  void Write(const RequestRecord& record);

 private:
  /// Strangers cannot fill the log: of calls without a good token it has one a second.
  bool IsOneOfMany(const RequestRecord& record);

  const LogFormat format_;
  std::shared_ptr<spdlog::logger> general_;
  std::shared_ptr<spdlog::logger> requests_;
  std::mutex mutex_;
  RateLimit strangers_{1, 10};
  std::uint64_t left_out_ = 0;  ///< since the last line on a stranger
};

}  // namespace quarry::server
