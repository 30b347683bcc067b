#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "quarry/base/file.h"
#include "quarry/input/input.h"
#include "quarry/places.h"
#include "tools/quarry/command.h"
#include "tools/quarry/csv_table.h"

namespace quarry::tools {
namespace {

/// Largest text file of points: some millions of points.
constexpr std::uint64_t kLargestText = std::uint64_t{1} << 30;

struct PointsOptions {
  QuestionOptions question;
  std::vector<std::string> at;
  std::string file;
  std::string output;
  bool physical = false;
  bool cost_only = false;
  bool json = false;
};

Result<query::Point> ParsePoint(const std::string& text, const std::string& name) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<double> numbers, ParseNumbers(text, name, 3));
  return query::Point{numbers[0], numbers[1], numbers[2]};
}

/// Lines "x,y,z"; skips empty lines and those that begin with #.
Result<std::vector<query::Point>> ReadTextPoints(const std::string& path) {
  QUARRY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kLargestText));
  std::vector<query::Point> points;
  std::size_t number = 0;
  // Line by line: a list of all lines would need as much memory as the points.
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    QUARRY_ASSIGN_OR_RETURN(points.emplace_back(),
                            ParsePoint(line, fmt::format("line {} of \"{}\":", number, path)));
  }
  return points;
}

/// An array of shape [points, 3].
Result<std::vector<query::Point>> ReadNumpyPoints(const std::string& path) {
  QUARRY_ASSIGN_OR_RETURN(const auto inputs, input::OpenNumpyArray(path));
  const input::Input& input = *inputs.front();
  const Index3& dims = input.info().dims;
  if (input.info().complex)
    return InvalidArgument("\"{}\" holds complex numbers; points are real ones", path);
  if (dims[0] != 3 || dims[2] != 1)
    return InvalidArgument("\"{}\" has the shape {} (x fastest); points are an array of shape [points, 3]",
                           path, ToString(dims));
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, input::ReadBox(input, {{0, 0, 0}, dims}));
  std::vector<query::Point> points(static_cast<std::size_t>(dims[1]));
  DispatchType(input.info().type, [&]<typename T>(T) {
    const auto* numbers = reinterpret_cast<const T*>(bytes.data());
    for (query::Point& point : points) {
      for (double& coordinate : point) coordinate = static_cast<double>(*numbers++);
    }
  });
  return points;
}

Result<std::vector<query::Point>> PointsOf(const PointsOptions& options) {
  if (options.at.empty() == options.file.empty())
    return InvalidArgument(
        "no points are given, or both --at and --file; use either --at x,y,z ... or --file FILE");
  if (!options.file.empty()) {
    return std::filesystem::path(options.file).extension() == ".npy" ? ReadNumpyPoints(options.file)
                                                                     : ReadTextPoints(options.file);
  }
  std::vector<query::Point> points;
  for (const std::string& text : options.at) {
    QUARRY_ASSIGN_OR_RETURN(const query::Point point, ParsePoint(text, "--at"));
    points.push_back(point);
  }
  return points;
}

std::string ToJson(const query::PointsAnswer& answer) {
  nlohmann::ordered_json json;
  json["step"] = answer.step;
  json["max_error"] = answer.max_error;
  json["patches"] = answer.cost.patches;
  json["bytes"] = answer.cost.bytes;
  json["bytes_read"] = answer.cost.bytes_read;
  json["reads"] = answer.cost.reads;
  json["reply_bytes"] = answer.cost.reply_bytes;
  json["values"] = nlohmann::ordered_json::array();
  for (const double value : answer.values) {
    json["values"].push_back(std::isnan(value) ? nlohmann::ordered_json(nullptr)
                                               : nlohmann::ordered_json(value));
  }
  return json.dump();
}

Result<int> Save(const PointsOptions& options, const Bytes& table) {
  QUARRY_RETURN_IF_ERROR(ReplaceFile(options.output, table));
  Print("{}: {} bytes\n", options.output, table.size());
  return 0;
}

Result<int> Points(const PointsOptions& options) {
  if (!options.output.empty() && std::filesystem::path(options.output).extension() != ".csv")
    return InvalidArgument("the ending of \"{}\" is not a known format; use .csv", options.output);
  QUARRY_ASSIGN_OR_RETURN(const std::vector<query::Point> asked, PointsOf(options));
  QUARRY_ASSIGN_OR_RETURN(const std::unique_ptr<client::Dataset> dataset, options.question.Open());
  QUARRY_ASSIGN_OR_RETURN(const query::ReadRequest question,
                          options.question.Resolve(dataset->description()));
  query::PointsRequest request{question.field, question.step, asked, options.cost_only,
                               options.question.layer};
  if (options.physical) {
    QUARRY_ASSIGN_OR_RETURN(const client::Places places,
                            client::Places::Of(*dataset, question.field, question.step));
    QUARRY_ASSIGN_OR_RETURN(request.points, places.SampleCoordinatesOf(asked));
  }
  QUARRY_ASSIGN_OR_RETURN(const query::PointsAnswer answer, dataset->ReadPoints(request));
  if (options.json) {
    PrintOut("{}\n", ToJson(answer));
    return 0;
  }
  if (options.cost_only) {
    Print("{} points, step {}: {} patches, {} bytes of payload, {} read in {} reads, max error {:.5g}\n",
          asked.size(), answer.step, answer.cost.patches, answer.cost.bytes, answer.cost.bytes_read,
          answer.cost.reads, answer.max_error);
    return 0;
  }
  const DatasetDescription& description = dataset->description();
  const std::size_t number = *description.FindField(request.field);
  const FieldDescription& field = description.fields[number];
  const query::PositionTitles titles = query::TitlesOfPositions(description, number, options.physical);
  if (!options.output.empty()) return Save(options, EncodeCsv(asked, answer.values, field, titles));
  const auto& [x, y, z] = titles.names;
  Print("{},{},{},{}{}\n", x, y, z, field.name, field.units.empty() ? "" : " [" + field.units + "]");
  for (std::size_t i = 0; i < asked.size(); ++i)
    Print("{},{},{},{}\n", asked[i][0], asked[i][1], asked[i][2], answer.values[i]);
  return 0;
}

}  // namespace

Command DeclarePoints(command_line::Parser* app) {
  auto options = std::make_shared<PointsOptions>();
  options->question.DeclarePlaceOn(app);
  options->question.DeclareLayerOn(app);
  app->AddOption("--at", &options->at,
                 "points x,y,z in level-0 sample coordinates: 0,0,0 is the first sample");
  app->AddOption("--file", &options->file,
                 "points from a file: .npy of shape [points, 3], or text with x,y,z on each line");
  app->AddOption("-o,--output", &options->output,
                 "CSV file for positions and values, with empty cells for missing values; default: the "
                 "terminal, with nan")
      .Path();
  app->AddFlag("--physical", &options->physical,
               "points are positions on the axes of the grid (see quarry info), not sample coordinates; "
               "where axes have none, longitude and latitude from coordinate fields");
  app->AddFlag("--price", &options->cost_only, "print the cost without reading the field");
  app->AddFlag("--json", &options->json, "print one JSON object; missing values are null");
  app->SetFooter(
      "Example:\n  quarry points run42.quarry --field speed --at 10.5,20,3 --at 11,20,3.25\nValues are "
      "interpolated between the eight samples around a point; nan where one of them is missing.");
  return [options] { return Points(*options); };
}

}  // namespace quarry::tools
