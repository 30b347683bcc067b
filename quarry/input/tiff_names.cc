#include "quarry/input/tiff_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace quarry::input::internal {
namespace {

/// "img_c1_z007.tif": the text "img_c#_z#.tif", and the numbers 1 and 7.
struct NumberedName {
  std::string text;
  std::vector<std::uint64_t> numbers;
};

NumberedName TakeApart(const std::string& name) {
  NumberedName parts;
  for (std::size_t i = 0; i < name.size();) {
    if (name[i] < '0' || name[i] > '9') {
      parts.text += name[i++];
      continue;
    }
    std::uint64_t number = 0;
    // Numbers beyond 18 digits count nothing; their last digits tell them apart.
    for (; i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i)
      number = number % 100'000'000'000'000'000 * 10 + static_cast<std::uint64_t>(name[i] - '0');
    parts.text += '#';
    parts.numbers.push_back(number);
  }
  return parts;
}

/// The text of a name as a pattern for the shell: one number is free.
std::string Pattern(const std::string& original, std::size_t free) {
  std::string pattern;
  std::size_t number = 0;
  for (std::size_t i = 0; i < original.size();) {
    if (original[i] < '0' || original[i] > '9') {
      pattern += original[i++];
      continue;
    }
    std::size_t end = i;
    while (end < original.size() && original[end] >= '0' && original[end] <= '9') ++end;
    pattern += number == free ? "*" : original.substr(i, end - i);
    ++number;
    i = end;
  }
  return pattern;
}

/// The images must have names of one form.
Status CheckOneSeries(const std::vector<std::string>& names, const std::vector<NumberedName>& parts,
                      const std::string& path) {
  std::map<std::string, std::size_t> counts;
  std::map<std::string, std::string> examples;
  for (std::size_t i = 0; i < names.size(); ++i) {
    ++counts[parts[i].text];
    examples.try_emplace(parts[i].text, names[i]);
  }
  const bool numbered =
      std::any_of(counts.begin(), counts.end(), [](const auto& entry) { return entry.second > 1; });
  if (counts.size() == 1 || !numbered) return Status::Ok();
  std::vector<std::string> series;
  for (const auto& [text, count] : counts) {
    if (series.size() == 5) break;
    series.push_back(fmt::format("\"{}\" ({} images)", text, count));
  }
  return InvalidArgument(
      "\"{}\" has images of several series: {}; give one of them as a pattern, in quotes, or move the others "
      "away",
      path, fmt::join(series, ", "));
}

std::string ListMissing(const std::vector<std::uint64_t>& numbers, std::uint64_t count) {
  std::vector<std::uint64_t> missing;
  constexpr std::size_t kListed = 10;
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    for (std::uint64_t n = numbers[i] + 1; n < numbers[i + 1] && missing.size() < kListed; ++n)
      missing.push_back(n);
  }
  return fmt::format("{}{}", fmt::join(missing, ", "),
                     count > missing.size() ? fmt::format(" and {} more", count - missing.size()) : "");
}

/// The sentence about numbers in ascending order that leave some out; nothing if they count nothing, as times
/// of day.
std::optional<std::string> DescribeGaps(const std::vector<std::uint64_t>& numbers,
                                        const std::vector<std::string>& names) {
  std::map<std::uint64_t, std::size_t> differences;
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    if (numbers[i + 1] <= numbers[i]) return std::nullopt;
    ++differences[numbers[i + 1] - numbers[i]];
  }
  const std::uint64_t missing = numbers.back() - numbers.front() + 1 - numbers.size();
  if (missing == 0) return std::nullopt;
  if (differences.size() == 1 && numbers.size() > 2) {
    return fmt::format(
        "the images \"{}\" to \"{}\" are numbered in steps of {}; they are taken as neighbouring planes",
        names.front(), names.back(), differences.begin()->first);
  }
  // Most images have a neighbour; or there are few, and little is missing.
  const bool counts = 2 * differences[1] >= numbers.size() - 1 || missing <= 10;
  if (!counts) return std::nullopt;
  return fmt::format(
      "between \"{}\" and \"{}\" images are missing: number {}; the others are taken as neighbouring planes",
      names.front(), names.back(), ListMissing(numbers, missing));
}

}  // namespace

Result<std::vector<std::string>> CheckImageNames(const std::vector<std::string>& names,
                                                 const std::string& path) {
  std::vector<NumberedName> parts;
  parts.reserve(names.size());
  for (const std::string& name : names) parts.push_back(TakeApart(name));
  QUARRY_RETURN_IF_ERROR(CheckOneSeries(names, parts, path));
  std::vector<std::string> warnings;
  if (names.size() < 2 || parts[0].text != parts[1].text) return warnings;
  std::vector<std::size_t> varying;
  std::vector<std::size_t> unique;  // numbers that alone tell all images apart
  for (std::size_t k = 0; k < parts[0].numbers.size(); ++k) {
    std::set<std::uint64_t> values;
    for (const NumberedName& name : parts) values.insert(name.numbers[k]);
    if (values.size() > 1) varying.push_back(k);
    if (values.size() == names.size()) unique.push_back(k);
  }
  if (unique.empty() && varying.size() > 1) {
    // The number with the most values is the likeliest to count planes, and of two alike the last.
    std::size_t free = varying.front();
    std::size_t most = 0;
    for (const std::size_t k : varying) {
      std::set<std::uint64_t> values;
      for (const NumberedName& name : parts) values.insert(name.numbers[k]);
      if (values.size() >= most) free = k;
      most = std::max(most, values.size());
    }
    return InvalidArgument(
        "\"{}\" has images numbered along {} numbers, \"{}\", \"{}\", ...: several channels or times, which "
        "are not planes of z; give one of them as a pattern, as \"{}\"",
        path, varying.size(), names[0], names[1], Pattern(names[0], free));
  }
  if (unique.size() == 1) {
    std::vector<std::uint64_t> numbers;
    numbers.reserve(parts.size());
    for (const NumberedName& name : parts) numbers.push_back(name.numbers[unique.front()]);
    if (auto gaps = DescribeGaps(numbers, names)) warnings.push_back(*std::move(gaps));
  }
  return warnings;
}

}  // namespace quarry::input::internal
