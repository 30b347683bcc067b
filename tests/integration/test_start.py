"""The libraries that a call of quarry loads: loading them takes longer than most answers."""

import os
import re

import numpy as np
import quarry_testing as qt

FOREIGN = {"libhdf5", "libnetcdf", "libtiff", "libcurl", "libxml2"}
GRPC = {"libgrpc", "libgpr", "libabsl", "libprotobuf", "libre2"}
# The C++ run time, OpenSSL, c-ares, the coders, and what pictures need.
MOST = 18


def loaded_by(*command):
    """The libraries that a program has loaded at its end, as the dynamic linker tells."""
    said = qt.succeed(*command, env={"LD_DEBUG": "files"}).err
    return set(re.findall(r"calling init: \S*/([^/\s]+?)\.so", said))


def of_kind(libraries, kinds):
    return {library for library in libraries if any(library.startswith(kind) for kind in kinds)}


class Start(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.field = qt.turbulent((16, 16, 16))
        cls.dataset = cls.shared / "run.quarry"
        qt.convert(cls.field, cls.dataset, "--tolerance", 1e-3)

    def assert_short(self, libraries):
        self.assertIn("libstdc++", libraries)
        self.assertEqual(of_kind(libraries, FOREIGN), set())
        if os.environ.get("QUARRY_SHARED_GRPC") != "1":
            self.assertEqual(of_kind(libraries, GRPC), set())
            self.assertLessEqual(len(libraries), MOST, sorted(libraries))

    def test_get_loads_few_libraries(self):
        output = self.tmp / "box.npy"

        from_directory = loaded_by("quarry", "get", self.dataset, "--output", output)
        with qt.Server(self.shared) as server:
            from_server = loaded_by("quarry", "get", server.target(self.dataset), "--output", output)

        self.assert_short(from_directory)
        self.assert_short(from_server)

    def test_verify_loads_the_readers_when_there_is_a_file_to_read(self):
        source = self.tmp / "source.npy"
        np.save(source, self.field)

        checksums = loaded_by("quarry", "verify", self.dataset)
        samples = loaded_by("quarry", "verify", self.dataset, "--against", source)

        self.assert_short(checksums)
        self.assertNotEqual(of_kind(samples, FOREIGN), set())


if __name__ == "__main__":
    qt.main()
