#include "analysis/spectrum/field_spectrum.h"

#include <algorithm>
#include <memory>
#include <set>

#include "analysis/spectrum/energy.h"
#include "analysis/spectrum/pencil_transform.h"
#include "quarry/base/progress.h"
#include "quarry/client.h"
#include "quarry/format/description_rules.h"
#include "quarry/query/question_rules.h"
#include "quarry/query/series_choice.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::spectrum {
namespace {

/// Samples that a rank reads at a time: they are there twice, as stored and as double.
constexpr std::int64_t kSamplesPerRead = std::int64_t{1} << 22;
/// [bytes] Decoded patches that a rank keeps: each is needed by one or two reads that follow each other.
constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;

/// Facts that all ranks agree on before they read.
struct Source {
  std::unique_ptr<client::Dataset> dataset;
  std::uint64_t step = 0;
  int level = 0;
  std::vector<int> layers;  ///< layer of accuracy of each component
  Index3 dims{};            ///< samples of the level
  double max_error = 0;
};

Status CheckFields(const SpectrumRequest& request) {
  if (request.fields.empty()) return InvalidArgument("no field is given; give --field or --vector");
  const std::set<std::string> different(request.fields.begin(), request.fields.end());
  if (different.size() != request.fields.size())
    return InvalidArgument("a component is given twice; give each component once");
  return Status::Ok();
}

/// A sample without a value has no place in a sum over all samples.
Status CheckWhole(const StepDescription& step, const std::string& field, const GridDescription& grid) {
  const FieldStepDescription* found = step.FindField(field);
  if (found == nullptr) return NotFound("step {} has no field \"{}\"", step.step, field);
  const auto samples = static_cast<std::uint64_t>(Volume(grid.dims));
  if (found->valid == samples) return Status::Ok();
  return InvalidArgument("{} of {} samples of \"{}\" are missing in step {}: it has no spectrum",
                         samples - found->valid, samples, field, step.step);
}

/// The step, and its record.
Result<StepDescription> FindStep(const SpectrumRequest& request, Source* source) {
  const query::ReadRequest first{.field = request.fields.front(), .step = request.step};
  QUARRY_ASSIGN_OR_RETURN(const query::AnswerHeader header, source->dataset->PlanRead(first));
  source->step = header.step;
  return source->dataset->Step(header.step);
}

/// The level, and the layer of accuracy of each component.
Status ChooseLevel(const SpectrumRequest& request, const StepDescription& step, Source* source) {
  const DatasetDescription& dataset = source->dataset->description();
  if (const auto* within = std::get_if<query::WithinError>(&request.target)) {
    std::vector<query::BoundedField> bounded;
    for (const std::string& field : request.fields)
      bounded.push_back({field, within->error, {step.FindField(field)}});
    QUARRY_ASSIGN_OR_RETURN(query::SeriesChoice chosen, query::ChooseForSeries(dataset, bounded));
    source->level = chosen.level;
    source->layers = std::move(chosen.layers);
    return Status::Ok();
  }
  const std::optional<int> level = query::NamedLevel(request.target);
  if (!level) return InvalidArgument("a spectrum is that of a level, or of an error; give one of these");
  source->level = *level;
  std::vector<const FieldDescription*> fields;
  for (const std::string& name : request.fields) {
    fields.push_back(&dataset.fields[*dataset.FindField(name)]);
    source->layers.push_back(ShownLayer(*fields.back(), request.layer));
  }
  return CheckLayer(fields, request.layer);
}

/// The samples of the level, which are the same along each axis for all components.
Status AddComponent(const std::string& field, int layer, Source* source) {
  QUARRY_ASSIGN_OR_RETURN(
      const query::AnswerHeader header,
      source->dataset->PlanRead(
          {.field = field, .step = source->step, .target = query::AtLevel{source->level}, .layer = layer}));
  const Index3 dims = header.levels.back().extent.shape();
  if (source->dims == Index3{}) source->dims = dims;
  if (source->dims == dims) return Status::Ok();
  return InvalidArgument(
      "\"{}\" has {} samples, and the component before it {}: they have no common spectrum", field,
      ToString(dims), ToString(source->dims));
}

Status Describe(const SpectrumRequest& request, Source* source) {
  QUARRY_RETURN_IF_ERROR(CheckFields(request));
  QUARRY_ASSIGN_OR_RETURN(const StepDescription step, FindStep(request, source));
  const DatasetDescription& dataset = source->dataset->description();
  for (const std::string& field : request.fields) {
    const std::optional<std::size_t> number = dataset.FindField(field);
    if (!number) return NotFound("there is no field \"{}\"; list the fields with \"quarry info\"", field);
    QUARRY_RETURN_IF_ERROR(CheckWhole(step, field, dataset.GridOf(*number)));
  }
  QUARRY_RETURN_IF_ERROR(ChooseLevel(request, step, source));
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    const std::string& field = request.fields[i];
    QUARRY_RETURN_IF_ERROR(AddComponent(field, source->layers[i], source));
    const auto& levels = step.FindField(field)->LevelsOf(source->layers[i]);
    source->max_error =
        std::max(source->max_error, levels[static_cast<std::size_t>(source->level)].max_error);
  }
  return Status::Ok();
}

Result<Source> OpenSource(MPI_Comm comm, const SpectrumRequest& request) {
  QUARRY_ASSIGN_OR_RETURN(const int threads, writer::ThreadsOfRank(comm));
  return writer::OnEveryRank(comm, [&]() -> Result<Source> {
    Source source;
    QUARRY_ASSIGN_OR_RETURN(source.dataset,
                            client::Dataset::Open(request.dataset, {.threads = threads, .memory = kMemory}));
    QUARRY_RETURN_IF_ERROR(Describe(request, &source));
    return source;
  });
}

void ConvertToDouble(const client::LevelSamples& samples, double* to) {
  DispatchType(samples.type, [&]<typename T>(T) {
    const auto from = samples.SamplesAs<T>();
    std::copy(from.begin(), from.end(), to);
  });
}

/// Planes of z that are read together: whole patches, as far as kSamplesPerRead allows.
std::int64_t PlanesPerRead(const Box& box, std::int64_t patch) {
  const std::int64_t plane = std::max<std::int64_t>(1, box.shape()[0] * box.shape()[1]);
  return std::max<std::int64_t>(1, kSamplesPerRead / plane / patch) * patch;
}

/// The samples of a level in `box` [level samples], as double, dense, x fastest.
Status ReadBox(const Source& source, const std::string& field, int layer, const Box& box,
               std::span<double> to, Progress* progress) {
  if (box.empty()) return Status::Ok();
  const DatasetDescription& dataset = source.dataset->description();
  const GridDescription& grid = dataset.GridOf(*dataset.FindField(field));
  const std::int64_t patch = std::max<std::int64_t>(1, grid.patch[2] >> source.level);
  const std::int64_t planes = PlanesPerRead(box, patch);
  std::size_t done = 0;
  for (std::int64_t z = box.begin[2]; z < box.end[2];) {
    // Ends where a patch ends.
    const std::int64_t end = std::min(box.end[2], z / planes * planes + planes);
    Box finest;
    for (std::size_t a = 0; a < 3; ++a) {
      finest.begin[a] = (a == 2 ? z : box.begin[a]) << source.level;
      finest.end[a] = std::min(grid.dims[a], (a == 2 ? end : box.end[a]) << source.level);
    }
    QUARRY_ASSIGN_OR_RETURN(const client::LevelSamples samples,
                            source.dataset->Read({.field = field,
                                                  .step = source.step,
                                                  .box = finest,
                                                  .target = query::AtLevel{source.level},
                                                  .layer = layer}));
    ConvertToDouble(samples, to.data() + done);
    done += static_cast<std::size_t>(samples.extent.volume());
    progress->Update(static_cast<std::uint64_t>(done));
    z = end;
  }
  return Status::Ok();
}

Status AddOverRanks(MPI_Comm comm, std::vector<double>* values) {
  Status status =
      redistribute::MpiStatus(MPI_Allreduce(MPI_IN_PLACE, values->data(), static_cast<int>(values->size()),
                                            MPI_DOUBLE, MPI_SUM, comm),
                              "MPI_Allreduce");
  return writer::AgreeOnStatus(comm, status);
}

/// Adds the energy of one field to `spectrum`.
Status AddField(MPI_Comm comm, const Source& source, const std::string& field, int layer, bool progress,
                PencilTransform* transform, Spectrum* spectrum) {
  const double begin = MPI_Wtime();
  QUARRY_RETURN_IF_ERROR(writer::OnEveryRank(comm, [&]() -> Status {
    Progress bar("reading " + field, transform->input().size(), progress);
    return ReadBox(source, field, layer, transform->input_box(), transform->input(), &bar);
  }));
  spectrum->seconds.read += MPI_Wtime() - begin;
  QUARRY_RETURN_IF_ERROR(transform->Run());
  const double transformed = MPI_Wtime();
  AddEnergy(spectrum->dims, transform->output_box(), transform->output(), spectrum->energy);
  spectrum->seconds.energy += MPI_Wtime() - transformed;
  return Status::Ok();
}

}  // namespace

Result<Spectrum> ComputeSpectrum(MPI_Comm comm, const SpectrumRequest& request) {
  const double begin = MPI_Wtime();
  QUARRY_ASSIGN_OR_RETURN(const Source source, OpenSource(comm, request));
  Spectrum spectrum;
  spectrum.step = source.step;
  spectrum.level = source.level;
  spectrum.layers = source.layers;
  spectrum.dims = source.dims;
  spectrum.max_error = source.max_error;
  spectrum.last_whole_shell = LastWholeShell(source.dims);
  spectrum.ranks = request.ranks.value_or(ChoosePencilGrid(source.dims, writer::Size(comm)));
  spectrum.energy.assign(ShellCount(source.dims), 0.0);
  QUARRY_ASSIGN_OR_RETURN(PencilTransform transform,
                          PencilTransform::Create(comm, source.dims, spectrum.ranks));
  const bool progress = request.progress && writer::Rank(comm) == 0;
  for (std::size_t i = 0; i < request.fields.size(); ++i)
    QUARRY_RETURN_IF_ERROR(
        AddField(comm, source, request.fields[i], source.layers[i], progress, &transform, &spectrum));
  QUARRY_RETURN_IF_ERROR(AddOverRanks(comm, &spectrum.energy));
  SpectrumSeconds& s = spectrum.seconds;
  std::array<double, 5> seconds = {s.read, transform.seconds().lines, transform.seconds().transposes,
                                   s.energy, MPI_Wtime() - begin};
  QUARRY_RETURN_IF_ERROR(writer::MaxOverRanks(comm, std::span<double>(seconds)));
  s = {seconds[0], seconds[1], seconds[2], seconds[3], seconds[4]};
  return spectrum;
}

}  // namespace quarry::spectrum
