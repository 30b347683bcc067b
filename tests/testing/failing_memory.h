#pragma once

namespace quarry::testing {

/// The n-th allocation of this thread from now on fails, once. For programs that link quarry_failing_memory,
/// whose operator new is its own. As long as it lives; one at a time.
class FailingAllocation {
 public:
  explicit FailingAllocation(int n);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  /// Whether there were so many.
  bool failed() const;
};

/// Calls `attempt` with its first allocation failing, then with its second, until it makes no more of them.
/// @param attempt  takes a FailingAllocation's number. @returns whether that has failed
template <typename Attempt>
int ForEveryAllocation(Attempt attempt) {
  int n = 1;
  while (attempt(n)) ++n;
  return n - 1;
}

}  // namespace quarry::testing
