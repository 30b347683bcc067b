#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <string>

#include "quarry/base/status.h"

namespace quarry::server {

/// What is known of a request at its end: one line of the log, one sample of each metric.
struct RequestRecord {
  std::string id;       ///< what the client sees as quarry-request-id
  std::string peer;     ///< address of the client, as gRPC writes it
  std::string client;   ///< name of its token, or of its certificate; empty: not known
  std::string method;   ///< "Read"
  std::string dataset;  ///< as asked for; empty where none was named
  StatusCode code = StatusCode::kOk;
  std::string message;        ///< of an error
  double seconds = 0;         ///< until the last message was handed to gRPC
  std::uint64_t bytes = 0;    ///< of the reply's messages
  std::uint64_t patches = 0;  ///< read and decoded for it
};

/// "NOT_FOUND": the names that gRPC's documents use.
const char* CodeName(StatusCode code);

/// 16 hexadecimal digits, no two alike in a process, and hardly ever in two.
std::string NewRequestId();

/// Whether an identifier from outside may stand in our log: 1 to 64 letters, digits, dots, hyphens and
/// underscores.
bool IsGoodRequestId(std::string_view id);

enum class LogFormat { kText, kJson };

/// A log that writes one line a message, as text or as one JSON object. Thread-safe.
class ServerLog {
 public:
  ServerLog(spdlog::sink_ptr sink, LogFormat format, spdlog::level::level_enum level);

  /// For everything that is no request: made spdlog's default by main.
  const std::shared_ptr<spdlog::logger>& logger() const { return general_; }

  /// Done and given up: info. Failed: warning; our own failures: error.
  void Write(const RequestRecord& record);

 private:
  const LogFormat format_;
  std::shared_ptr<spdlog::logger> general_;
  std::shared_ptr<spdlog::logger> requests_;
};

}  // namespace quarry::server
