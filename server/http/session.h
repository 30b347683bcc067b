#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "quarry/base/file.h"
#include "server/guard/workers.h"
#include "server/http/front.h"

namespace quarry::server::http {

/// How long connections may take. Tests are in more of a hurry.
struct Patience {
  std::chrono::milliseconds idle{60'000};   ///< between requests
  std::chrono::milliseconds head{10'000};   ///< from its first byte; for the handshake of TLS, too
  std::chrono::milliseconds body{10'000};   ///< time for the body of a request that was answered without it
  std::chrono::milliseconds linger{2'000};  ///< for a client that still sends to read why it is closed
};

class Session;

/// Shared by the sessions of a listener. Outlives them.
struct SessionContext {
  boost::asio::io_context* io = nullptr;
  Front* front = nullptr;
  Operations* operations = nullptr;
  Workers* workers = nullptr;
  Patience patience;
  std::function<void(Session*)> closed;  ///< on the thread of `io`
  std::atomic<int> answering = 0;        ///< sessions whose client waits for an answer
};

/// A connection: requests one after the other, in order. Waits for heads, and sends immediate answers, on the
/// thread of the io_context, which all connections share; calls have a thread each while they run.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  /// @param socket  does not block
  Session(SessionContext* context, FileDescriptor socket, const TlsContext* tls, std::string peer,
          std::shared_ptr<Connection> connection);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // On the thread of the io_context:
  void Start();

  /// Ends the connection. Thread-safe.
  void Cut();
  /// Whether its client waits for an answer. Thread-safe.
  bool is_answering() const { return answering_; }

 private:
  using Step = void (Session::*)();

  void NextRequest();
  void ReadHead();
  bool Parse();
  void Dispatch();
  void BeginCall();
  void RunCall();
  void EndCall();
  void RefuseRequest(const Status& status);
  void SendAnswer(const Answer& answer);
  void WriteMore();
  void Answered();
  void SkipBody();
  void Linger();
  void Discard();
  void Close();
  void SetAnswering(bool answering);

  void WaitAndGoOn(Transferred::State state, Step step);
  void Allow(std::chrono::milliseconds time);

  SessionContext* const context_;
  const std::string peer_;
  const std::shared_ptr<Connection> connection_;
  boost::asio::posix::stream_descriptor socket_;
  std::unique_ptr<Channel> channel_;
  boost::asio::steady_timer timer_;
  std::chrono::steady_clock::time_point expires_;

  std::string input_;                 ///< has arrived, and is not used yet
  std::unique_ptr<Request> request_;  ///< under way
  bool begun_ = false;                ///< a byte of the request has come
  bool greeted_ = false;              ///< the handshake is done
  std::size_t discarded_ = 0;
  Exchange exchange_;
  Outgoing unsent_;
  std::atomic<bool> answering_ = false;

  std::mutex mutex_;  ///< the socket is not closed while another thread cuts it
  bool closed_ = false;
};

}  // namespace quarry::server::http
