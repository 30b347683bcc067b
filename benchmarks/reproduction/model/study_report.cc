#include "benchmarks/reproduction/model/study_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "quarry/base/units.h"

namespace quarry::reproduction {
namespace {

using Json = nlohmann::ordered_json;

Json TimesToJson(const iobench::Spread& s) { return {{"median", s.median}, {"min", s.min}, {"max", s.max}}; }

std::string_view PlacementName(distribution::PlacementStrategy placement) {
  return placement == distribution::PlacementStrategy::kBalanced ? "balanced" : "greedy";
}

std::string ExchangeName(const ExchangeResult& result) {
  if (result.packed) return "packed";
  if (result.batch == writer::kExchangePerPatch) return "patch";
  return result.batch == writer::kExchangePerRank ? "rank" : std::to_string(result.batch);
}

std::string RangeOf(const std::vector<std::int64_t>& counts) {
  const auto [min, max] = std::minmax_element(counts.begin(), counts.end());
  return fmt::format("{} to {}", *min, *max);
}

}  // namespace

std::string ToTable(const ExchangeOptions& options, const std::vector<ExchangeResult>& results) {
  std::string table = fmt::format(
      "{} ranks as {}, {} samples of {}\n"
      "{} timed runs of each, in turns: seconds of the slowest rank, exchange alone, everything planned and "
      "allocated; patches compared once\n\n",
      Volume(options.process_grid), ToString(options.process_grid), ToString(options.dims),
      Name(options.type), options.repeat);
  table += fmt::format("{:<12} {:<9} {:>8} {:>9} {:>9} {:>9} {:>10} {:>9} {:>16}\n", "patch", "placement",
                       "exchange", "median s", "min s", "max s", "moved", "messages", "patches per rank");
  for (const ExchangeResult& r : results) {
    table +=
        fmt::format("{:<12} {:<9} {:>8} {:>9.4f} {:>9.4f} {:>9.4f} {:>10} {:>9} {:>16}\n", ToString(r.patch),
                    PlacementName(r.placement), ExchangeName(r), r.seconds.slowest.median,
                    r.seconds.slowest.min, r.seconds.slowest.max, FormatBytes(r.bytes_moved), r.messages,
                    fmt::format("{:.0f} to {:.0f}", r.patches_per_rank.min, r.patches_per_rank.max));
  }
  return table;
}

std::string ToJson(const ExchangeOptions& options, const std::vector<ExchangeResult>& results) {
  Json json;
  json["ranks"] = Volume(options.process_grid);
  json["process_grid"] = options.process_grid;
  json["dims"] = options.dims;
  json["type"] = Name(options.type);
  json["repeat"] = options.repeat;
  for (const ExchangeResult& r : results) {
    json["exchanges"].push_back({{"patch", r.patch},
                                 {"placement", PlacementName(r.placement)},
                                 {"exchange", ExchangeName(r)},
                                 {"setup_seconds", r.setup_seconds},
                                 {"seconds", TimesToJson(r.seconds.slowest)},
                                 {"seconds_of_ranks", r.seconds.of_ranks},
                                 {"bytes_moved", r.bytes_moved},
                                 {"messages", r.messages},
                                 {"patches_per_rank",
                                  {{"min", static_cast<std::int64_t>(r.patches_per_rank.min)},
                                   {"max", static_cast<std::int64_t>(r.patches_per_rank.max)},
                                   {"mean", r.patches_per_rank.mean}}}});
  }
  return json.dump(2) + "\n";
}

std::string ToTable(const PlacementOptions& options, const std::vector<PlacementResult>& results) {
  std::string table = fmt::format(
      "{} ranks as {}, {} samples of {}, relative tolerance {}\n"
      "{} timed runs of each, in turns: seconds of the slowest rank, medians; core: processor seconds of the "
      "busiest rank\n"
      "predicted: quarry-plan predict with machine \"{}\"; early start: exchange and encode, if contained "
      "patches hid the exchange\n\n",
      Volume(options.process_grid), ToString(options.process_grid), ToString(options.dims),
      Name(options.type), options.relative, options.repeat, options.machine.name);
  table +=
      fmt::format("{:<12} {:<9} {:>16} {:>10} | {:>9} {:>9} | {:>9} {:>9} | {:>9} {:>9} | {:>9} {:>11}\n",
                  "patch", "placement", "patches per rank", "moved", "exchange", "predicted", "encode",
                  "predicted", "core", "predicted", "both", "early start");
  for (const PlacementResult& r : results) {
    table += fmt::format(
        "{:<12} {:<9} {:>16} {:>10} | {:>9.4f} {:>9.4f} | {:>9.4f} {:>9.4f} | {:>9.4f} {:>9.4f} | {:>9.4f} "
        "{:>11.4f}\n",
        ToString(r.patch), PlacementName(r.placement), RangeOf(r.patches_of_ranks),
        FormatBytes(r.bytes_moved), r.exchange.slowest.median, r.predicted.exchange, r.encode.slowest.median,
        r.predicted.encode, r.encode_core.slowest.median, r.predicted.encode_core, r.both.slowest.median,
        r.both_early_start.median);
  }
  return table;
}

std::string ToJson(const PlacementOptions& options, const std::vector<PlacementResult>& results) {
  const auto timing = [](const Timing& t) {
    return Json{{"seconds", TimesToJson(t.slowest)}, {"seconds_of_ranks", t.of_ranks}};
  };
  Json json;
  json["ranks"] = Volume(options.process_grid);
  json["process_grid"] = options.process_grid;
  json["dims"] = options.dims;
  json["type"] = Name(options.type);
  json["relative"] = options.relative;
  json["repeat"] = options.repeat;
  json["machine"] = options.machine.name;
  for (const PlacementResult& r : results) {
    json["placements"].push_back({{"patch", r.patch},
                                  {"placement", PlacementName(r.placement)},
                                  {"patches_of_ranks", r.patches_of_ranks},
                                  {"contained_of_ranks", r.contained_of_ranks},
                                  {"bytes_moved", r.bytes_moved},
                                  {"messages", r.messages},
                                  {"exchange", timing(r.exchange)},
                                  {"encode", timing(r.encode)},
                                  {"encode_core", timing(r.encode_core)},
                                  {"both", timing(r.both)},
                                  {"both_early_start", TimesToJson(r.both_early_start)},
                                  {"predicted",
                                   {{"exchange_s", r.predicted.exchange},
                                    {"encode_s", r.predicted.encode},
                                    {"encode_core_s", r.predicted.encode_core}}}});
  }
  return json.dump(2) + "\n";
}

}  // namespace quarry::reproduction
