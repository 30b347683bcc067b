#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/description.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/source_grid.h"

/// Arrays to datasets, box by box from a callable.
namespace quarry::python {

/// The grid of samples as far as they say, and how it is to be cut.
struct Grid {
  SourceGrid source;
  std::optional<Index3> patch;
  std::optional<int> levels;
};

/// A field that is to be written.
struct Request {
  writer::FieldRequest field;
  bool moves;  ///< it is another one at another moment, as all are that do not describe others
};

/// A coordinate of text.
struct Text {
  TextCoordinate said;               ///< without its grid
  std::optional<std::size_t> field;  ///< along one of whose axes it lies: position in the list of fields
};

/// How it is written.
struct WriteSettings {
  writer::OpenMode mode;
  std::optional<std::uint64_t> memory;
  std::optional<int> files;
  std::optional<format::PayloadOrder> order;
  bool break_lock;
  bool accept_range;
  bool goes_on;           ///< the caller has not chosen the numbers of the steps
  Attributes attributes;  ///< attributes of the dataset
  std::vector<Text> texts;
};

/// Unit, calendar, name and attributes of the times of the steps.
struct TimeAxis {
  TimeUnit unit;
  std::string name;  ///< see DatasetDescription::time_name
  Attributes attributes;
};

using Step = std::pair<std::uint64_t, std::optional<double>>;  ///< number and time
/// load(step, field, box): the samples of a box as an array [z, y, x]; positions in the lists of both.
using Loader = nanobind::callable;
using Written = std::pair<std::uint64_t, FieldSummary>;  ///< number of the step, and what became of the field

/// Result of a call.
struct WriteOutcome {
  std::vector<Written> written;
  std::vector<std::string> there;  ///< fields that stand still, and that the dataset had already
  /// Attributes that the dataset has otherwise, or not, and keeps so: of a field, or of the whole, "".
  std::vector<std::pair<std::string, std::vector<std::string>>> others;
  std::vector<std::string> warnings;     ///< for the user
  std::vector<std::string> other_texts;  ///< coordinates of text that the dataset has otherwise, and keeps so
};

WriteOutcome Write(const std::string& path, const WriteSettings& settings, const std::vector<Grid>& grids,
                   const std::vector<Request>& requests, const std::vector<Step>& steps, const TimeAxis& time,
                   const Loader& load);

}  // namespace quarry::python
