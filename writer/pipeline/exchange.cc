#include "writer/pipeline/exchange.h"

#include <utility>

#include "writer/pipeline/comm.h"
#include "writer/pipeline/phases.h"
#include "writer/redistribute/copy_part.h"
#include "writer/redistribute/schedules.h"

namespace quarry::writer {
namespace {

constexpr std::size_t kElsewhere = SIZE_MAX;

}  // namespace

PatchGathering::PatchGathering(const PatchGrid& grid, DataType type, const distribution::Ownership& owned,
                               const distribution::Placement& placement, int rank, bool lasting, Owner owner)
    : grid_(grid),
      sample_bytes_(SizeOf(type)),
      lasting_(lasting),
      owner_(std::move(owner)),
      target_of_(placement.size(), kElsewhere),
      sends_of_box_(owned[static_cast<std::size_t>(rank)].size()) {
  const redistribute::Layout layout{grid.dims(), owned,
                                    distribution::PatchesOfRanks(grid, placement, owned.size())};
  schedule_ = redistribute::ScheduleForRank(layout, rank);
  for (std::size_t p = 0; p < placement.size(); ++p) {
    if (placement[p] != rank) continue;
    target_of_[p] = targets_.size();
    const auto patch = static_cast<std::int64_t>(p);
    targets_.push_back({{patch, Bytes(), 0}, grid.PatchBox(patch), 0, false});
  }
  for (const redistribute::Part& part : schedule_.copies)
    targets_[part.needed_box].missing += part.box.volume();
  for (const redistribute::Part& part : schedule_.receives) targets_[part.needed_box].shared = true;
  if (lasting_) {
    lasting_views_.resize(sends_of_box_.size());
    return;
  }
  outgoing_.resize(schedule_.sends.size());
  for (std::size_t s = 0; s < schedule_.sends.size(); ++s) {
    const redistribute::Part& part = schedule_.sends[s];
    const std::int64_t patch = grid.PatchIndex(grid.PatchesMeeting(part.box).begin);
    sends_of_box_[part.owned_box].emplace(patch, s);
  }
}

void PatchGathering::Allocate(Target* target) {
  if (!target->patch.samples.empty()) return;
  const std::size_t bytes = static_cast<std::size_t>(target->box.volume()) * sample_bytes_;
  owner_.reserve(bytes);
  target->patch.samples.resize(bytes);
}

void PatchGathering::AddToPatch(Target* target, const Box& piece, const BoxView& samples) {
  Allocate(target);
  const Box part = Intersect(piece, target->box);
  const auto whole =
      redistribute::MutableBoxView::Dense(target->patch.samples.data(), target->box, sample_bytes_);
  redistribute::CopyPart(samples, piece, whole, target->box, part, sample_bytes_);
  target->missing -= part.volume();
  if (target->missing == 0 && !target->shared) owner_.take(std::move(target->patch));
}

void PatchGathering::Add(std::size_t box, const Box& piece, const BoxView& samples) {
  if (lasting_) lasting_views_[box] = samples;
  distribution::ForEachPatch(grid_, piece, [&](std::int64_t patch) {
    const std::size_t target = target_of_[static_cast<std::size_t>(patch)];
    if (target != kElsewhere) {
      AddToPatch(&targets_[target], piece, samples);
    } else if (!lasting_) {
      AddToSend(sends_of_box_[box].at(patch), piece, samples);
    }
  });
}

void PatchGathering::AddToSend(std::size_t send, const Box& piece, const BoxView& samples) {
  const Box& box = schedule_.sends[send].box;
  Bytes& bytes = outgoing_[send];
  bytes.resize(static_cast<std::size_t>(box.volume()) * sample_bytes_);
  redistribute::CopyPart(samples, piece,
                         redistribute::MutableBoxView::Dense(bytes.data(), box, sample_bytes_), box,
                         Intersect(piece, box), sample_bytes_);
}

redistribute::RankSchedule PatchGathering::Messages() const {
  redistribute::RankSchedule messages = schedule_;
  messages.copies.clear();
  messages.needed.clear();
  std::vector<std::size_t> number(targets_.size());
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (!targets_[t].shared) continue;
    number[t] = messages.needed.size();
    messages.needed.push_back(targets_[t].box);
  }
  for (redistribute::Part& part : messages.receives) part.needed_box = number[part.needed_box];
  if (lasting_) return messages;
  // The sent samples have been copied to arrays of their own.
  messages.owned.clear();
  for (redistribute::Part& part : messages.sends) {
    part.owned_box = messages.owned.size();
    messages.owned.push_back(part.box);
  }
  return messages;
}

Status PatchGathering::Exchange(MPI_Comm comm, redistribute::Redistribution* redistribution) {
  std::vector<BoxView> sent = lasting_views_;
  std::vector<redistribute::MutableBoxView> received;
  QUARRY_RETURN_IF_ERROR(OnEveryRank(comm, [&] {
    for (std::size_t s = 0; s < outgoing_.size(); ++s)
      sent.push_back(BoxView::Dense(outgoing_[s].data(), schedule_.sends[s].box, sample_bytes_));
    for (Target& target : targets_) {
      if (!target.shared) continue;
      Allocate(&target);
      received.push_back(
          redistribute::MutableBoxView::Dense(target.patch.samples.data(), target.box, sample_bytes_));
    }
    redistribute::Schedules::Use(Messages(), redistribution);
    return Status::Ok();
  }));
  QUARRY_RETURN_IF_ERROR(redistribution->Exchange(sent, received));
  for (Target& target : targets_) {
    if (target.shared) owner_.take(std::move(target.patch));
  }
  return Status::Ok();
}

}  // namespace quarry::writer
