#include "quarry/remote/http_client.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "quarry/base/cancel_scope.h"
#include "quarry/remote/http_transfer.h"
#include "quarry/remote/url.h"

namespace quarry::remote {

struct HttpClient::Call {
  Call(HttpRequest asked, Done told, const CurlApi& curl, const HttpOptions& options, std::uint64_t seed)
      : request(std::move(asked)), done(std::move(told)), transfer(curl, options, request), backoff(seed) {}

  HttpRequest request;
  Done done;
  // Used by the thread of the client alone:
  HttpTransfer transfer;
  Backoff backoff;
  CURL* handle = nullptr;  ///< null: not under way
  std::chrono::steady_clock::time_point begun;
  // Guarded by the mutex of the loop:
  bool cancelled = false;
  bool ended = false;
};

namespace {

/// The host of a URL that was checked.
std::string HostOf(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  return url.substr(begin, url.find_first_of("/?", begin) - begin);
}

}  // namespace

/// The thread, and what it works on.
class HttpClient::Loop {
 public:
  using Shared = std::shared_ptr<Call>;

  Loop(const CurlApi& curl, HttpOptions options, CURLM* multi)
      : curl_(curl), options_(std::move(options)), multi_(multi), random_(Seed()) {
    curl_.multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, static_cast<long>(options_.connections));
    curl_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(2 * options_.connections));
    thread_ = std::thread([this] { Run(); });
  }

  ~Loop() {
    if (!is_here()) {
      thread_.detach();
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    curl_.multi_wakeup(multi_);
    thread_.join();
    for (CURL* handle : idle_) curl_.easy_cleanup(handle);
    curl_.multi_cleanup(multi_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Shared Start(HttpRequest request, Done done) {
    Shared call;
    {
      const std::lock_guard lock(mutex_);
      call = std::make_shared<Call>(std::move(request), std::move(done), curl_, options_, random_());
      if (is_here()) arrived_.push_back(call);
    }
    if (!is_here()) {
      End(call, FailedPrecondition(
                    "\"{}\": this process was forked from one that had opened it; open it again here",
                    call->request.shown));
      return call;
    }
    curl_.multi_wakeup(multi_);
    return call;
  }

  void Cancel(const Shared& call) {
    std::unique_lock lock(mutex_);
    if (call->ended) return;
    call->cancelled = true;
    cancels_.push_back(call);
    curl_.multi_wakeup(multi_);
    ended_.wait(lock, [&] { return call->ended; });
  }

  bool AwaitEnd(const Shared& call, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, patience, [&] { return call->ended; });
  }

  SeenCosts seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  const HttpOptions& options() const { return options_; }

 private:
  /// Its requests: a host that hangs holds no other.
  struct Host {
    explicit Host(int most_under_way) : budget(most_under_way) {}
    bool CanStart() const { return !waiting.empty() && under_way < budget.allowed(); }

    HostBudget budget;
    std::deque<Shared> waiting;
    int under_way = 0;
  };

  /// A forked process has no such thread.
  bool is_here() const { return ::getpid() == process_; }

  std::uint64_t Seed() const { return options_.seed != 0 ? options_.seed : std::random_device()(); }

  void Run() {
    while (TakeArrived()) {
      StartWaiting();
      int running = 0;
      curl_.multi_perform(multi_, &running);
      FinishTransfers();
      if (!CanStart()) curl_.multi_poll(multi_, nullptr, 0, PollMilliseconds(), nullptr);
    }
    for (auto& [name, host] : hosts_) {
      for (const Shared& call : std::vector<Shared>(host.waiting.begin(), host.waiting.end()))
        End(call, CancelledStatus());
    }
    for (const Shared& call : std::vector<Shared>(under_way_)) End(call, CancelledStatus());
    for (const auto& [due, call] : std::multimap<std::chrono::steady_clock::time_point, Shared>(later_))
      End(call, CancelledStatus());
  }

  static Status CancelledStatus() { return {StatusCode::kCancelled, "the read was cancelled"}; }

  /// @returns false: the client ends
  bool TakeArrived() {
    std::vector<Shared> arrived, cancels;
    bool stopping = false;
    {
      const std::lock_guard lock(mutex_);
      arrived.swap(arrived_);
      cancels.swap(cancels_);
      stopping = stopping_;
    }
    for (const Shared& call : arrived) HostFor(*call).waiting.push_back(call);
    if (stopping) return false;
    for (const Shared& call : cancels) End(call, CancelledStatus());
    return true;
  }

  Host& HostFor(const Call& call) {
    return hosts_.try_emplace(HostOf(call.transfer.url()), options_.connections).first->second;
  }

  bool CanStart() const {
    return std::any_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host.second.CanStart(); });
  }

  void StartWaiting() {
    for (const std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
         !later_.empty() && later_.begin()->first <= now;) {
      const Shared call = later_.begin()->second;
      later_.erase(later_.begin());
      HostFor(*call).waiting.push_front(call);
    }
    for (auto& [name, host] : hosts_) {
      while (host.CanStart()) {
        const Shared call = host.waiting.front();
        host.waiting.pop_front();
        StartTry(call);
      }
    }
  }

  void StartTry(const Shared& call) {
    if (const Status allowed = CheckPlain(*call); !allowed.ok()) return End(call, allowed);
    if (idle_.empty()) {
      CURL* const handle = curl_.easy_init();
      if (handle == nullptr) return End(call, ResourceExhausted("no memory for a request"));
      idle_.push_back(handle);
    }
    call->handle = idle_.back();
    idle_.pop_back();
    call->transfer.Prepare(call->handle, call.get());
    call->begun = std::chrono::steady_clock::now();
    curl_.multi_add_handle(multi_, call->handle);
    under_way_.push_back(call);
    ++HostFor(*call).under_way;
  }

  Status CheckPlain(const Call& call) const {
    const std::string& url = call.transfer.url();
    if (!url.starts_with("http://") || options_.allow_http || IsLoopback(HostOf(url))) return Status::Ok();
    return FailedPrecondition(
        "\"{}\" {} plain HTTP, which anybody on the way can read and change; use https://, or allow it with "
        "--allow-http",
        call.request.shown, url == call.request.url ? "is" : "leads to");
  }

  void FinishTransfers() {
    int left = 0;
    while (const CURLMsg* const message = curl_.multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const handle = message->easy_handle;
      const auto found = std::find_if(under_way_.begin(), under_way_.end(),
                                      [&](const Shared& call) { return call->handle == handle; });
      if (found == under_way_.end()) continue;
      const Shared call = *found;
      const HttpTransfer::End end = call->transfer.Finish(message->data.result, handle);
      Count(*call, handle);
      Release(call);
      TryAgainOrEnd(call, end);
    }
  }

  void TryAgainOrEnd(const Shared& call, const HttpTransfer::End& end) {
    HostBudget& budget = HostFor(*call).budget;
    if (!end.redirect.empty()) {
      if (!call->transfer.Redirect(end.redirect))
        return End(
            call,
            Unavailable("\"{}\" leads elsewhere too often, or from TLS to plain text; give the URL where it "
                        "is",
                        call->request.shown));
      HostFor(*call).waiting.push_front(call);
      return;
    }
    if (end.status.ok()) {
      budget.Answered();
      return End(call, std::move(call->transfer.reply));
    }
    if (end.refused) budget.Refused();
    if (!end.may_repeat || !budget.TakeRetry()) return End(call, end.status);
    const auto wait = call->backoff.Next(end.retry_after);
    if (!wait) return End(call, end.status);
    later_.emplace(std::chrono::steady_clock::now() + *wait, call);
    const std::lock_guard lock(mutex_);
    ++seen_.retries;
  }

  void Count(const Call& call, CURL* handle) {
    curl_off_t first = 0, sent = 0, bytes = 0;
    curl_.easy_getinfo(handle, CURLINFO_STARTTRANSFER_TIME_T, &first);
    curl_.easy_getinfo(handle, CURLINFO_PRETRANSFER_TIME_T, &sent);
    curl_.easy_getinfo(handle, CURLINFO_SIZE_DOWNLOAD_T, &bytes);
    const std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    ++seen_.requests;
    seen_.bytes += static_cast<std::uint64_t>(bytes);
    if (first > sent) {
      const double latency = 1e-6 * static_cast<double>(first - sent);
      seen_.latency = seen_.latency > 0 ? std::min(seen_.latency, latency) : latency;
    }
    // All that came while this one was under way, over that time.
    window_bytes_ += static_cast<std::uint64_t>(bytes);
    if (under_way_.size() <= 1 || window_bytes_ > kWindowBytes) {
      const double seconds = std::chrono::duration<double>(now - std::max(window_begun_, call.begun)).count();
      if (window_bytes_ > kLeastBytes && seconds > 0)
        seen_.bandwidth = std::max(0.9 * seen_.bandwidth, static_cast<double>(window_bytes_) / seconds);
      window_bytes_ = 0;
      window_begun_ = now;
    }
  }

  void Release(const Shared& call) {
    if (call->handle == nullptr) return;
    curl_.multi_remove_handle(multi_, call->handle);
    idle_.push_back(call->handle);
    call->handle = nullptr;
    std::erase(under_way_, call);
    --HostFor(*call).under_way;
  }

  void End(const Shared& call, Result<HttpReply> result) {
    Release(call);
    std::erase(HostFor(*call).waiting, call);
    std::erase_if(later_, [&](const auto& entry) { return entry.second == call; });
    {
      const std::lock_guard lock(mutex_);
      if (call->ended) return;
    }
    call->done(std::move(result));
    call->done = nullptr;
    const std::lock_guard lock(mutex_);
    call->ended = true;
    ended_.notify_all();
  }

  int PollMilliseconds() const {
    constexpr std::chrono::milliseconds kLongest{1000};
    if (later_.empty()) return static_cast<int>(kLongest.count());
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(later_.begin()->first -
                                                                   std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp(wait, std::chrono::milliseconds(0), kLongest).count());
  }

  /// Bandwidth is taken from so many bytes at a time, and from no fewer.
  static constexpr std::uint64_t kWindowBytes = 4 << 20, kLeastBytes = 256 << 10;

  const CurlApi& curl_;
  const HttpOptions options_;
  CURLM* const multi_;
  const pid_t process_ = ::getpid();
  std::vector<CURL*> idle_;
  std::vector<Shared> under_way_;
  std::multimap<std::chrono::steady_clock::time_point, Shared> later_;
  std::map<std::string, Host> hosts_;
  std::uint64_t window_bytes_ = 0;
  std::chrono::steady_clock::time_point window_begun_;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::mt19937_64 random_;
  std::vector<Shared> arrived_;
  std::vector<Shared> cancels_;
  SeenCosts seen_;
  bool stopping_ = false;
  std::thread thread_;
};

Result<std::shared_ptr<HttpClient>> HttpClient::Make(HttpOptions options) {
  QUARRY_ASSIGN_OR_RETURN(const CurlApi* const curl, LoadCurl());
  CURLM* const multi = curl->multi_init();
  if (multi == nullptr) return ResourceExhausted("no memory for requests");
  return std::shared_ptr<HttpClient>(
      new HttpClient(std::make_unique<Loop>(*curl, std::move(options), multi)));
}

HttpClient::HttpClient(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
HttpClient::~HttpClient() = default;

std::shared_ptr<HttpClient::Call> HttpClient::Start(HttpRequest request, Done done) {
  return loop_->Start(std::move(request), std::move(done));
}

void HttpClient::Cancel(const std::shared_ptr<Call>& call) { loop_->Cancel(call); }

Result<HttpReply> HttpClient::Fetch(HttpRequest request, const std::function<bool()>& cancelled) {
  std::optional<Result<HttpReply>> result;
  const std::shared_ptr<Call> call =
      Start(std::move(request), [&](Result<HttpReply> got) { result = std::move(got); });
  constexpr std::chrono::milliseconds kAsk{50};
  while (!loop_->AwaitEnd(call, kAsk)) {
    if ((cancelled && cancelled()) || CancelScope::Cancelled()) Cancel(call);
  }
  return *std::move(result);
}

SeenCosts HttpClient::seen() const { return loop_->seen(); }
const HttpOptions& HttpClient::options() const { return loop_->options(); }

}  // namespace quarry::remote
