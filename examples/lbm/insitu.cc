#include "insitu.h"

#include "dump.h"
#include "writer/insitu/insitu.h"

namespace lbm {
namespace {

namespace insitu = quarry::insitu;

// A Status is the same on all ranks, and so all of them throw or none.
void Check(const quarry::Status& status) {
  if (!status.ok()) throw IoError(status.message());
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

insitu::Setup Describe(const Domain& domain, const std::string& path, double relative) {
  insitu::Setup setup;
  setup.path = path;
  const auto [nx, ny, nz] = domain.global_cells();
  setup.declaration.dims = {nx, ny, nz};
  for (const std::string_view name : kFieldNames) {
    insitu::Field field;
    field.name = name;
    field.type = quarry::DataType::kFloat32;
    field.relative = relative;
    setup.declaration.fields.push_back(field);
  }
  return setup;
}

}  // namespace

struct InsituWriter::State {
  std::unique_ptr<insitu::Dataset> dataset;
};

InsituWriter::InsituWriter(const Domain& domain, const std::string& path, double relative)
    : state_(std::make_unique<State>()) {
  auto dataset = insitu::Dataset::Open(domain.comm(), Describe(domain, path, relative), {OwnedBlock(domain)});
  Check(dataset.status());
  state_->dataset = *std::move(dataset);
}

InsituWriter::~InsituWriter() = default;

void InsituWriter::Write(int step, const Fields& fields) {
  Check(state_->dataset->BeginStep(step));
  for (const Field& field : fields) {
    Check(state_->dataset->Put<float>(std::string(field.name), {field.values.data()}));
  }
  Check(state_->dataset->EndStep());
}

void InsituWriter::Close() { Check(state_->dataset->Close()); }

}  // namespace lbm
