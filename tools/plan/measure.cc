#include "tools/plan/measure.h"

#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <ctime>
#include <limits>
#include <random>
#include <thread>

#include "quarry/base/file.h"
#include "quarry/base/missing.h"
#include "quarry/base/processors.h"
#include "quarry/base/units.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/geometry/patch_grid.h"
#include "tools/field/generated_field.h"
#include "tools/plan/measure_files.h"
#include "tools/plan/measure_messages.h"
#include "tools/plan/stopwatch.h"
#include "writer/distribution/aggregation.h"
#include "writer/distribution/decomposition.h"
#include "writer/distribution/placement.h"

namespace quarry::plan {
namespace {

constexpr std::int64_t kPatchExtent = 64;

struct Times {
  double wall = std::numeric_limits<double>::infinity();
  double cpu = std::numeric_limits<double>::infinity();  ///< mean over the threads
};

/// Runs `work(thread)`, all at once, on one thread per core; the fastest of a few times.
Times OnThreads(int threads, const std::function<void(int)>& work) {
  Times best;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::barrier start(threads + 1);
    std::vector<double> cpu(static_cast<std::size_t>(threads));
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
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
  const Times times = OnThreads(cores, [&](int t) {
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
  const Times times = OnThreads(cores, [&](int t) {
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
  const Times times = OnThreads(cores, [&](int t) {
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
  const Times times = OnThreads(cores, [&](int t) {
    const auto i = static_cast<std::size_t>(t);
    coded[i] = 0;
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
  std::int64_t checksum = 0;
  const ListedBoxes boxes(owned);
  const std::vector<std::int64_t> target = TargetCounts(grid.patch_count(), 64);
  const double begin = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
  ForEachPlacement(grid, boxes, PlacementStrategy::kBalanced, target,
                   [&](const PlacedPatch& placed) { checksum += placed.rank; });
  const double placed = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
  checksum += static_cast<std::int64_t>(AssignPatches(sizes, 64, AggregationStrategy::kBalanced).size());
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
  const int cores = MachineProcessors();
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
