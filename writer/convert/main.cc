// quarry-write: from a simulation's dump to a dataset. Parses the command line, runs the pipeline, prints the
// table.
#include <fmt/ranges.h>

#include <csignal>
#include <fstream>

#include "quarry/base/file.h"
#include "quarry/base/memory.h"
#include "quarry/base/numbers.h"
#include "quarry/base/output.h"
#include "quarry/base/split.h"
#include "quarry/base/units.h"
#include "quarry/command_line/command_line.h"
#include "quarry/format/description_rules.h"
#include "writer/convert/convert.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/run_on_ranks.h"

namespace {

using quarry::DataType;
using quarry::Index3;
using quarry::InternalError;
using quarry::InvalidArgument;
using quarry::Result;
using quarry::Status;
using quarry::writer::WriteOptions;

/// Options as text, as the user wrote them; turned into WriteOptions with our own messages.
struct CommandLine {
  WriteOptions options;
  std::string dims;
  std::string type;
  std::string byte_order = "little";
  std::string records = "none";
  std::string patch;
  std::string order;
  std::string placement = "balanced";
  std::string exchange = "patch";
  std::string aggregation = "balanced";
  std::string reading = "consecutive";
  std::string memory = "512MiB";
  std::vector<std::string> index;
  bool append = false;
  bool resume = false;
  std::vector<double> spacing;
  std::vector<double> origin;
  std::string report;
  std::string store_as;
  std::string layers;
  std::string relative_layers;
};

void DeclareOptions(quarry::command_line::Parser* app, CommandLine* line) {
  WriteOptions* o = &line->options;
  app->AddOption(
         "INPUT", &o->inputs,
         "dumps, or FILE:VARIABLE; several dumps of one field are consecutive steps. @LIST: a file with "
         "a path on each line; a folder, or a pattern in quotes: its files in natural order, or one "
         "stack of TIFF images")
      .Path()
      .Required();
  app->AddOption("-o,--output", &o->output, "dataset to write: NAME.quarry, or its URL, s3://")
      .Path()
      .Required();
  app->SetHeading("Input");
  app->AddOption("--format", &o->input.format,
                 fmt::format("{}; default: by the first bytes, else by the file name",
                             fmt::join(quarry::input::KnownFormats(), ", ")));
  app->AddOption("--dims", &line->dims, "samples, XxYxZ, x fastest (raw)");
  app->AddOption(
      "--type", &line->type,
      "float16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64 or bool (raw)");
  app->AddOption("--byte-order", &line->byte_order, "little or big (raw); default: little");
  app->AddOption("--offset", &o->input.offset,
                 "bytes before the first sample (raw); bytes behind the last sample are then ignored")
      .NonNegative();
  app->AddOption(
      "--records", &line->records,
      "none or fortran (raw): samples in records of Fortran's sequential unformatted files; default: none");
  app->AddOption(
      "--fill", &o->fill,
      "value of missing samples, compared bit by bit in the field's type; NaN and infinite samples "
      "are always missing");
  app->AddOption("--axes", &o->input.axes,
                 "roles of the array's dimensions, one letter each, slowest first, as tzyx: x, y, z of the "
                 "grid, t for time; choose from others by --index");
  app->AddOption("--index", &line->index,
                 "NAME=K: index of a dimension that is not an axis of the grid, as member=0; NAME=BEGIN:END: "
                 "each index as a separate field, or as steps along time")
      .Repeatable();
  app->SetHeading("What it is");
  app->AddOption("--field", &o->input.field, "name of the field; default: from the file name");
  app->AddOption("--step", &o->first_step,
                 "number of the first step; default: 0, or with --append the one after the field's last")
      .NonNegative();
  app->AddOption("--time", &o->time, "physical time of the step");
  app->AddOption("--spacing", &line->spacing, "distance between samples, x,y,z").SeparatedBy(',').Exactly(3);
  app->AddOption("--origin", &line->origin, "position of the first sample, x,y,z")
      .SeparatedBy(',')
      .Exactly(3);
  app->AddOption("--units", &o->units, "unit of the field");
  app->SetHeading(
      "Quality (one of the first six is required for a new field of floats; integers are lossless "
      "otherwise)");
  app->AddOption("--tolerance", &o->tolerance, "largest absolute error of any sample");
  app->AddOption("--relative", &o->relative_tolerance, "the same as a fraction of the step's value range");
  app->AddOption("--pointwise-relative", &o->pointwise_relative_tolerance,
                 "the same as a fraction of each sample's own magnitude; keeps zeros and signs");
  app->AddFlag(
      "--accept-range", &o->pipeline.accept_range,
      "accept a relative tolerance though a few outliers, such as undeclared fill values, make the range");
  app->AddFlag("--lossless", &o->lossless, "store every sample exactly, bit by bit");
  app->AddOption("--layers", &line->layers,
                 "layers of accuracy: tolerances, the largest first, and \"exact\" at the end for lossless, "
                 "as 1e-2,1e-4,exact; readers fetch as many layers as they need");
  app->AddOption("--relative-layers", &line->relative_layers,
                 "the same with tolerances as fractions of the step's value range");
  app->AddFlag("--keep-zeros", &o->keep_zeros, "in addition to a tolerance: zero samples stay zero");
  app->AddFlag("--keep-sign", &o->keep_sign,
               "in addition to a tolerance: samples keep their sign, and zero stays zero");
  app->AddOption("--codec", &o->codec,
                 fmt::format("interpolate, wavelet-zfp (floats) or lossless; default: {} for floats, {} for "
                             "integers with a tolerance, {} without one",
                             Name(quarry::writer::kDefaultFloatCoder),
                             Name(quarry::writer::kDefaultIntegerCoder), Name(quarry::CoderId::kLossless)));
  app->AddOption("--store-as", &line->store_as,
                 "float32: store float64 input as float32; the tolerance still holds against the input");
  app->AddOption("--keyframe", &o->keyframe,
                 "predict steps from earlier ones, with a keyframe at least every so many steps; saves bytes "
                 "where a field changes slowly, but a read may need several steps; default: keyframes only");
  app->SetHeading("Layout");
  app->AddOption(
      "--patch", &line->patch,
      "samples of a patch, powers of two, N or XxYxZ; default: up to 262144, 64x64x64 of a volume");
  app->AddOption("--levels", &o->levels, "resolution levels; default: as many as the patch allows, up to 10");
  app->AddOption("--files", &o->pipeline.files,
                 "subfiles per field and step; default: one for every 8 ranks");
  app->AddOption(
      "--order", &line->order,
      "payload order: patch (random access, default), level (previews) or coarse (both, in few reads)");
  app->SetHeading("Strategy");
  app->AddOption("--placement", &line->placement, "balanced or greedy");
  app->AddOption(
      "--exchange", &line->exchange,
      "messages between two ranks: one for each patch (patch, default), one for all (rank), or N patches "
      "in each (a number)");
  app->AddOption("--aggregation", &line->aggregation, "balanced or equal");
  app->AddOption("--reading", &line->reading,
                 "how ranks share images or planes: consecutive (default) or round-robin; direct: each rank "
                 "reads the samples that it encodes, without an exchange");
  app->AddOption("--memory", &line->memory,
                 "memory of each rank for samples and payload, with a unit; larger fields are processed in "
                 "parts; default: 512MiB");
  app->SetHeading("");
  app->AddFlag("--append", &line->append, "add steps or fields to an existing dataset");
  app->AddFlag("--resume", &line->resume,
               "continue an interrupted series: skip published steps, create missing ones");
  app->AddFlag("--break-lock", &o->pipeline.break_lock,
               "remove the stale lock of a killed writer, in stores and on file systems without flock");
  app->AddFlag(
      "--allow-http", &o->pipeline.allow_http,
      "write to a store beyond this machine without TLS, where anybody on the way can read and change "
      "the data");
  app->AddFlag("--dry-run", &o->dry_run, "print the plan and an estimated size without writing");
  app->AddOption("--report", &line->report, "write the closing table as JSON to this file").Path();
  app->SetFooter(
      "Example:\n"
      "  mpirun -n 4 quarry-write pressure.f32 --dims 512x512x512 --type float32 --relative 1e-4 --output "
      "run42.quarry\n"
      "Without mpirun it runs as one rank on all processors.\n"
      "Exit codes: 0 done, 2 bad usage, 3 not found, 4 damaged data, 5 refused, 6 out of space or other I/O "
      "error.");
}

/// Chooses one of several words. @errors names the option and the words
template <typename T>
Status Choose(const std::string& text, const char* option,
              std::initializer_list<std::pair<const char*, T>> choices, T* value) {
  std::string known;
  for (const auto& [word, choice] : choices) {
    if (text == word) {
      *value = choice;
      return Status::Ok();
    }
    known += (known.empty() ? "" : " or ") + std::string(word);
  }
  return InvalidArgument("{} \"{}\" is not known; give {}", option, text, known);
}

/// "64" is a cube, "64x64x32" a box.
Result<Index3> ParsePatch(const std::string& text) {
  QUARRY_ASSIGN_OR_RETURN(const Index3 patch, quarry::ParseShape(text, "--patch"));
  if (text.find('x') != std::string::npos) return patch;
  return Index3{patch[0], patch[0], patch[0]};
}

/// "1e-2,1e-4,exact"; exact is 0.
Result<std::vector<double>> ParseLayers(const std::string& text, const char* option) {
  std::vector<double> layers;
  for (const std::string_view word : quarry::Split(text, ',')) {
    double tolerance = 0;
    const bool number = quarry::ReadNumber(word, &tolerance) && tolerance > 0;
    if (!number && word != "exact") {
      return InvalidArgument(
          "{} \"{}\": \"{}\" is not a tolerance; give positive numbers, or \"exact\" at the end", option,
          text, word);
    }
    layers.push_back(number ? tolerance : 0);
  }
  return layers;
}

Status InterpretLayers(CommandLine* line) {
  if (!line->layers.empty() && !line->relative_layers.empty())
    return InvalidArgument("--layers and --relative-layers exclude each other; give one of them");
  WriteOptions* o = &line->options;
  if (!line->layers.empty()) {
    QUARRY_ASSIGN_OR_RETURN(o->layers, ParseLayers(line->layers, "--layers"));
  } else if (!line->relative_layers.empty()) {
    QUARRY_ASSIGN_OR_RETURN(o->layers, ParseLayers(line->relative_layers, "--relative-layers"));
    o->relative_layers = true;
  }
  return Status::Ok();
}

Status Interpret(CommandLine* line) {
  WriteOptions* o = &line->options;
  QUARRY_RETURN_IF_ERROR(InterpretLayers(line));
  if (!line->dims.empty()) {
    QUARRY_ASSIGN_OR_RETURN(o->input.dims, quarry::ParseShape(line->dims, "--dims"));
  }
  for (const std::string& text : line->index) {
    QUARRY_ASSIGN_OR_RETURN(o->input.index.emplace_back(),
                            quarry::input::ParseIndexChoice(text).Annotate("--index"));
  }
  if (!line->type.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const quarry::NamedType named, quarry::ParseNamedType(line->type));
    o->input.type = named.type;
    o->input.given = named.given;
  }
  if (!line->store_as.empty()) {
    DataType store_as{};
    QUARRY_RETURN_IF_ERROR(
        Choose<DataType>(line->store_as, "--store-as", {{"float32", DataType::kFloat32}}, &store_as));
    o->store_as = store_as;
  }
  if (!line->patch.empty()) {
    QUARRY_ASSIGN_OR_RETURN(o->patch, ParsePatch(line->patch));
  }
  QUARRY_RETURN_IF_ERROR(Choose<bool>(line->byte_order, "--byte-order", {{"little", false}, {"big", true}},
                                      &o->input.big_endian));
  QUARRY_RETURN_IF_ERROR(Choose<bool>(line->records, "--records", {{"none", false}, {"fortran", true}},
                                      &o->input.fortran_records));
  if (!line->order.empty()) {
    QUARRY_ASSIGN_OR_RETURN(o->order, quarry::format::ParsePayloadOrder(line->order).Annotate("--order"));
  }
  using namespace quarry::distribution;
  QUARRY_ASSIGN_OR_RETURN(o->pipeline.placement, ParsePlacement(line->placement));
  QUARRY_ASSIGN_OR_RETURN(o->pipeline.aggregation, ParseAggregation(line->aggregation));
  QUARRY_RETURN_IF_ERROR(Choose<ReadingOrder>(line->reading, "--reading",
                                              {{"consecutive", ReadingOrder::kConsecutive},
                                               {"round-robin", ReadingOrder::kRoundRobin},
                                               {"direct", ReadingOrder::kDirect}},
                                              &o->reading));
  QUARRY_ASSIGN_OR_RETURN(o->pipeline.exchange, ParseExchange(line->exchange));
  QUARRY_ASSIGN_OR_RETURN(o->pipeline.memory_per_rank, quarry::ParseBytes(line->memory).Annotate("--memory"));
  if (line->append && line->resume)
    return InvalidArgument(
        "--append and --resume exclude each other; --resume appends to an existing dataset");
  using quarry::writer::OpenMode;
  if (line->append) o->mode = OpenMode::kAppend;
  if (line->resume) o->mode = OpenMode::kResume;
  o->pipeline.progress = true;
  o->patch_sizes = !line->report.empty();
  const auto triple = [](const std::vector<double>& v) { return std::array<double, 3>{v[0], v[1], v[2]}; };
  if (line->spacing.size() == 3) o->spacing = triple(line->spacing);
  if (line->origin.size() == 3) o->origin = triple(line->origin);
  return Status::Ok();
}

Status SaveReport(const std::string& path, const std::string& json) {
  std::ofstream file(path);
  file << json;
  file.close();
  if (!file) return InternalError("cannot write the report \"{}\"; the dataset itself is complete", path);
  return Status::Ok();
}

Result<int> Run(CommandLine* line) {
  QUARRY_RETURN_IF_ERROR(Interpret(line));
  quarry::writer::WriteReport report;
  QUARRY_RETURN_IF_ERROR(quarry::writer::WriteDataset(MPI_COMM_WORLD, line->options, &report));
  if (quarry::writer::Rank(MPI_COMM_WORLD) != 0 || line->options.dry_run) return 0;
  quarry::PrintOut("\n{}", report.ToTable());
  if (!line->report.empty()) QUARRY_RETURN_IF_ERROR(SaveReport(line->report, report.ToJson()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A full disk or quota must come back as an error of write(), not as a signal that leaves the other ranks
  // waiting.
  std::signal(SIGXFSZ, SIG_IGN);
  quarry::KeepFreedMemory();
  CommandLine line;
  quarry::command_line::Parser app(
      "quarry-write", "Converts simulation dumps to a compressed, multiresolution Quarry dataset.");
  DeclareOptions(&app, &line);
  const auto run = [&line] { return Run(&line); };
  return quarry::writer::RunOnRanks(&app, argc, argv, run, "use more ranks or nodes");
}
