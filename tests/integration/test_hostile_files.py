"""Attacks by a writer below a server's root, and file systems that do not answer."""

import hashlib
import json
import os
import subprocess

import quarry_testing as qt

FAULTY_FILES = qt.BIN.parent / "lib" / "libfaulty_files.so"
DIMS = (24, 20, 16)


class HostileFiles(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.data = self.tmp / "data"
        self.data.mkdir()
        for name in ("good", "bad"):
            qt.convert(qt.smooth(DIMS), self.data / f"{name}.quarry", "--tolerance", "1e-3", "--patch", "8")

    def serves(self, server, name):
        return qt.run("quarry", "get", server.target(name), "--output", self.tmp / "out.npy")

    def test_links_in_circles(self):
        for name in ("1", "2", "3"):
            (self.data / name).symlink_to(".")
        with qt.Server(self.data, "--drain", 1) as server:
            listed = json.loads(qt.succeed("quarry", "ls", f"grpc://{server.address}", "--json").out)
            self.assertEqual([dataset["name"] for dataset in listed], ["bad", "good"])
            self.assertEqual(self.serves(server, "unknown").code, qt.NOT_FOUND)

    def test_links_that_widen_a_token(self):
        """public/alias -> ../private: whether a token for public/* reads what is private."""
        for name in ("public", "private"):
            (self.data / name).mkdir()
        (self.data / "bad.quarry").rename(self.data / "private/secret.quarry")
        (self.data / "public/alias").symlink_to("../private")
        (self.data / "public/copy.quarry").mkdir()
        for name in ("dataset.json", "steps"):
            (self.data / "public/copy.quarry" / name).symlink_to(f"../../private/secret.quarry/{name}")
        tokens = self.tmp / "tokens"
        token = "0123456789abcdef"
        tokens.write_text(f"guest sha256:{hashlib.sha256(token.encode()).hexdigest()} public/*\n")
        guest = {"QUARRY_TOKEN": token}

        def codes(*options):
            with qt.Server(self.data, "--tokens", tokens, *options) as server:
                return [qt.run("quarry", "get", f"grpc://{server.address}/{name}", "--output", self.tmp / "out.npy",
                               env=guest).code for name in ("public/alias/secret", "public/copy", "private/secret")]

        refused, read = qt.UNREACHABLE, qt.DONE
        self.assertEqual(codes("--follow-symlinks", "no"), [qt.NOT_FOUND, refused, refused])
        self.assertEqual(codes(), [read, read, refused])  # the link and its target have one owner
        if os.geteuid() != 0:
            return  # only root can give files away
        for path in [self.data / "private", *(self.data / "private").rglob("*")]:
            os.chown(path, 12345, 12345)
        self.assertEqual(codes(), [qt.NOT_FOUND, refused, refused])
        self.assertEqual(codes("--follow-symlinks", "yes"), [read, read, refused])

    def test_fifos_in_the_place_of_files(self):
        qt.succeed("quarry-index", self.data / "bad.quarry")
        bad = self.data / "bad.quarry"
        with qt.Server(self.data, "--drain", 1) as server:
            for path in ("steps/000000/f/0000.qsf", "steps/000000/step.json", "index/seal.json", "dataset.json"):
                (bad / path).rename(self.tmp / "kept")
                os.mkfifo(bad / path)
                os.utime(bad / "steps")  # a change that the server sees
                outcome = self.serves(server, "bad")
                # Without an index, the server reads the tables of the subfiles.
                self.assertEqual(outcome.code, qt.DONE if path == "index/seal.json" else qt.DAMAGED, outcome)
                self.assertEqual(self.serves(server, "good").code, qt.DONE)
                (self.tmp / "kept").rename(bad / path)
                os.utime(bad / "steps")

    def test_a_read_that_never_returns(self):
        if not FAULTY_FILES.is_file():
            qt.skip(f"there is no {FAULTY_FILES}; build the target faulty_files")
        tell = self.tmp / "stuck"
        for stuck in ("/bad.quarry/steps/000000/step.json", "/bad.quarry/steps/000000/f/", "/bad.quarry/dataset.json"):
            with self.subTest(stuck=stuck):
                tell.unlink(missing_ok=True)
                server = qt.Server(self.data, "--drain", 1)
                server.command = ["env", f"LD_PRELOAD={FAULTY_FILES}", f"QUARRY_STUCK={stuck}",
                                  f"QUARRY_STUCK_TELL={tell}",
                                  "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0", *server.command]
                with server:
                    clients = [subprocess.Popen([qt.executable("quarry"), "get", server.target("bad"), "--output",
                                                 str(self.tmp / f"bad{number}.npy")], env=qt.ENVIRONMENT,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                               for number in range(4)]
                    while not tell.exists():
                        self.assertTrue(server.runs())
                    self.assertEqual(self.serves(server, "good").code, qt.DONE)
                    self.assertEqual(self.serves(server, "unknown").code, qt.NOT_FOUND)
                # SIGTERM has ended it, with exit code 0, and the clients know.
                for client in clients:
                    self.assertNotEqual(client.wait(qt.TIMEOUT), qt.DONE)


if __name__ == "__main__":
    qt.main()
