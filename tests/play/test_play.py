"""The playground: its answers, to whom it answers, and the contents of its page."""

from __future__ import annotations

import json
import re
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.play.answers import WANTED, answer
from tensorlang.play.server import Handler

LOSS = "loss(x: [n + m - 1]R, w: [m]R) = let y = gen i:n. sum j:m. x[i + j] * w[j] in sum k:n. y[k]^2"


def ask(text: str, show: str = "adjoint", wrt: str = "", **sizes: int) -> dict[str, Any]:
    return answer({"text": text, "wrt": wrt, "sizes": sizes, "show": show})


def test_it_shows_what_the_package_says() -> None:
    f = tl.parse(LOSS)
    found = ask(LOSS, wrt="x")
    assert found["adjoint"] == str(tl.adjoint(f, wrt="x"))
    assert found["cost"] == str(tl.cost_polynomial(f))
    at = ask(LOSS, wrt="x", n=100, m=5)
    assert at["cost"].splitlines()[1:] == [
        *found["cost"].splitlines()[1:],
        f"{tl.cost(f, n=100, m=5):,} at m = 5, n = 100",
    ]
    assert at["adjoint_cost"].endswith(f"{tl.cost(tl.adjoint(f, wrt='x'), n=100, m=5):,} at m = 5, n = 100")
    assert ask("f(x: [n]R, y: [n]idx(n)) = sum i:n. x[y[i]]", n=3)["cost"] == ask("f(x: [n]R) = sum i:n. x[i]")["cost"]
    assert (found["parameters"], sorted(found["sizes"])) == (["x", "w"], ["m", "n"])
    assert "loss_adjoint" in ask(LOSS, "source")["source"]
    assert ask(LOSS, "certificate")["certificate"] == str(tl.certify(f, bound=4))
    assert "one step" in ask(LOSS, "derivation", n=5, m=3)["derivation"]


def test_the_last_program_is_the_one_that_is_shown() -> None:
    assert ask("g(x: R) = x * x  f(x: R) = g(x) + 1")["name"] == "f"


def test_it_runs_programs_of_all_kinds_of_parameters() -> None:
    text = """
      f(p: ([n]R, R), y: [m]idx(n), E: rel(n, m), k: size) =
        (gen i:m. fst(p)[y[i]] * snd(p), sum i:n, j:m. [E(i, j) and i < k] * fst(p)[i])
    """
    found = ask(text, "run", n=5, m=3, k=2)
    assert [result["shape"] for result in found["results"]] == [[3], []]
    again = ask(text, "run", n=5, m=3, k=2)
    assert found["results"] == again["results"]
    squares = ask("f(x: [n]R) = sum i:n. x[i] * x[i]", "run", n=4)["results"][0]["values"]
    assert np.isclose(squares[0], np.sum(np.random.default_rng(0).standard_normal(4).astype(np.float32) ** 2))
    assert ask("f(x: R) = log(-x * x)", "run")["results"][0]["values"] == [None]


def test_mistakes_have_their_place_and_their_mend() -> None:
    error = ask("f(x: [n]R) =\n  gen i:n. x[i + 1]")["error"]
    assert (error["line"], error["column"], error["length"]) == (2, 12, 8)
    assert "a shorter range: gen i:n - 1" in error["message"]
    assert "no program yet" in ask("  -- nothing")["error"]["message"]
    assert "smaller sizes" in ask("f() = gen i:n. i", "run", n=10**6)["error"]["message"]
    assert "error" in ask("f(x: R) = x", wrt="y")


@pytest.mark.parametrize("question", [{}, {"text": 3}, {"text": "f() = 1", "show": "all"}, {"text": "", "sizes": []}])
def test_what_is_no_question_is_refused_in_words(question: dict[str, Any]) -> None:
    assert "message" in answer(question)["error"]


@pytest.mark.slow
def test_deep_and_hard_programs_end() -> None:
    deep = "f(x: R) = " + "sin(" * 3000 + "x" + ")" * 3000
    assert ask(deep).keys() & {"adjoint", "error"}


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def send(address: str, body: bytes | None, path: str = "ask", **headers: str) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    given = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, body, given), timeout=60) as found:
            return found.status, found.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_server_answers_pages_of_this_machine_alone(address: str) -> None:
    body = json.dumps({"text": "f(x: R) = x * x", "wrt": "", "sizes": {}, "show": "adjoint"}).encode()
    status, found = send(address, body)
    assert status == 200
    assert json.loads(found)["adjoint"].startswith("f_adjoint(x: R, f_bar: R)")
    assert b"<textarea" in send(address, None, "")[1]
    assert send(address, body, Host="elsewhere.org")[0] == 403
    assert send(address, None, "", Host="elsewhere.org")[0] == 403
    assert send(address, body, Content_Type="text/plain")[0] == 403
    assert [send(address, wrong)[0] for wrong in (b"[1]", b"{", b" " * 300_000)] == [400, 400, 413]
    assert send(address, None, "etc/passwd")[0] == 404


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.slow
def test_the_page_answers_while_one_types_and_its_address_has_the_program(address: str) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="browsers are driven by playwright")
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    expect, own = api.expect, (address, "data:", "about:")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        tab = browser.new_page()
        wrong: list[str] = []
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda request: None if request.url.startswith(own) else wrong.append(request.url))
        tab.goto(address)
        expect(tab.locator("#adjoint")).to_contain_text("loss_adjoint")
        tab.fill("#text", "f(x: [n]R) = gen i:n. x[i + 1]")
        expect(tab.locator("#error")).to_contain_text("a shorter range")
        tab.fill("#text", "f(x: [n]R) = gen i:n. x[i] * x[i]")
        expect(tab.locator("#adjoint")).to_contain_text("f_adjoint")
        expect(tab.locator("#error")).to_have_text("")
        tab.select_option("#show", "run")
        tab.wait_for_selector("canvas")
        tab.select_option("#show", "derivation")
        tab.wait_for_selector("iframe:not([hidden])")
        expect(tab.frame_locator("iframe").get_by_role("button", name="one step on")).to_have_count(1)
        other = browser.new_page()
        other.goto(tab.url)
        expect(other.locator("#adjoint")).to_contain_text("f_adjoint")
        assert other.input_value("#text") == "f(x: [n]R) = gen i:n. x[i] * x[i]"
        browser.close()
    assert not wrong


def examples() -> dict[str, str]:
    """The programs that the page offers."""
    from tensorlang.play.server import PAGE

    block = re.search(r"const EXAMPLES = (\{.*?\n\});", PAGE.read_text(), re.DOTALL)
    assert block is not None
    found: dict[str, str] = json.loads(re.sub(r",\s*\}$", "}", block[1]))
    return found


def test_every_example_of_the_page_is_a_program_with_an_adjoint_that_runs() -> None:
    assert len(examples()) >= 10
    for text in examples().values():
        assert "adjoint" in ask(text), text
        found = answer({"text": text, "wrt": "", "sizes": {}, "show": "run"}, value=tl.evaluate)
        assert "results" in found, text


def test_every_choice_of_the_page_is_answered() -> None:
    from tensorlang.play.server import PAGE

    text = PAGE.read_text()
    assert all(f"<option>{show}" in text for show in WANTED)
