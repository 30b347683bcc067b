#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "quarry/base/status.h"
#include "quarry/cancel_token.h"

/// Calls that run beside the interpreter: its lock is not held, and Ctrl-C ends them.
namespace quarry::python {

/// How often a waiting call looks for signals.
inline constexpr auto kLookForSignals = std::chrono::milliseconds(20);

/// Waits with Python's lock released until `done`, which the mutex guards. Called with the lock held.
/// @returns false if a signal handler has raised an exception
template <typename Done>
bool WaitForSignalOr(std::mutex* mutex, std::condition_variable* changed, const Done& done) {
  while (true) {
    {
      const nanobind::gil_scoped_release release;
      std::unique_lock lock(*mutex);
      if (changed->wait_for(lock, kLookForSignals, done)) return true;
    }
    if (PyErr_CheckSignals() != 0) return false;
  }
}

/// The result of `work`, which must not use Python. If a signal handler raises meanwhile (Ctrl-C), `work` is
/// cancelled by `cancel`, waited for, and the exception goes on.
/// @param brief  work that is over before a signal matters runs on the calling thread
template <typename Work>
auto RunInBackground(const CancelToken& cancel, bool brief, const Work& work) {
  if (brief) {
    const nanobind::gil_scoped_release release;
    return work();
  }
  std::optional<decltype(work())> result;
  std::exception_ptr error;
  bool done = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::thread thread([&] {
    try {
      result.emplace(work());
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_one();
  });
  const bool uninterrupted = WaitForSignalOr(&mutex, &changed, [&] { return done; });
  if (!uninterrupted) cancel.Cancel();
  {
    const nanobind::gil_scoped_release release;
    thread.join();
  }
  if (!uninterrupted) throw nanobind::python_error();
  if (error) std::rethrow_exception(error);
  return *std::move(result);
}

/// Values that a thread makes one after the other, and the interpreter takes. The thread is at most one
/// ahead.
template <typename T>
class Feed {
 public:
  using Deliver = std::function<bool(T)>;  ///< false: nobody wants more

  /// @param work  runs on the thread; it must not use Python
  explicit Feed(std::function<Status(const CancelToken&, const Deliver&)> work)
      : state_(std::make_shared<State>()) {
    thread_ = std::thread([state = state_, work = std::move(work)] {
      Status status;
      try {
        status = work(state->cancel, [&](T value) { return state->Put(std::move(value)); });
      } catch (const std::bad_alloc&) {
        status = {StatusCode::kInternal, "no memory"};
      }
      const std::lock_guard lock(state->mutex);
      state->status = std::move(status);
      state->ended = true;
      state->changed.notify_all();
    });
  }
  /// In a process that was forked from the one of the thread, there is none to be joined.
  ~Feed() {
    if (process_ == getpid()) {
      Close();
      return;
    }
    new std::thread(std::move(thread_));
    new std::shared_ptr<State>(std::move(state_));
  }
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// The next one; nothing at the end. Called with Python's lock held, by one thread at a time.
  /// @param check  throws what is made of an error at the end
  std::optional<T> Next(void (*check)(Status)) {
    State& state = *state_;
    if (process_ != getpid()) check(FailedPrecondition("this was begun by another process"));
    if (!WaitForSignalOr(&state.mutex, &state.changed, [&] { return state.value || state.ended; })) {
      Close();
      throw nanobind::python_error();
    }
    std::unique_lock lock(state.mutex);
    if (std::optional<T> value = std::exchange(state.value, std::nullopt)) {
      state.changed.notify_all();
      return value;
    }
    // The caller that closed it knows why it ended.
    Status status = state.cancel.cancelled() ? Status::Ok() : std::exchange(state.status, Status::Ok());
    lock.unlock();
    Close();
    check(std::move(status));
    return std::nullopt;
  }

  /// Ends the work, and waits for that. Called with Python's lock held, by any thread: Next ends too. A
  /// forked process has no such thread, and the mutex may be held for ever: it does nothing.
  void Close() {
    if (process_ != getpid()) return;
    {
      const std::lock_guard lock(state_->mutex);
      state_->cancel.Cancel();
      state_->changed.notify_all();
    }
    const nanobind::gil_scoped_release release;
    const std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct State {
    bool Put(T made) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !value || cancel.cancelled(); });
      if (cancel.cancelled()) return false;
      value = std::move(made);
      changed.notify_all();
      return true;
    }

    const CancelToken cancel = CancelToken::Create();
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<T> value;
    Status status;
    bool ended = false;
  };

  std::shared_ptr<State> state_;
  std::mutex joining_;
  std::thread thread_;
  const pid_t process_ = getpid();
};

}  // namespace quarry::python
