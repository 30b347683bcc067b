#include "insitu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dump.h"
#include "pictures.h"
#include "quarry/insitu.h"
#include "quarry/intransit.h"

namespace lbm {
namespace {

namespace insitu = quarry::insitu;
namespace intransit = quarry::intransit;

// A Status is the same on all ranks, and so all of them throw or none.
void Check(const quarry::Status& status) {
  if (!status.ok()) throw IoError(status.message());
}

void PrintWarnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) std::fprintf(stderr, "lbm: warning: %s\n", warning.c_str());
}

// The block of a rank, and the padded array that holds it: one layer of halo on
// all sides, which reaches out of the grid at its ends.
insitu::OwnedBox OwnedBlock(const Domain& domain) {
  quarry::Box own;
  quarry::Box padded;
  for (int axis = 0; axis < 3; ++axis) {
    own.begin[axis] = domain.offset()[axis];
    own.end[axis] = own.begin[axis] + domain.cells()[axis];
    padded.begin[axis] = own.begin[axis] - 1;
    padded.end[axis] = own.end[axis] + 1;
  }
  return insitu::OwnedBox::InArray(own, padded);
}

// The fields that the pictures need; all fields where there is a dataset.
bool IsHandedOver(const Options& options, std::string_view field) {
  return !options.insitu.empty() || field == "velocity_x" || field == "velocity_y";
}

insitu::Setup Describe(const Domain& domain, const Options& options) {
  insitu::Setup setup;
  setup.path = options.insitu.empty() ? "lbm" : options.insitu;
  const auto [nx, ny, nz] = domain.global_cells();
  setup.declaration.dims = {nx, ny, nz};
  // In a plane, smaller patches than the default, so that every rank of a small domain has some.
  if (nz == 1) setup.declaration.patch = quarry::Index3{256, 256, 1};
  for (const std::string_view name : kFieldNames) {
    if (!IsHandedOver(options, name)) continue;
    insitu::Field field;
    field.name = name;
    field.type = quarry::DataType::kFloat32;
    field.relative = options.relative;
    setup.declaration.fields.push_back(field);
  }
  return setup;
}

}  // namespace

struct WriterRanks::State {
  MPI_Comm world;
  const Options& options;
  std::optional<intransit::Roles> roles;
};

WriterRanks::WriterRanks(MPI_Comm world, const Options& options) : state_(new State{world, options, {}}) {
  const int count = std::max(options.intransit, options.consumers);
  if (count == 0) return;
  auto roles = intransit::Roles::Split(world, count);
  Check(roles.status());
  state_->roles = *std::move(roles);
}

WriterRanks::~WriterRanks() = default;

bool WriterRanks::writes() const { return state_->roles && state_->roles->writes(); }

MPI_Comm WriterRanks::simulation() const { return state_->roles ? state_->roles->comm() : state_->world; }

void WriterRanks::Serve() {
  const Options& options = state_->options;
  intransit::ServeOptions how;
  how.writes = !options.insitu.empty();
  std::optional<Pictures> pictures;
  if (options.consumers > 0) {
    pictures.emplace(state_->roles->comm(), options.pictures, options.dims, options.flow);
    how.consumer = pictures->consumer();
  }
  const auto served = intransit::Serve(*state_->roles, how);
  Check(served.status());
  PrintWarnings(served->warnings);
  int rank = 0;
  MPI_Comm_rank(state_->roles->comm(), &rank);
  if (rank != 0) return;
  const std::string drawn =
      !pictures ? ""
                : fmt::format("{} pictures, {:.2f} s redistributing, {:.2f} s drawing, ", pictures->drawn(),
                              served->delivering_seconds, served->consuming_seconds);
  std::printf("writers: %llu steps, %.2f s writing, %s%.2f s idle; the simulation has waited %.2f s\n",
              static_cast<unsigned long long>(served->steps), served->writing_seconds, drawn.c_str(),
              served->idle_seconds, served->simulation_waiting_seconds);
  std::fflush(stdout);
}

// The calls on both kinds of dataset are the same.
struct InsituWriter::State {
  std::variant<std::unique_ptr<insitu::Dataset>, std::unique_ptr<intransit::Dataset>> dataset;
  const Options& options;
  bool reports = false;
};

InsituWriter::InsituWriter(const WriterRanks& writers, const Domain& domain, const Options& options)
    : state_(new State{.dataset = {}, .options = options}) {
  const auto open = [&](auto dataset) {
    Check(dataset.status());
    state_->dataset = *std::move(dataset);
  };
  state_->reports = domain.rank() == 0;
  const insitu::Setup setup = Describe(domain, options);
  const auto& roles = writers.state()->roles;
  if (roles) {
    open(intransit::Dataset::Open(*roles, domain.comm(), setup, {OwnedBlock(domain)}));
  } else {
    open(insitu::Dataset::Open(domain.comm(), setup, {OwnedBlock(domain)}));
  }
}

InsituWriter::~InsituWriter() = default;

void InsituWriter::Write(int step, const Fields& fields) {
  std::visit(
      [&](auto& dataset) {
        Check(dataset->BeginStep(step));
        for (const Field& field : fields) {
          if (!IsHandedOver(state_->options, field.name)) continue;
          Check(dataset->template Put<float>(std::string(field.name), {field.values.data()}));
        }
        Check(dataset->EndStep());
        PrintWarnings(dataset->TakeWarnings());
      },
      state_->dataset);
}

void InsituWriter::Close() {
  std::visit([](auto& dataset) { Check(dataset->Close()); }, state_->dataset);
  const auto* handed_over = std::get_if<std::unique_ptr<intransit::Dataset>>(&state_->dataset);
  if (handed_over == nullptr) return;
  // The ranks wait together, so that one speaks for all.
  const intransit::Dataset& dataset = **handed_over;
  if (!state_->reports) return;
  std::printf("waited %.2f s for the writers in %llu of the steps, and %.2f s for the last ones\n",
              dataset.seconds().waiting, static_cast<unsigned long long>(dataset.waits()),
              dataset.seconds().closing);
  std::fflush(stdout);
}

}  // namespace lbm
