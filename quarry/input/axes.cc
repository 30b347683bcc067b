#include "quarry/input/axes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "quarry/base/numbers.h"
#include "quarry/calendar.h"
#include "quarry/input/formats.h"

namespace quarry::input {

Result<IndexChoice> ParseIndexChoice(const std::string& text) {
  const auto refuse = [&] {
    return InvalidArgument(
        "\"{}\" does not choose an index; give NAME=K, as member=0, or a range NAME=BEGIN:END", text);
  };
  const std::size_t equals = text.rfind('=');
  if (equals == 0 || equals == std::string::npos) return refuse();
  IndexChoice choice;
  choice.axis = text.substr(0, equals);
  const auto number = [](std::string_view part, std::int64_t* value) {
    return ReadNumber(part, value) && *value >= 0 && *value < INT64_MAX;
  };
  const std::string_view range = std::string_view(text).substr(equals + 1);
  const std::size_t colon = range.find(':');
  choice.is_range = colon != std::string_view::npos;
  if (!number(range.substr(0, colon), &choice.begin)) return refuse();
  choice.end = choice.begin + 1;
  if (choice.is_range && !number(range.substr(colon + 1), &choice.end)) return refuse();
  if (choice.end <= choice.begin) return refuse();
  return choice;
}

bool IsNoAxis(const std::string& name) {
  static const auto& kOthers = *new const std::set<std::string>{
      "member", "members", "member_id", "nmember", "ensemble", "ensemble_member", "ens", "realization",
      "realisation", "number", "channel", "channels", "c", "component", "components", "ncomp", "mode",
      "modes", "band", "bands", "species", "nspecies", "rgb", "rgba", "polarization", "polarisation",
      "stokes",
      // cells and bounds
      "bnd", "bnds", "bounds", "nbnd", "nbnds", "n_bnds", "nbounds", "nv", "nvert", "nverts", "nvertex",
      "nvertices", "vertex", "vertices", "nface", "min_max",
      // lists
      "basin", "basins", "season", "seasons", "scenario", "model", "quantile", "percentile"};
  return kOthers.contains(internal::Lower(name));
}

bool CountsSteps(const std::string& name) {
  static const auto& kCounts = *new const std::set<std::string>{
      "step", "steps", "frame", "frames", "timestep", "timesteps", "time_step", "time_steps"};
  return kCounts.contains(internal::Lower(name));
}

bool NamesSteps(const std::string& name) {
  const std::string lower = internal::Lower(name);
  return lower == "time" || lower == "times" || lower == "t" || lower == "nt" || lower == "ntime" ||
         CountsSteps(name);
}

bool BringsSteps(const std::string& name, bool is_slowest, const std::string& axis,
                 const std::string& units) {
  if (!axis.empty() && internal::Lower(axis) != "t") return false;
  // "hours" alone is a length of time, as a forecast's: steps, if nothing varies more slowly.
  if (IsTimeUnit(units)) return is_slowest || NamesSteps(name);
  return NamesSteps(name) && (units.empty() || units == "1");
}

bool NamesVertical(const std::string& name) {
  const std::string lower = internal::Lower(name);
  if (lower.size() <= 2) return true;
  const auto parts = std::to_array<const char*>(
      {"z", "lev", "lay", "depth", "height", "alt", "vert", "sigma", "bottom", "dim", "s_rho", "s_w"});
  return std::ranges::any_of(parts, [&](const char* part) { return lower.find(part) != std::string::npos; });
}

bool SaysTime(const std::string& axis, const std::string& standard_name, const std::string& units) {
  return internal::Lower(axis) == "t" || standard_name == "time" || HasReferenceDate(units);
}

namespace internal {
namespace {

/// The name that --index has for a dimension.
std::string NameOf(const std::vector<AxisDimension>& dimensions, std::size_t i) {
  return dimensions[i].name.empty() ? std::to_string(i) : dimensions[i].name;
}

/// The dimensions with the names and roles that --axes gives them.
Result<std::vector<AxisDimension>> Relabel(std::vector<AxisDimension> dimensions, const std::string& axes) {
  if (axes.empty()) return dimensions;
  if (axes.size() != dimensions.size()) {
    return InvalidArgument("--axes {} names {} dimensions, but there are {} ({})", axes, axes.size(),
                           dimensions.size(), ListOf(dimensions));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(axes[i])) == 0 || axes.find(axes[i]) != i) {
      return InvalidArgument(
          "--axes {} is not understood; give one letter for each dimension, slowest first, as tzyx", axes);
    }
    const char letter = Lower(axes)[i];
    dimensions[i].name = axes[i];
    dimensions[i].role = letter == 't'                    ? Role::kTime
                         : letter >= 'x' && letter <= 'z' ? Role::kUnknown
                                                          : Role::kOther;
  }
  return dimensions;
}

/// Takes the choices of --index out of the dimensions that are still free.
Status TakeChoices(const std::vector<AxisDimension>& dimensions, const InputOptions& options,
                   std::vector<bool>* free, AxisRoles* roles) {
  for (const IndexChoice& choice : options.index) {
    std::size_t at = 0;
    while (at < dimensions.size() && NameOf(dimensions, at) != choice.axis) ++at;
    if (at == dimensions.size()) {
      return InvalidArgument("--index {}={} is not a dimension; there are {}", choice.axis, choice.begin,
                             ListOf(dimensions));
    }
    if (choice.end > dimensions[at].length) {
      return InvalidArgument(
          "--index {}={} is beyond the last of {} indices, which is {}", choice.axis,
          choice.is_range ? fmt::format("{}:{}", choice.begin, choice.end) : fmt::format("{}", choice.begin),
          dimensions[at].length, dimensions[at].length - 1);
    }
    if (!(*free)[at]) return InvalidArgument("--index chooses from {} twice; give it once", choice.axis);
    roles->first[at] = choice.begin;
    (*free)[at] = false;
    if (dimensions[at].role == Role::kTime) {
      roles->time = at;
      roles->moments = choice.end - choice.begin;
    } else if (choice.is_range && roles->fields) {
      return InvalidArgument(
          "--index has two ranges, of {} and {}; give a range of one, and an index of the other",
          NameOf(dimensions, *roles->fields), choice.axis);
    } else if (choice.is_range) {
      roles->fields = at;
      roles->field_count = choice.end - choice.begin;
    }
  }
  return Status::Ok();
}

/// Finds time among the free dimensions, and drops those of one sample that are not axes.
void TakeTime(const std::vector<AxisDimension>& dimensions, std::vector<bool>* free, AxisRoles* roles) {
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (!(*free)[i]) continue;
    if (dimensions[i].role == Role::kTime && !roles->time) {
      roles->time = i;
      roles->moments = dimensions[i].length;
      (*free)[i] = false;
    } else if (dimensions[i].role == Role::kOther && dimensions[i].length == 1) {
      (*free)[i] = false;
    }
  }
}

/// The sentence about dimensions that the user has to choose of.
Status AskForChoice(const std::vector<AxisDimension>& dimensions, const std::vector<std::size_t>& others) {
  std::string options;
  for (const std::size_t i : others) options += fmt::format(" --index {}=K", NameOf(dimensions, i));
  const std::size_t one = others.front();
  return InvalidArgument(
      "its dimensions are {}, of which {} {} of a grid; choose with{} (of {}: K from 0 to {}, or a "
      "range 0:{})",
      ListOf(dimensions), NameOf(dimensions, one),
      others.size() == 1 ? "is not an axis" : "and others are not axes", options, NameOf(dimensions, one),
      dimensions[one].length - 1, dimensions[one].length);
}

/// x, y and z of the dimensions that are left: by the letters of --axes, else from the last to the first.
Status TakeGrid(const std::vector<AxisDimension>& dimensions, const InputOptions& options,
                const std::vector<bool>& free, AxisRoles* roles) {
  std::vector<std::size_t> left;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (!free[i]) continue;
    (dimensions[i].role == Role::kUnknown ? left : others).push_back(i);
  }
  if (!others.empty()) return AskForChoice(dimensions, others);
  for (auto it = left.begin(); it != left.end() && left.size() > 3;)
    it = dimensions[*it].length == 1 ? left.erase(it) : it + 1;
  if (left.size() > 3) {
    return InvalidArgument(
        "its dimensions are {}, and a grid has at most 3 axes; choose from one with --index {}=K, or give "
        "their roles with --axes, as --axes {}",
        ListOf(dimensions), NameOf(dimensions, left.front()),
        dimensions.size() == 4 ? "tzyx or czyx" : "tczyx");
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t axis = left.size() - 1 - i;
    if (!options.axes.empty()) axis = static_cast<std::size_t>(Lower(options.axes)[left[i]] - 'x');
    roles->grid.at(axis) = left[i];
  }
  if (left.empty() && (!options.single || roles->time))
    return InvalidArgument("it is a single number{}", roles->time ? " at each time" : "");
  return Status::Ok();
}

}  // namespace

Result<AxisRoles> AssignAxes(const std::vector<AxisDimension>& named, const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<AxisDimension> dimensions, Relabel(named, options.axes));
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i].length == 0)
      return InvalidArgument("its dimension {} has no samples", NameOf(dimensions, i));
  }
  AxisRoles roles;
  roles.first.resize(dimensions.size());
  std::vector<bool> free(dimensions.size(), true);
  QUARRY_RETURN_IF_ERROR(TakeChoices(dimensions, options, &free, &roles));
  TakeTime(dimensions, &free, &roles);
  QUARRY_RETURN_IF_ERROR(TakeGrid(dimensions, options, free, &roles));
  return roles;
}

std::size_t RankOf(const std::vector<AxisDimension>& dimensions) {
  return static_cast<std::size_t>(
      std::ranges::count_if(dimensions, [](const AxisDimension& d) { return d.role != Role::kTime; }));
}

std::string ListOf(const std::vector<AxisDimension>& dimensions) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < dimensions.size(); ++i)
    parts.push_back(fmt::format("{}={}", NameOf(dimensions, i), dimensions[i].length));
  return fmt::format("{}", fmt::join(parts, " x "));
}

}  // namespace internal
}  // namespace quarry::input
