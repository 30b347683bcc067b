#include "tools/plan/measure_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tools/plan/stopwatch.h"

namespace quarry::plan {
namespace {

namespace fs = std::filesystem;

/// One subfile as the writer makes it: payload, sync, table, sync, close.
Status WriteLikeSubfile(const fs::path& path, std::uint64_t bytes) {
  QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(path));
  const Bytes piece(std::min<std::uint64_t>(bytes, 4 << 20), std::byte{0x5a});
  for (std::uint64_t left = bytes; left > 0;) {
    const std::size_t size = std::min<std::uint64_t>(left, piece.size());
    QUARRY_RETURN_IF_ERROR(file.Append(ByteSpan(piece).first(size)));
    left -= size;
  }
  QUARRY_RETURN_IF_ERROR(file.Sync());
  QUARRY_RETURN_IF_ERROR(file.Append(ByteSpan(piece).first(std::min<std::size_t>(piece.size(), 512))));
  return file.SyncAndClose();
}

/// A part of a file that several write, durable.
Status WritePart(const fs::path& path, int number, std::uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return InternalError("cannot open \"{}\": {}", path.string(), std::strerror(errno));
  const Bytes piece(std::min<std::uint64_t>(bytes, 4 << 20), std::byte{0x5a});
  const std::uint64_t begin = static_cast<std::uint64_t>(number) * bytes;
  Status status;
  for (std::uint64_t done = 0; done < bytes && status.ok();) {
    const std::size_t size = std::min<std::uint64_t>(bytes - done, piece.size());
    const ssize_t written = ::pwrite(fd, piece.data(), size, static_cast<off_t>(begin + done));
    if (written <= 0) status = InternalError("cannot write \"{}\": {}", path.string(), std::strerror(errno));
    done += static_cast<std::uint64_t>(std::max<ssize_t>(written, 0));
  }
  if (status.ok() && ::fsync(fd) != 0)
    status = InternalError("cannot sync \"{}\": {}", path.string(), std::strerror(errno));
  ::close(fd);
  return status;
}

Status PublishLikeStep(const fs::path& folder) {
  const fs::path staging = folder / "staging";
  const fs::path step = staging / "steps" / "000000";
  const Bytes text(2048, std::byte{' '});
  QUARRY_RETURN_IF_ERROR(CreateDirectories(step / "field"));
  QUARRY_RETURN_IF_ERROR(SyncDirectory(step / "field"));
  for (const auto& [directory, name] : {std::pair(step, "step.json"), std::pair(staging, "dataset.json")}) {
    QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(directory / name));
    QUARRY_RETURN_IF_ERROR(file.Append(text));
    QUARRY_RETURN_IF_ERROR(file.SyncAndClose());
    QUARRY_RETURN_IF_ERROR(SyncDirectory(directory));
  }
  QUARRY_RETURN_IF_ERROR(SyncDirectory(staging / "steps"));
  QUARRY_RETURN_IF_ERROR(Rename(staging, folder / "published"));
  QUARRY_RETURN_IF_ERROR(SyncDirectory(folder));
  (void)RemoveTree(folder / "published");
  return Status::Ok();
}

/// Median seconds of an action that may fail. Times of files vary, so the usual time counts, not the best.
Result<double> TimeOf(int repeats, const std::function<Status(int)>& action) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double begin = WallSeconds();
    QUARRY_RETURN_IF_ERROR(action(repeat));
    seconds.push_back(WallSeconds() - begin);
  }
  return Median(seconds);
}

/// Runs an action on several threads; the first error of any.
Status OnEach(int threads, const std::function<Status(int)>& action) {
  std::vector<Status> results(static_cast<std::size_t>(threads));
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t)
      workers.emplace_back([&, t] { results[static_cast<std::size_t>(t)] = action(t); });
  }
  for (Status& result : results) QUARRY_RETURN_IF_ERROR(std::move(result));
  return Status::Ok();
}

/// Files that all cores make at a time, against those of one.
Status MeasureCreates(const fs::path& folder, int cores, model::Machine* machine) {
  constexpr std::uint64_t kSmall = 4096;
  for (const int files : {16, 256}) {
    const int each = std::max(1, files / cores);
    const double begin = WallSeconds();
    QUARRY_RETURN_IF_ERROR(OnEach(cores, [&](int t) -> Status {
      for (int i = 0; i < each; ++i) {
        const fs::path path = folder / fmt::format("create{}-{}", t, i);
        QUARRY_RETURN_IF_ERROR(WriteLikeSubfile(path, kSmall));
        std::error_code ignored;
        fs::remove(path, ignored);
      }
      return Status::Ok();
    }));
    // The time beyond the writers' own time for their files is their waiting for each other.
    const double waiting = WallSeconds() - begin - each * machine->file_create_s;
    const double made = each * cores;
    machine->file_creates_per_s = waiting > 0.05 * each * machine->file_create_s ? made / waiting : 0;
  }
  return Status::Ok();
}

/// Writers of one file, each in a part of its own, against as many files.
Status MeasureLock(const fs::path& folder, std::uint64_t bytes, int cores, double apart,
                   model::Machine* machine) {
  if (cores < 2) return Status::Ok();
  const std::uint64_t part = bytes / static_cast<std::uint64_t>(cores);
  const fs::path path = folder / "shared";
  QUARRY_ASSIGN_OR_RETURN(const double together, TimeOf(kRepeats, [&](int) -> Status {
                            std::error_code ignored;
                            fs::remove(path, ignored);
                            QUARRY_RETURN_IF_ERROR(WriteLikeSubfile(path, 0));
                            return OnEach(cores, [&](int t) { return WritePart(path, t, part); });
                          }));
  // k writers that take turns are k times as slow: 1 + lock (k - 1).
  machine->shared_file_lock = std::clamp((together / apart - 1) / (cores - 1), 0.0, 1.0);
  return Status::Ok();
}

}  // namespace

Status MeasureWriting(const std::filesystem::path& folder, std::uint64_t bytes, int cores,
                      model::Machine* machine) {
  constexpr int kSmallFiles = 9;
  constexpr std::uint64_t kSmall = 4096;
  QUARRY_ASSIGN_OR_RETURN(machine->file_create_s, TimeOf(kSmallFiles, [&](int i) {
                            return WriteLikeSubfile(folder / fmt::format("small{}", i), kSmall);
                          }));
  QUARRY_ASSIGN_OR_RETURN(machine->publish_s,
                          TimeOf(kSmallFiles, [&](int) { return PublishLikeStep(folder); }));
  QUARRY_RETURN_IF_ERROR(MeasureCreates(folder, cores, machine));
  const auto bandwidth = [&](double seconds) {
    return static_cast<double>(bytes) / std::max(1e-6, seconds - machine->file_create_s);
  };
  const auto write_anew = [&](const std::filesystem::path& path, std::uint64_t size) {
    std::error_code ignored;
    fs::remove(path, ignored);
    return WriteLikeSubfile(path, size);
  };
  QUARRY_ASSIGN_OR_RETURN(const double one,
                          TimeOf(kRepeats, [&](int) { return write_anew(folder / "one", bytes); }));
  QUARRY_ASSIGN_OR_RETURN(const double all, TimeOf(kRepeats, [&](int) {
                            return OnEach(cores, [&](int t) {
                              return write_anew(folder / fmt::format("part{}", t),
                                                bytes / static_cast<std::uint64_t>(cores));
                            });
                          }));
  // The model gives a stream the time that it needs beyond the shared disk: none, if one writer is as fast as
  // all.
  const double together = std::max(bandwidth(one), bandwidth(all));
  const double alone = 1 / bandwidth(one) - 1 / together;
  machine->target_write_bandwidth_bytes_per_s = together;
  machine->stream_write_bandwidth_bytes_per_s = alone > 0.05 / together ? 1 / alone : 0;
  return MeasureLock(folder, bytes, cores, all, machine);
}

Result<double> MeasureReading(const std::filesystem::path& folder, int threads, bool cold) {
  const fs::path path = folder / "one";
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    if (cold) {
      const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
      posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
    const double begin = WallSeconds();
    QUARRY_RETURN_IF_ERROR(OnEach(threads, [&](int t) {
      const auto n = static_cast<std::uint64_t>(threads);
      const auto i = static_cast<std::uint64_t>(t);
      const std::uint64_t first = file.size() * i / n;
      Bytes part(file.size() * (i + 1) / n - first);
      return file.ReadAt(first, part);
    }));
    seconds.push_back(WallSeconds() - begin);
  }
  return static_cast<double>(file.size()) / Median(seconds);
}

}  // namespace quarry::plan
