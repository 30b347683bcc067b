#include "writer/convert/jobs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "quarry/base/natural_order.h"
#include "quarry/base/utf8.h"
#include "quarry/input/find_inputs.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/source_grid.h"

namespace quarry::writer {

Result<std::unique_ptr<input::Input>> Job::Open(const WriteOptions& run) const {
  QUARRY_ASSIGN_OR_RETURN(auto inputs, input::OpenInputs(info.path, OptionsIn(run).input));
  if (moment < inputs.size() && inputs[moment]->info().dims == info.dims) return std::move(inputs[moment]);
  return DataLoss("\"{}\" has changed since the run began; convert it when no process writes it", info.path);
}

namespace {

/// Two variables of one file at one moment are never two steps of a field. Names that differ in numbers alone
/// are moments.
Status CheckVariables(const Jobs& jobs) {
  std::map<std::pair<std::string, std::string>, std::vector<const input::InputInfo*>> of_file;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      std::vector<const input::InputInfo*>& others = of_file[{input::FileOf(job.info.path), job.info.field}];
      for (const input::InputInfo* other : others) {
        const bool other_time = other->time && job.info.time && *other->time != *job.info.time;
        if (other->source == job.info.source || other_time ||
            WithoutNumbers(other->source) == WithoutNumbers(job.info.source))
          continue;
        return InvalidArgument(
            "\"{}\" and \"{}\" are two variables at one time, and cannot be two steps of the field \"{}\"; "
            "leave --field out, or convert the second with --append and another --field",
            other->path, job.info.path, job.info.field);
      }
      // All moments of one variable have the same source.
      if (others.empty() || others.back()->source != job.info.source) others.push_back(&job.info);
    }
  }
  return Status::Ok();
}

/// Coordinates are lossless, and options for fields do not apply to them.
WriteOptions CoordinateOptions(const WriteOptions& options) {
  WriteOptions own;
  own.input.format = options.input.format;
  own.input.single = true;
  own.spacing = options.spacing;
  own.origin = options.origin;
  own.order = options.order;
  own.reading = options.reading;
  own.pipeline = options.pipeline;
  own.lossless = true;
  return own;
}

/// The coordinates that the files name, each once.
class Coordinates {
 public:
  Coordinates(const WriteOptions& options, const Jobs& jobs)
      : own_(std::make_shared<WriteOptions>(CoordinateOptions(options))) {
    for (const auto& [step, inputs] : jobs)
      for (const Job& job : inputs) fields_.try_emplace(job.info.field, job.info.path);
  }

  /// Adds the attributes of a field that is converted. @param info  gets a warning for what is not kept
  /// @errors those of OpenInputs but kInvalidArgument: a variable that cannot be a field is none on any rank
  Status Add(input::InputInfo* info) {
    if (!info->words || !seen_.insert(info->words.get()).second) return Status::Ok();
    const std::string file = input::FileOf(info->path);
    for (const std::string& name : info->words->coordinates) {
      const auto [known, is_new] = files_.try_emplace(name, file);
      if (!is_new && known->second != file) repeated_.insert(name);
      if (is_new) QUARRY_RETURN_IF_ERROR(Open(fmt::format("{}:{}", file, name), name, info));
    }
    return Status::Ok();
  }

  std::vector<Job> Take(input::InputInfo* of_first) && {
    if (!repeated_.empty())
      of_first->warnings.push_back(fmt::format(
          "the coordinates {} are those of this file, and are not compared with those of the others",
          fmt::join(repeated_, ", ")));
    return std::move(found_);
  }

 private:
  Status Open(const std::string& path, const std::string& name, input::InputInfo* info) {
    Result<std::vector<std::unique_ptr<input::Input>>> inputs = input::OpenInputs(path, own_->input);
    if (!inputs.ok() && inputs.status().code() != StatusCode::kInvalidArgument)
      return std::move(inputs).status();
    const auto leave = [&](const std::string& why) {
      info->warnings.push_back(fmt::format("{}: its coordinate {} is not kept: {}", info->field, name, why));
      return Status::Ok();
    };
    if (!inputs.ok()) return leave(inputs.status().message());
    if (inputs->size() != 1) return leave("it changes with time, or is complex");
    input::InputInfo coordinate = inputs->front()->info();
    // A still field has no moment, whatever the file says of it.
    coordinate.time.reset();
    coordinate.time_unit = {};
    const auto [known, is_new] = fields_.try_emplace(coordinate.field, coordinate.path);
    if (!is_new && known->second == coordinate.path) return Status::Ok();  // it is converted as a field
    if (!is_new) return leave(fmt::format("\"{}\" is the field \"{}\" already", known->second, known->first));
    found_.push_back({std::move(coordinate), 0, false, own_});
    return Status::Ok();
  }

  const std::shared_ptr<const WriteOptions> own_;
  std::map<std::string, std::string> fields_;  ///< by name: from which input
  std::set<const input::FileWords*> seen_;
  std::map<std::string, std::string> files_;  ///< by coordinate: where it was found first
  std::set<std::string> repeated_;
  std::vector<Job> found_;
};

Status AddCoordinates(const WriteOptions& options, Jobs* jobs) {
  if (jobs->empty()) return Status::Ok();
  Coordinates coordinates(options, *jobs);
  for (auto& [step, inputs] : *jobs)
    for (Job& job : inputs) QUARRY_RETURN_IF_ERROR(coordinates.Add(&job.info));
  std::vector<Job>& first = jobs->begin()->second;
  std::vector<Job> found = std::move(coordinates).Take(&first.front().info);
  std::ranges::move(found, std::back_inserter(first));
  return Status::Ok();
}

}  // namespace

std::set<std::string> FieldsOf(const Jobs& jobs, bool coordinates) {
  std::set<std::string> fields;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      if (job.is_coordinate() == coordinates) fields.insert(job.info.field);
    }
  }
  return fields;
}

std::set<std::string> LeaveOutCoordinates(const std::set<std::string>& known, Jobs* jobs) {
  std::set<std::string> left;
  for (auto& [step, inputs] : *jobs) {
    std::erase_if(inputs, [&](const Job& job) {
      const bool is_known = job.is_coordinate() && known.contains(job.info.field);
      if (is_known) left.insert(job.info.field);
      return is_known;
    });
  }
  return left;
}

Result<Jobs> ListJobs(const WriteOptions& options) {
  QUARRY_RETURN_IF_ERROR(CheckTime(options.time).Annotate("--time"));
  if (!IsUtf8(options.units)) return InvalidArgument("--units is not UTF-8 text; encode it as UTF-8");
  if (options.pipeline.files && *options.pipeline.files < 1)
    return InvalidArgument("--files {} is not possible; give at least 1", *options.pipeline.files);
  Jobs jobs;
  std::map<std::string, std::uint64_t> next_step;
  QUARRY_ASSIGN_OR_RETURN(const std::vector<input::FoundInput> found,
                          input::FindInputs(options.inputs, options.input));
  for (const input::FoundInput& one : found) {
    auto opened = input::OpenInputs(one.path, options.input);
    if (!opened.ok() && !one.place.empty()) return std::move(opened).status().Annotate(one.place);
    QUARRY_ASSIGN_OR_RETURN(const auto inputs, std::move(opened));
    for (std::size_t moment = 0; moment < inputs.size(); ++moment) {
      const input::InputInfo& info = inputs[moment]->info();
      const auto [it, added] = next_step.try_emplace(info.field, options.first_step.value_or(0));
      // Behind the largest number comes 0.
      if (!added && it->second < options.first_step.value_or(0))
        return InvalidArgument(
            "--step {} leaves no numbers for the steps after the first; give a smaller one",
            *options.first_step);
      std::vector<Job>& step = jobs[it->second++];
      step.push_back({info, moment, false, nullptr});
      if (moment == 0 && !one.warning.empty()) step.back().info.warnings.push_back(one.warning);
    }
  }
  QUARRY_RETURN_IF_ERROR(CheckVariables(jobs));
  QUARRY_RETURN_IF_ERROR(AddCoordinates(options, &jobs));
  if (options.time && jobs.size() > 1)
    return InvalidArgument(
        "--time gives one time, but there are {} steps; convert them one by one with --append", jobs.size());
  return jobs;
}

Result<Jobs> Renumber(Jobs jobs, const FirstSteps& first) {
  Jobs renumbered;
  std::vector<Job> coordinates;
  for (auto& [step, inputs] : jobs) {
    for (Job& job : inputs) {
      if (job.is_coordinate()) {
        coordinates.push_back(std::move(job));
        continue;
      }
      const auto found = first.find(job.info.field);
      std::uint64_t number = step;
      if (found != first.end() && __builtin_add_overflow(step, found->second, &number))
        return InvalidArgument("field \"{}\" has no step numbers left after {}", job.info.field,
                               found->second);
      renumbered[number].push_back(std::move(job));
    }
  }
  if (!renumbered.empty()) std::ranges::move(coordinates, std::back_inserter(renumbered.begin()->second));
  return renumbered;
}

std::vector<std::string> ListWarnings(const WriteOptions& options, const Jobs& jobs) {
  std::vector<std::string> warnings;
  const auto add = [&](std::string warning) {
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(std::move(warning));
  };
  std::map<std::string, const input::InputInfo*> last;
  std::set<std::string> unordered;
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      for (const std::string& warning : job.info.warnings)
        add(fmt::format("\"{}\": {}", input::FileOf(job.info.path), warning));
      const input::InputInfo*& before = last[job.info.field];
      const bool timed = before != nullptr && before->time && job.info.time && !options.time;
      const Result<double> time =
          timed ? ConvertTime(*job.info.time, job.info.time_unit, before->time_unit) : Result<double>(0.0);
      if (timed && time.ok() && *time <= *before->time && unordered.insert(job.info.field).second) {
        add(*time == *before->time
                ? fmt::format(
                      "\"{}\" has the time {}, as the step before has; if it is another part or member at "
                      "the same time, write it to a separate field or dataset (--field, --output)",
                      job.info.path, *job.info.time)
                : fmt::format("\"{}\" has the time {}, which is not after {} of the step before; steps have "
                              "the order "
                              "of the inputs, and of the times in a file",
                              job.info.path, *job.info.time, *before->time));
      } else if (before != nullptr && !timed && NaturalLess(job.info.path, before->path) &&
                 unordered.insert(job.info.field).second) {
        add(
            fmt::format("\"{}\" follows \"{}\", though its name sorts before; steps have the order of the "
                        "inputs, and \"ls -v\" sorts by number",
                        job.info.path, before->path));
      }
      before = &job.info;
    }
  }
  return warnings;
}

TimeUnit TimeUnitOf(const WriteOptions& options, const Jobs& jobs) {
  for (const auto& [step, inputs] : jobs) {
    for (const Job& job : inputs) {
      if (job.info.time && !job.info.time_unit.units.empty() && !options.time) return job.info.time_unit;
    }
  }
  return {};
}

distribution::PlacementStrategy PlacementOf(const WriteOptions& options) {
  // No patch is then on two ranks, and greedy leaves each where it is, so that nothing moves.
  return options.reading == distribution::ReadingOrder::kDirect ? distribution::PlacementStrategy::kGreedy
                                                                : options.pipeline.placement;
}

Result<std::optional<double>> TimeOf(const WriteOptions& options, const std::vector<Job>& step,
                                     const TimeUnit& unit) {
  if (options.time) return options.time;
  std::optional<double> time;
  const input::InputInfo* from = nullptr;
  for (const Job& job : step) {
    const input::InputInfo& info = job.info;
    if (!info.time) continue;
    QUARRY_ASSIGN_OR_RETURN(
        const std::optional<double> converted,
        TimeInUnit(info.time, info.time_unit, unit)
            .Annotate(fmt::format("\"{}\" has a time in other units than the dataset (--time gives one)",
                                  info.path)));
    constexpr double kRounding = 1e-9;
    if (time && std::abs(*time - *converted) > kRounding * std::abs(*time)) {
      return InvalidArgument(
          "\"{}\" is at time {}, but \"{}\", for the same step, at {}; convert them separately, with a "
          "--step for each, or give --time",
          from->path, *time, info.path, *converted);
    }
    if (!time) from = &info;
    if (!time) time = converted;
  }
  return time;
}

}  // namespace quarry::writer
