"""Programs on several processes, and on chips that are not here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import pytest

from tests.mesh.test_mesh_devices import ROOT, counted, on_devices
from tests.support.mesh_chips import CHIPS


@pytest.mark.slow
def test_two_processes_run_a_program_together() -> None:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        port = str(listening.getsockname()[1])
    flags = "--xla_force_host_platform_device_count=4"
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo", "XLA_FLAGS": flags}
    command = [sys.executable, "-m", "tests.support.mesh_processes", port]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    processes = [subprocess.Popen([*command, str(k)], env=env, cwd=ROOT, **pipes) for k in range(2)]
    for process in processes:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0 and said.endswith("all alike\n"), said[-2000:]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("libtpu") is None, reason="needs libtpu, which compiles for TPUs anywhere")
def test_256_chips_send_what_the_indices_say() -> None:
    # the compiler is a library that takes no chip here, so other processes may load it, too
    env = {**os.environ, "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    command = [sys.executable, "-m", "tests.support.mesh_chips"]
    ran = subprocess.run(command, check=False, env=env, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["name"] for line in lines] == list(CHIPS)
    for line in lines:
        assert Counter(kind for kind, *_ in line["required"]) == Counter(CHIPS[line["name"]].kinds)
        assert counted(line["compiled"]) == counted(line["required"]), line["name"]


@pytest.mark.slow
def test_random_programs_on_a_mesh_agree_with_the_evaluator() -> None:
    assert int(on_devices("-m", "tests.support.mesh_random", "0", "40", count=4)) > 20
