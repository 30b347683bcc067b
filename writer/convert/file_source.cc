#include "writer/convert/file_source.h"

namespace quarry::writer {

Result<std::vector<BoxView>> FileSource::Load(const std::vector<Box>& boxes) {
  const std::size_t size = SizeOf(input_.info().type);
  std::size_t bytes = 0;
  for (const Box& box : boxes) bytes += static_cast<std::size_t>(box.volume()) * size;
  samples_.resize(bytes);
  std::vector<BoxView> views;
  std::span<std::byte> left(samples_);
  for (const Box& box : boxes) {
    const std::span<std::byte> part = left.first(static_cast<std::size_t>(box.volume()) * size);
    QUARRY_RETURN_IF_ERROR(input_.ReadBox(box, part));
    views.push_back(BoxView::Dense(part.data(), box, size));
    left = left.subspan(part.size());
  }
  return views;
}

}  // namespace quarry::writer
