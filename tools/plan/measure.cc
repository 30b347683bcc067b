#include "tools/plan/measure.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstring>
#include <ctime>
#include <limits>
#include <random>
#include <thread>

#include "quarry/base/file.h"
#include "quarry/base/missing.h"
#include "quarry/base/units.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/geometry/patch_grid.h"
#include "tools/field/generated_field.h"
#include "writer/distribution/aggregation.h"
#include "writer/distribution/decomposition.h"
#include "writer/distribution/placement.h"

namespace quarry::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPatchExtent = 64;
constexpr int kRepeats = 3;

double WallSeconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Time that a core has spent on this thread or process, without what others do meanwhile.
double CpuSeconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int Cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  double wall = std::numeric_limits<double>::infinity();
  double cpu = std::numeric_limits<double>::infinity();  ///< mean over the threads
};

/// Runs `prepare(thread)` and then, all at once, `work(thread)` on one thread per core; the fastest of a few
/// times.
Times OnThreads(int threads, const std::function<void(int)>& prepare, const std::function<void(int)>& work) {
  Times best;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::barrier start(threads + 1);
    std::vector<double> cpu(static_cast<std::size_t>(threads));
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        prepare(t);
        start.arrive_and_wait();
        const double begin = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
        work(t);
        cpu[static_cast<std::size_t>(t)] = CpuSeconds(CLOCK_THREAD_CPUTIME_ID) - begin;
      });
    }
    start.arrive_and_wait();
    const double begin = WallSeconds();
    workers.clear();  // joins
    best.wall = std::min(best.wall, WallSeconds() - begin);
    double sum = 0;
    for (const double seconds : cpu) sum += seconds;
    best.cpu = std::min(best.cpu, sum / threads);
  }
  return best;
}

// --- memory ---

double MeasureCopies(int cores) {
  constexpr std::size_t kBytes = 64 << 20;
  std::vector<Bytes> from(static_cast<std::size_t>(cores), Bytes(kBytes));
  std::vector<Bytes> to = from;
  const Times times = OnThreads(
      cores, [](int) {},
      [&](int t) {
        const auto i = static_cast<std::size_t>(t);
        std::memcpy(to[i].data(), from[i].data(), kBytes);
      });
  return static_cast<double>(kBytes) * cores / times.wall;
}

/// Rows of patches out of a slab into fresh memory, as the exchange does with what stays on its rank.
double MeasureGather(int cores) {
  constexpr std::int64_t kRow = 4 * kPatchExtent;  // bytes of a row of a patch
  constexpr std::int64_t kPatches = 4;             // along x and y
  constexpr std::int64_t kPatchBytes = kRow * kPatchExtent * kPatchExtent;
  constexpr std::int64_t kBytes = kPatchBytes * kPatches * kPatches;
  std::vector<Bytes> slabs(static_cast<std::size_t>(cores), Bytes(kBytes, std::byte{1}));
  std::vector<std::vector<Bytes>> patches(slabs.size());
  const Times times = OnThreads(
      cores, [](int) {},
      [&](int t) {
        const auto i = static_cast<std::size_t>(t);
        for (std::int64_t p = 0; p < kPatches * kPatches; ++p) {
          Bytes patch(kPatchBytes);  // kept, so that each takes fresh pages, like those of a rank
          const std::byte* from =
              slabs[i].data() + p % kPatches * kRow + p / kPatches * kPatchExtent * kRow * kPatches;
          for (std::int64_t row = 0; row < kPatchExtent * kPatchExtent; ++row) {
            const std::int64_t y = row % kPatchExtent;
            const std::int64_t z = row / kPatchExtent;
            std::memcpy(patch.data() + row * kRow, from + (y + z * kPatchExtent * kPatches) * kRow * kPatches,
                        kRow);
          }
          patches[i].push_back(std::move(patch));
        }
      });
  return static_cast<double>(kBytes) / times.cpu;
}

/// The range of the samples, as the writer finds it when it reads them.
double MeasureScan(int cores) {
  constexpr std::size_t kSamples = 8 << 20;
  std::vector<std::vector<float>> samples(static_cast<std::size_t>(cores), std::vector<float>(kSamples));
  std::vector<double> ranges(samples.size());
  for (auto& values : samples) {
    for (std::size_t i = 0; i < kSamples; ++i) values[i] = static_cast<float>(i % 1000);
  }
  const Times times = OnThreads(
      cores, [](int) {},
      [&](int t) {
        double min = std::numeric_limits<double>::infinity();
        double max = -min;
        std::uint64_t valid = 0;
        for (const float sample : samples[static_cast<std::size_t>(t)]) {
          if (IsMissing(sample, std::nullopt)) continue;
          const double value = sample;
          min = value < min ? value : min;
          max = value > max ? value : max;
          ++valid;
        }
        ranges[static_cast<std::size_t>(t)] = max - min + static_cast<double>(valid);
      });
  return kSamples * sizeof(float) / times.cpu;
}

// --- between processes ---

struct PipeEnds {
  FileDescriptor read;
  FileDescriptor write;
};

Result<PipeEnds> OpenPipe() {
  int ends[2];
  if (pipe(ends) != 0) return ErrnoStatus(errno, "open", "a pipe");
  return PipeEnds{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

bool ReadAll(int fd, void* to, std::size_t bytes) {
  for (auto* at = static_cast<std::byte*>(to); bytes > 0;) {
    const ssize_t got = read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const void* from, std::size_t bytes) {
  for (const auto* at = static_cast<const std::byte*>(from); bytes > 0;) {
    const ssize_t put = write(fd, at, bytes);
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

struct MessageCosts {
  double send_s_per_byte = 0;
  double receive_s_per_byte = 0;
  double overhead_s = 0;
};

constexpr std::size_t kMessageBytes = 1 << 20;
constexpr int kMessages = 128;
constexpr int kPings = 2000;

/// The other end: answers small messages, receives large ones into fresh memory, reports how long that took.
void Answer(int in, int out) {
  char ping = 0;
  for (int i = 0; i < kPings; ++i) {
    if (!ReadAll(in, &ping, 1) || !WriteAll(out, &ping, 1)) return;
  }
  const double begin = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  std::vector<Bytes> received;
  for (int i = 0; i < kMessages; ++i) {
    received.emplace_back(kMessageBytes);
    if (!ReadAll(in, received.back().data(), kMessageBytes)) return;
  }
  const double seconds = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
  WriteAll(out, &seconds, sizeof(seconds));
}

Result<MessageCosts> TalkTo(int in, int out) {
  const Status broken = InternalError("the process that measures messages ended early; run it again");
  MessageCosts costs;
  char ping = 0;
  const double begin = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < kPings; ++i) {
    if (!WriteAll(out, &ping, 1) || !ReadAll(in, &ping, 1)) return broken;
  }
  const double talked = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  // A ping is one message out and one in.
  costs.overhead_s = (talked - begin) / (2 * kPings);
  const Bytes message(kMessageBytes, std::byte{1});
  const double sending = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < kMessages; ++i) {
    if (!WriteAll(out, message.data(), message.size())) return broken;
  }
  const double bytes = static_cast<double>(kMessageBytes) * kMessages;
  costs.send_s_per_byte = (CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - sending) / bytes;
  double received = 0;
  if (!ReadAll(in, &received, sizeof(received))) return broken;
  costs.receive_s_per_byte = received / bytes;
  return costs;
}

/// Two processes and two pipes stand in for two ranks of a node and the shared memory between them: like
/// there, a byte is copied once into the channel and once out of it. Call before there are threads: it forks.
Result<MessageCosts> MeasureMessages() {
  QUARRY_ASSIGN_OR_RETURN(PipeEnds there, OpenPipe());
  QUARRY_ASSIGN_OR_RETURN(PipeEnds back, OpenPipe());
  fcntl(there.write.get(), F_SETPIPE_SZ, 1 << 20);  // as much as is allowed; the default does as well
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "start", "a second process");
  if (child == 0) {
    // Ends when this process does, whatever happens.
    close(there.write.Release());
    close(back.read.Release());
    Answer(there.read.get(), back.write.get());
    _exit(0);
  }
  there.read = FileDescriptor();
  back.write = FileDescriptor();
  Result<MessageCosts> costs = TalkTo(back.read.get(), there.write.get());
  there.write = FileDescriptor();
  waitpid(child, nullptr, 0);
  return costs;
}

// --- file system ---

/// A folder that is removed with its contents.
class ScratchFolder {
 public:
  static Result<ScratchFolder> Create(const fs::path& directory) {
    std::error_code error;
    if (!fs::is_directory(directory, error))
      return NotFound("there is no directory \"{}\" for --dir; create it first", directory.string());
    std::string name = (directory / ".quarry-calibrate-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return ErrnoStatus(errno, "create", name);
    return ScratchFolder(name);
  }
  ~ScratchFolder() {
    if (!path_.empty()) (void)RemoveTree(path_);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  const fs::path& path() const { return path_; }

 private:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

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

Status MeasureWriting(const fs::path& folder, std::uint64_t bytes, int cores, model::Machine* machine) {
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
  const auto write_anew = [&](const fs::path& path, std::uint64_t size) {
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
  // The model gives a stream what it takes beyond the shared disk: nothing, if one writer is as fast as all.
  const double together = std::max(bandwidth(one), bandwidth(all));
  const double alone = 1 / bandwidth(one) - 1 / together;
  machine->target_write_bandwidth_bytes_per_s = together;
  machine->stream_write_bandwidth_bytes_per_s = alone > 0.05 / together ? 1 / alone : 0;
  return MeasureLock(folder, bytes, cores, all, machine);
}

/// Reads `folder`/one, in as many parts as there are threads.
Result<double> MeasureReading(const fs::path& folder, int threads, bool cold) {
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

// --- coder ---

struct Field {
  DataType type = DataType::kFloat32;
  double tolerance = 0;
  Index3 shape{};              ///< shape of one patch
  std::vector<Bytes> patches;  ///< whole ones
};

/// Patches at even distances in the field: a few are enough, and a large file need not be read.
Result<Field> LoadField(const Sample& sample) {
  constexpr std::int64_t kMostPatches = 32;
  Field field;
  const bool generated = sample.path.empty();
  field.type = generated ? DataType::kFloat32 : sample.type;
  const Index3 dims = generated ? Index3{4 * kPatchExtent, 4 * kPatchExtent, 2 * kPatchExtent} : sample.dims;
  const auto size = SizeOf(field.type);
  Bytes whole;
  if (generated) {
    whole = tools::GenerateField({{0, 0, 0}, dims}, field.type);
  } else {
    constexpr std::uint64_t kLimit = std::uint64_t{1} << 32;
    QUARRY_ASSIGN_OR_RETURN(whole, ReadWholeFile(sample.path, kLimit));
    if (whole.size() != static_cast<std::size_t>(Volume(dims)) * size) {
      return InvalidArgument("\"{}\" has {} bytes; {} of {} have {}", sample.path.string(), whole.size(),
                             ToString(dims), Name(field.type), static_cast<std::size_t>(Volume(dims)) * size);
    }
  }
  for (std::size_t a = 0; a < 3; ++a) field.shape[a] = std::min(dims[a], kPatchExtent);
  Index3 grid{};
  for (std::size_t a = 0; a < 3; ++a) grid[a] = dims[a] / field.shape[a];
  const std::int64_t count = std::min(kMostPatches, Volume(grid));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t p = i * Volume(grid) / count;
    const Index3 at = {p % grid[0] * field.shape[0], p / grid[0] % grid[1] * field.shape[1],
                       p / grid[0] / grid[1] * field.shape[2]};
    Bytes patch(static_cast<std::size_t>(Volume(field.shape)) * size);
    const std::size_t row = static_cast<std::size_t>(field.shape[0]) * size;
    std::byte* to = patch.data();
    for (std::int64_t z = 0; z < field.shape[2]; ++z) {
      for (std::int64_t y = 0; y < field.shape[1]; ++y, to += row) {
        const std::int64_t first = at[0] + dims[0] * (at[1] + y + dims[1] * (at[2] + z));
        std::memcpy(to, whole.data() + static_cast<std::size_t>(first) * size, row);
      }
    }
    field.patches.push_back(std::move(patch));
  }
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  DispatchType(field.type, [&]<typename T>(T) {
    for (const T value : std::span(reinterpret_cast<const T*>(whole.data()), whole.size() / sizeof(T))) {
      if (IsMissing(value, std::nullopt)) continue;
      min = std::min(min, static_cast<double>(value));
      max = std::max(max, static_cast<double>(value));
    }
  });
  field.tolerance = max > min ? (max - min) * sample.relative_tolerance : sample.relative_tolerance;
  return field;
}

Status MeasureCoder(const Sample& sample, int cores, model::Machine* machine) {
  QUARRY_ASSIGN_OR_RETURN(const Field field, LoadField(sample));
  // The coder that quarry-write chooses by default.
  const PatchCoder* coder = FindCoder(CoderId::kInterpolate);
  const PatchLayout layout{field.type, field.shape,
                           MaxLevels(field.shape, {kPatchExtent, kPatchExtent, kPatchExtent})};
  std::vector<Status> results(static_cast<std::size_t>(cores));
  std::vector<std::uint64_t> coded(results.size());
  std::vector<std::vector<EncodedPatch>> kept(
      results.size());  // as the writer keeps them, in memory of their own
  const Times times = OnThreads(
      cores, [&](int t) { coded[static_cast<std::size_t>(t)] = 0; },
      [&](int t) {
        const auto i = static_cast<std::size_t>(t);
        for (const Bytes& patch : field.patches) {
          Result<EncodedPatch> encoded = EncodePatch(*coder, layout, patch, std::nullopt, field.tolerance);
          if (!encoded.ok()) {
            results[i] = encoded.status();
            return;
          }
          coded[i] += encoded->size();
          kept[i].push_back(*std::move(encoded));
        }
      });
  for (Status& result : results) QUARRY_RETURN_IF_ERROR(std::move(result));
  const double bytes = static_cast<double>(field.patches.size() * field.patches[0].size());
  machine->encode_s_per_byte = times.cpu / bytes;
  machine->compression_ratio = bytes / static_cast<double>(std::max<std::uint64_t>(1, coded[0]));
  return Status::Ok();
}

/// Measures the computation of every rank for every patch of the grid.
Status MeasurePlanning(model::Machine* machine) {
  using namespace quarry::distribution;
  const Index3 dims = {3000, 3000, 3000};
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchGrid::Create(dims, {64, 64, 64}));
  const Ownership owned = OneBoxEach(ProcessGridBoxes(dims, {4, 4, 4}));
  const auto patches = static_cast<double>(grid.patch_count());
  std::vector<std::uint64_t> sizes;
  std::mt19937 random(1);
  for (std::int64_t i = 0; i < grid.patch_count(); ++i) sizes.push_back(100000 + random() % 100000);
  std::size_t checksum = 0;
  const double begin = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
  checksum +=
      PlacePatches(grid, owned, PlacementStrategy::kBalanced, TargetCounts(grid.patch_count(), 64)).size();
  checksum += FindSharers(grid, owned).ranks.size();  // once more when it exchanges
  checksum += grid.MortonOrder().size();
  const double placed = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
  checksum += AssignPatches(sizes, 64, AggregationStrategy::kBalanced).size();
  const double assigned = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
  if (checksum == 0) return InternalError("nothing was planned");
  machine->place_s_per_patch = (placed - begin) / patches;
  machine->assign_s_per_patch = (assigned - placed) / patches;
  return Status::Ok();
}

std::string Rate(double bytes_per_s) { return FormatBytes(static_cast<std::uint64_t>(bytes_per_s)) + "/s"; }

}  // namespace

Result<model::Machine> Calibrate(const CalibrationOptions& options,
                                 const std::function<void(const std::string&)>& report) {
  // First, so that an error shows before the measurements take time.
  QUARRY_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::Create(options.directory));
  model::Machine machine;
  const int cores = Cores();
  char host[256] = "this machine";
  gethostname(host, sizeof(host) - 1);
  machine.name = host;
  machine.cores_per_node = cores;

  QUARRY_ASSIGN_OR_RETURN(const MessageCosts messages, MeasureMessages());
  machine.send_bandwidth_bytes_per_s = 1 / messages.send_s_per_byte;
  machine.receive_bandwidth_bytes_per_s = 1 / messages.receive_s_per_byte;
  machine.message_overhead_s = messages.overhead_s;
  report(fmt::format("messages    {} out, {} in, {:.1f} us each", Rate(machine.send_bandwidth_bytes_per_s),
                     Rate(machine.receive_bandwidth_bytes_per_s), 1e6 * machine.message_overhead_s));

  machine.memory_bandwidth_bytes_per_s = MeasureCopies(cores);
  machine.gather_bandwidth_bytes_per_s = MeasureGather(cores);
  machine.scan_bandwidth_bytes_per_s = MeasureScan(cores);
  report(fmt::format("memory      {} copied by {} core{}, {} rows of patches and {} scanned by one",
                     Rate(machine.memory_bandwidth_bytes_per_s), cores, cores == 1 ? "" : "s",
                     Rate(machine.gather_bandwidth_bytes_per_s), Rate(machine.scan_bandwidth_bytes_per_s)));

  QUARRY_RETURN_IF_ERROR(MeasureCoder(options.sample, cores, &machine));
  report(fmt::format("coder       {} by one core, {:.2f} times smaller", Rate(1 / machine.encode_s_per_byte),
                     machine.compression_ratio));
  QUARRY_RETURN_IF_ERROR(MeasurePlanning(&machine));
  report(fmt::format("planning    {:.0f} ns to place a patch, {:.0f} ns to assign it",
                     1e9 * machine.place_s_per_patch, 1e9 * machine.assign_s_per_patch));

  QUARRY_RETURN_IF_ERROR(MeasureWriting(folder.path(), options.file_bytes, cores, &machine));
  report(fmt::format("writing     {} by {}, {:.1f} ms for each file, {:.1f} ms to publish",
                     Rate(machine.target_write_bandwidth_bytes_per_s), cores, 1e3 * machine.file_create_s,
                     1e3 * machine.publish_s));
  QUARRY_ASSIGN_OR_RETURN(machine.read_bandwidth_rank_bytes_per_s,
                          MeasureReading(folder.path(), 1, options.cold_reads));
  QUARRY_ASSIGN_OR_RETURN(const double together, MeasureReading(folder.path(), cores, options.cold_reads));
  machine.read_bandwidth_total_bytes_per_s = std::max(machine.read_bandwidth_rank_bytes_per_s, together);
  report(fmt::format("reading     {} by one rank, {} by {}{}", Rate(machine.read_bandwidth_rank_bytes_per_s),
                     Rate(machine.read_bandwidth_total_bytes_per_s), cores,
                     options.cold_reads ? ", not cached" : ", cached"));
  return machine;
}

}  // namespace quarry::plan
