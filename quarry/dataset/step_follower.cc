#include "quarry/dataset/step_follower.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>

namespace quarry {
namespace {

/// Tells a directory from another that has its name later. Its number alone would not do: a new directory may
/// get that of one that was deleted.
std::string IdentityOf(const std::filesystem::path& path) {
  struct statx info {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &info) != 0) return "-";
  return fmt::format("{}.{}.{}.{}.{}", info.stx_dev_major, info.stx_dev_minor, info.stx_ino,
                     info.stx_btime.tv_sec, info.stx_btime.tv_nsec);
}

/// Steps of one call: descriptions of large datasets are megabytes, and whoever gets them may want to end.
constexpr std::size_t kMostAtOnce = 16;

}  // namespace

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

Status StepFollower::CheckSameDirectory() {
  if (identity_.empty()) identity_ = IdentityOf(root_);
  return OrGone(Status::Ok());
}

/// What there is to say after something went well or wrong: a dataset that is taken away while it is read looks
/// damaged for a moment.
Status StepFollower::OrGone(Status error) const {
  if (identity_.empty() || IdentityOf(root_) == identity_) return error;
  return NotFound("the dataset \"{}\" has gone, or another is in its place; watch again", root_.string());
}

Result<std::vector<std::shared_ptr<const StepDescription>>> StepFollower::Poll() {
  std::vector<std::shared_ptr<const StepDescription>> found;
  // Taken before the listing: what comes in between changes it.
  Stamp stamp = StampOf(root_ / "steps");
  if (stamp.text == stamp_) return found;
  // Opened anew each time: new steps may bring fields that dataset.json did not have.
  Result<std::shared_ptr<const Dataset>> dataset = Dataset::Open(root_);
  if (!dataset.ok()) return OrGone(std::move(dataset).status());
  dataset_ = *std::move(dataset);
  QUARRY_RETURN_IF_ERROR(CheckSameDirectory());
  for (const std::uint64_t number : dataset_->steps()) {
    if ((after_ && number <= *after_) || seen_.contains(number)) continue;
    if (found.size() == kMostAtOnce) return found;  // `stamp_` is as before: the next call lists them again
    Result<StepDescription> step = dataset_->LoadStep(number);
    if (!step.ok() && found.empty()) return OrGone(std::move(step).status());
    if (!step.ok()) return found;  // the next call tries again, and tells
    seen_.insert(number);
    found.push_back(std::make_shared<const StepDescription>(*std::move(step)));
  }
  stamp_ = stamp.settled ? std::move(stamp.text) : "";
  return found;
}

}  // namespace quarry
