#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace quarry {

/// Decides which waiting task is next.
struct DecodePriority {
  int level = 0;             ///< for one client: coarse levels before fine ones
  std::uint64_t bytes = 0;   ///< then those of the smallest fetches
  std::uint64_t client = 0;  ///< client of the Requester
  std::uint64_t work = 0;    ///< [bytes] samples that the task decodes: clients have equal parts of it
};

/// The threads that decode patches, shared by all reads of a process. They are started with the first task.
/// Others compute in turn with them, so that no more threads compute at a time. Thread-safe.
///
/// Start-time fair queueing of clients: next is the one for which the fewest bytes were decoded since both
/// have tasks here. A client that returns from a pause is a little ahead of those that always have tasks.
/// @source Goyal, Vin, Cheng, Start-time Fair Queueing, IEEE/ACM Transactions on Networking 5 (1997), section
/// II
class DecodePool {
 public:
  /// @param threads  0: UsableProcessors
  explicit DecodePool(int threads = 0);
  /// Waits for the tasks that were submitted.
  ~DecodePool();
  DecodePool(const DecodePool&) = delete;
  DecodePool& operator=(const DecodePool&) = delete;

  int threads() const { return thread_count_; }
  /// Tasks that no thread has taken yet.
  std::size_t waiting() const;

  /// Runs `task` soon on one of the threads. Tasks of one client run by priority, then in the order of
  /// submission; now and then the oldest is next, so that none starves. It must not throw.
  /// @errors throws where there is no memory, or the system gives no thread at all; the task does not run
  /// then
  void Submit(DecodePriority priority, std::function<void()> task);

  /// Computes on the calling thread, in the client's turn and before its tasks, as if a thread of the pool
  /// did it. Keep it short, some milliseconds: a turn is not taken back. It must not wait for anything.
  /// @param work  [bytes] decoding so many takes about as long
  void InTurn(std::uint64_t client, std::uint64_t work, const std::function<void()>& compute);

 private:
  /// The place of a waiting task: the smallest is next.
  struct Place {
    int finer = 0;  ///< the negated level
    std::uint64_t bytes = 0;
    std::uint64_t number = 0;  ///< number of the submission

    friend auto operator<=>(const Place&, const Place&) = default;  // NOLINT(modernize-use-nullptr)
  };
  /// State of a thread that computes itself.
  struct Turn {
    bool begun = false;
    std::condition_variable begins = {};
  };
  struct Task {
    std::function<void()> run;
    std::uint64_t work = 0;
    Turn* turn = nullptr;  ///< begins instead of running something
  };
  /// A list of one task, which moves to another list without memory: a turn that ends always begins the next.
  using TaskNode = std::list<Task>;
  /// The tasks of one client.
  struct Queue {
    std::map<Place, TaskNode> waiting;
    std::map<std::uint64_t, Place> by_age;  ///< positions of the waiting tasks
    std::uint64_t taken = 0;
    std::uint64_t start = 0;  ///< [bytes] the "start tag" of the next task

    TaskNode TakeNext();
  };

  using Lock = std::unique_lock<std::mutex>;

  void StartThreads();
  void Work();
  void Add(const DecodePriority& priority, Task task);
  Queue* QueueOf(std::uint64_t client);
  void BeginNext();
  void End();

  const int thread_count_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Queue> queues_;  ///< clients with waiting tasks, or with more work than others
  std::list<Task> begun_;                  ///< tasks whose turn it is, for the next threads
  int running_ = 0;                        ///< turns that have begun, at most one for each thread
  std::uint64_t now_;  ///< [bytes] "virtual time": the largest start of a task that was taken
  std::uint64_t submitted_ = 0;
  std::size_t waiting_ = 0;
  bool ending_ = false;
  std::vector<std::jthread> threads_;  ///< destroyed first
};

}  // namespace quarry
