#include <algorithm>
#include <utility>

#include "quarry/intransit_roles.h"
#include "writer/insitu/collective.h"
#include "writer/intransit/link.h"
#include "writer/intransit/protocol.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::intransit {
namespace internal {

Link::~Link() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  if (all != MPI_COMM_NULL && !writes) {
    const Status sent = SendText(all, first_writer(), kCommandTag, Encode(FinishCommand{}));
    (void)sent;  // no one is left to tell
  }
  if (same != MPI_COMM_NULL) MPI_Comm_free(&same);
  if (all != MPI_COMM_NULL) MPI_Comm_free(&all);
}

}  // namespace internal

namespace {

Status Connect(MPI_Comm world, bool writes, internal::Link* link) {
  using redistribute::MpiStatus;
  MPI_Comm own = MPI_COMM_NULL;
  QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(
      world,
      MpiStatus(MPI_Comm_split(world, writes ? 1 : 0, writer::Rank(world), &link->same), "MPI_Comm_split")));
  const int key = writer::Rank(world) + (writes ? writer::Size(world) : 0);
  Status status = MpiStatus(MPI_Comm_split(world, 0, key, &own), "MPI_Comm_split");
  if (status.ok())
    status = MpiStatus(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(world, status));
  link->all = own;  // from here on the writers learn of its end
  return Status::Ok();
}

}  // namespace

Roles::Roles(std::shared_ptr<internal::Link> link) : link_(std::move(link)) {}

bool Roles::writes() const { return link_->writes; }
MPI_Comm Roles::comm() const { return link_->same; }
int Roles::simulation_ranks() const { return link_->simulation_ranks; }
int Roles::writer_ranks() const { return link_->writer_ranks; }

Result<Roles> Roles::SplitByRole(MPI_Comm world, bool writes) {
  QUARRY_RETURN_IF_ERROR(insitu::CheckCommunicator(world));
  const int mine = writes ? 1 : 0;
  int writers = 0;
  QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(
      world,
      redistribute::MpiStatus(MPI_Allreduce(&mine, &writers, 1, MPI_INT, MPI_SUM, world), "MPI_Allreduce")));
  const int ranks = writer::Size(world);
  if (writers == 0 || writers == ranks) {
    return InvalidArgument(
        "{} of {} ranks write; in-transit writing needs at least one that writes and one that "
        "simulates",
        writers, ranks);
  }
  auto link = std::make_shared<internal::Link>();
  link->writes = writes;
  link->simulation_ranks = ranks - writers;
  link->writer_ranks = writers;
  QUARRY_RETURN_IF_ERROR(Connect(world, writes, link.get()));
  return Roles(std::move(link));
}

Result<Roles> Roles::Split(MPI_Comm world, int writers) {
  QUARRY_RETURN_IF_ERROR(insitu::CheckCommunicator(world));
  const int mine[2] = {writers, -writers};
  int least[2] = {};
  QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(
      world,
      redistribute::MpiStatus(MPI_Allreduce(mine, least, 2, MPI_INT, MPI_MIN, world), "MPI_Allreduce")));
  if (least[0] != -least[1]) {
    return InvalidArgument(
        "the ranks give different numbers of writers, {} to {}; give the same on every rank", least[0],
        -least[1]);
  }
  const int ranks = writer::Size(world);
  if (writers < 1 || writers >= ranks) {
    return InvalidArgument(
        "{} writers of {} ranks leave no rank to {}; give 1 to {}, and start at least 2 ranks", writers,
        ranks, writers < 1 ? "write" : "simulate", std::max(1, ranks - 1));
  }
  return SplitByRole(world, writer::Rank(world) >= ranks - writers);
}

}  // namespace quarry::intransit
