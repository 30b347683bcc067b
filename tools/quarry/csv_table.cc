#include "tools/quarry/csv_table.h"

#include <cmath>

#include "quarry/base/missing.h"
#include "quarry/format/dimension_names.h"

namespace quarry::tools {
namespace {

/// In quotes where a comma, a quote or the end of a line would be taken for one of the table.
std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string Title(const std::string& name, const std::string& units) {
  return Cell(units.empty() ? name : fmt::format("{} [{}]", name, units));
}

Bytes ToBytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The axis of a line: the one with several samples, or the first.
Result<std::size_t> FindLine(const Box& extent) {
  if (extent.empty())
    return InvalidArgument("the box holds no sample at this level; ask for a finer level or a thicker box");
  const Index3 shape = extent.shape();
  std::size_t line = 0;
  int several = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    if (shape[a] == 1) continue;
    line = a;
    ++several;
  }
  if (several <= 1) return line;
  return InvalidArgument(
      "a table needs a box one sample thick along two axes, this one is {}; give for example --box "
      ":,7:8,10:11",
      ToString(shape));
}

}  // namespace

Result<Bytes> EncodeCsv(const client::LevelSamples& samples, const DatasetDescription& dataset) {
  QUARRY_ASSIGN_OR_RETURN(const std::size_t axis, FindLine(samples.extent));
  const FieldDescription& field = dataset.fields[*dataset.FindField(samples.field)];
  const GridDescription& grid = dataset.GridOf(field);
  std::string text = Title(NamesOfDimensions(dataset).axes[field.grid][axis], grid.axis_units[axis]) + ',' +
                     Title(field.name, field.units) + '\n';
  std::int64_t place = samples.extent.begin[axis];
  DispatchType(samples.type, [&]<typename T>(T) {
    for (const T sample : samples.SamplesAs<T>()) {
      const std::int64_t at = place++ * samples.spacing[axis];
      const double position = PositionOf(grid, axis, at);
      const std::string value = IsMissing(sample, field.fill_bits()) ? "" : fmt::format("{}", sample);
      text += fmt::format("{},{}\n", position, value);
    }
  });
  return ToBytes(text);
}

Bytes EncodeCsv(std::span<const query::Point> points, std::span<const double> values,
                const FieldDescription& field, const query::PositionTitles& titles) {
  std::string text;
  for (std::size_t a = 0; a < 3; ++a) text += Title(titles.names[a], titles.units[a]) + ',';
  text += Title(field.name, field.units) + '\n';
  for (std::size_t p = 0; p < points.size(); ++p) {
    const std::string value = std::isnan(values[p]) ? "" : fmt::format("{}", values[p]);
    text += fmt::format("{},{},{},{}\n", points[p][0], points[p][1], points[p][2], value);
  }
  return ToBytes(text);
}

}  // namespace quarry::tools
