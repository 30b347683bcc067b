#include "tools/iobench/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "quarry/base/units.h"

namespace quarry::iobench {
namespace {

using Json = nlohmann::ordered_json;

std::string FormatRounded(double bytes) { return FormatBytes(static_cast<std::uint64_t>(bytes + 0.5)); }

double GibPerSecond(double bytes, const Spread& seconds) {
  return seconds.median > 0 ? bytes / seconds.median / (1 << 30) : 0;
}

Json TimesToJson(const Spread& s) { return {{"median", s.median}, {"min", s.min}, {"max", s.max}}; }

Json BytesToJson(const Spread& s) {
  return {{"min", static_cast<std::uint64_t>(s.min)},
          {"max", static_cast<std::uint64_t>(s.max)},
          {"mean", s.mean},
          {"max_over_mean", s.max_over_mean()}};
}

}  // namespace

std::string ToTable(const Load& load, const BenchOptions& options, const BenchResult& result) {
  const Spread per_rank = Spread::Of(load.BytesPerRank());
  std::string table = fmt::format(
      "{} ranks as {}, {} units as {}, {}; per rank {} to {} (max/mean {:.2f})\n"
      "{} timed runs of each pipeline, in turns: seconds of the slowest rank, with fsync{}\n\n",
      Volume(load.process_grid), ToString(load.process_grid), load.units(), ToString(load.unit_grid),
      FormatBytes(load.total()), FormatRounded(per_rank.min), FormatRounded(per_rank.max),
      per_rank.max_over_mean(), options.repeat,
      options.verify ? "; every file was read back and compared once" : "");
  table +=
      fmt::format("{:<16} {:>6} {:>9} {:>9} {:>9} {:>8} {:>10} {:>10} {:>10} {:>8}\n", "pipeline", "files",
                  "median s", "min s", "max s", "GiB/s", "smallest", "largest", "mean", "max/mean");
  for (const PipelineResult& p : result.pipelines) {
    table += fmt::format("{:<16} {:>6} {:>9.4f} {:>9.4f} {:>9.4f} {:>8.3f} {:>10} {:>10} {:>10} {:>8.3f}\n",
                         Name(p.pipeline), p.files, p.seconds.median, p.seconds.min, p.seconds.max,
                         GibPerSecond(static_cast<double>(load.total()), p.seconds),
                         FormatRounded(p.bytes_per_file.min), FormatRounded(p.bytes_per_file.max),
                         FormatRounded(p.bytes_per_file.mean), p.bytes_per_file.max_over_mean());
  }
  if (!result.kept.empty()) table += fmt::format("\nfiles of the last run: {}\n", result.kept.string());
  return table;
}

std::string ToJson(const Load& load, const BenchOptions& options, const BenchResult& result) {
  Json json;
  json["ranks"] = Volume(load.process_grid);
  json["process_grid"] = load.process_grid;
  json["units"] = load.units();
  json["unit_grid"] = load.unit_grid;
  json["bytes"] = load.total();
  json["bytes_per_rank"] = BytesToJson(Spread::Of(load.BytesPerRank()));
  json["repeat"] = options.repeat;
  json["verified"] = options.verify;
  if (!result.kept.empty()) json["directory"] = result.kept.string();
  for (const PipelineResult& p : result.pipelines) {
    json["pipelines"].push_back(
        {{"pipeline", Name(p.pipeline)},
         {"files", p.files},
         {"seconds", TimesToJson(p.seconds)},
         {"gib_per_second", GibPerSecond(static_cast<double>(load.total()), p.seconds)},
         {"bytes_per_file", BytesToJson(p.bytes_per_file)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace quarry::iobench
