#include "quarry/dataset/step_follower.h"

#include <sys/stat.h>

#include <chrono>

namespace quarry {

Stamp StampOf(const std::filesystem::path& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return {"-"};
  // Clocks of file systems tick in milliseconds, of some in seconds: two changes within a tick look like one.
  constexpr std::int64_t kSettledSeconds = 3;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return {fmt::format("{}.{}.{}.{}", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec),
          seconds - info.st_mtim.tv_sec >= kSettledSeconds};
}

Result<std::vector<std::shared_ptr<const StepDescription>>> StepFollower::Poll() {
  std::vector<std::shared_ptr<const StepDescription>> found;
  // Taken before the listing: what comes in between changes it.
  Stamp stamp = StampOf(root_ / "steps");
  if (stamp.text == stamp_) return found;
  // Opened anew each time: new steps may bring fields that dataset.json did not have.
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> dataset, Dataset::Open(root_));
  for (const std::uint64_t number : dataset->steps()) {
    if ((after_ && number <= *after_) || seen_.contains(number)) continue;
    QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const StepDescription> step, dataset->Step(number));
    found.push_back(std::move(step));
  }
  for (const auto& step : found) seen_.insert(step->step);
  stamp_ = stamp.settled ? std::move(stamp.text) : "";
  return found;
}

}  // namespace quarry
