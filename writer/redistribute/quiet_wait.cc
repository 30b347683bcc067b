#include "writer/redistribute/quiet_wait.h"

#include <algorithm>
#include <thread>

namespace quarry::redistribute {

void QuietWait::Pause() const {
  using std::chrono::microseconds;
  const auto waited = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - begin_);
  constexpr microseconds kShortest{50};  // the system's own delay
  constexpr microseconds kLongest{1000};
  const microseconds sleep = std::min(waited / 4, kLongest);
  if (sleep < kShortest) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(sleep);
  }
}

void WaitQuietly(std::span<const MPI_Request> requests) {
  const QuietWait wait;
  for (const MPI_Request& request : requests) {
    int done = 0;
    while (MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0)
      wait.Pause();
  }
}

void WaitForMessage(int source, int tag, MPI_Comm comm) {
  const QuietWait wait;
  int there = 0;
  while (MPI_Iprobe(source, tag, comm, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && there == 0) wait.Pause();
}

}  // namespace quarry::redistribute
