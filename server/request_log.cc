#include "server/request_log.h"

#include <spdlog/formatter.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/sink.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "quarry/base/utf8.h"

namespace quarry::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

/// The logger whose messages are already fields of an object.
constexpr const char* kRequestLogger = "request";

/// Text from clients cannot fill the log,
std::string_view Shortened(std::string_view text) {
  constexpr std::size_t kLongest = 500;
  return Beginning(text, kLongest);
}

/// nor start a line of its own.
std::string Dump(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }
std::string Quoted(std::string_view text) { return Dump(Json(Shortened(text))); }

/// {"time":"2026-01-31T12:00:00.000Z","level":"info","message":"..."}, or with the fields of a request.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    head_.format(message, out);
    const std::string_view payload(message.payload.data(), message.payload.size());
    const bool fields =
        std::string_view(message.logger_name.data(), message.logger_name.size()) == kRequestLogger;
    const std::string body =
        fields ? std::string(payload) : fmt::format("\"message\":{}", Dump(Json(payload)));
    out.append(body.data(), body.data() + body.size());
    constexpr std::string_view kTail = "}\n";
    out.append(kTail.data(), kTail.data() + kTail.size());
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonFormatter>(); }

 private:
  spdlog::pattern_formatter head_{R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",)",
                                  spdlog::pattern_time_type::utc, ""};
};

/// [2026-01-31 12:00:00.000] [quarry-server] [info] ..., in one line, whatever names it quotes.
class TextFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    head_.format(message, out);
    const std::string line = Printable({message.payload.data(), message.payload.size()}) + "\n";
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<TextFormatter>(); }

 private:
  spdlog::pattern_formatter head_{"[%Y-%m-%d %H:%M:%S.%e] [quarry-server] [%l] ",
                                  spdlog::pattern_time_type::local, ""};
};

spdlog::level::level_enum LevelOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
    case StatusCode::kCancelled:
      return spdlog::level::info;
    case StatusCode::kInternal:
    case StatusCode::kUnknown:
    case StatusCode::kDataLoss:
      return spdlog::level::err;
    default:
      return spdlog::level::warn;
  }
}

std::string AsFields(const RequestRecord& record) {
  Json json = {{"request", record.id}, {"peer", record.peer}};
  if (!record.client.empty()) json["client"] = record.client;
  json["method"] = record.method;
  if (!record.dataset.empty()) json["dataset"] = Shortened(record.dataset);
  json["status"] = CodeName(record.code);
  json["seconds"] = record.seconds;
  json["bytes"] = record.bytes;
  json["patches"] = record.patches;
  if (!record.message.empty()) json["message"] = Shortened(record.message);
  const std::string object = Dump(json);
  return object.substr(1, object.size() - 2);
}

std::string AsText(const RequestRecord& record) {
  std::string text = fmt::format("request {} from {}", record.id, record.peer);
  if (!record.client.empty()) text += fmt::format(" ({})", Quoted(record.client));
  text += fmt::format(": {}", record.method);
  if (!record.dataset.empty()) text += fmt::format(" {}", Quoted(record.dataset));
  text += fmt::format(" {}, {:.6f} s, {} bytes, {} patches", CodeName(record.code), record.seconds,
                      record.bytes, record.patches);
  if (!record.message.empty()) text += fmt::format(": {}", Quoted(record.message));
  return text;
}

}  // namespace

const char* CodeName(StatusCode code) { return kCodeNames[static_cast<std::size_t>(code)]; }

std::string NewRequestId() {
  static const std::uint64_t start = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  static std::atomic<std::uint64_t> count = 0;
  // The finisher of SplitMix64 is a bijection: it turns consecutive numbers into distinct ones that look
  // random.
  std::uint64_t x = start + count.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return fmt::format("{:016x}", x ^ (x >> 31));
}

bool IsGoodRequestId(std::string_view id) {
  constexpr std::size_t kLongest = 64;
  return !id.empty() && id.size() <= kLongest && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
  });
}

ServerLog::ServerLog(const spdlog::sink_ptr& sink, LogFormat format, spdlog::level::level_enum level)
    : format_(format),
      general_(std::make_shared<spdlog::logger>("quarry-server", sink)),
      requests_(std::make_shared<spdlog::logger>(kRequestLogger, sink)) {
  if (format == LogFormat::kJson) {
    sink->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    sink->set_formatter(std::make_unique<TextFormatter>());
  }
  general_->set_level(level);
  requests_->set_level(level);
}

void ServerLog::Write(const RequestRecord& record) {
  const auto level = LevelOf(record.code);
  if (!requests_->should_log(level) || IsOneOfMany(record)) return;
  const std::string line = format_ == LogFormat::kJson ? AsFields(record) : AsText(record);
  requests_->log(level, spdlog::string_view_t(line));
}

bool ServerLog::IsOneOfMany(const RequestRecord& record) {
  if (record.code != StatusCode::kUnauthenticated) return false;
  const std::lock_guard lock(mutex_);
  if (!strangers_.Allow(RateLimit::Clock::now())) {
    ++left_out_;
    return true;
  }
  if (const std::uint64_t count = std::exchange(left_out_, 0); count > 0)
    general_->warn("{} more calls without a good token, not logged one by one", count);
  return false;
}

}  // namespace quarry::server
