#include "writer/convert/report.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "quarry/base/units.h"

namespace quarry::writer {

namespace {

nlohmann::ordered_json ToJsonObject(const Balance& balance) {
  return {{"min", static_cast<std::uint64_t>(balance.min)},
          {"max", static_cast<std::uint64_t>(balance.max)},
          {"mean", balance.mean}};
}

}  // namespace

Balance Balance::Of(const std::vector<std::uint64_t>& loads) {
  if (loads.empty()) return {};
  const auto [min, max] = std::minmax_element(loads.begin(), loads.end());
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  return {static_cast<double>(*min), static_cast<double>(*max), sum / static_cast<double>(loads.size())};
}

void WriteReport::AddToSizeGrid(const Index3& shape, const std::vector<std::uint64_t>& stored_bytes) {
  if (size_grid.empty()) size_grid_shape = shape;
  if (shape != size_grid_shape) return;
  size_grid.resize(stored_bytes.size(), 0);
  for (std::size_t p = 0; p < stored_bytes.size(); ++p) size_grid[p] += stored_bytes[p];
}

std::uint64_t WriteReport::bytes_in() const {
  return std::accumulate(fields.begin(), fields.end(), std::uint64_t{0},
                         [](auto sum, const auto& f) { return sum + f.bytes_in; });
}

std::uint64_t WriteReport::bytes_out() const {
  return std::accumulate(fields.begin(), fields.end(), std::uint64_t{0},
                         [](auto sum, const auto& f) { return sum + f.bytes_out; });
}

double WriteReport::ratio() const {
  return bytes_out() == 0 ? 0 : static_cast<double>(bytes_in()) / static_cast<double>(bytes_out());
}

double WriteReport::max_error() const {
  double largest = 0;
  for (const FieldReport& field : fields) largest = std::max(largest, field.max_error);
  return largest;
}

double WriteReport::psnr() const {
  double lowest = std::numeric_limits<double>::infinity();
  for (const FieldReport& field : fields) lowest = std::min(lowest, field.psnr);
  return lowest;
}

Balance WriteReport::bytes_per_file() const {
  Balance worst;
  for (const FieldReport& field : fields) {
    const Balance balance = Balance::Of(field.bytes_per_file);
    if (worst.mean == 0 || balance.max_over_mean() > worst.max_over_mean()) worst = balance;
  }
  return worst;
}

std::string WriteReport::ToTable() const {
  std::string table =
      fmt::format("{:>8}  {:<16} {:>10} {:>10} {:>8} {:>12} {:>12} {:>9} {:>8} {:>10}\n", "step", "field",
                  "in", "out", "ratio", "tolerance", "max error", "PSNR dB", "valid", "mask");
  for (const FieldReport& f : fields) {
    const std::string tolerance = f.lossless ? "lossless" : fmt::format("{:.5g}", f.tolerance);
    table += fmt::format("{:>8}  {:<16} {:>10} {:>10} {:>7.2f}x {:>12} {:>12.5g} {:>9} {:>7.2f}% {:>10}\n",
                         f.step, f.field, FormatBytes(f.bytes_in), FormatBytes(f.bytes_out),
                         static_cast<double>(f.bytes_in) / static_cast<double>(f.bytes_out), tolerance,
                         f.max_error, f.outlying ? "-" : fmt::format("{:.2f}", f.psnr),
                         100 * f.valid_fraction, FormatBytes(f.mask_bytes));
  }
  table += fmt::format("\n{:<10} {:>9} {:>10}\n", "phase", "seconds", "MB/s");
  const auto row = [&](std::string_view name, double seconds) {
    const double rate = seconds > 0 ? static_cast<double>(bytes_in()) / 1e6 / seconds : 0;
    table += fmt::format("{:<10} {:>9.3f} {:>10.1f}\n", name, seconds, rate);
  };
  for (std::size_t p = 0; p < kPhases; ++p) row(kPhaseNames[p], seconds[p]);
  row("total", total_seconds);
  const Balance patches = Balance::Of(patches_per_rank);
  const Balance bytes = bytes_per_file();
  table += fmt::format(
      "\nbalance    patches per rank {:.0f} to {:.0f} (max/mean {:.2f}), bytes per file {} to {} (max/mean "
      "{:.2f}), {} ranks\n",
      patches.min, patches.max, patches.max_over_mean(), FormatBytes(static_cast<std::uint64_t>(bytes.min)),
      FormatBytes(static_cast<std::uint64_t>(bytes.max)), bytes.max_over_mean(), ranks);
  return table;
}

std::string WriteReport::ToJson() const {
  auto json = nlohmann::ordered_json::object();
  json["bytes_in"] = bytes_in();
  json["bytes_out"] = bytes_out();
  json["ratio"] = ratio();
  json["max_error"] = max_error();
  json["psnr"] = psnr();
  for (std::size_t p = 0; p < kPhases; ++p) json["seconds"][kPhaseNames[p]] = seconds[p];
  json["seconds"]["total"] = total_seconds;
  json["ranks"] = ranks;
  json["patches_per_rank"] = ToJsonObject(Balance::Of(patches_per_rank));
  json["bytes_per_file"] = ToJsonObject(bytes_per_file());
  json["size_grid"] = {{"shape", size_grid_shape}, {"bytes", size_grid}};
  for (const FieldReport& f : fields) {
    json["fields"].push_back({{"step", f.step},
                              {"field", f.field},
                              {"bytes_in", f.bytes_in},
                              {"bytes_out", f.bytes_out},
                              {"payload_bytes", f.payload_bytes},
                              {"mask_bytes", f.mask_bytes},
                              {"valid_fraction", f.valid_fraction},
                              {"lossless", f.lossless},
                              {"tolerance", f.tolerance},
                              {"max_error", f.max_error},
                              {"psnr", f.psnr}});
    if (f.outlying) json["fields"].back()["outlying"] = true;
    if (f.images_read > 0) json["fields"].back()["images_read"] = f.images_read;
  }
  if (!warnings.empty()) json["warnings"] = warnings;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace quarry::writer
