// How long does it take to find the patches of a box, and does it grow with the grid or with the answer?
// Boxes that are thin along different axes, looked up in the index, in tables that are in memory, and in
// tables that have to be read. All of them take turns, in one run.
#include <algorithm>
#include <chrono>

#include "quarry/base/memory.h"
#include "quarry/command_line/command_line.h"
#include "quarry/dataset/dataset.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/index_writer.h"

namespace {

using quarry::Box;
using quarry::Index3;
using quarry::Status;

struct Options {
  std::string dataset;
  int repeats = 9;
};

struct Case {
  std::string name;
  Box positions;
  std::vector<double> index_seconds;
  std::vector<double> table_seconds;
  std::vector<double> cold_seconds;
  std::vector<double> boxes_seconds;  ///< to find the subfiles whose boxes meet it
  std::size_t subfiles = 0;
};

std::vector<Case> CasesOf(const Index3& patches) {
  const Index3 middle = {patches[0] / 2, patches[1] / 2, patches[2] / 2};
  std::vector<Case> cases;
  const auto add = [&](const char* name, const Index3& whole) {
    Box box;
    for (int a = 0; a < 3; ++a) {
      box.begin[a] = whole[a] != 0 ? 0 : middle[a];
      box.end[a] = whole[a] != 0 ? patches[a] : middle[a] + 1;
    }
    cases.push_back({name, box, {}, {}, {}, {}, 0});
  };
  add("one patch", {0, 0, 0});
  add("column along x", {1, 0, 0});
  add("column along y", {0, 1, 0});
  add("column along z", {0, 0, 1});
  add("slab across x", {0, 1, 1});
  add("slab across y", {1, 0, 1});
  add("slab across z", {1, 1, 0});
  add("all", {1, 1, 1});
  return cases;
}

/// Seconds of one lookup, the mean of as many as take `least` seconds.
quarry::Result<double> Seconds(const quarry::query::PatchLocator& locator, std::uint64_t step,
                               const Box& positions, double least) {
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0;
  int lookups = 0;
  do {
    const auto found = locator.Find(step, 0, positions);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++lookups;
    QUARRY_RETURN_IF_ERROR(found.status());
    if (static_cast<std::int64_t>(found->size()) != positions.volume())
      return quarry::InternalError("found {} patches of {}", found->size(), positions.volume());
  } while (seconds < least);
  return seconds / lookups;
}

/// Seconds to find the subfiles whose boxes meet some patches, as Seconds.
quarry::Result<double> BoxSeconds(const quarry::index::IndexLocator& index, std::uint64_t step,
                                  const quarry::PatchGrid& grid, double least, Case* one) {
  Box samples = grid.PatchBox(one->positions.begin);
  const Index3 last = {one->positions.end[0] - 1, one->positions.end[1] - 1, one->positions.end[2] - 1};
  samples.end = grid.PatchBox(last).end;
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0;
  int lookups = 0;
  do {
    const auto found = index.SubfilesMeeting(step, 0, samples);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++lookups;
    QUARRY_RETURN_IF_ERROR(found.status());
    one->subfiles = found->size();
  } while (seconds < least);
  return seconds / lookups;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Status Run(const Options& options) {
  QUARRY_ASSIGN_OR_RETURN(const auto dataset, quarry::Dataset::Open(options.dataset));
  const quarry::DatasetDescription& description = dataset->description();
  QUARRY_ASSIGN_OR_RETURN(const auto grid,
                          quarry::PatchGrid::Create(description.grids[0].dims, description.grids[0].patch));
  const std::uint64_t step = dataset->steps().at(0);
  QUARRY_ASSIGN_OR_RETURN(const auto index, quarry::index::IndexLocator::Open(
                                                dataset, quarry::index::DefaultIndexFolder(dataset->root()),
                                                std::filesystem::temp_directory_path()));
  QUARRY_ASSIGN_OR_RETURN(const bool current, index->IsCurrent(step));
  if (!current) return quarry::InvalidArgument("the index does not have step {}; run quarry-index", step);

  // Room for all tables.
  const auto warm_store = [] { return std::make_shared<quarry::PatchStore>(std::uint64_t{8} << 30); };
  QUARRY_ASSIGN_OR_RETURN(const auto warm, quarry::Dataset::Open(options.dataset, warm_store()));
  std::vector<Case> cases = CasesOf(grid.patches());
  constexpr double kLeast = 0.02;
  for (int repeat = 0; repeat <= options.repeats; ++repeat) {
    for (Case& one : cases) {
      QUARRY_ASSIGN_OR_RETURN(const auto fresh, quarry::Dataset::Open(options.dataset, warm_store()));
      QUARRY_ASSIGN_OR_RETURN(const double cold, Seconds(fresh->tables(), step, one.positions, 0));
      QUARRY_ASSIGN_OR_RETURN(const double tables, Seconds(warm->tables(), step, one.positions, kLeast));
      QUARRY_ASSIGN_OR_RETURN(const double indexed, Seconds(*index, step, one.positions, kLeast));
      QUARRY_ASSIGN_OR_RETURN(const double boxes, BoxSeconds(*index, step, grid, kLeast, &one));
      if (repeat == 0) continue;  // the first turn warms caches
      one.boxes_seconds.push_back(boxes);
      one.index_seconds.push_back(indexed);
      one.table_seconds.push_back(tables);
      one.cold_seconds.push_back(cold);
    }
  }
  fmt::print(
      "{} patches, {} levels; median of {}, milliseconds\n{:<16} {:>8} {:>10} {:>16} {:>14} {:>10} {:>10}\n",
      grid.patch_count(), description.grids[0].levels, options.repeats, "box", "patches", "index",
      "tables in memory", "tables read", "boxes", "subfiles");
  for (const Case& one : cases) {
    fmt::print("{:<16} {:>8} {:>10.4f} {:>16.4f} {:>14.3f} {:>10.4f} {:>10}\n", one.name,
               one.positions.volume(), 1e3 * Median(one.index_seconds), 1e3 * Median(one.table_seconds),
               1e3 * Median(one.cold_seconds), 1e3 * Median(one.boxes_seconds), one.subfiles);
  }
  return Status::Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  quarry::command_line::Parser app("index_lookup_bench", "Time to find the patches of thin boxes.");
  app.AddOption("DATASET", &options.dataset, "dataset with an index").Required().Path();
  app.AddOption("--repeats", &options.repeats, "turns that count").Between(1, 1000);
  quarry::KeepFreedMemory();
  return RunProgram(&app, argc, argv, [&]() -> quarry::Result<int> {
    QUARRY_RETURN_IF_ERROR(Run(options));
    return 0;
  });
}
