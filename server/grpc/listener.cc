#include "server/grpc/listener.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "quarry/base/memory.h"
#include "server/grpc/grpc_call.h"

namespace quarry::server {
namespace {

/// Calls that gRPC may hand over before the first of them is taken.
constexpr int kOpenAccepts = 16;
/// Threads beyond those for running calls: they answer health checks, receive calls, and refuse excess calls.
constexpr int kSpareWorkers = Health::kMostCalls + 16;
/// Threads that wait for calls while nothing happens. Of two, one goes on waiting while the other answers,
/// and none has to be woken for that.
constexpr int kReceivers = 2;
/// [bytes] Room for a message of samples. Each of these threads has an arena of the C library: the second
/// answer of a connection comes from another thread than the first, and would touch fresh memory again.
constexpr std::size_t kWarmMemory = 3 << 19;

/// gRPC does not hold a client to its streams that never acknowledges the number.
ConnectionRules RulesOf(const ListenOptions& options) {
  ConnectionRules rules;
  rules.questions = options.streams;
  rules.calls = options.streams + static_cast<int>(rules.faults_at_once);
  return rules;
}

/// A client that takes nothing answers no pings either, once its buffers are full: it has --stall.
int PingTimeoutMs(std::chrono::milliseconds stall) {
  constexpr std::int64_t kLeast = 20'000;
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(stall.count() == 0 ? kMost
                                             : std::clamp<std::int64_t>(stall.count(), kLeast, kMost));
}

void SetArguments(const ListenOptions& options, const CallLimits& limits, grpc::ServerBuilder* builder) {
  // Two servers on one port would take turns with the clients of one another.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A client that has vanished is noticed, and what its reads hold is freed.
  constexpr int kPingEveryMs = 60'000;
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PingTimeoutMs(limits.stall));
  // Clients behind firewalls that forget quiet connections may ping too: gRPC's own minimum is five minutes.
  constexpr int kClientsPingMs = 20'000;
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kClientsPingMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams);
  // Running calls are not cut: the grace after this age is without end.
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                              static_cast<int>(options.connection_age.count()));
  builder->SetMaxReceiveMessageSize(kLongestMessage);
  // gRPC compares the length of a message with this before it decompresses it, and not again.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  // Memory of all connections together, beside --memory. Beyond it gRPC reads less, then ends idle
  // connections.
  constexpr std::size_t kTransportBytes = 128 << 20;
  grpc::ResourceQuota transport("quarry");
  transport.Resize(kTransportBytes);
  builder->SetResourceQuota(transport);
  // Before a call is let in, no more of its question arrives than the window of a stream, 64 KiB.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // gRPC parses what it has read to the end, also when the connection is cut meanwhile (Connection::Inspect).
  constexpr int kReadBytes = 64 << 10;
  builder->AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, 8 << 10);
  builder->AddChannelArgument(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, 1 << 10);
  builder->AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  // A connection that does not even say hello.
  constexpr int kHelloMs = 10'000;
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHelloMs);
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::Start(const ListenOptions& options, Service* service) {
  QUARRY_RETURN_IF_ERROR(
      CheckPlainText("--listen", options.address, options.insecure || options.tls != nullptr));
  std::unique_ptr<Listener> listener(new Listener(options, service));
  QUARRY_RETURN_IF_ERROR(listener->Listen(options));
  return listener;
}

Status Listener::Listen(const ListenOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(std::unique_ptr<Acceptor> acceptor,
                          Acceptor::Listen(options.address, options.connections, RulesOf(options)));
  acceptor_ = std::move(acceptor);
  credentials_->CheckArrivals(&arrived_);
  grpc::EnableDefaultHealthCheckService(false);  // its calls would come past all limits
  grpc::ServerBuilder builder;
  SetArguments(options, service_->operations()->limits, &builder);
  using grpc::ServerBuilder;
  transport_ = builder.experimental().AddExternalConnectionAcceptor(
      ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials_);
  builder.RegisterAsyncGenericService(&methods_);
  arrivals_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (!server_) {
    Stop();
    return InternalError("gRPC cannot start its server; see its log");
  }
  workers_ = std::make_unique<Workers>(ThreadsFor(service_->operations()->limits.calls) + kSpareWorkers);
  for (int i = 0; i < kOpenAccepts; ++i) AcceptOne();
  for (int i = 0; i < kReceivers; ++i) {
    const auto receive = [this] {
      WarmMemoryOfThread(kWarmMemory);
      ReceiveCalls();
    };
    if (workers_->Run(receive)) continue;
    Stop();
    return ResourceExhausted(
        "the system gives the server no threads; raise its limit of processes or memory");
  }
  acceptor_->Start([this](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
    taken.listener_fd = listener;
    taken.fd = connection;
    transport_->HandleNewConnection(&taken);
  });
  return Status::Ok();
}

Listener::~Listener() { Stop(); }

void Listener::AcceptOne() {
  const std::lock_guard lock(mutex_);
  // gRPC's queue owns the call until it comes back as a tag.
  if (!stopping_) (new GrpcCall)->Accept(&methods_, arrivals_.get());
}

void Listener::Answer(const std::shared_ptr<GrpcCall>& call) {
  {
    const std::lock_guard lock(mutex_);
    answered_.insert(call.get());
  }
  const std::shared_ptr<Connection> connection = acceptor_->Find(call->address());
  arrived_.Taken(call->security(), connection);
  call->Run(service_, &health_, connection);
  const bool leaving = call->IsLeaving();
  bool many = false;
  {
    const std::lock_guard lock(mutex_);
    answered_.erase(call.get());
    if (leaving) refused_.push_back(call);
    many = refused_.size() >= forget_at_;
  }
  if (many) ForgetRefused();
}

/// Forgets the calls that have their refusal, or were cancelled, which counts against their connection. A
/// client that does not even take its refusal is cut off.
void Listener::ForgetRefused() {
  constexpr auto kTime = std::chrono::seconds(10);
  const auto too_long_ago = std::chrono::steady_clock::now() - kTime;
  std::list<std::shared_ptr<GrpcCall>> left;
  const std::lock_guard lock(mutex_);
  for (auto it = refused_.begin(); it != refused_.end();) {
    if ((*it)->refused_at() < too_long_ago) (*it)->Cut();
    const auto next = std::next(it);
    if (!(*it)->IsLeaving()) left.splice(left.end(), refused_, it);
    it = next;
  }
  // Each has kilobytes.
  std::size_t excess = refused_.size() - std::min(refused_.size(), kMostRefused);
  for (auto it = refused_.begin(); excess > 0; ++it, --excess) (*it)->Cut();
  forget_at_ = std::clamp(2 * refused_.size(), kFewRefused, kMostRefused);
}

/// Whether a call runs, or its last words are on their way.
bool Listener::IsAnswering() {
  const std::lock_guard lock(mutex_);
  const auto is_answer = [](const GrpcCall* call) { return !call->is_of_health(); };
  return service_->operations()->running > 0 || std::ranges::any_of(answered_, is_answer) ||
         !refused_.empty();
}

void Listener::CutCalls() {
  const std::lock_guard lock(mutex_);
  for (GrpcCall* call : answered_) call->Cut();
  for (const auto& call : refused_) call->Cut();
}

/// Receives calls and answers them on the same thread: to hand each to another one costs a small box a tenth
/// of its time. Ends when the server stops, or when enough other threads receive.
void Listener::ReceiveCalls() {
  while (BeginReceiving()) {
    const std::shared_ptr<GrpcCall> call = NextCall();
    const bool alone = --receiving_ == 0;
    if (!call) return;
    AcceptOne();
    // If no thread is free, the first that has answered its call receives the next one.
    if (alone) (void)workers_->Run([this] { ReceiveCalls(); });
    Answer(call);
  }
}

/// Counts this thread as one that receives; false if enough others do.
bool Listener::BeginReceiving() {
  int others = receiving_;
  while (others < kReceivers) {
    if (receiving_.compare_exchange_weak(others, others + 1)) return true;
  }
  return false;
}

/// Waits for a call; null when the server stops.
std::shared_ptr<GrpcCall> Listener::NextCall() {
  constexpr auto kLookUp = std::chrono::milliseconds(100);
  using Clock = std::chrono::steady_clock;
  using grpc::CompletionQueue;
  while (true) {
    void* tag = nullptr;
    bool arrived = false;
    const Arrivals::Look look(&arrived_);
    const auto patience = arrived_.is_crowded() ? kLookUp * 0 : kLookUp;
    const auto next = arrivals_->AsyncNext(&tag, &arrived, std::chrono::system_clock::now() + patience);
    if (next == CompletionQueue::SHUTDOWN) return nullptr;
    if (next == CompletionQueue::TIMEOUT) look.FoundNothing();
    if (const auto now = Clock::now(); now - swept_.load() >= kLookUp) {
      swept_ = now;
      ForgetRefused();
    }
    if (next == CompletionQueue::TIMEOUT) continue;
    std::shared_ptr<GrpcCall> call(static_cast<GrpcCall*>(tag));
    if (arrived) return call;  // otherwise the server stops
  }
}

void Listener::Drain(std::chrono::milliseconds time, const std::function<bool()>& hurry) {
  using Clock = std::chrono::steady_clock;
  if (!server_) return;
  Operations* const operations = service_->operations();
  health_.SetStopping();
  operations->draining = true;
  // gRPC's own shutdown would wait for watchers of the health as well, who never leave.
  constexpr auto kLookUp = std::chrono::milliseconds(5);
  const Clock::time_point end = Clock::now() + time;
  while (IsAnswering() && Clock::now() < end && !(hurry && hurry())) std::this_thread::sleep_for(kLookUp);
  // A call that is cut looks up between patches, or fails in its next message. One whose connection takes no
  // bytes may not end before its transport gives up.
  constexpr auto kCutCallsEnd = std::chrono::milliseconds(500);
  const Clock::time_point last = Clock::now() + kCutCallsEnd;
  CutCalls();
  while (IsAnswering() && Clock::now() < last) std::this_thread::sleep_for(kLookUp);
}

void Listener::Stop() {
  if (acceptor_) acceptor_->Stop();
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
  if (arrivals_) {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    arrivals_->Shutdown();
  }
  if (workers_) {
    workers_->Finish();  // until then they hand work to each other
    workers_.reset();
  } else if (arrivals_) {  // never listened
    void* tag = nullptr;
    bool ok = false;
    while (arrivals_->Next(&tag, &ok)) {
    }
  }
  refused_.clear();
  if (server_) server_->Wait();
  server_.reset();
  arrivals_.reset();
}

}  // namespace quarry::server
