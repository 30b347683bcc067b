#include "server/guard/acceptor.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quarry/base/address.h"
#include "quarry/base/file.h"
#include "server/guard/watchdog.h"

#if defined(__SANITIZE_THREAD__)
/// A transport closes its descriptors when it likes, also while the acceptor watches them: the inode tells
/// the acceptor that a number belongs to another file by now.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:quarry::server::InodeOf\n";
}
#endif

namespace quarry::server {
namespace {

constexpr auto kLong = std::chrono::seconds(60);

/// A transport that keeps the connections that it is given, and reads only what it is told to.
class Transport {
 public:
  void Take(int descriptor) {
    const std::lock_guard lock(mutex_);
    taken_.emplace_back(descriptor);
    changed_.notify_all();
  }
  /// Waits for so many connections.
  void Wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, kLong, [&] { return taken_.size() >= count; }));
  }
  /// So many bytes of one of the connections, counted from 0.
  void Read(std::size_t number, std::size_t bytes) {
    Wait(number + 1);
    const std::lock_guard lock(mutex_);
    std::string text(bytes, '\0');
    ASSERT_EQ(::recv(taken_[number].get(), text.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }
  void CloseFirst() {
    const std::lock_guard lock(mutex_);
    taken_.pop_front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FileDescriptor> taken_;
};

/// @param host  the last byte of the client's address, 127.0.0.1 or another
FileDescriptor Connect(const std::string& address, std::uint32_t host = 1) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffU) | host);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from)), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(ParseHostPort(address)->port));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return socket;
}

/// How the acceptor names the client at one end of a connection.
std::string NameAt(int (*end)(int, sockaddr*, socklen_t*), int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(end(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return "ipv4:127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}
std::string PeerOf(const FileDescriptor& socket) { return NameAt(::getsockname, socket.get()); }

/// Waits until the other side closes the connection.
bool IsClosed(const FileDescriptor& socket) {
  pollfd polled{socket.get(), POLLIN, 0};
  if (::poll(&polled, 1, std::chrono::milliseconds(kLong).count()) != 1) return false;
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, 0) <= 0;
}

struct Running {
  explicit Running(const ConnectionLimits& limits, const ConnectionRules& rules = {})
      : acceptor(*Acceptor::Listen("127.0.0.1:0", limits, rules)) {
    acceptor->Start([this](int, int descriptor) { transport.Take(descriptor); });
  }
  ~Running() { acceptor->Stop(); }

  /// A connection that the transport has.
  FileDescriptor Open() {
    FileDescriptor socket = Connect(acceptor->address());
    transport.Wait(++opened);
    return socket;
  }

  Transport transport;
  std::unique_ptr<Acceptor> acceptor;
  std::size_t opened = 0;
};

TEST(Acceptor, ClosesConnectionsBeyondItsLimitAtOnceAndTakesOthersWhenOneHasGone) {
  Running running({.total = 2, .per_address = 10});
  const FileDescriptor first = running.Open();
  const FileDescriptor second = running.Open();
  const FileDescriptor third = Connect(running.acceptor->address());
  EXPECT_TRUE(IsClosed(third));
  EXPECT_EQ(running.acceptor->state().refused, 1u);
  EXPECT_EQ(running.acceptor->state().open, 2u);

  running.transport.CloseFirst();
  --running.opened;
  while (running.acceptor->state().open == 2) std::this_thread::yield();
  const FileDescriptor fourth = running.Open();
  EXPECT_NE(running.acceptor->Find(PeerOf(fourth)), nullptr);
  EXPECT_EQ(running.acceptor->Find(PeerOf(first)), nullptr);
}

TEST(Acceptor, OneAddressDoesNotTakeAllConnections) {
  Running running({.total = 10, .per_address = 1});
  const FileDescriptor first = running.Open();
  EXPECT_TRUE(IsClosed(Connect(running.acceptor->address())));
}

TEST(Acceptor, CutsAConnectionThatSendsMuchWithoutProgress) {
  constexpr std::size_t kAllowed = 1000;
  Running running({}, {.idle_bytes = kAllowed});
  const FileDescriptor loud = running.Open();
  const FileDescriptor quiet = running.Open();
  const std::string bytes(kAllowed, 'x');
  ASSERT_EQ(::send(loud.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(::send(quiet.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(::send(loud.get(), bytes.data(), 1, 0), 1);
  running.transport.Read(0, kAllowed + 1);
  running.transport.Read(1, kAllowed);
  EXPECT_TRUE(IsClosed(loud));
  while (running.acceptor->state().cut == 0) std::this_thread::yield();
  EXPECT_EQ(running.acceptor->state().open, 2u) << "the transport has its descriptor still";
  running.transport.CloseFirst();
  while (running.acceptor->state().open == 2) std::this_thread::yield();
  EXPECT_EQ(running.acceptor->state().cut, 1u) << "what is allowed is allowed";
  EXPECT_NE(running.acceptor->Find(PeerOf(quiet)), nullptr);
}

TEST(Acceptor, ConnectionsTogetherSendSoMuchOfWhichNothingComes) {
  constexpr std::size_t kEach = 1000;
  Running running({}, {.idle_bytes = 2 * kEach, .all_bytes = 2 * kEach + 1});
  std::vector<FileDescriptor> sockets;
  for (std::size_t i = 0; i < 3; ++i) sockets.push_back(running.Open());
  const auto send = [&](std::size_t i) {
    const std::string bytes(kEach + i, 'x');
    ASSERT_EQ(::send(sockets[i].get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    running.transport.Read(i, bytes.size());
  };
  send(0);
  send(1);
  const auto last = running.acceptor->Find(PeerOf(sockets[2]));
  {
    const Connection::Pinned memory(last.get(), kEach + 2);
    send(2);
  }
  EXPECT_TRUE(IsClosed(sockets[2])) << "its memory is no longer pinned, and it has sent most";
  while (running.acceptor->state().cut == 0) std::this_thread::yield();
  EXPECT_EQ(running.acceptor->state().cut, 1u);
}

TEST(Acceptor, AnAddressWhoseConnectionWasCutWaitsForTheNextOne) {
  Running running({},
                  {.faults_at_once = 10, .pause = std::chrono::hours(1), .probation = std::chrono::hours(2)});
  const FileDescriptor loud = running.Open();
  running.acceptor->Find(PeerOf(loud))->CountFault(11);
  while (running.acceptor->state().cut == 0) std::this_thread::yield();

  const FileDescriptor again = Connect(running.acceptor->address());
  const FileDescriptor gone = Connect(running.acceptor->address());
  while (running.acceptor->state().waiting < 2) std::this_thread::yield();
  const FileDescriptor other = Connect(running.acceptor->address(), 2);
  running.transport.Wait(running.opened + 1);
  EXPECT_EQ(running.acceptor->state().waiting, 2u) << "others do not wait";
  EXPECT_EQ(running.acceptor->state().accepted, 4u);
}

TEST(Acceptor, ConnectionsThatHaveWaitedAreTakenUnlessTheirClientHasGone) {
  Running running(
      {}, {.faults_at_once = 10, .pause = std::chrono::milliseconds(50), .probation = std::chrono::hours(1)});
  const FileDescriptor loud = running.Open();
  running.acceptor->Find(PeerOf(loud))->CountFault(11);
  while (running.acceptor->state().cut == 0) std::this_thread::yield();

  std::vector<FileDescriptor> others;
  for (int i = 0; i < 3; ++i) others.push_back(Connect(running.acceptor->address()));
  others[1] = FileDescriptor();
  running.transport.Wait(running.opened + 2);
  while (running.acceptor->state().waiting > 0) std::this_thread::yield();
  EXPECT_EQ(running.acceptor->state().cut, 1u);
}

TEST(Acceptor, LeavesClientsThatTakeNothingToTheStallLimit) {
  std::atomic<int> timeout = -1;
  auto acceptor = *Acceptor::Listen("127.0.0.1:0", {});
  acceptor->Start([&](int, int descriptor) {
    const FileDescriptor socket(descriptor);
    int value = 0;
    socklen_t size = sizeof(value);
    EXPECT_EQ(::getsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size), 0);
    timeout = value;
  });
  const FileDescriptor client = Connect(acceptor->address());
  while (timeout < 0) std::this_thread::yield();
  EXPECT_EQ(timeout, 0);
  acceptor->Stop();
}

/// gRPC does so when the first bytes are there before it has set up the connection.
TEST(Acceptor, ATransportThatReadsWhatItTakesIsFreedFromAFlood) {
  auto acceptor = *Acceptor::Listen("127.0.0.1:0", {}, {.idle_bytes = 1 << 20});
  std::vector<FileDescriptor> connections;  // closed when nobody watches them any more
  std::atomic<int> taken = 0;
  acceptor->Start([&](int, int descriptor) {
    connections.emplace_back(descriptor);
    std::vector<char> bytes(1 << 16);
    const auto its = acceptor->Find(NameAt(::getpeername, descriptor));
    const auto is_open = [&] {
      const ssize_t read = ::recv(descriptor, bytes.data(), bytes.size(), 0);
      return read > 0 || (read < 0 && errno == EAGAIN);
    };
    while (taken == 0 && is_open()) its->Progress();
    ++taken;
  });
  const FileDescriptor flood = Connect(acceptor->address());
  const std::string bytes(1 << 16, 'x');
  while (::send(flood.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
  const FileDescriptor other = Connect(acceptor->address());
  while (taken < 2) std::this_thread::yield();
  EXPECT_EQ(acceptor->state().cut, 1u);
  acceptor->Stop();
}

/// Two ends of a TCP connection.
struct Pair {
  Pair() {
    const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::listen(listener.get(), 1), 0);  // at a port that the system picks
    sockaddr_in at{};
    socklen_t size = sizeof(at);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    sender = Connect("127.0.0.1:" + std::to_string(ntohs(at.sin_port)));
    receiver = FileDescriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

  FileDescriptor sender;
  FileDescriptor receiver;
};

TEST(Connection, ProgressAndExpectedQuestionsAllowMore) {
  Pair pair;
  const FileDescriptor& sender = pair.sender;
  FileDescriptor& receiver = pair.receiver;
  Connection connection(receiver.get(), InodeOf(receiver.get()), "peer", {.idle_bytes = 1000});
  const auto now = RateLimit::Clock::now();
  const auto send = [&](std::size_t bytes) {
    const std::string text(bytes, 'x');
    ASSERT_EQ(::send(sender.get(), text.data(), bytes, 0), static_cast<ssize_t>(bytes));
    std::string arrived(bytes, '\0');
    ASSERT_EQ(::recv(receiver.get(), arrived.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  };

  send(1000);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kGood);
  connection.Progress();
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kGood);
  send(1000);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kGood) << "counted from the last progress";
  EXPECT_TRUE(connection.BeginQuestion(500));
  send(500);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kGood);
  connection.EndQuestion(500, false);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kFlood);

  receiver = FileDescriptor();
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kClosed);
}

/// A busy machine lets much come together before the transport can read it.
TEST(Connection, WhatNobodyHasReadIsNoFlood) {
  Pair pair;
  Connection connection(pair.receiver.get(), InodeOf(pair.receiver.get()), "peer", {.idle_bytes = 1000});
  const auto now = RateLimit::Clock::now();
  std::string bytes(5000, 'x');
  ASSERT_EQ(::send(pair.sender.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kGood);
  ASSERT_EQ(::recv(pair.receiver.get(), bytes.data(), 1000, MSG_WAITALL), 1000);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kGood);
  ASSERT_EQ(::recv(pair.receiver.get(), bytes.data(), 1, MSG_WAITALL), 1);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kFlood);
}

/// One after the other, while another thread looks all the time.
TEST(Connection, ALargeQuestionIsNoFloodAtAnyMoment) {
  constexpr std::size_t kBytes = 2000;
  constexpr int kQuestions = 150'000;
  Pair pair;
  Connection connection(pair.receiver.get(), InodeOf(pair.receiver.get()), "peer", {.idle_bytes = 100});
  connection.Taken();
  std::atomic<bool> over = false;
  std::thread client([&] {
    const std::string question(kBytes, 'x');
    std::string received(kBytes, '\0');
    for (int i = 0; i < kQuestions; ++i) {
      EXPECT_TRUE(connection.BeginQuestion(kBytes));
      EXPECT_EQ(::send(pair.sender.get(), question.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
      EXPECT_EQ(::recv(pair.receiver.get(), received.data(), kBytes, MSG_WAITALL),
                static_cast<ssize_t>(kBytes));
      connection.EndQuestion(kBytes, true);
    }
    over = true;
  });
  while (!over) {
    const Connection::Finding finding = connection.Inspect(RateLimit::Clock::now());
    EXPECT_EQ(finding, Connection::Finding::kGood);
    if (finding != Connection::Finding::kGood) break;
  }
  client.join();
}

TEST(Connection, SendsLittleUntilTheTransportHasTakenIt) {
  Pair pair;
  Connection connection(pair.receiver.get(), InodeOf(pair.receiver.get()), "peer",
                        {.idle_bytes = 1000, .taking = std::chrono::milliseconds(100)});
  const auto soon = RateLimit::Clock::now();
  const auto late = soon + std::chrono::seconds(1);
  const auto send = [&](std::string bytes) {
    ASSERT_EQ(::send(pair.sender.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(::recv(pair.receiver.get(), bytes.data(), bytes.size(), MSG_WAITALL),
              static_cast<ssize_t>(bytes.size()));
  };
  send(std::string(1000, 'x'));
  EXPECT_EQ(connection.Inspect(late), Connection::Finding::kGood);
  send("x");
  connection.Progress();
  EXPECT_EQ(connection.Inspect(soon), Connection::Finding::kGood);
  connection.Progress();
  EXPECT_EQ(connection.Inspect(late), Connection::Finding::kHoldsOthersUp);
  connection.Taken();
  EXPECT_EQ(connection.Inspect(late), Connection::Finding::kGood);
}

TEST(Connection, LeavesNothingToParseWhenItIsCut) {
  Pair pair;
  Connection connection(pair.receiver.get(), InodeOf(pair.receiver.get()), "peer", {});
  std::string bytes(1000, 'x');
  ASSERT_EQ(::send(pair.sender.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  pollfd polled{pair.receiver.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, -1), 1);
  connection.Cut();
  EXPECT_LE(::recv(pair.receiver.get(), bytes.data(), bytes.size(), 0), 0);
  EXPECT_TRUE(IsClosed(pair.sender));
}

TEST(Connection, IsCutByTheFaultThatIsOneTooMany) {
  Pair pair;
  Connection connection(pair.receiver.get(), InodeOf(pair.receiver.get()), "peer", {.faults_at_once = 10});
  connection.CountFault(10);
  EXPECT_EQ(::send(pair.receiver.get(), "x", 1, MSG_NOSIGNAL), 1);
  connection.CountFault(1);
  EXPECT_EQ(::send(pair.receiver.get(), "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(connection.Inspect(RateLimit::Clock::now()), Connection::Finding::kFaults);
}

TEST(Connection, CallsAndQuestionsBeyondItsLimitsAreFaults) {
  const FileDescriptor file(::eventfd(0, EFD_CLOEXEC));
  Connection connection(file.get(), InodeOf(file.get()), "peer",
                        {.faults_at_once = 10, .faults_per_second = 0, .calls = 2, .questions = 1});
  EXPECT_TRUE(connection.BeginCall());
  EXPECT_TRUE(connection.BeginCall());
  EXPECT_TRUE(connection.BeginQuestion(1));
  EXPECT_FALSE(connection.BeginQuestion(1));
  connection.EndQuestion(1, false);
  connection.EndQuestion(1, true);
  EXPECT_TRUE(connection.BeginQuestion(1));
  for (int i = 0; i < 9; ++i) {
    EXPECT_FALSE(connection.BeginCall());
    connection.EndCall();
  }
  EXPECT_EQ(connection.Inspect(RateLimit::Clock::now()), Connection::Finding::kGood);
  connection.EndCall();
  EXPECT_TRUE(connection.BeginCall());
  EXPECT_FALSE(connection.BeginCall());
  EXPECT_EQ(connection.Inspect(RateLimit::Clock::now()), Connection::Finding::kFaults);
}

TEST(Connection, FaultsAreForgivenSlowly) {
  const FileDescriptor file(::eventfd(0, EFD_CLOEXEC));
  Connection connection(file.get(), InodeOf(file.get()), "peer",
                        {.faults_at_once = 10, .faults_per_second = 5});
  auto now = RateLimit::Clock::now();
  connection.CountFault(10);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kGood);
  connection.CountFault(5);
  now += std::chrono::seconds(1);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kGood);
  connection.CountFault(1);
  EXPECT_EQ(connection.Inspect(now), Connection::Finding::kFaults);
}

TEST(Watchdog, NoticesAServerThatAnswersNobody) {
  Running running({});
  std::thread transport([&] {
    running.transport.Wait(1);
    running.transport.CloseFirst();
  });
  EXPECT_TRUE(Answers(running.acceptor->address(), kLong));
  transport.join();
  // The transport has this one, and does nothing with it.
  EXPECT_FALSE(Answers(running.acceptor->address(), std::chrono::milliseconds(20)));
}

}  // namespace
}  // namespace quarry::server
