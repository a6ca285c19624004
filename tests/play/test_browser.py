"""The playground in a browser alone: its stand-ins behave like the originals, and its answers are the package's."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.play.answers import answer
from tests.play.test_play import CHROMIUM, examples
from tests.support import GOLDEN, ROOT
from tests.support.programs import random_function

SOURCES = ROOT / "playground"
BUILT = ROOT / "out" / "playground"


def loaded(name: str, path: Path) -> ModuleType:
    """The module in a file, loaded under another name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def small() -> Any:
    """The stand-in for NumPy, whose modules have the names of NumPy's own while they are imported."""
    own = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "numpy"}
    sys.path.insert(0, str(SOURCES / "browser"))
    try:
        return importlib.import_module("numpy")
    finally:
        sys.path.remove(str(SOURCES / "browser"))
        for name in [name for name in sys.modules if name.split(".")[0] == "numpy"]:
            del sys.modules[name]
        sys.modules.update(own)


def plain(x: Any) -> Any:
    """The elements of an array of either kind, and its shape."""
    if isinstance(x, tuple | list):
        return [part for one in x for part in plain(one)]
    return [(x.tolist(), tuple(x.shape)) if hasattr(x, "shape") else (x, ())]


A = [[3, -1, 2, 0], [0, 5, -4, 1], [7, 7, 0, -2]]
CASES = """
a[1, 2], a[-1], a[:, 1], a[::2, 1:3], a[..., 0], a[None, 1], a[1:, None, ::-1]
a[np.asarray([2, 0, 2])], a[:, np.asarray([1, 1])], a[np.asarray([[0], [2]])]
a[np.asarray([2, 0]), np.asarray([1, 3])], a[np.nonzero(a)]
a[a > 0], a[np.asarray([True, False, True])], (a > 0)[1], ~(a > 0)
a + a[0], a - 1, 2 * a, a * x[:4], a // 2, a % 3, a / 2, a**2, -a, 1 - a, abs(a)
a == 0, a != a[1], a < 1, (a <= 0) & (a > -3), (a > 0) | (a < -1)
np.broadcast_to(x[:4], (2, 4)), np.broadcast_arrays(a, a[:, :1])[1]
a.sum(), a.sum(0), a.max(1), a.min(), a.any(0), a.all(1), (a > 0).sum(), a.argmax(1)
a.reshape(2, -1), a.T, a.ravel(), np.moveaxis(a, 0, 1), np.stack([a, a], 1)
np.concatenate([a, a[:1]]), np.concatenate([a, a], 1), np.repeat(a[0], a[1] ** 2)
np.where(a > 0, a, 0.5), np.clip(a, -1, 3), np.maximum(a, 1), np.minimum(a, a[0]), np.sign(a)
np.unique(a.ravel(), return_index=True, return_inverse=True), np.argsort(x, kind="stable")
np.searchsorted(np.arange(9), a.ravel(), "right"), np.lexsort((a[0], a[1]))
np.bincount(a.ravel() + 4, minlength=20), np.cumsum(a[0]), np.count_nonzero(a), np.diff(x)
np.unravel_index(np.asarray([0, 7, 11]), (3, 4)), np.flatnonzero(a), np.arange(2, 9, 3)
np.array_split(x, 3)
np.exp(x), np.log(x * x + 1), np.tanh(x), np.sqrt(x), np.arctan2(x, x + 1), np.floor(x)
np.log(x * 0), x / 0, np.isnan(x / 0 * 0), np.isfinite(x / 0), np.exp(x * 1e4)
""".strip().splitlines()


def assigned(np: Any) -> Any:
    """Results of writing into arrays."""
    a = np.zeros((3, 4))
    a[1] = 2
    a[:, 2] = np.asarray([1, 2, 3])
    a[np.asarray([True, False, True])] = -1
    np.add.at(a, np.asarray([0, 0, 2]), 5)
    a.reshape(-1)[:2] = np.asarray([8, 9])
    counts = np.zeros(4, np.int64)
    np.add.at(counts, np.asarray([3, 3, 0]), np.asarray([1, 2, 3]))
    return counts, a.astype(np.int64)


@pytest.mark.parametrize("case", CASES)
def test_the_arrays_of_a_browser_are_as_those_of_numpy(case: str, small: Any) -> None:
    x = [0.5, -1.25, 3.0, 2.0, 0.0, -7.5]
    with np.errstate(all="ignore"):
        expected, found = (eval(case, {"np": of, "a": of.asarray(A), "x": of.asarray(x)}) for of in (np, small))
    for (mine, shape), (theirs, their_shape) in zip(plain(found), plain(expected), strict=True):
        assert shape == their_shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_what_is_written_into_arrays_of_a_browser_is_as_in_numpy(small: Any) -> None:
    assert plain(assigned(small)) == plain(assigned(np))


def test_the_page_says_which_engine_answers() -> None:
    page = (ROOT / "tensorlang" / "play" / "page.html").read_text()
    assert page.count('<html lang="en">') == page.count('<meta charset="utf-8">') == 1  # the build looks for this text


def test_programs_that_pages_lead_to_the_playground_with_are_programs() -> None:
    script = (ROOT / "docs" / "_static" / "playground.js").read_text()
    written, defined = re.findall(r"(?:WRITTEN|DEFINED) = /(.*?)/[,;]", script)
    found = 0
    for page in (ROOT / "docs").rglob("*.md"):
        for kind, code in re.findall(r"```(tl|python)\n(.*?)```", page.read_text(), re.DOTALL):
            inside = re.search(written, code)
            text = code if kind == "tl" else inside[1] if inside else ""
            text = text.split("-- becomes")[0]
            if re.match(defined, re.sub("--.*", "", text)):
                assert tl.parse_module(text)
                found += 1
    assert found > 50


# -- built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The playground as it was built, with the package as it is now."""
    if not (BUILT / "isl.wasm").exists():
        pytest.skip("python playground/build.py was not run")
    folder = tmp_path_factory.mktemp("playground")
    shutil.copytree(BUILT, folder, dirs_exist_ok=True)
    loaded("playground_build", SOURCES / "build.py").own(folder)
    return folder


def in_node(built: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of the engine in Node."""
    if shutil.which("node") is None:
        pytest.skip("no node is installed")
    command = ["node", str(SOURCES / "ask.mjs"), str(built)]
    done = subprocess.run(command, input=json.dumps(questions), capture_output=True, text=True, check=True, timeout=600)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["answers"]
    return found


def questions() -> list[dict[str, Any]]:
    """The paper's programs in all views, random programs, the page's examples, and mistakes."""
    paper = tl.parse_module((GOLDEN / "paper.tl").read_text()).values()
    views = ("adjoint", "derivation", "certificate", "source")
    asked = [(str(f), show) for f, show in itertools.product(paper, views)]
    asked += [(str(random_function(random.Random(seed))), "adjoint") for seed in range(40)]
    asked += [(text, show) for text, show in itertools.product(examples().values(), ("certificate", "source"))]
    asked += [
        (text, "adjoint") for text in ("f(x: [n]R) = gen i:n. x[i + 1]", "f(x: [n]R) = sum i:n. x[i", "f() = y", "")
    ]
    return [{"text": text, "wrt": "", "sizes": {}, "show": show} for text, show in asked]


@pytest.mark.slow
def test_python_in_a_browser_says_what_the_package_says(built: Path) -> None:
    asked = questions()
    for question, given in zip(asked, in_node(built, asked), strict=True):
        assert given.get("found") == json.loads(json.dumps(answer(question))), question["text"]


@pytest.mark.slow
def test_programs_are_run_and_those_too_deep_lose_nothing_that_follows(built: Path) -> None:
    deep = "f(x: R) = " + "sin(" * 3000 + "x" + ")" * 3000
    run = {"text": "f(x: [n]R) = gen i:n. 2 * x[i] - x[i] + i", "wrt": "", "sizes": {"n": 5}, "show": "run"}
    first, lost, again = in_node(built, [run, {**run, "text": deep}, run])
    assert first["found"]["results"][0]["shape"] == [5]
    assert "lost" in lost or "error" in lost["found"]
    assert again["found"] == first["found"]


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves the built files like any host of pages."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.mark.slow
def test_the_page_answers_without_a_server_and_again_without_a_network(built: Path) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="browsers are driven by playwright")
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    expect = api.expect
    expect.set_options(timeout=60_000)  # Python starts
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    wrong: list[str] = []
    try:
        with api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM)
            tab = browser.new_page(viewport={"width": 390, "height": 800})
            tab.on("pageerror", lambda error: wrong.append(str(error)))
            own = (address, "data:", "about:", "blob:")
            tab.on("request", lambda request: None if request.url.startswith(own) else wrong.append(request.url))
            tab.goto(address)
            expect(tab.locator("#adjoint")).to_contain_text("loss_adjoint")
            tab.fill("#text", "f(x: [n]R) = gen i:n. x[i + 1]")
            expect(tab.locator("#error")).to_contain_text("^^^^^^^^")
            expect(tab.locator("#error")).to_contain_text("a shorter range")
            tab.fill("#text", "f(x: R) = " + "sin(" * 1500 + "x" + ")" * 1500)
            expect(tab.locator("#error")).to_contain_text("nested too deep")
            tab.fill("#text", "f(x: [n]R) = gen i:n. x[i] * x[i]")
            expect(tab.locator("#adjoint")).to_contain_text("f_adjoint")
            tab.select_option("#show", "run")
            tab.wait_for_selector("canvas")
            assert tab.locator("body").bounding_box()["width"] <= 390
            tab.reload()  # now everything is kept
            tab.wait_for_selector("canvas")
            server.shutdown()
            server.server_close()
            tab.reload()
            tab.wait_for_selector("canvas", timeout=60_000)
            assert tab.input_value("#text") == "f(x: [n]R) = gen i:n. x[i] * x[i]"
            browser.close()
    finally:
        expect.set_options(timeout=5_000)
        server.server_close()
    assert not wrong
