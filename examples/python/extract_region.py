#!/usr/bin/env python3
"""Extracts a region of a field into one NetCDF file that grows with the run, with a progress bar.

The same command adds the steps that were published since, and goes on where it ended, whatever ended it: steps in the
file are not read again. For the steps that are there now, `export` is enough: region_to_files.py. The file is NetCDF's
classic format with 64-bit sizes, which grows record by record and which every program reads.

Needs: pip install quarry-data netCDF4 tqdm
"""

import argparse
import os

import netCDF4
import numpy as np
from tqdm import tqdm

import quarry


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  extract_region.py grpc://cluster:50051/run42 wake.nc --field pressure --box 0:64,100:164,32:96")
    parser.add_argument("target", help="a dataset: a folder, grpc://HOST:PORT/NAME or grpcs://HOST:PORT/NAME")
    parser.add_argument("output", help="the NetCDF file")
    parser.add_argument("--field", required=True)
    parser.add_argument("--box", help="Z0:Z1,Y0:Y1,X0:X1 in samples of full resolution; default: the whole grid")
    parser.add_argument("--level", type=int, default=0, help="0, full resolution, is the default")
    parser.add_argument("--first", type=int, default=0, metavar="STEP", help="number of the first step")
    parser.add_argument("--last", type=int, metavar="STEP", help="number of the last step")
    parser.add_argument("--token", default="", help="for the server")
    parser.add_argument("--ca", default="", help="file with the authorities of servers")
    return parser.parse_args()


def parse_box(text):
    """((z0, z1), (y0, y1), (x0, x1)), or None for the whole grid."""
    return tuple(tuple(map(int, axis.split(":"))) for axis in text.split(",")) if text else None


def create(path, field, box, answer):
    """A file with the grid of an answer and no steps. It appears as a whole."""
    file = netCDF4.Dataset(f"{path}.partial", "w", format="NETCDF3_64BIT_DATA")
    file.setncatts({"Conventions": "CF-1.11", "source": field.dataset.target, "box": str(box), "level": answer.level})
    file.createDimension("step", None)
    file.createVariable("step", "i8", ("step",))
    for axis, values in answer.coords.items():
        file.createDimension(axis, len(values))
        variable = file.createVariable(axis, "f8", (axis,))
        variable[:] = values
        if units := field.dataset.axis_units[axis]:
            variable.units = units
    variable = file.createVariable(field.name, answer.dtype, ("step", *answer.coords),
                                   fill_value=field.attrs.get("_FillValue"))
    variable.setncatts({name: value for name, value in field.attrs.items() if name in ("units", "tolerance", "coder")})
    file.close()
    os.replace(f"{path}.partial", path)


def open_to_add(path, field, box, level):
    """The file, which this run or an earlier one has begun."""
    file = netCDF4.Dataset(path, "r+")
    if (file.box, file.level) != (str(box), level) or field.name not in file.variables:
        raise SystemExit(f"{path} has the field {[*file.variables][-1]}, box {file.box} and level {file.level}; "
                         "remove it, or ask for the same")
    return file


def steps_in(file):
    """A step is there once its number is: that is written last."""
    return np.ma.asarray(file["step"][:]).compressed().tolist()


def main():
    options = parse()
    box = parse_box(options.box)
    with quarry.open(options.target, token=options.token, ca=options.ca) as dataset:
        field = dataset[options.field]
        steps = [step for step in field.steps
                 if step >= options.first and (options.last is None or step <= options.last)]
        if not steps:
            raise SystemExit(f"{options.field} has no such steps; it has {field.steps}")
        if not os.path.exists(options.output):
            create(options.output, field, box, field.read(box=box, step=steps[0], level=options.level))
        with open_to_add(options.output, field, box, options.level) as file:
            done = steps_in(file)
            left = [step for step in steps if step not in done]
            for record, step in enumerate(tqdm(left, initial=len(done), total=len(steps), unit="step"), len(done)):
                file[field.name][record] = field.read(box=box, step=step, level=options.level).array
                file.sync()
                file["step"][record] = step
                file.sync()
            print(f"{options.output}: {len(left)} steps added to {len(done)}, {field.name} {file[field.name].shape}")


if __name__ == "__main__":
    main()
