#include "quarry/storage/at_once.h"
#include "quarry/storage/location.h"

// Files and threads, which the rooms name, and a page does not have.
namespace quarry {

Location::Location(std::string at) : path(std::move(at)) {}

void CallAtOnce(std::size_t calls, std::size_t, const std::function<void(std::size_t)>& call) {
  for (std::size_t i = 0; i < calls; ++i) call(i);
}

}  // namespace quarry
