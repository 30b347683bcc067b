"""A server that others can reach: TLS, tokens, limits, log, metrics and configuration, as in docs/operations.md."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import quarry_testing as qt

DIMS = (40, 24, 16)
MANUAL = qt.REPOSITORY / "docs" / "operations.md"


def commands_of_the_manual(heading):
    """The ```bash blocks below a heading of docs/operations.md, up to the next heading of the second level."""
    section = MANUAL.read_text().split(f"# {heading}\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(re.findall(r"(?s)```bash\n(.*?)```", section))


class Server(qt.Server):
    """With signals that can be sent while it runs."""

    def _close(self):
        outcome = super()._close()
        self.final_log = outcome.err
        return outcome

    def reload(self):
        self._process.send_signal(signal.SIGHUP)

    def secure(self, name=""):
        return f"grpcs://{self.address}/{name}".rstrip("/")


class Operations(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        for name in ("run42", "other", "wind/a"):
            (cls.data / name).parent.mkdir(exist_ok=True)
            qt.convert(qt.smooth(DIMS), cls.data / f"{name}.quarry", "--tolerance", "1e-3")
        # The commands of the manual, as they stand there.
        cls.secrets = cls.shared / "secrets"
        cls.secrets.mkdir()
        for heading in ("Certificates", "Tokens"):
            script = commands_of_the_manual(heading)
            assert "openssl" in script, heading
            subprocess.run(["bash", "-euc", script], cwd=cls.secrets, check=True, capture_output=True)
        cls.tls = ("--tls-cert", cls.secrets / "server.pem", "--tls-key", cls.secrets / "server-key.pem")
        cls.ca = ("--ca", cls.secrets / "ca.pem")

    def names(self, outcome):
        self.assertEqual(outcome.code, qt.DONE, outcome)
        return [dataset["name"] for dataset in json.loads(outcome.out)]

    def test_tls(self):
        with Server(self.data, *self.tls) as server:
            target = server.secure()
            self.assertEqual(self.names(qt.run("quarry", "ls", target, "--json", *self.ca)),
                             ["other", "run42", "wind/a"])
            through_variable = qt.run("quarry", "ls", target, "--json", env={"QUARRY_CA": str(self.ca[1])})
            self.assertEqual(len(self.names(through_variable)), 3)
            for command in (["info"], ["plan"], ["get", "--output", self.tmp / "out.npy"]):
                qt.succeed("quarry", command[0], server.secure("run42"), *command[1:], *self.ca)
            self.assertTrue((self.tmp / "out.npy").exists())
            # An unknown authority; plain text; and once more the right way: the server is still there.
            self.assert_one_line(qt.run("quarry", "ls", target), qt.UNREACHABLE, "--ca")
            self.assert_one_line(qt.run("quarry", "ls", f"grpc://{server.address}"), qt.UNREACHABLE, "grpcs://")
            self.assert_one_line(qt.run("quarry", "ls", target, "--ca", "none.pem"), qt.NOT_FOUND, "none.pem")
            qt.succeed("quarry", "ls", target, *self.ca)
        with Server(self.data) as server:
            self.assert_one_line(qt.run("quarry", "ls", server.secure(), *self.ca), qt.UNREACHABLE, server.address)

    def test_mutual_tls(self):
        own = ("--cert", self.secrets / "alice.pem", "--key", self.secrets / "alice-key.pem")
        with Server(self.data, *self.tls, "--tls-client-ca", self.secrets / "ca.pem") as server:
            qt.succeed("quarry", "ls", server.secure(), *self.ca, *own)
            self.assert_one_line(qt.run("quarry", "ls", server.secure(), *self.ca), qt.UNREACHABLE, server.address)
            self.assert_one_line(qt.run("quarry", "ls", server.secure(), *self.ca, *own[:2]), qt.USAGE, "--key")
            self.assertIn('("alice"): ListDatasets OK', server.log())

    def test_a_renewed_certificate(self):
        renewed = self.tmp / "renewed"
        renewed.mkdir()
        subprocess.run(["bash", "-euc", commands_of_the_manual("Certificates")], cwd=renewed, check=True,
                       capture_output=True)
        files = {name: self.tmp / name for name in ("server.pem", "server-key.pem")}
        for name, path in files.items():
            path.write_bytes((self.secrets / name).read_bytes())
        with Server(self.data, "--tls-cert", files["server.pem"], "--tls-key", files["server-key.pem"]) as server:
            target = server.secure()
            files["server.pem"].write_bytes((renewed / "server.pem").read_bytes())
            server.reload()
            self.assertIn("does not belong", server.log_until("the old certificate stays in use"))
            qt.succeed("quarry", "ls", target, *self.ca)
            files["server-key.pem"].write_bytes((renewed / "server-key.pem").read_bytes())
            server.reload()
            server.log_until("new connections use the certificate")
            qt.succeed("quarry", "ls", target, "--ca", renewed / "ca.pem")
            self.assert_one_line(qt.run("quarry", "ls", target, *self.ca), qt.UNREACHABLE, "--ca")

    def test_beyond_this_machine_only_with_tls(self):
        def refused(*options):
            return qt.run("quarry-server", self.data, *options)

        self.assert_one_line(refused("--listen", "0.0.0.0:0"), qt.USAGE, "0.0.0.0:0", "--tls-cert", "--insecure")
        self.assert_one_line(refused("--listen", "[::]:0"), qt.USAGE, "--insecure")
        self.assert_one_line(refused("--listen", "nowhere"), qt.USAGE, "nowhere")
        self.assert_one_line(refused("--metrics", "0.0.0.0:0"), qt.USAGE, "--metrics", "--insecure")
        for options in (("--insecure",), self.tls):
            server = Server(self.data, *options)
            server.command[server.command.index("127.0.0.1:0")] = "0.0.0.0:0"
            with server:
                self.assertRegex(server.address, r"^0\.0\.0\.0:\d+$")

    def test_bad_files(self):
        text = self.tmp / "text"
        text.write_text("alice secret *\n")
        for options, code, mention in (
                ((*self.tls[:2], "--tls-key", self.secrets / "alice-key.pem"), qt.USAGE, "does not belong"),
                ((*self.tls[:2],), qt.USAGE, "--tls-key"),
                ((*self.tls, "--tls-client-ca", text), qt.USAGE, text),
                ((*self.tls, "--tls-client-ca", "none.pem"), qt.NOT_FOUND, "none.pem"),
                (("--tokens", text), qt.USAGE, "line 1"),
                (("--tokens", "none"), qt.NOT_FOUND, "none")):
            with self.subTest(options=options):
                self.assert_one_line(qt.run("quarry-server", self.data, *options), code, mention)

    def test_tokens(self):
        tokens = self.tmp / "tokens"
        tokens.write_bytes((self.secrets / "tokens").read_bytes())
        secret = self.secrets / "alice.token"
        with Server(self.data, "--tokens", tokens) as server:
            target = f"grpc://{server.address}"

            def ls(**environment):
                return qt.run("quarry", "ls", target, "--json", env=environment)

            # The manual's token is for run42 and wind/*.
            self.assertEqual(self.names(qt.run("quarry", "ls", target, "--json", "--token-file", secret)),
                             ["run42", "wind/a"])
            self.assertEqual(self.names(ls(QUARRY_TOKEN_FILE=str(secret))), ["run42", "wind/a"])
            self.assertEqual(self.names(ls(QUARRY_TOKEN=secret.read_text().strip())), ["run42", "wind/a"])
            qt.succeed("quarry", "info", f"{target}/wind/a", "--token-file", secret)
            without = ls()
            self.assert_one_line(without, qt.UNREACHABLE, "--token-file", "request ")
            self.assert_one_line(ls(QUARRY_TOKEN="wrong"), qt.UNREACHABLE, "none of this server's")
            self.assert_one_line(ls(QUARRY_TOKEN="two words"), qt.USAGE, "token")
            self.assert_one_line(qt.run("quarry", "info", f"{target}/other", "--token-file", secret), qt.UNREACHABLE,
                                 "alice", "other")
            # The request that the user sees is found in the log.
            request = re.search(r"\(request (\w+) of", without.err)[1]
            self.assertIn(f"request {request} from", server.log())

            # A wrong file changes nothing, a good one everything.
            good = tokens.read_text()
            tokens.write_text(good + "bob\n")
            server.reload()
            self.assertIn("line 2", server.log_until("the old tokens stay in use"))
            self.assertEqual(len(self.names(ls(QUARRY_TOKEN_FILE=str(secret)))), 2)
            tokens.write_text(good.replace("run42 wind/*", "*"))
            server.reload()
            server.log_until("SIGHUP: 1 tokens")
            self.assertEqual(len(self.names(ls(QUARRY_TOKEN_FILE=str(secret)))), 3)
            self.assertNotIn(secret.read_text().strip(), server.log())

    def test_a_hangup_without_tokens(self):
        with Server(self.data) as server:
            server.reload()
            server.log_until("SIGHUP")
            qt.succeed("quarry", "ls", f"grpc://{server.address}")

    def test_needless_privileges(self):
        key = self.tmp / "key.pem"
        tokens = self.tmp / "tokens"
        shutil.copy(self.secrets / "server-key.pem", key)
        shutil.copy(self.secrets / "tokens", tokens)
        key.chmod(0o644)
        tokens.chmod(0o640)
        with Server(self.data, "--tls-cert", self.tls[1], "--tls-key", key, "--tokens", tokens) as server:
            warned = f'"{key}" can be read by everybody'
            server.log_until(warned)
            key.chmod(0o600)
            tokens.chmod(0o666)
            server.reload()
            server.log_until(f'"{tokens}" can be changed by everybody')
        self.assertEqual(server.final_log.count(warned), 1)
        self.assertEqual("runs as root" in server.final_log, os.geteuid() == 0)

    def test_log_and_metrics(self):
        with Server(self.data, "--log-format", "json", "--metrics", "127.0.0.1:0") as server:
            qt.succeed("quarry", "get", server.target("run42"), "--encoding", "samples", "--output",
                       self.tmp / "out.raw")
            self.assertEqual(qt.run("quarry", "get", server.target("run42"), "--field", "none", "--output",
                                    self.tmp / "none.raw").code, qt.NOT_FOUND)
            server.log_until("NOT_FOUND")
            # A task returns its memory after its patches have been sent.
            while (figures := server.metrics())["quarry_memory_reserved_bytes"]:
                pass
        lines = [json.loads(line) for line in server.final_log.splitlines()]
        requests = [line for line in lines if "request" in line]
        reads = [line for line in requests if line["method"] == "Read"]
        self.assertEqual([line["status"] for line in reads], ["OK", "NOT_FOUND"], lines)
        self.assertEqual([line["level"] for line in reads], ["info", "warning"])
        self.assertEqual(reads[0]["dataset"], "run42")
        self.assertGreater(reads[0]["bytes"], 4 * DIMS[0] * DIMS[1] * DIMS[2])
        self.assertEqual(len({line["request"] for line in requests}), len(requests))
        self.assertEqual(figures['quarry_requests_total{code="OK",method="Read"}'], 1)
        self.assertEqual(figures["quarry_decoded_patches_total"], reads[0]["patches"])

    def test_levels_of_the_log(self):
        for options, expected in ((("--quiet",), False), (("--log-level", "error"), False), ((), True)):
            with Server(self.data, *options) as server:
                qt.succeed("quarry", "ls", f"grpc://{server.address}")
            self.assertEqual("ListDatasets OK" in server.final_log, expected, options)
        self.assert_one_line(qt.run("quarry-server", self.data, "--log-level", "loud"), qt.USAGE, "loud")

    def test_the_log_ends_with_the_hit_ratio(self):
        with Server(self.data) as server:
            for _ in range(4):
                qt.succeed("quarry", "get", server.target("run42"), "--encoding", "samples", "--output", self.tmp / "out.raw")
        self.assertIn("hit ratio 75.0 %: 3 of 4 patches", server.final_log)  # the dataset has one

    def test_limits(self):
        with Server(self.data, "--max-request-bytes", "10KiB") as server:
            get = ["quarry", "get", server.target("run42"), "--output", self.tmp / "out.raw"]
            refused = qt.run(*get)
            self.assert_one_line(refused, qt.UNREACHABLE, "60.0 KiB", "10.0 KiB")
            level = re.search(r"for level (\d)", refused.err)[1]
            qt.succeed(*get, "--level", level)
        # Incompressible samples need more payload than samples: level 1 has just so many samples, but too many bytes.
        noise = np.random.default_rng(qt.SEED).integers(0, 2**32, (32, 32, 32), dtype="u4")
        with tempfile.TemporaryDirectory(dir=self.tmp) as folder:
            qt.convert(noise, Path(folder) / "noise.quarry", "--lossless", "--patch", "16")
            with Server(folder, "--max-request-bytes", 16**3 * 4) as server:
                get = ["quarry", "get", server.target("noise"), "--output", self.tmp / "noise.raw"]
                refused = qt.run(*get)
                self.assert_one_line(refused, qt.UNREACHABLE, "for level 2")
                self.assertEqual(qt.run(*get, "--level", 1).code, qt.UNREACHABLE)
                qt.succeed(*get, "--level", 2)
        for option, value in (("--max-request-bytes", "much"), ("--calls", "0"), ("--deadline", "-1")):
            self.assert_one_line(qt.run("quarry-server", self.data, option, value), qt.USAGE, value)

    def end_with_hanging_calls(self, folder, calls):
        """[s] From SIGTERM to the end of a server with so many clients that take nothing."""
        with Server(folder, "--drain", "1", "--metrics", "127.0.0.1:0", "--quiet") as server:
            client = subprocess.Popen([qt.BIN / "hostile_client", "streams", server.address, "--dataset", "a", "--field",
                                       "f", "--count", str(calls), "--connections", "2"], stdout=subprocess.DEVNULL)
            try:
                while server.metrics()["quarry_requests_running"] < min(calls, 50):
                    self.assertIsNone(client.poll(), "the client ended before the server was asked to")
                client.send_signal(signal.SIGSTOP)
                begin = time.monotonic()
                server._process.terminate()
                self.assertEqual(server._process.wait(qt.TIMEOUT), qt.DONE)
                return time.monotonic() - begin
            finally:
                client.kill()
                client.wait()

    def test_clients_that_take_nothing_do_not_hold_up_the_end(self):
        """gRPC alone would wait for them until they have not answered a ping for 20 s, and cutting them one after the other took
        7 s; the drain and the cut are one and a half. The short tests see that it ends."""
        with tempfile.TemporaryDirectory(dir=self.tmp) as folder:
            qt.convert(qt.smooth((160, 160, 160)), Path(folder) / "a.quarry", "--tolerance", "1e-6")
            if not qt.FULL:
                self.end_with_hanging_calls(folder, 300)
                return
            few, many = ([self.end_with_hanging_calls(folder, calls) for _ in range(5)] for calls in (2, 300))
            self.assertLess(min(many), 2 * min(few), (few, many))
            self.assertLess(min(few), 10, (few, many))

    def test_configuration(self):
        example = (qt.REPOSITORY / "packaging" / "server.toml").read_text()
        config = self.tmp / "server.toml"
        # Every line of the example that is commented out is an option too.
        options = re.sub(r"(?m)^# (?=[a-z-]+ = )", "", example)
        options = options.replace("/srv/quarry", str(self.data)).replace("/etc/quarry/clients.pem", "/etc/quarry/ca.pem")
        options = options.replace("/etc/quarry", str(self.secrets))
        options = re.sub(r'(?m)^(listen|http|metrics) = .*\n', "", options) + 'metrics = "127.0.0.1:0"\n'
        config.write_text(options)
        server = Server(self.data, "--config", config)
        server.command.remove(str(self.data))
        own = ("--cert", self.secrets / "alice.pem", "--key", self.secrets / "alice-key.pem")
        with server:
            listed = qt.run("quarry", "ls", server.secure(), "--json", *self.ca, *own, "--token-file",
                            self.secrets / "alice.token")
            self.assertEqual(self.names(listed), ["run42", "wind/a"])
            self.assertEqual(server.metrics()["quarry_memory_budget_bytes"], 2 << 30)
            self.assertEqual(json.loads(server.log().splitlines()[-1])["status"], "OK")
        config.write_text(options + "memroy = 1\n")
        self.assert_one_line(qt.run("quarry-server", "--config", config), qt.USAGE, "memroy")
        self.assert_one_line(qt.run("quarry-server", "--config", self.tmp / "none.toml"), qt.NOT_FOUND, "none.toml")


if __name__ == "__main__":
    qt.main()
