#pragma once

#include <functional>
#include <mutex>

namespace quarry {

/// While it lives, calls of this thread that wait for a store far away end with kCancelled once nobody wants
/// their answer. The innermost scope of a thread counts. A function that spreads calls over threads takes the
/// scope of its caller along, see Carried. On the stack alone.
class CancelScope {
 public:
  /// @param cancelled  asked from time to time, by one thread at a time
  explicit CancelScope(std::function<bool()> cancelled);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  /// Whether nobody wants what this thread waits for. False where it has no scope.
  static bool Cancelled();

  /// Asks the scope of this thread, on any thread, as long as that scope lives.
  static std::function<bool()> Carried();

 private:
  bool Ask();

  const std::function<bool()> cancelled_;
  CancelScope* const outer_;
  std::mutex mutex_;  ///< held while `cancelled_` is asked
};

}  // namespace quarry
