#include "writer/distribution/patch_numbers.h"

namespace quarry::distribution {

Result<std::vector<std::uint64_t>> NumbersInOrder(const std::vector<NumberLetter>& letters,
                                                  std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> numbers(end - begin);
  std::uint64_t count = 0;
  for (const NumberLetter& letter : letters) {
    for (std::size_t i = 0; i < letter.count(); ++i) {
      const PatchNumber entry = letter.at(i);
      if (entry.curve_position < begin || entry.curve_position >= end) {
        return InternalError(
            "rank {} has sent patch {} of the curve to the rank of [{}, {}); please report this", letter.peer,
            entry.curve_position, begin, end);
      }
      numbers[entry.curve_position - begin] = entry.number;
      ++count;
    }
  }
  if (count == end - begin) return numbers;
  return InternalError("{} of {} patches of the curve have come to their rank; please report this", count,
                       end - begin);
}

}  // namespace quarry::distribution
